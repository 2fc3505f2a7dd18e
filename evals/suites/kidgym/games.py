"""The planned episodes of KidGym with what the ledger holds of them, by cell, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evals.ledger.run_data import rows_by

CELL: Final = ("player", "mode", "task", "level")
"""What tells the cells of a run apart."""

CellKey = tuple[str, str, str, str]
"""Values of ``CELL``."""


@dataclass(frozen=True)
class Games:
    """The planned episodes of one cell in the order of the plan, one entry each."""

    done: npt.NDArray[np.bool_]
    failed: npt.NDArray[np.bool_]
    """An episode that has not been played is neither done nor failed."""
    success: npt.NDArray[np.bool_]
    invalid: npt.NDArray[np.bool_]
    steps: npt.NDArray[np.float64]
    cut_off: npt.NDArray[np.int64]
    """Replies that ended at the token limit, or that a content filter stopped."""

    def __len__(self) -> int:
        return len(self.done)

    @property
    def played(self) -> npt.NDArray[np.bool_]:
        """Whether an episode is done or failed."""
        return self.done | self.failed


def games_of(plan: pa.Table, ledger: pa.Table) -> dict[CellKey, Games]:
    """The games of every cell, in the order of the plan.

    Args:
        plan: The suite's part of the plan; rows of the ledger that are not planned are left out.
        ledger: The suite's part of the ledger, in any order and possibly partial. Before the first row it has no columns of
            the suite.
    """
    games = {}
    for cell, rows in rows_of_cells(plan, ledger, ("status", "success", "invalid", "steps", "cut_off")).items():
        status = pc.cast(rows["status"], pa.string())
        games[cell] = Games(
            done=_array(pc.equal(status, "done"), pa.bool_()),
            failed=_array(pc.equal(status, "failed"), pa.bool_()),
            success=_array(rows["success"], pa.bool_()),
            invalid=_array(rows["invalid"], pa.bool_()),
            steps=_array(rows["steps"], pa.float64()),
            cut_off=_array(rows["cut_off"], pa.int64()),
        )
    return games


def rows_of_cells(plan: pa.Table, ledger: pa.Table, columns: Sequence[str]) -> dict[CellKey, pa.Table]:
    """Columns of the ledger for all planned episodes of each cell; null where there is no row or no such column."""
    places = pc.index_in(plan["episode_id"], value_set=ledger["episode_id"])
    found = {}
    for name in columns:
        known = name in ledger.column_names
        found[name] = ledger[name].take(places) if known else pa.nulls(len(plan))
    rows = pa.table(found)
    return {cell: rows.take(of_cell) for cell, of_cell in rows_by(plan, CELL).items()}


def _array(column: pa.ChunkedArray, kind: pa.DataType) -> npt.NDArray[Any]:
    """A column with False or 0 for null."""
    missing = False if pa.types.is_boolean(kind) else 0
    return np.asarray(pc.fill_null(pc.cast(column, kind), missing))
