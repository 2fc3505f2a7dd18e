"""KidGym's result tables, a pure function of the plan and the ledger: cells, capabilities, and the published figures."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from envs.kidgym.chance import BALANCED_CHANCE, CHANCE, CHANGED, chance_at, published_chance
from evals.figures import middle
from evals.reference import published
from evals.stats.intervals import NO_ESTIMATE, NONNEGATIVE, Estimate, mean_estimate, proportion_estimate, weighted_sum
from evals.suites.kidgym.games import CellKey, Games, games_of
from evals.suites.kidgym.learned_shortcuts import learned_shortcut
from evals.suites.kidgym.published_environment.recording import SUFFIX
from evals.suites.kidgym.shortcut_success import SHORTCUT_SUCCESS
from evals.suites.kidgym.shortcuts import SHORTCUTS
from evals.suites.kidgym.variants import BALANCED, task_and_variant
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

Group = tuple[str, str]
"""A player in a mode."""

Groups = Mapping[Group, Mapping[tuple[str, str], Games]]
"""Games by player and mode, and in these by task and level."""


def score_kidgym(
    plan: pa.Table, ledger: pa.Table, with_shortcuts: Mapping[CellKey, Games] | None = None
) -> Sequence[Table]:
    """All tables of KidGym; rows of the ledger that are not planned do not count.

    Args:
        plan: The suite's part of the plan (``evals.ledger.records.PLAN_SCHEMA``).
        ledger: The suite's part of the ledger, in any order and possibly partial.
        with_shortcuts: The games of the run as it is stored, where the plan names shortcut players otherwise, or not at all.
    """
    cells = games_of(plan, ledger)
    return [_capability_table(cells), _success_table(cells, with_shortcuts), _reference_table(cells)]


def _grouped(cells: Mapping[CellKey, Games]) -> Groups:
    groups: dict[Group, dict[tuple[str, str], Games]] = {}
    for (player, mode, task, level), games in cells.items():
        groups.setdefault((player, mode), {})[task, level] = games
    return groups


def _success(games: Games | None) -> Estimate:
    """Share of the played games, failed ones included."""
    return proportion_estimate(games.success[games.played].tolist()) if games else NO_ESTIMATE


# --- cells -----------------------------------------------------------------------------------------------------------


def _success_table(cells: Mapping[CellKey, Games], with_shortcuts: Mapping[CellKey, Games] | None = None) -> Table:
    """One row for each player, mode, task and level."""
    shortcuts = {cell: games for cell, games in (with_shortcuts or cells).items() if cell[0] in SHORTCUTS}
    rows: list[tuple[Cell, ...]] = []
    for (player, mode), of_group in _grouped(cells).items():
        for (task, level), games in of_group.items():
            rows.append(
                (
                    *(player, mode, task, level),
                    len(games),
                    int(games.done.sum()),
                    int(games.failed.sum()),
                    _success(games),
                    *best_shortcut(task, level, shortcuts),
                    int(games.cut_off.sum()),
                    proportion_estimate(games.invalid[games.played].tolist()),
                    mean_estimate(games.steps[games.done].tolist(), bounds=NONNEGATIVE),
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
            "shortcuts reach: success of the best player without the skill: of the listed shortcut players, in this run where "
            "one played there, else over many games (evals/suites/kidgym/shortcut_success.py), and of the learned ones that "
            "lack a sense the task is about (docs/validity_kidgym.md).",
            "cut off: replies that ended at the token limit, or that a content filter stopped (the table of replies tells "
            "them apart); such a reply is read only where it had answered between tags.",
            "invalid answers: share of episodes that a reply naming no action ended; they count as not successful.",
            "steps: mean over all episodes that did not fail, those included that an unread reply ended, with the steps until "
            "then; steps without a choice count.",
            "Replies are read as a careful person would unless suite.decoder says otherwise: the first letter of a list and "
            "the last of several choices count, words and rejected letters are no answer, alternatives (A or B) are none.",
            "Brackets: 95 % confidence intervals.",
            *_coverage_notes(cells.values()),
        ),
    )


def _played_shortcuts(task: str, level: str, shortcuts: Mapping[CellKey, Games]) -> dict[str, Estimate]:
    """What each shortcut that this run has played reaches in a cell, modes together."""
    wins: dict[str, list[bool]] = {}
    for (player, _, of_task, of_level), games in shortcuts.items():
        in_cell = of_task == task and of_level == level
        if in_cell and games.played.any():
            won = games.success[games.played].tolist()
            wins.setdefault(player, []).extend(won)
    return {player: proportion_estimate(won) for player, won in wins.items()}


def best_shortcut(
    task: str, level: str, shortcuts: Mapping[CellKey, Games]
) -> tuple[Estimate | float | None, str | None]:
    """What the best shortcut reaches in a cell and its name: of those played in this run, or else as stored, and learned."""
    # 1. Shortcuts that this run has played.
    reached: dict[str, Estimate | float] = {**_played_shortcuts(task, level, shortcuts)}
    # 2. If it has played none, the stored measurements.
    if not reached:
        reached |= _stored_shortcuts(task, level)
    # 3. In any case the players that a search has learned (evals/shortcut_search).
    reached |= learned_shortcut(task, level)
    if not reached:
        return None, None
    name = max(reached, key=lambda player: middle(reached[player]) or 0.0)
    return reached[name], name


def _stored_shortcuts(task: str, level: str) -> dict[str, float]:
    """What shortcuts won when they were measured, of the published levels only."""
    if level not in LEVEL_WEIGHTS:
        return {}
    found = {}
    for name, tasks in SHORTCUT_SUCCESS.items():
        if task in tasks:
            found[name] = tasks[task][int(level) - 1]
    return found


def _coverage_notes(cells: Collection[Games]) -> list[str]:
    """How episodes that failed, or have not been played, enter the figures."""
    failed = missing = planned = 0
    for games in cells:
        failed += int(games.failed.sum())
        missing += int((~games.played).sum())
        planned += len(games)
    notes = []
    if failed:
        which = "episode (the player could not answer) counts" if failed == 1 else "episodes (no answer) count"
        notes.append(f"{failed:,} failed {which} as not successful, and not among the steps.")
    if missing:
        notes.append(f"{missing:,} of {planned:,} planned episodes have not been played and count nowhere else.")
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


def _capability_table(cells: Mapping[CellKey, Games]) -> Table:
    """Players of this run, out of 100; capabilities that no player of the run has a score in are left out."""
    own: dict[CellKey, Games] = {}
    balanced: dict[CellKey, Games] = {}
    published: dict[CellKey, Games] = {}
    for (player, mode, task, level), games in cells.items():
        if task.endswith(SUFFIX):
            published[player, f"{mode}, published environment", task.removesuffix(SUFFIX), level] = games
        elif task.endswith(BALANCED):
            balanced[player, f"{mode}, balanced", task.removesuffix(BALANCED), level] = games
        else:
            own[player, mode, task, level] = games
    if balanced:  # tasks without a balanced variant count for both
        for (player, mode, task, level), games in own.items():
            if task in CHANCE and task not in BALANCED_CHANCE:
                balanced[player, f"{mode}, balanced", task, level] = games
    groups = _grouped({**own, **balanced, **published})

    success: dict[Group, dict[tuple[str, str], Estimate]] = {}
    scores: dict[Group, dict[str, Estimate]] = {}
    for group, of_group in groups.items():
        success[group] = {cell: _success_unless_all_failed(games) for cell, games in of_group.items()}
        scores[group] = {name: capability_score(success[group], name) for name in CAPABILITIES}
    shown = [name for name in CAPABILITIES if any(of_group[name].n for of_group in scores.values())]
    rows: list[tuple[Cell, ...]] = []
    for (player, mode), of_group in groups.items():
        estimates = list(success[player, mode].values())
        overall = weighted_sum(estimates, [100 / len(estimates)] * len(estimates))
        failed = sum(int(games.failed.sum()) for games in of_group.values())
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


def _all_failed(games: Games) -> bool:
    return bool(games.failed.any()) and not games.done.any()


def _success_unless_all_failed(games: Games) -> Estimate:
    """Nothing was measured in a cell all of whose episodes failed: it has no success, not a success of 0."""
    return NO_ESTIMATE if _all_failed(games) else _success(games)


def _all_failed_notes(groups: Groups) -> Iterator[str]:
    """Names the cells without a success, one note for each player and mode."""
    for (player, mode), cells in groups.items():
        names = [f"{task} level {level}" for (task, level), games in cells.items() if _all_failed(games)]
        if names:
            yield f"{player}, {mode}: no score where {', '.join(names)} enters; all of its episodes failed."


# --- the published baselines ------------------------------------------------------------------------------------------


def _reference_table(cells: Mapping[CellKey, Games]) -> Table:
    """Success of this run's players beside published and exact chance, one row for each task and level."""
    groups = _grouped(cells)
    rows: list[tuple[Cell, ...]] = []
    for task, level in dict.fromkeys((task, level) for _, _, task, level in cells):
        of_run = [_success(of_group.get((task, level))) for of_group in groups.values()]
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
    drawn, variant = task_and_variant(task)
    chance = chance_at(drawn, int(level), variant)
    if chance is None or variant == "balanced" or level not in LEVEL_WEIGHTS:
        return [chance, None, None]
    measured = published("kidgym").find("Random", "success", {"task": task, "level": level})
    return [chance, published_chance(task, int(level)), measured.value if measured else None]


def _cures() -> Iterator[str]:
    """Each reason for another chance, behind the cells that it concerns."""
    reasons = dict.fromkeys(cure.why for cure in CHANGED.values())
    for why in reasons:
        cells = [f"{task} level {level}" for (task, level), cure in CHANGED.items() if cure.why == why]
        yield f"{', '.join(cells)} ({why})"
