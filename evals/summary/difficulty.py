"""Success over difficulty: a curve for each player, beside chance and perfect play, for any suite with levels that get harder.

A suite says how hard a level is (``Suite.difficulty_of``; by default its number) and, where it knows, what chance and perfect
play win there (``Suite.known_success``). Without that, the built-in players that were played stand for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from evals.figures import CLUSTERED, Figure, Series, Value
from evals.ledger.run_data import RunData
from evals.stats.intervals import Estimate, proportion_estimate
from evals.tables import Cell, Table

CHANCE: Final = "chance"
PERFECT: Final = "perfect play"
BUILT_IN: Final = {CHANCE: "random", PERFECT: "oracle"}
"""The players that stand for them where a suite does not know."""
MOST_TASKS: Final = 12
"""Tasks that have a panel each; of more, only the mean is drawn."""
ALL_TASKS: Final = "all tasks"

Difficulty = Callable[[str, str], float | None]
"""How hard a level of a task is; None for a level that is neither harder nor easier than others."""
Known = Callable[[str, str], Mapping[str, float]]
"""Success of ``CHANCE`` and ``PERFECT`` in a task and level, where it is known."""
Games = dict[tuple[str, str], list[tuple[bool, int]]]
"""By task and level, whether each game was won, and its number."""


@dataclass(frozen=True)
class Curve:
    """Success of a player over the levels of some tasks, the easiest first; the mean over the tasks' games."""

    player: str
    mode: str
    tasks: tuple[str, ...]
    levels: tuple[str, ...]
    success: tuple[Value, ...]

    @property
    def title(self) -> str:
        """Of its panel."""
        return self.tasks[0] if len(self.tasks) == 1 else ALL_TASKS


def curves_of(run: RunData, difficulty: Difficulty, known: Known) -> list[Curve]:
    """The curves of all players: over all tasks that have the same levels, then task by task.

    A failed episode counts as no success. Tasks with fewer than two levels of known difficulty have no curve.
    """
    games: defaultdict[tuple[str, str], Games] = defaultdict(dict)
    for row in run.episodes(["player", "task", "level", "mode", "success", "index"]).to_pylist():
        cell = games[row["player"], row["mode"]].setdefault((row["task"], row["level"]), [])
        cell.append((bool(row["success"]), row["index"]))
    places = dict.fromkeys(zip(run.plan["task"].to_pylist(), run.plan["level"].to_pylist(), strict=True))
    planned = dict.fromkeys(zip(run.plan["player"].to_pylist(), run.plan["mode"].to_pylist(), strict=True))
    models = [key for key in planned if key in games and key[0] not in BUILT_IN.values()]
    found = list[Curve]()
    for tasks, levels in _groups(places, difficulty) if models else ():
        found += [Curve(*key, tasks, levels, _success(games[key], tasks, levels)) for key in models]
        found += [_reference(name, games, known, tasks, levels) for name in BUILT_IN]
    return [curve for curve in found if any(value is not None for value in curve.success)]


def _groups(
    places: Mapping[tuple[str, str], None], difficulty: Difficulty
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Tasks with the same levels, and these levels from the easiest; groups of several tasks, then each task alone."""
    hardness: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for task, level in places:
        hard = difficulty(task, level)
        if hard is not None:
            hardness[task][level] = hard
    levels_of = {task: tuple(sorted(levels, key=levels.__getitem__)) for task, levels in hardness.items()}
    levels_of = {task: levels for task, levels in levels_of.items() if len(levels) > 1}
    alike: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for task, levels in levels_of.items():
        alike[levels].append(task)
    together = [(tuple(tasks), levels) for levels, tasks in alike.items() if len(tasks) > 1]
    alone = [((task,), levels) for task, levels in levels_of.items()]
    return together + (alone if len(alone) <= MOST_TASKS else [])


def _success(games: Games, tasks: Sequence[str], levels: Sequence[str]) -> tuple[Value, ...]:
    """The share of won games at each level, clustered by game; None where none was played."""
    shares = list[Value]()
    for level in levels:
        played = [(won, (task, index)) for task in tasks for won, index in games.get((task, level), ())]
        shares.append(proportion_estimate([won for won, _ in played], [game for _, game in played]) if played else None)
    return tuple(shares)


def _reference(
    name: str, games: Mapping[tuple[str, str], Games], known: Known, tasks: tuple[str, ...], levels: tuple[str, ...]
) -> Curve:
    """Chance or perfect play: as the suite knows it for all tasks, else as the built-in player fared."""
    shares = list[Value]()
    for level in levels:
        values = [known(task, level).get(name) for task in tasks]
        numbers = [value for value in values if value is not None]
        shares.append(sum(numbers) / len(numbers) if len(numbers) == len(values) else None)
    if None in shares:
        merged: Games = defaultdict(list)
        for (player, _), of_player in games.items():
            for place, played in of_player.items() if player == BUILT_IN[name] else ():
                merged[place] = [*merged[place], *played]
        shares = [value.mean if isinstance(value, Estimate) else value for value in _success(merged, tasks, levels)]
    return Curve(name, "", tasks, levels, tuple(shares))


def difficulty_figure(suite: str, title: str, curves: Sequence[Curve]) -> Figure:
    """A panel for all tasks and for each task; players as lines with intervals, chance and perfect play in gray."""
    modes = {curve.mode for curve in curves if curve.mode}
    series = [
        Series(
            f"{curve.player}, {curve.mode}" if curve.mode and len(modes) > 1 else curve.player,
            curve.levels,
            curve.success,
            curve.title,
            reference=curve.player in BUILT_IN,
        )
        for curve in curves
    ]
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
