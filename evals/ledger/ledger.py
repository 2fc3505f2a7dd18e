"""Reading a ledger: which parts there are, which of their rows count, and the rows themselves, a batch at a time.

A ledger is a folder of immutable Parquet parts. Opening one reads the few columns that identify rows, holds them
against the plan and keeps them; everything else is read when asked for, so that a ledger may be much larger than
memory. Parts may be merged into larger ones meanwhile (``cluster.storage.compaction``): the larger part names those
that it replaces, and a reader ignores these once it has seen that their rows are in it. It also ignores parts of a
driver that had lost the run directory to another one (``evals.ledger.lease``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evals.ledger.check import CheckedRows, check_rows
from evals.ledger.columns import ledger_schema
from evals.ledger.lease import part_files, read_fence
from evals.ledger.parts import (
    Damage,
    LedgerChangedError,
    LedgerPart,
    damage_of,
    is_merged,
    part_order,
    read_batches,
    read_fingerprint,
    rows_at,
)

T = TypeVar("T")

OF_TURNS = "turns."
"""Before the name of a field of ``turns`` that is read without the others, such as ``turns.finish``."""

OPENINGS = 5
"""Times that a ledger is opened anew because parts were replaced meanwhile."""


@dataclass
class Ledger:
    """All parts of a ledger at one moment; ``open_ledger`` makes one."""

    parts: tuple[LedgerPart, ...] = ()
    damage: list[Damage] = field(default_factory=list)
    replaced: tuple[Path, ...] = ()
    """Parts that larger ones have replaced and that are still there."""
    fenced: tuple[Path, ...] = ()
    """Parts of a driver that had lost the run directory before it wrote them: their episodes are played again."""
    schema: pa.Schema = field(default_factory=lambda: ledger_schema({}).remove_metadata())
    """All parts' columns."""
    checked: CheckedRows = field(default_factory=lambda: CheckedRows.of_none())

    @property
    def names(self) -> frozenset[str]:
        """File names of all parts, counted or not; as parts never change, equal names mean equal ledgers."""
        return frozenset(path.name for path in (*(part.path for part in self.parts), *self.replaced, *self.fenced))

    def __len__(self) -> int:
        """Rows that count: the latest attempt at each episode."""
        return int(np.count_nonzero(self.checked.latest))

    def batches(self, columns: Sequence[str] | None = None, every_attempt: bool = False) -> Iterator[pa.Table]:
        """The rows that count, in the order of the parts, a few thousand at a time.

        Args:
            columns: Stored names of the columns to read; all but the bulky ``turns`` if not given. A column that a part
                lacks is null there.
            every_attempt: With the earlier attempts at episodes that were played again.

        Raises:
            LedgerDamagedError: a part cannot be read after all.
            LedgerChangedError: a part was replaced since the ledger was opened.
        """
        schema = self._schema(columns)
        counts = self.checked.sound if every_attempt else self.checked.latest
        start = 0
        for part, rows in zip(self.parts, self.checked.rows, strict=True):
            chosen, known = counts[start : start + rows], self.checked.columns.slice(start, rows)
            start += rows
            if chosen.any():
                yield from _chosen_rows(part, schema, known, chosen)

    def find(self, ids: Collection[str]) -> list[dict[str, Any]]:
        """The rows that count of some episodes, ``turns`` included, in the order of the parts; other rows are not read.

        Raises:
            LedgerDamagedError, LedgerChangedError: see ``batches``.
        """
        wanted = pc.is_in(self.checked.columns["episode_id"], pa.array(list(ids), pa.string()))
        chosen = np.asarray(wanted) & self.checked.latest
        found, start = list[dict[str, Any]](), 0
        for part, rows in zip(self.parts, self.checked.rows, strict=True):
            places = np.flatnonzero(chosen[start : start + rows])
            start += rows
            if len(places):
                found += rows_at(part.path, self.schema, places)
        return found

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows that count, in one table; see ``batches``."""
        return pa.concat_tables([self.empty(columns), *self.batches(columns)])

    def empty(self, columns: Sequence[str] | None = None) -> pa.Table:
        """A table with these columns and no row."""
        return self._schema(columns).empty_table()

    def _schema(self, columns: Sequence[str] | None) -> pa.Schema:
        wanted = {*self.schema.names} - {"turns"} if columns is None else columns
        chosen = [item for item in self.schema if item.name in wanted]
        # ``turns.finish`` reads this field of all turns and none of their bulky prompts
        fields = [name.removeprefix(OF_TURNS) for name in wanted if name.startswith(OF_TURNS)]
        if fields and "turns" not in wanted:
            turn = self.schema.field("turns").type.value_type
            chosen.append(pa.field("turns", pa.list_(pa.struct([turn.field(name) for name in fields]))))
        return pa.schema(chosen)


def open_ledger(run_dir: Path | str, plan: pa.Table | None = None) -> Ledger:
    """Look through a run's ledger; what is wrong with it is listed in ``damage`` and does not count.

    Args:
        run_dir: The run directory; its parts lie in ``episodes/*.parquet``. Without any, the ledger is empty.
        plan: The run's plan (``evals.ledger.records.PLAN_SCHEMA``); rows must be of its episodes, as it describes them.

    Raises:
        LedgerChangedError: parts were replaced again and again meanwhile.
    """
    return retry_until_stable(lambda: _open(Path(run_dir), plan))


def retry_until_stable(read: Callable[[], T]) -> T:
    """Call ``read``, again if parts of the ledger were replaced meanwhile.

    Raises:
        LedgerChangedError: they were, each time.
    """
    for _ in range(OPENINGS - 1):
        try:
            return read()
        except LedgerChangedError:
            continue
    return read()


def _open(run_dir: Path, plan: pa.Table | None) -> Ledger:
    folder, fence = run_dir / "episodes", read_fence(run_dir)
    paths = sorted(part_files(folder), key=part_order)
    ledger = Ledger()
    found: list[tuple[LedgerPart, pa.Table]] = []
    replaced: set[str] = set()
    fenced: set[str] = set()
    for path in reversed(paths):  # a merged part comes after those that it replaces
        if path.name in replaced:
            continue
        try:
            part, rows = read_fingerprint(path)
            if not fence.admits(path.name, part.lease):
                fenced.add(path.name)
                continue
            ledger.schema = pa.unify_schemas([ledger.schema, part.schema])
        except (pa.ArrowException, OSError, ValueError) as error:
            ledger.damage.append(damage_of(path, error))
        else:
            replaced |= part.replaces
            found.append((part, rows))
    _check_unchanged(run_dir, paths, fence.mark)
    found.reverse()
    ledger.parts = tuple(part for part, _ in found)
    ledger.replaced = tuple(path for path in paths if path.name in replaced)
    ledger.fenced = tuple(path for path in paths if path.name in fenced)
    ledger.checked = check_rows([rows for _, rows in found], [part.path.name for part in ledger.parts], plan)
    ledger.damage += [Damage(ledger.parts[number].path, reason) for number, reason in ledger.checked.problems]
    ledger.damage.sort(key=lambda damage: part_order(damage.path))
    return ledger


def _check_unchanged(run_dir: Path, paths: Sequence[Path], mark: str) -> None:
    """See that since these parts were listed, and the fence had this mark, nothing has come that changes which parts count.

    Raises:
        LedgerChangedError: something has.
    """
    folder = run_dir / "episodes"
    added = set(part_files(folder)).difference(paths)
    if any(is_merged(path) for path in added):
        raise LedgerChangedError(str(folder))  # what it replaces may have gone before the first listing came to it
    if read_fence(run_dir).mark != mark:
        raise LedgerChangedError(str(folder))  # another driver has claimed the run: other parts count now


def _chosen_rows(
    part: LedgerPart, schema: pa.Schema, known: pa.Table, chosen: npt.NDArray[np.bool_]
) -> Iterator[pa.Table]:
    """The chosen rows of a part with the columns of ``schema``, of which the known ones are not read again."""
    unknown = pa.schema([item for item in schema if item.name not in known.column_names])
    read: Iterable[pa.Table] = [known]
    if len(unknown):
        read = read_batches(part.path, unknown)
    start = 0
    for table in read:
        here, beside = chosen[start : start + len(table)], known.slice(start, len(table))
        start += len(table)
        columns = []
        for name in schema.names:
            source = beside if name in beside.column_names else table
            columns.append(source[name])
        rows = pa.Table.from_arrays(columns, schema=schema)
        if here.all():
            yield rows
        elif here.any():
            yield rows.filter(pa.array(here))
