"""Success over difficulty: a curve for each player, beside chance and perfect play, for any suite with levels that get harder.

A suite says how hard a level is (``Suite.difficulty_of``; by default its number) and, where it knows, what chance and perfect
play win there (``Suite.known_success``). Without that, the built-in players that were played stand for them.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evals.figures import CLUSTERED, Figure, Series, Value
from evals.ledger.run_data import RunData, count_rows, rows_by
from evals.stats.intervals import Estimate, proportion_of_counts
from evals.tables import Cell, Table

CHANCE: Final = "chance"
PERFECT: Final = "perfect play"
BUILT_IN: Final = {CHANCE: "random", PERFECT: "oracle"}
"""The players that stand for them where a suite does not know."""
MOST_TASKS: Final = 12
"""Tasks that have a panel each; of more, only the mean is drawn."""
ALL_TASKS: Final = "all tasks"
_GAME: Final = ("player", "mode", "task", "level", "index")


@dataclass(frozen=True)
class DifficultyRules:
    """What a suite knows of its levels; see the methods of ``evals.suite.Suite``."""

    difficulty: Callable[[str, str], float | None]
    """How hard a level of a task is; None for a level that is neither harder nor easier than others."""
    variant: Callable[[str], str]
    """How a task's games are drawn, where there are several ways; tasks of different variants are not averaged."""
    known: Callable[[str, str], Mapping[str, float]]
    """Success of ``CHANCE`` and ``PERFECT`` in a task and level, where it is known."""


@dataclass(frozen=True)
class Curve:
    """Success of a player over the levels of some tasks, the easiest first; the mean over the tasks' games."""

    title: str
    """Of its panel: the task, or what several have in common."""
    player: str
    mode: str
    levels: tuple[str, ...]
    success: tuple[Value, ...]
    is_reference: bool = False
    """Whether it is chance or perfect play."""

    @property
    def is_known(self) -> bool:
        """Whether there is a value at any level."""
        return any(value is not None for value in self.success)


@dataclass(frozen=True)
class _Group:
    """Tasks that share a curve, and their levels from the easiest."""

    title: str
    tasks: tuple[str, ...]
    levels: tuple[str, ...]


@dataclass(frozen=True)
class _Games:
    """Won games and all games of each index of a task and level."""

    won: npt.NDArray[np.int64]
    played: npt.NDArray[np.int64]


_Played = Mapping[tuple[str, str, str, str], _Games]
"""By player, mode, task and level."""


def curves_of(run: RunData, rules: DifficultyRules) -> list[Curve]:
    """The curves of all players: over all tasks that have the same levels, then task by task.

    A failed episode counts as no success. Tasks with fewer than two levels of known difficulty have no curve. The ledger is
    read only where there is a curve to draw.
    """
    planned = count_rows(run.plan, ("player", "mode"))
    models = [(player, mode) for player, mode in planned if run.stored_name(player) not in BUILT_IN.values()]
    shown_names = {run.stored_name(player): player for player, _ in planned}
    groups = _groups(count_rows(run.plan, ("task", "level")), rules)
    if not models or not groups:
        return []
    played = _played(run)
    found = list[Curve]()
    for group in groups:
        for player, mode in models:
            success = _success(played, [(player, mode)], group)
            found.append(Curve(group.title, player, mode, group.levels, success))
        for name, built_in in BUILT_IN.items():
            found.append(_reference(name, shown_names.get(built_in, built_in), played, rules, group))
    return [curve for curve in found if curve.is_known]


def _single_tasks(places: Iterable[tuple[str, str]], rules: DifficultyRules) -> list[_Group]:
    """Each task with two levels or more of known difficulty, the easiest level first."""
    hardness: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for task, level in places:
        hard = rules.difficulty(task, level)
        if hard is not None:
            hardness[task][level] = hard
    several = {task: levels for task, levels in hardness.items() if len(levels) > 1}
    return [_Group(task, (task,), tuple(sorted(levels, key=levels.__getitem__))) for task, levels in several.items()]


def _groups(places: Mapping[tuple[str, str], int], rules: DifficultyRules) -> list[_Group]:
    """Tasks of the same variant and levels; groups of several tasks come first, then each task alone."""
    alone = _single_tasks(places, rules)
    alike: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for group in alone:
        alike[rules.variant(group.title), group.levels].append(group.title)
    several = {key: tasks for key, tasks in alike.items() if len(tasks) > 1}
    together = [
        _Group(_title(variant, levels, list(several)), tuple(tasks), levels)
        for (variant, levels), tasks in several.items()
    ]
    return together + (alone if len(alone) <= MOST_TASKS else [])


def _title(variant: str, levels: Sequence[str], groups: Sequence[tuple[str, Sequence[str]]]) -> str:
    """``all tasks``, and what tells this group of several tasks from the others, if there are any."""
    words = [ALL_TASKS]
    if len({other for other, _ in groups}) > 1:
        words.append(variant)
    if len({tuple(other) for _, other in groups}) > 1:
        words.append(f"levels {levels[0]} to {levels[-1]}")
    return ", ".join(words)


def _played(run: RunData) -> _Played:
    """Counted by Arrow a few thousand rows at a time: a million episodes never become Python objects."""

    def summed(table: pa.Table) -> pa.Table:
        sums = table.group_by(list(_GAME)).aggregate([("won", "sum"), ("played", "sum")])
        return sums.rename_columns([*_GAME, "won", "played"])

    def batches() -> Iterator[pa.Table]:
        for rows in run.batches([*_GAME, "success"]):
            won = pc.cast(pc.fill_null(rows["success"], False), pa.int64())
            played = pa.array(np.ones(len(rows), np.int64))
            yield summed(rows.select(list(_GAME)).append_column("won", won).append_column("played", played))

    games = summed(pa.concat_tables(batches(), promote_options="default"))
    won, played = games["won"].to_numpy(), games["played"].to_numpy()
    cells = rows_by(games, _GAME[:-1])
    return {cell: _Games(won[rows], played[rows]) for cell, rows in cells.items()}


def _success(played: _Played, players: Sequence[tuple[str, str]], group: _Group) -> tuple[Estimate | None, ...]:
    """The share of won games at each level, clustered by game; None where none was played.

    Args:
        played: The games.
        players: Players with their modes, whose games are taken together.
        group: The tasks and levels.
    """
    shares = list[Estimate | None]()
    for level in group.levels:
        won, sizes = list[int](), list[int]()
        for (player, mode), task in itertools.product(players, group.tasks):
            games = played.get((player, mode, task, level))
            if games is not None:
                won += games.won.tolist()
                sizes += games.played.tolist()
        shares.append(proportion_of_counts(won, sizes) if sizes else None)
    return tuple(shares)


def _stated(name: str, rules: DifficultyRules, tasks: Sequence[str], level: str) -> float | None:
    """What the suite says of chance or perfect play at a level, in the mean of tasks; None where it does not know one."""
    stated = [rules.known(task, level).get(name) for task in tasks]
    known = [value for value in stated if value is not None]
    if len(known) < len(stated):
        return None
    return fmean(known)


def _reference(name: str, player: str, played: _Played, rules: DifficultyRules, group: _Group) -> Curve:
    """Chance or perfect play: as the suite knows it for all levels of all tasks, else as the built-in player fared.

    Args:
        name: ``CHANCE`` or ``PERFECT``.
        player: The built-in player; a label that tells it from that of another run stands behind the curve's name, too.
        played: The games.
        rules: What the suite knows.
        group: The tasks and levels.
    """
    means = [_stated(name, rules, group.tasks, level) for level in group.levels]
    if None not in means:
        return Curve(group.title, name, "", group.levels, tuple(means), is_reference=True)
    players = dict.fromkeys((each, mode) for each, mode, _, _ in played if each == player)
    own = _success(played, list(players), group)
    success = tuple(None if value is None else value.mean for value in own)
    label = player.removeprefix(BUILT_IN[name])
    return Curve(group.title, name + label, "", group.levels, success, is_reference=True)


def difficulty_figure(suite: str, title: str, curves: Sequence[Curve]) -> Figure:
    """A panel for all tasks and for each task; players as lines with intervals, chance and perfect play in gray."""
    modes = {curve.mode for curve in curves if curve.mode}
    series = []
    for curve in curves:
        label = curve.player
        if curve.mode and len(modes) > 1:
            label += f", {curve.mode}"
        series.append(Series(label, curve.levels, curve.success, curve.title, reference=curve.is_reference))
    return Figure(
        name=f"{suite}_difficulty",
        title=f"{title}: success over difficulty",
        kind="lines",
        series=tuple(series),
        x_label="level, the easiest first",
        y_label="success",
        limits=(0, 1),
        intervals=CLUSTERED,
        notes=("Gray: chance below, perfect play above.",),
    )


def difficulty_table(suite: str, title: str, curves: Sequence[Curve]) -> Table:
    """A row for each curve, a column for each level."""
    levels = list(dict.fromkeys(level for curve in curves for level in curve.levels))
    rows: list[tuple[Cell, ...]] = []
    for curve in curves:
        success = dict(zip(curve.levels, curve.success, strict=True))
        rows.append((curve.title, curve.player, curve.mode, *(success.get(level) for level in levels)))
    return Table(
        name=f"{suite}_difficulty",
        title=f"{title}: success over difficulty",
        columns=("task", "player", "mode", *(f"level {level}" for level in levels)),
        rows=tuple(rows),
        notes=(
            f"{ALL_TASKS}: the mean over the games of tasks that have the same levels. A failed episode counts as no success. "
            "Brackets: 95 % confidence, clustered by game.",
        ),
    )
