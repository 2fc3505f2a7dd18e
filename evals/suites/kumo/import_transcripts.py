"""Imported transcripts beside what the published files record, and where our decoder reads a reply otherwise than theirs."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, TextIO

from envs.kumo import Task
from envs.kumo.published.source import ACTION, TRUTH
from evals.reference import model_named, published
from evals.suites.kumo.decode import decode
from evals.suites.kumo.repeats import RELATIVE, Run, groups_of, mean_of, share_of
from evals.suites.kumo.settings import MAIN_DOMAINS
from evals.suites.kumo.transcripts import stored_run
from evals.tables import Cell, Table, format_cell
from evals.types import PlayerError

COLUMNS = (
    *("player", "task", "level", "index", "repeat", "success", "turns"),
    *("n_actions", "shipped_optimal_actions"),
)
"""Of the ledger, that reading the replies again takes."""
_SHOWN = 160
"""Characters of a reply's end that a list of differences shows."""
_LISTED = 6
"""Tasks that a note names."""
_REASONS = {
    True: "a test there has the name of a truth, and to choose it is to name the truth, as in the published code of today; the "
    "result files record it as the test",
    False: "differences.csv and the ledger hold their replies",
}
"""Why a run ends otherwise than recorded, by whether a test of its task has the name of a truth."""


@dataclass(frozen=True)
class Difference:
    """One reply that the two decoders read otherwise."""

    player: str
    task: str
    level: str
    index: int
    repeat: int
    turn: int
    published: str
    """What the published decoder reads; empty if nothing."""
    ours: str
    rule: str
    """Why our decoder reads so."""
    end: str
    """The end of the reply, in JSON's escapes."""


@dataclass(frozen=True)
class Reread:
    """One run as our decoder reads it, and as the result files record it."""

    player: str
    task: str
    level: str
    index: int
    success: bool
    """The transcript ends where the decoders first differ: only a right prediction there wins."""
    differences: tuple[Difference, ...]
    recorded: bool | None = None
    """Whether the result file counts the run as successful; None if it does not say."""
    recorded_relative_actions: float | None = None
    """(C - O) / O with C as recorded; None without a count of the published search."""
    otherwise: bool = False
    """Whether the published rules, played here, end the run otherwise than recorded."""
    shared_name: bool = False
    """Whether a test of the task has the name of one of its truths."""


def reread(
    rows: Iterable[Mapping[str, Any]], tasks: Mapping[tuple[str, str, int], Task], checkout: str
) -> Iterator[Reread]:
    """Read the replies of strictly read runs once more, by our decoder.

    Args:
        rows: Of the ledger, with ``COLUMNS``.
        tasks: By domain, level and index.
        checkout: The published repository, whose result files say how each run ended.
    """
    for row in rows:
        key = row["player"], row["task"], row["level"], row["index"]
        task = tasks[key[1:]]
        found: list[Difference] = []
        success = bool(row["success"])
        for number, turn in enumerate(row["turns"]):
            ours = decode(turn["reply"], task.action_names, task.truths, nouns=_NOUNS)
            if ours.name != turn["action"]:
                if not found:
                    success = ours.kind == "predict" and ours.name in task.winning_truths
                end = json.dumps(turn["reply"][-_SHOWN:])[1:-1]
                found.append(
                    Difference(*key, row["repeat"], number, turn["action"] or "", ours.name or "", ours.rule, end)
                )
        recorded, relative = _recorded(row, checkout)
        yield Reread(
            *key,
            success,
            tuple(found),
            recorded=recorded,
            recorded_relative_actions=relative,
            otherwise=recorded is not None and recorded != bool(row["success"]),
            shared_name=not set(task.truths).isdisjoint(task.action_names),
        )


def _recorded(row: Mapping[str, Any], checkout: str) -> tuple[bool | None, float | None]:
    """Success and relative actions of a run by its line in the result file, in the published convention."""
    try:
        run = stored_run(checkout, row["player"], row["task"], row["level"], row["index"], row["repeat"])
    except PlayerError:
        return None, None
    success, taken = run.get("successful"), run.get("actions")
    optimal = row["shipped_optimal_actions"]
    if not isinstance(success, bool):
        return None, None
    if optimal is None or not isinstance(taken, list):
        return success, None
    # The list of actions ends with the truth twice; a failed run counts |A| + 1 (the paper's Eq. 4).
    actions = len(taken) if success else row["n_actions"] + 1
    return success, actions / (optimal + 1) - 1


_NOUNS = (TRUTH.singular, TRUTH.plural, ACTION.singular, ACTION.plural)


def write_differences(differences: Iterable[Difference], file: TextIO) -> int:
    """Write them as comma-separated values, one reply a line; how many there were."""
    writer, count = csv.writer(file, lineterminator="\n"), 0
    writer.writerow(field.name for field in fields(Difference))
    for difference in differences:
        writer.writerow(astuple(difference))
        count += 1
    return count


def transcript_table(
    runs: Sequence[Run], rereads: Sequence[Reread], available: Callable[[str, str], frozenset[str]]
) -> Table:
    """Success and relative actions of each model as played here, as recorded, and by our decoder.

    Args:
        runs: Of all models; only those that were played count.
        rereads: The same runs read again.
        available: The domains of which a model (first argument) has transcripts at a level.
    """
    rows: list[tuple[Cell, ...]] = []
    for (player, level), here in groups_of([run for run in runs if run.status], _player_and_level).items():
        domains = {run.domain for run in here}
        again = [each for each in rereads if (each.player, each.level) == (player, level)]
        if domains != set(MAIN_DOMAINS):
            # The figure over 100 domains holds only for all that the model played, and never for a subset of them.
            complete = len(domains) > len(MAIN_DOMAINS) and domains == available(player, level)
            figure = _figure(player, "100 domains", level) if complete else None
            plural = "" if len(domains) == 1 else "s"
            rows.append((player, f"{level}, {len(domains)} domain{plural}", *_cells(here, figure, again)))
        if domains >= set(MAIN_DOMAINS):
            main = [run for run in here if run.domain in MAIN_DOMAINS]
            main_again = [each for each in again if each.task in MAIN_DOMAINS]
            figure = _figure(player, "5 domains", level)
            rows.append((player, f"{level}, the {len(MAIN_DOMAINS)} main domains", *_cells(main, figure, main_again)))
    return Table(
        name="kumo_transcripts",
        title="KUMO: published transcripts",
        columns=(
            *("model", "tasks", "runs", "success", "interval", "recorded", "equal", "figure"),
            *("relative actions", "recorded relative actions", "our decoder", "other replies"),
        ),
        rows=tuple(rows),
        notes=(
            "success: share of runs, read by the published decoder; interval: 95 %, the runs of one task are one cluster.",
            "recorded: the same share by the published result files, of the runs that they hold; equal: success of these "
            "very runs is the same to four digits. figure: the published figure, where all its domains are here. relative "
            "actions: published convention, (C - O) / O.",
            "our decoder: success if it reads the replies. Where it first reads one otherwise, the transcript ends: only a "
            "right prediction wins there. other replies: those that it reads otherwise.",
            *_notes(rereads),
        ),
        headline=True,
    )


def _player_and_level(run: Run) -> tuple[str, ...]:
    return run.player, run.difficulty


def _cells(runs: Sequence[Run], figure: float | None, again: Sequence[Reread]) -> tuple[Cell, ...]:
    success = share_of(runs, lambda run: run.success)
    relative = mean_of(runs, lambda run: run.published_relative_actions, RELATIVE)
    played: list[float] = []
    successes: list[float] = []
    relative_actions: list[float] = []
    for each in again:
        if each.recorded is not None:
            successes.append(float(each.recorded))
            played.append(float(each.recorded != each.otherwise))
        if each.recorded_relative_actions is not None:
            relative_actions.append(each.recorded_relative_actions)
    recorded = _mean(successes)
    recorded_relative = _mean(relative_actions)
    equal = None
    if recorded is not None:
        is_equal = _four_digits(_mean(played)) == _four_digits(recorded)
        equal = "yes" if is_equal else "no"
    return (
        len(runs),
        f"{success.mean:.4f}",
        format_cell(success).partition(" ")[2],
        _four_digits(recorded),
        equal,
        _four_digits(figure),
        _four_digits(relative.mean if relative.n else None),
        _four_digits(recorded_relative),
        _four_digits(_mean([float(each.success) for each in again])),
        sum(len(each.differences) for each in again),
    )


def _notes(rereads: Sequence[Reread]) -> Iterator[str]:
    """Of how many runs there is a record, and which tasks have runs that end otherwise than it says, and why if known."""
    for (player, level), here in groups_of(rereads, lambda each: (each.player, each.level)).items():
        recorded = sum(each.recorded is not None for each in here)
        if recorded < len(here):
            held = f"{recorded:,} of {len(here):,} runs"
            yield f"{player}, {level}: the result files hold {held}; the others count as lost in success."
    for shared_name, why in _REASONS.items():
        found = [each for each in rereads if each.otherwise and each.shared_name == shared_name]
        if not found:
            continue
        tasks = sorted({(each.task, each.level, each.index) for each in found})
        listed = ", ".join(" ".join(map(str, task)) for task in tasks[:_LISTED])
        if len(tasks) > _LISTED:
            listed += f" and {len(tasks) - _LISTED} more"
        yield f"{len(found):,} runs end otherwise than recorded, in {listed}: {why}."


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _four_digits(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"


def _figure(player: str, domains: str, level: str) -> float | None:
    model = model_named(player)
    figure = published("kumo").find(model.name if model else player, "success", {"domains": domains, "level": level})
    return figure.value if figure else None
