"""Reading a ledger: which parts there are, which of their rows count, and the rows themselves, a batch at a time.

A ledger is a folder of immutable Parquet parts. Opening one reads the few columns that identify rows and holds them
against the plan; everything else is read when asked for, so that a ledger may be much larger than memory. Parts may be
merged into larger ones meanwhile (``cluster.storage.compaction``): the larger part names those that it replaces, and a
reader ignores these.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evals.ledger.check import IDENTITY, CheckedRows, check_rows
from evals.ledger.columns import COLUMNS, METADATA, SCHEMA_VERSION, check_version, ledger_schema
from evals.ledger.records import PARQUET_OPTIONS

T = TypeVar("T")

REPLACES_KEY = b"raycade.replaces"
"""Where a part that was merged from others lists their names (JSON) in its metadata."""

READERS: Mapping[int, Callable[[pa.Table], pa.Table]] = {SCHEMA_VERSION: lambda table: table}
"""For each schema version that can be read: makes rows of a part rows of today's. Those of older versions come whole."""

OPENINGS = 5
"""Times that a ledger is opened anew because parts were replaced meanwhile."""
ROWS_AT_ONCE = 65_536
ROWS_WITH_TURNS_AT_ONCE = 2_000

_GONE = (errno.ENOENT, errno.ESTALE)


@dataclass(frozen=True)
class Damage:
    """A part that cannot be read, or rows in it that cannot count."""

    path: Path
    reason: str


class LedgerDamagedError(ValueError):
    """A ledger cannot be read whole."""

    def __init__(self, damage: Sequence[Damage]) -> None:
        """``damage`` names every part and what is wrong with it."""
        super().__init__("\n".join(f"  {each.path}: {each.reason}" for each in damage))
        self.damage = tuple(damage)


class LedgerChangedError(Exception):
    """Parts were replaced while they were read: open the ledger again."""


@dataclass(frozen=True)
class LedgerPart:
    """One sound part."""

    path: Path
    schema: pa.Schema
    replaces: frozenset[str]


@dataclass
class Ledger:
    """All parts of a ledger at one moment; ``open_ledger`` makes one."""

    parts: tuple[LedgerPart, ...] = ()
    damage: list[Damage] = field(default_factory=list)
    replaced: tuple[Path, ...] = ()
    """Parts that larger ones have replaced and that are still there."""
    schema: pa.Schema = field(default_factory=lambda: ledger_schema({}).remove_metadata())
    """All parts' columns."""
    checked: CheckedRows = field(default_factory=lambda: CheckedRows.of_none())

    @property
    def names(self) -> frozenset[str]:
        """The file names of all parts, replaced ones included; as parts never change, equal names mean equal ledgers."""
        return frozenset(path.name for path in (*(part.path for part in self.parts), *self.replaced))

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
            chosen = counts[start : start + rows]
            start += rows
            if chosen.any():
                yield from _chosen_rows(part, schema, chosen)

    def find(self, ids: Collection[str]) -> list[dict[str, Any]]:
        """The rows that count of some episodes, ``turns`` included, in the order of the parts; other rows are not read.

        Raises:
            LedgerDamagedError, LedgerChangedError: see ``batches``.
        """
        wanted, found, start = pa.array(list(ids), pa.string()), list[dict[str, Any]](), 0
        for part, rows in zip(self.parts, self.checked.rows, strict=True):
            counts = self.checked.latest[start : start + rows]
            start += rows
            here = pa.concat_tables(read_batches(part.path, pa.schema({"episode_id": pa.string()})))
            chosen = np.flatnonzero(np.asarray(pc.is_in(here["episode_id"], wanted)) & counts)
            if len(chosen):
                found += _rows_at(part.path, self.schema, chosen)
        return found

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows that count, in one table; see ``batches``."""
        return pa.concat_tables([self.empty(columns), *self.batches(columns)])

    def empty(self, columns: Sequence[str] | None = None) -> pa.Table:
        """A table with these columns and no row."""
        return self._schema(columns).empty_table()

    def _schema(self, columns: Sequence[str] | None) -> pa.Schema:
        wanted = {*self.schema.names} - {"turns"} if columns is None else columns
        return pa.schema([item for item in self.schema if item.name in wanted])


def open_ledger(run_dir: Path | str, plan: pa.Table | None = None) -> Ledger:
    """Look through a run's ledger; what is wrong with it is listed in ``damage`` and does not count.

    Args:
        run_dir: The run directory; its parts lie in ``episodes/*.parquet``. Without any, the ledger is empty.
        plan: The run's plan (``evals.ledger.records.PLAN_SCHEMA``); rows must be of its episodes, as it describes them.

    Raises:
        LedgerChangedError: parts were replaced again and again meanwhile.
    """
    return retry_until_stable(lambda: _open(Path(run_dir) / "episodes", plan))


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


def part_order(path: Path) -> tuple[int, str]:
    """Sorts parts in the order in which they were written."""
    found = re.match(r"part-(\d+)", path.name)
    return (int(found[1]) if found else 0, path.name)


def _open(folder: Path, plan: pa.Table | None) -> Ledger:
    paths = sorted(folder.glob("*.parquet"), key=part_order)
    ledger = Ledger()
    found: list[tuple[LedgerPart, pa.Table]] = []
    replaced: set[str] = set()
    for path in reversed(paths):  # a merged part comes after those that it replaces
        if path.name in replaced:
            continue
        try:
            part, rows = _read_fingerprint(path)
            ledger.schema = pa.unify_schemas([ledger.schema, part.schema])
        except (pa.ArrowException, OSError, ValueError) as error:
            ledger.damage.append(_damage(path, error))
        else:
            replaced |= part.replaces
            found.append((part, rows))
    if any(_is_merged(path) for path in set(folder.glob("*.parquet")).difference(paths)):
        raise LedgerChangedError(str(folder))  # what it replaces may have gone before the first listing came to it
    found.reverse()
    ledger.parts = tuple(part for part, _ in found)
    ledger.replaced = tuple(path for path in paths if path.name in replaced)
    ledger.checked = check_rows([rows for _, rows in found], [part.path.name for part in ledger.parts], plan)
    ledger.damage += [Damage(ledger.parts[number].path, reason) for number, reason in ledger.checked.problems]
    ledger.damage.sort(key=lambda damage: part_order(damage.path))
    return ledger


def _read_fingerprint(path: Path) -> tuple[LedgerPart, pa.Table]:
    """What a part is, and the columns that identify its rows.

    Raises:
        pyarrow.ArrowException, OSError: not a sound Parquet file.
        ValueError: not a part of a ledger, or one of an unknown version.
        LedgerChangedError: it is no longer there.
    """
    with open_part(path) as file:
        part = _describe(path, file)
        upgrade, names = _reader(file, IDENTITY)
        return part, upgrade(file.read(columns=names)).select(IDENTITY).replace_schema_metadata(None)


def describe_part(path: Path) -> LedgerPart:
    """What a part says of itself.

    Raises:
        LedgerDamagedError: it is no sound part of a ledger.
        LedgerChangedError: it is no longer there.
    """
    try:
        with open_part(path) as file:
            return _describe(path, file)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise LedgerDamagedError([_damage(path, error)]) from error


def _reader(file: pq.ParquetFile, names: Sequence[str]) -> tuple[Callable[[pa.Table], pa.Table], list[str] | None]:
    """What makes a part's rows of today's, and the columns to read for these ones: all of an older version's."""
    version = check_version(file.schema_arrow.metadata, READERS)
    return READERS[version], list(names) if version == SCHEMA_VERSION else None


def _describe(path: Path, file: pq.ParquetFile) -> LedgerPart:
    metadata = file.schema_arrow.metadata or {}
    upgrade = READERS[check_version(metadata, READERS)]
    schema = upgrade(file.schema_arrow.empty_table()).schema.remove_metadata()
    for name, column in COLUMNS.items():
        if name not in schema.names:
            raise ValueError(f"not a ledger part: it has no column {name!r}")
        if schema.field(name).type != column.type:
            raise ValueError(f"not a ledger part: column {name!r} is {schema.field(name).type}, not {column.type}")
    return LedgerPart(path, schema, frozenset(json.loads(metadata.get(REPLACES_KEY, b"[]"))))


def _is_merged(path: Path) -> bool:
    try:
        return bool(describe_part(path).replaces)
    except LedgerDamagedError:
        return False  # the next reading will find it


def open_part(path: Path) -> pq.ParquetFile:
    """A part's file, its checksums verified as it is read.

    Raises:
        LedgerChangedError: it is no longer there.
    """
    try:
        return pq.ParquetFile(path, page_checksum_verification=True)
    except OSError as error:
        raise _unless_gone(path, error) from error


def read_batches(path: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    """All rows of a part with the columns of ``schema``, those that it lacks null.

    Raises:
        LedgerDamagedError: it cannot be read.
        LedgerChangedError: it is no longer there.
    """
    size = ROWS_WITH_TURNS_AT_ONCE if "turns" in schema.names else ROWS_AT_ONCE
    try:
        with open_part(path) as file:
            upgrade, names = _reader(file, [*schema.names, "episode_id"])
            for batch in file.iter_batches(batch_size=size, columns=names):
                table = upgrade(pa.Table.from_batches([batch]))
                columns = [
                    table[item.name] if item.name in table.column_names else pa.nulls(len(table), item.type)
                    for item in schema
                ]
                yield pa.Table.from_arrays(columns, schema=schema)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise LedgerDamagedError([_damage(path, error)]) from error


def _rows_at(path: Path, schema: pa.Schema, places: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    """Rows of a part by their places, of the row groups that hold them alone."""
    found: list[dict[str, Any]] = []
    try:
        with open_part(path) as file:
            upgrade, names = _reader(file, schema.names)
            first = 0
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                here = places[(places >= first) & (places < first + rows)] - first
                first += rows
                if len(here):
                    table = upgrade(file.read_row_group(group, columns=names)).take(here)
                    found += [dict.fromkeys(schema.names) | row for row in table.to_pylist()]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise LedgerDamagedError([_damage(path, error)]) from error
    return found


def write_part(tables: Iterable[pa.Table], schema: pa.Schema, replaces: Iterable[str] = ()) -> bytes:
    """The content of a part.

    Args:
        tables: Its rows, one row group each.
        schema: Of all of them.
        replaces: Names of the parts that it was merged from.
    """
    extra = {REPLACES_KEY: json.dumps(sorted(replaces)).encode()} if replaces else {}
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema.with_metadata({**METADATA, **extra}), **PARQUET_OPTIONS) as writer:
        for table in tables:
            writer.write_table(table.replace_schema_metadata(writer.schema.metadata))
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _unless_gone(path: Path, error: Exception) -> Exception:
    if isinstance(error, OSError) and (error.errno in _GONE or not path.exists()):
        raise LedgerChangedError(path.name) from error
    return error


def _damage(path: Path, error: Exception) -> Damage:
    error = _unless_gone(path, error)
    return Damage(path, " ".join(str(error).split()) or type(error).__name__)


def _chosen_rows(part: LedgerPart, schema: pa.Schema, chosen: npt.NDArray[np.bool_]) -> Iterator[pa.Table]:
    start = 0
    for table in read_batches(part.path, schema):
        here = chosen[start : start + len(table)]
        start += len(table)
        if here.all():
            yield table
        elif here.any():
            yield table.filter(pa.array(here))
