"""Replayed transcripts beside the published figures, and where our decoder reads a reply otherwise than the published one."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, TextIO

from envs.kumo import Task
from envs.kumo.published.source import ACTION, TRUTH
from evals.reference import model_named, published
from evals.suites.kumo.decode import decode
from evals.suites.kumo.repeats import Run, share_of
from evals.suites.kumo.suite import MAIN_DOMAINS
from evals.tables import Cell, Table, format_cell

COLUMNS = ("player", "task", "level", "index", "repeat", "success", "turns")
"""Of the ledger, that reading the replies again takes."""
_SHOWN = 160
"""Characters of a reply's end that a list of differences shows."""


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
    """One run as our decoder reads it."""

    player: str
    task: str
    level: str
    index: int
    success: bool
    """The transcript ends where the decoders first differ: only a right prediction there wins."""
    differences: tuple[Difference, ...]


def reread(rows: Iterable[Mapping[str, Any]], tasks: Mapping[tuple[str, str, int], Task]) -> Iterator[Reread]:
    """Read the replies of strictly read runs once more, by our decoder.

    Args:
        rows: Of the ledger, with ``COLUMNS``.
        tasks: By domain, level and index.
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
        yield Reread(*key, success, tuple(found))


_NOUNS = (TRUTH.singular, TRUTH.plural, ACTION.singular, ACTION.plural)


def write_differences(differences: Iterable[Difference], file: TextIO) -> int:
    """Write them as comma-separated values, one reply a line; how many there were."""
    writer, count = csv.writer(file, lineterminator="\n"), 0
    writer.writerow(field.name for field in fields(Difference))
    for difference in differences:
        writer.writerow(astuple(difference))
        count += 1
    return count


CELLS: Mapping[str, tuple[bool, str]] = {
    "easy, 100 domains": (False, "easy"),
    "easy, 5 domains": (True, "easy"),
    "hard, 5 domains": (True, "hard"),
}
"""Whether a published figure is of the main domains only, and its difficulty."""


def replay_table(runs: Sequence[Run], rereads: Sequence[Reread]) -> Table:
    """Success of each model as replayed, as published, and by our decoder."""
    rows: list[tuple[Cell, ...]] = []
    for player in dict.fromkeys(run.player for run in runs):
        own = [run for run in runs if run.player == player and run.status]
        again = [each for each in rereads if each.player == player]
        for cell, (main, level) in CELLS.items():
            here = [run for run in own if run.difficulty == level and (run.domain in MAIN_DOMAINS or not main)]
            if not main and {run.domain for run in here} <= set(MAIN_DOMAINS):
                continue
            figure = _published(player, main, level)
            ours = [each for each in again if each.level == level and (each.task in MAIN_DOMAINS or not main)]
            if here:
                rows.append((player, cell, len(here), *_cells(here, figure, ours)))
    return Table(
        name="kumo_transcripts",
        title="KUMO: published transcripts, replayed",
        columns=("model", "tasks", "runs", "success", "interval", "published", "equal", "our decoder", "other replies"),
        rows=tuple(rows),
        notes=(
            "success: share of runs, read by the published decoder; interval: 95 %, the runs of one task are one cluster.",
            "our decoder: success if it reads the replies. Where it first reads one otherwise, the transcript ends: only a "
            "right prediction wins there. other replies: those that it reads otherwise.",
        ),
        headline=True,
    )


def _cells(runs: Sequence[Run], figure: float | None, again: Sequence[Reread]) -> tuple[Cell, ...]:
    success = share_of(runs, lambda run: run.success)
    other = sum(each.success for each in again) / len(again) if again else None
    return (
        f"{success.mean:.4f}",
        format_cell(success).partition(" ")[2],
        None if figure is None else f"{figure:.4f}",
        None if figure is None else "yes" if f"{success.mean:.4f}" == f"{figure:.4f}" else "no",
        None if other is None else f"{other:.4f}",
        sum(len(each.differences) for each in again),
    )


def _published(player: str, main: bool, level: str) -> float | None:
    model = model_named(player)
    cell = {"domains": "5 domains" if main else "100 domains", "level": level}
    figure = published("kumo").find(model.name if model else player, "success", cell)
    return figure.value if figure else None
