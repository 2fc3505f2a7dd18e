"""KidGym's result tables, a pure function of the plan and the ledger: cells, capabilities, and the published figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from envs.kidgym.chance import CHANCE, CHANGED, published_chance
from evals.reference import published
from evals.stats.intervals import NO_ESTIMATE, NONNEGATIVE, Estimate, mean_estimate, proportion_estimate
from evals.suites.kidgym.published_environment.recording import SUFFIX
from evals.suites.kidgym.shortcut_success import SHORTCUT_SUCCESS
from evals.suites.kidgym.shortcuts import SHORTCUTS
from evals.tables import Cell, Table

CAPABILITIES: Final[Mapping[str, tuple[str, ...]]] = {
    "execution": ("CL",),
    "memory": ("SE", "MMA", "MDE", "MFI"),
    "learning": ("SO", "PL", "DMA", "MDE"),
    "planning": ("MA", "CO", "DMA", "MMA"),
    "perception": ("FI", "PU", "PL", "CO", "MFI"),
}
"""The tasks of each capability (paper, appendix D)."""

LEVEL_WEIGHTS: Final[Mapping[str, float]] = {"1": 0.2, "2": 0.3, "3": 0.5}
"""Weights of a task's levels in a capability score (paper, appendix D)."""

_LEDGER_COLUMNS: Final = ("status", "success", "steps", "invalid", "cut_off")


@dataclass(frozen=True)
class Played:
    """One planned episode, and what the ledger holds of it."""

    player: str
    mode: str
    task: str
    level: str
    status: str
    """``done``, ``failed``, or empty while it has not been played."""
    success: bool
    invalid: bool
    steps: int | None
    cut_off: int
    """Replies that ended at the token limit."""


Group = tuple[str, str]
"""A player in a mode."""


def score_kidgym(plan: pa.Table, ledger: pa.Table) -> Sequence[Table]:
    """All tables of KidGym; rows of the ledger that are not planned do not count.

    Args:
        plan: The suite's part of the plan (``evals.ledger.records.PLAN_SCHEMA``).
        ledger: The suite's part of the ledger, in any order and possibly partial.
    """
    episodes = list(_join(plan, ledger))
    return [_capability_table(episodes), _success_table(episodes), _reference_table(episodes)]


def _join(plan: pa.Table, ledger: pa.Table) -> Iterator[Played]:
    """Every planned episode in the order of the plan."""
    names = [name for name in _LEDGER_COLUMNS if name in ledger.column_names]
    rows = {row.pop("episode_id"): row for row in ledger.select(["episode_id", *names]).to_pylist()}
    for entry in plan.select(["episode_id", "player", "mode", "task", "level"]).to_pylist():
        row = rows.get(entry.pop("episode_id"), {})
        yield Played(
            **entry,
            status=row.get("status") or "",
            success=bool(row.get("success")),
            invalid=bool(row.get("invalid")),
            steps=row.get("steps"),
            cut_off=row.get("cut_off") or 0,
        )


def _cells(episodes: Sequence[Played]) -> dict[Group, dict[tuple[str, str], list[Played]]]:
    """Episodes by player and mode, and in these by task and level, all in the order of the plan."""
    groups: dict[Group, dict[tuple[str, str], list[Played]]] = {}
    for episode in episodes:
        cells = groups.setdefault((episode.player, episode.mode), {})
        cells.setdefault((episode.task, episode.level), []).append(episode)
    return groups


def _share(episodes: Sequence[Played], holds: Callable[[Played], bool]) -> Estimate:
    """Share of the played episodes, failed ones included."""
    return proportion_estimate([holds(episode) for episode in episodes if episode.status])


def _success(episodes: Sequence[Played]) -> Estimate:
    return _share(episodes, lambda episode: episode.success)


def weighted_sum(estimates: Sequence[Estimate], weights: Sequence[float]) -> Estimate:
    """A weighted sum of independent estimates, its interval recovered from theirs (method MOVER).

    Each end lies sqrt(sum (weight x distance to that end)^2) from the sum (Zou and Donner, Statistics in Medicine 27,
    2008, pages 1693-1702). Unlike with the delta method, shares of 0 and 1 keep their one-sided doubt. Weights must not be
    negative.
    """
    if not estimates or any(estimate.n == 0 for estimate in estimates):
        return NO_ESTIMATE
    pairs = list(zip(estimates, weights, strict=True))
    mean = math.fsum(weight * estimate.mean for estimate, weight in pairs)
    below = math.sqrt(math.fsum((weight * (estimate.mean - estimate.low)) ** 2 for estimate, weight in pairs))
    above = math.sqrt(math.fsum((weight * (estimate.high - estimate.mean)) ** 2 for estimate, weight in pairs))
    return Estimate(mean, mean - below, mean + above, sum(estimate.n for estimate in estimates))


# --- cells -----------------------------------------------------------------------------------------------------------


def _success_table(episodes: Sequence[Played]) -> Table:
    """One row for each player, mode, task and level."""
    played = [episode for episode in episodes if episode.player in SHORTCUTS]
    rows: list[tuple[Cell, ...]] = []
    for (player, mode), cells in _cells(episodes).items():
        for (task, level), planned in cells.items():
            done = [episode for episode in planned if episode.status == "done"]
            rows.append(
                (
                    *(player, mode, task, level),
                    len(planned),
                    len(done),
                    sum(episode.status == "failed" for episode in planned),
                    _success(planned),
                    *best_shortcut(task, level, played),
                    sum(episode.cut_off for episode in planned),
                    _share(planned, lambda episode: episode.invalid),
                    mean_estimate([float(episode.steps or 0) for episode in done], bounds=NONNEGATIVE),
                )
            )
    return Table(
        name="kidgym_success",
        headline=True,
        brief=("player", "mode", "task", "level", "done", "failed", "success", "shortcuts reach"),
        title="KidGym: success by task and level",
        columns=(
            *("player", "mode", "task", "level", "planned", "done", "failed"),
            *("success", "shortcuts reach", "best shortcut", "cut off", "invalid answers", "steps"),
        ),
        rows=tuple(rows),
        notes=(
            "success: share of episodes whose goal was reached within the level's budget of steps.",
            "shortcuts reach: success of the best shortcut player, in this run where it played there, else over many games "
            "(evals/suites/kidgym/shortcut_success.py); docs/validity.md says what each of them means.",
            "cut off: replies that ended at the token limit; such a reply is read only where it had answered between tags.",
            "invalid answers: share of episodes that a reply naming no action ended; they count as not successful.",
            "steps: mean over all episodes that did not fail, those included that an unread reply ended, with the steps until "
            "then; steps without a choice count.",
            "Replies are read as a careful person would unless suite.decoder says otherwise: the first letter of a list and "
            "the last of several choices count, words and rejected letters are no answer, alternatives (A or B) are none.",
            "Brackets: 95 % confidence intervals.",
            *_coverage_notes(episodes),
        ),
    )


def best_shortcut(task: str, level: str, played: Sequence[Played]) -> tuple[Estimate | float | None, str | None]:
    """What the best shortcut reaches in a cell and its name, of those ``played`` in this run, or else as stored."""
    of_run: dict[str, list[Played]] = {}
    for episode in played:
        if (episode.task, episode.level) == (task, level) and episode.status:
            of_run.setdefault(episode.player, []).append(episode)
    if of_run:
        found, name = max(
            ((_success(members), name) for name, members in of_run.items()), key=lambda pair: pair[0].mean
        )
        return found, name
    stored = {name: tasks[task][int(level) - 1] for name, tasks in SHORTCUT_SUCCESS.items() if task in tasks}
    if not stored:
        return None, None
    name = max(stored, key=stored.__getitem__)
    return stored[name], name


def _coverage_notes(episodes: Sequence[Played]) -> list[str]:
    """How episodes that failed, or have not been played, enter the figures."""
    failed = sum(episode.status == "failed" for episode in episodes)
    missing = sum(not episode.status for episode in episodes)
    notes = []
    if failed:
        which = "episode (the player could not answer) counts" if failed == 1 else "episodes (no answer) count"
        notes.append(f"{failed:,} failed {which} as not successful, and not among the steps.")
    if missing:
        notes.append(f"{missing:,} of {len(episodes):,} planned episodes have not been played and count nowhere else.")
    return notes


# --- capabilities ----------------------------------------------------------------------------------------------------


def capability_score(cells: Mapping[tuple[str, str], Estimate], capability: str) -> Estimate:
    """100 x mean over the capability's tasks of (0.2 p1 + 0.3 p2 + 0.5 p3) (paper, appendix D).

    Args:
        cells: Success by task and level; where one that is needed is missing, there is no score.
        capability: Of ``CAPABILITIES``.
    """
    tasks = CAPABILITIES[capability]
    needed = [(task, level) for task in tasks for level in LEVEL_WEIGHTS]
    weights = [100 * LEVEL_WEIGHTS[level] / len(tasks) for _, level in needed]
    return weighted_sum([cells.get(cell, NO_ESTIMATE) for cell in needed], weights)


def _capability_table(episodes: Sequence[Played]) -> Table:
    """Players of this run, out of 100; capabilities that no player of the run has a score in are left out."""
    published = [episode for episode in episodes if episode.task.endswith(SUFFIX)]
    renamed = [
        replace(one, task=one.task.removesuffix(SUFFIX), mode=f"{one.mode}, published environment") for one in published
    ]
    own = [episode for episode in episodes if not episode.task.endswith(SUFFIX)]

    groups = _cells([*own, *renamed])
    success = {
        group: {cell: _success_unless_all_failed(planned) for cell, planned in cells.items()}
        for group, cells in groups.items()
    }
    scores = {group: {name: capability_score(cells, name) for name in CAPABILITIES} for group, cells in success.items()}
    shown = [name for name in CAPABILITIES if any(of_group[name].n for of_group in scores.values())]
    rows: list[tuple[Cell, ...]] = []
    for (player, mode), cells in groups.items():
        estimates = list(success[player, mode].values())
        overall = weighted_sum(estimates, [100 / len(estimates)] * len(estimates))
        failed = sum(episode.status == "failed" for planned in cells.values() for episode in planned)
        shown_scores = [scores[player, mode][name] for name in shown]
        rows.append((player, mode, failed, *shown_scores, overall))
    return Table(
        name="kidgym_capabilities",
        headline=bool(shown),
        title="KidGym: capability scores",
        columns=("player", "mode", "failed", *shown, "all cells"),
        rows=tuple(rows),
        notes=(
            "100 x mean over a capability's tasks of (0.2 p1 + 0.3 p2 + 0.5 p3), where p is the success at a level: "
            + "; ".join(f"{name} {', '.join(tasks)}" for name, tasks in CAPABILITIES.items())
            + ". A score needs all of these cells.",
            "all cells: 100 x mean success over all cells of this run, unweighted.",
            "failed: episodes in which the player or the environment failed; they count as not successful.",
            *_all_failed_notes(groups),
            "Brackets: 95 % confidence intervals, recovered from those of the cells (Zou and Donner's MOVER).",
        ),
    )


def _all_failed(planned: Sequence[Played]) -> bool:
    played = [episode for episode in planned if episode.status]
    return bool(played) and all(episode.status == "failed" for episode in played)


def _success_unless_all_failed(planned: Sequence[Played]) -> Estimate:
    """Nothing was measured in a cell all of whose episodes failed: it has no success, not a success of 0."""
    return NO_ESTIMATE if _all_failed(planned) else _success(planned)


def _all_failed_notes(groups: Mapping[Group, Mapping[tuple[str, str], Sequence[Played]]]) -> Iterator[str]:
    """Names the cells without a success, one note for each player and mode."""
    for (player, mode), cells in groups.items():
        names = [f"{task} level {level}" for (task, level), planned in cells.items() if _all_failed(planned)]
        if names:
            yield f"{player}, {mode}: no score where {', '.join(names)} enters; all of its episodes failed."


# --- the published baselines ------------------------------------------------------------------------------------------


def _reference_table(episodes: Sequence[Played]) -> Table:
    """Success of this run's players beside published and exact chance, one row for each task and level."""
    groups = _cells(episodes)
    rows: list[tuple[Cell, ...]] = []
    for task, level in dict.fromkeys((episode.task, episode.level) for episode in episodes):
        of_run = [_success(cells.get((task, level), [])) for cells in groups.values()]
        rows.append((task, level, *of_run, *_baselines(task, level)))
    return Table(
        name="kidgym_reference",
        title="KidGym beside chance",
        columns=(
            "task",
            "level",
            *(f"{player}, {mode}" for player, mode in groups),
            "chance",
            "chance, published game",
            "chance, published code",
        ),
        rows=tuple(rows),
        notes=(
            "chance: success of uniform random play in these games, which is what this run's players are to be held against; "
            "exact, for mazes with a standard error below 0.4 % of it.",
            "chance, published game: exact, by the rules of the published code, for mazes over all of its layouts. Where it is "
            "another, this version cures a defect: " + "; ".join(_cures()) + ".",
            "published code: 5,000 episodes of it at random. What the paper prints: docs/published_figures.md.",
        ),
    )


def _baselines(task: str, level: str) -> list[float | None]:
    if task not in CHANCE:
        return [None] * 3
    measured = published("kidgym").find("Random", "success", {"task": task, "level": level})
    return [CHANCE[task][int(level) - 1], published_chance(task, int(level)), measured.value if measured else None]


def _cures() -> Iterator[str]:
    """Each reason for another chance, behind the cells that it concerns."""
    reasons = dict.fromkeys(cure.why for cure in CHANGED.values())
    for why in reasons:
        cells = [f"{task} level {level}" for (task, level), cure in CHANGED.items() if cure.why == why]
        yield f"{', '.join(cells)} ({why})"
