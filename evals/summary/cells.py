"""What every suite shows that states nothing else: planned, done, failed and success of each cell, and a map of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from evals.figures import Figure, Series
from evals.ledger.run_data import RunData
from evals.stats.intervals import mean_estimate, proportion_estimate
from evals.tables import Cell, Table

CELL = ("player", "task", "level", "mode")


def success_table(suite: str, run: RunData, title: str = "") -> Table:
    """Share of successes in each cell, clustered by game, and the mean score where partial credit was given.

    A failed episode counts as no success, with score 0.

    Args:
        suite: Its name.
        run: Its part of the run.
        title: As reports spell the suite; the name by default.
    """
    cells = list(zip(*(run.plan[name].to_pylist() for name in CELL), strict=True))
    rows_of: defaultdict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    ledger = run.episodes([*CELL, "success", "score", "status", "index", "cut_off"]).to_pylist()
    for row in ledger:
        rows_of[tuple(row[name] for name in CELL)].append(row)
    # Where a score is not just whether the game was won.
    partial = any(row["score"] not in (None, float(bool(row["success"]))) for row in ledger)
    columns = [*CELL, "planned", "done", "failed", "cut off", "success"]
    if partial:
        columns.append("score")
    rows: list[tuple[Cell, ...]] = []
    for cell, planned in Counter(cells).items():
        rows.append((*cell, planned, *_counted(rows_of[cell], partial)))
    return Table(
        name=f"{suite}_success",
        title=title or suite,
        columns=tuple(columns),
        rows=tuple(rows),
        notes=("A failed episode counts as no success.",),
        headline=True,
    )


def _counted(games: Sequence[Mapping[str, Any]], partial: bool) -> list[Cell]:
    """How many episodes of a cell are done, failed and cut off, their success, and their score if it is partial credit."""
    done = sum(row["status"] == "done" for row in games)
    cut = sum(row["cut_off"] for row in games)
    indices = [row["index"] for row in games]
    successes = [bool(row["success"]) for row in games]
    found: list[Cell] = [done, len(games) - done, cut, proportion_estimate(successes, indices)]
    if partial:
        scores = [row["score"] or 0.0 for row in games]
        found.append(mean_estimate(scores, indices))
    return found


def success_figure(suite: str, run: RunData, title: str = "") -> Figure:
    """A heat map of success by task and level, one panel for each player and mode."""
    played: defaultdict[tuple[str, ...], list[bool]] = defaultdict(list)
    clusters: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for row in run.episodes([*CELL, "success", "index"]).to_pylist():
        cell = tuple(row[name] for name in CELL)
        played[cell].append(bool(row["success"]))
        clusters[cell].append(row["index"])
    planned = zip(*(run.plan[name].to_pylist() for name in CELL), strict=True)
    cells = [cell for cell in dict.fromkeys(planned) if cell in played]
    levels = tuple(dict.fromkeys(level for _, _, level, _ in cells))
    shares = {cell: proportion_estimate(played[cell], clusters[cell]) for cell in played}
    rows = []
    for player, task, mode in dict.fromkeys((player, task, mode) for player, task, _, mode in cells):
        # None at levels where nothing was played.
        of_task = tuple(shares.get((player, task, level, mode)) for level in levels)
        rows.append(Series(task, levels, of_task, f"{player}, {mode}"))
    return Figure(
        name=f"{suite}_success_map",
        title=f"{title or suite}: success",
        kind="heat_map",
        series=tuple(rows),
        x_label="level",
        y_label="task",
        limits=(0, 1),
    )
