"""Planned and finished episodes of each cell."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from evals.ledger.run_data import count_rows

KEYS = ("player", "suite", "task", "level", "mode")


@dataclass
class CellProgress:
    """How far one cell is."""

    player: str
    suite: str
    task: str
    level: str
    mode: str
    planned: int
    done: int = 0
    failed: int = 0
    won: int = 0


def progress_by_cell(plan: pa.Table, rows: pa.Table) -> list[CellProgress]:
    """How far each cell is, in the order of the plan.

    Args:
        plan: Of a run, with the columns ``KEYS``.
        rows: Its latest attempts; also ``status`` and ``success``.
    """
    cells = {
        (player, suite, task, level, mode): CellProgress(player, suite, task, level, mode, planned)
        for (player, suite, task, level, mode), planned in count_rows(plan, KEYS).items()
    }
    for (player, suite, task, level, mode, status, success), count in count_rows(
        rows, (*KEYS, "status", "success")
    ).items():
        cell = cells.get((player, suite, task, level, mode))
        if cell is not None:
            cell.done += count * (status == "done")
            cell.failed += count * (status == "failed")
            cell.won += count * bool(success)
    return list(cells.values())
