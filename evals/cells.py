"""The table that every suite has: planned, done, failed and success of each cell."""

from __future__ import annotations

from collections import defaultdict

from evals.run_data import RunData
from evals.statistics import proportion_estimate
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
