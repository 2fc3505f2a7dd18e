"""What every suite shows that states nothing else: planned, done, failed and success of each cell, and a map of them."""

from __future__ import annotations

from collections import defaultdict

from evals.figures import Figure, Series
from evals.ledger.run_data import RunData
from evals.stats.intervals import proportion_estimate
from evals.tables import Cell, Table

CELL = ("player", "task", "level", "mode")


def success_table(suite: str, run: RunData) -> Table:
    """Share of successes in each cell, clustered by game; a failed episode counts as no success."""
    planned: defaultdict[tuple[str, ...], int] = defaultdict(int)
    for cell in zip(*(run.plan[name].to_pylist() for name in CELL), strict=True):
        planned[cell] += 1
    played: defaultdict[tuple[str, ...], list[tuple[bool, str, int, int]]] = defaultdict(list)
    ledger = run.episodes([*CELL, "success", "status", "index", "cut_off"])
    for row in ledger.to_pylist():
        game = (bool(row["success"]), row["status"], row["index"], row["cut_off"])
        played[tuple(row[name] for name in CELL)].append(game)
    rows: list[tuple[Cell, ...]] = []
    for cell, count in planned.items():
        games = played[cell]
        done = sum(status == "done" for _, status, _, _ in games)
        estimate = proportion_estimate([success for success, *_ in games], [index for _, _, index, _ in games])
        rows.append((*cell, count, done, len(games) - done, sum(cut for *_, cut in games), estimate))
    return Table(
        name=f"{suite}_success",
        title=suite,
        columns=(*CELL, "planned", "done", "failed", "cut off", "success"),
        rows=tuple(rows),
        notes=("A failed episode counts as no success.",),
        headline=True,
    )


def success_figure(suite: str, run: RunData) -> Figure:
    """A heat map of success by task and level, one panel for each player and mode."""
    played: defaultdict[tuple[str, ...], list[bool]] = defaultdict(list)
    for row in run.episodes([*CELL, "success"]).to_pylist():
        played[tuple(row[name] for name in CELL)].append(bool(row["success"]))
    planned = zip(*(run.plan[name].to_pylist() for name in CELL), strict=True)
    cells = [cell for cell in dict.fromkeys(planned) if cell in played]
    levels = tuple(dict.fromkeys(level for _, _, level, _ in cells))
    rows = []
    for player, task, mode in dict.fromkeys((player, task, mode) for player, task, _, mode in cells):
        games = [played.get((player, task, level, mode)) for level in levels]
        shares = tuple(sum(each) / len(each) if each else None for each in games)
        rows.append(Series(task, levels, shares, f"{player}, {mode}"))
    return Figure(
        name=f"{suite}_success_map",
        title=f"{suite}: success",
        kind="heat_map",
        series=tuple(rows),
        x_label="level",
        y_label="task",
        limits=(0, 1),
    )
