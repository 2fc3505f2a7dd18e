"""The runs that a viewer shows, and what their ledgers hold that it has not read yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from envs.files.parquet import read_parquet
from evals.ledger.check import CHECKED, PLANNED, check_rows
from evals.ledger.columns import COLUMNS
from evals.ledger.lease import read_fence
from evals.ledger.parts import (
    LedgerChangedError,
    LedgerDamagedError,
    LedgerPart,
    describe_part,
    part_order,
    read_batches,
)
from evals.ledger.run_data import RunData
from evals.suite import Suite

LISTED = tuple(name for name in COLUMNS if name not in ("turns", "session"))
"""The columns of the ledger that the list of episodes knows."""
LISTED_SCHEMA = pa.schema({name: COLUMNS[name].type for name in LISTED})

ROWS_AT_FIRST = 1_000
ROWS_AT_ONCE = 80_000
"""Rows that are read before they are shown; the first ones come sooner."""


@dataclass
class ViewedRun:
    """One run directory, and what of it has been read so far."""

    name: str
    path: Path
    suite: Callable[[], Suite]
    """Makes the run's suite; raises ValueError where it cannot, and episodes are then shown without its help."""
    data: Callable[[], RunData]
    """Opens plan and ledger as they are now, for scores."""
    stopping: Callable[[], Sequence[str]] = tuple
    """What the run's stopping rule says now, a sentence for each decision; nothing for a run without one."""
    writer: Callable[[], str] = str
    """Whether its driver is at work, silent, gone or done; empty for a run that nobody has ever played."""
    planned: int = 0
    parts: dict[str, int] = field(default_factory=dict)
    """Names of the parts that were read, with their numbers."""
    damage: dict[str, str] = field(default_factory=dict)
    """What of the run cannot be shown, by file name."""
    waiting: int = 0
    """Parts that are there and were not read yet."""


@dataclass(frozen=True)
class Arrivals:
    """Rows of some parts that were read together, and the parts that they replace."""

    parts: tuple[str, ...]
    rows: pa.Table
    """``LISTED``, with ``part`` (position in ``parts``) and ``place`` (row of the part)."""
    replaced: frozenset[str]


def read_plan(run: ViewedRun) -> pa.Table:
    """What the run planned: ids and coordinates.

    Raises:
        OSError, pyarrow.ArrowException: there is no plan that can be read.
    """
    return read_parquet(run.path / "plan.parquet", ("episode_id", *PLANNED))


def unread_parts(run: ViewedRun) -> list[Path]:
    """Parts that were not read yet, the latest first: a merged part comes after those that it replaces."""
    known = run.parts.keys() | run.damage.keys()
    paths = (run.path / "episodes").glob("*.parquet")
    return sorted((path for path in paths if path.name not in known), key=part_order, reverse=True)


def arrivals(run: ViewedRun, paths: Sequence[Path], plan: pa.Table) -> Iterator[Arrivals]:
    """The rows of these parts that the plan knows, some parts at a time; what is wrong goes to ``run.damage``."""
    replaced: set[str] = set()
    fence = read_fence(run.path)
    found: list[tuple[LedgerPart, pa.Table]] = []
    run.waiting, enough = len(paths), ROWS_AT_FIRST
    for path in paths:
        run.waiting -= 1
        if path.name in replaced:
            run.parts.setdefault(path.name, -1)
            continue
        try:
            part = describe_part(path)
            if not fence.admits(path.name, part.lease):
                continue  # of a driver that had lost the run; looked at again, as this fence may be out of date
            found.append((part, _rows(part)))
            replaced |= part.replaces
        except LedgerChangedError:
            continue  # it was merged into another one, which the next look finds
        except LedgerDamagedError as error:
            run.damage[path.name] = error.damage[0].reason
        if sum(len(rows) for _, rows in found) >= enough:
            yield _checked(run, found, plan)
            found, enough = [], ROWS_AT_ONCE
    if found:
        yield _checked(run, found, plan)


def _rows(part: LedgerPart) -> pa.Table:
    rows = pa.concat_tables([LISTED_SCHEMA.empty_table(), *read_batches(part.path, LISTED_SCHEMA)])
    return rows.append_column("place", pa.array(np.arange(len(rows)), pa.int32()))


def _checked(run: ViewedRun, found: Sequence[tuple[LedgerPart, pa.Table]], plan: pa.Table) -> Arrivals:
    names = tuple(part.path.name for part, _ in found)
    tables = [rows for _, rows in found]
    checked = check_rows([rows.select(CHECKED) for rows in tables], names, plan)
    for number, reasons in _by_part(checked.problems).items():
        run.damage[f"{names[number]}: some rows"] = "; ".join(reasons)
    part_of = np.repeat(np.arange(len(names)), [len(rows) for rows in tables])
    rows = pa.concat_tables(tables).append_column("part", pa.array(part_of, pa.int32()))
    sound = rows.filter(pa.array(checked.sound))
    replaced: set[str] = set()
    for part, _ in found:
        replaced.update(part.replaces)
    return Arrivals(names, sound, frozenset(replaced))


def _by_part(problems: Sequence[tuple[int, str]]) -> dict[int, list[str]]:
    reasons: dict[int, list[str]] = {}
    for number, reason in problems:
        reasons.setdefault(number, []).append(reason)
    return reasons
