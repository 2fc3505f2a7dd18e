"""Reading a ledger: which parts there are, which of their rows count, and the rows themselves, a batch at a time.

A ledger is a folder of immutable Parquet parts. Opening one reads the few columns that identify rows and holds them
against the plan; everything else is read when asked for, so that a ledger may be much larger than memory. Parts may be
merged into larger ones meanwhile (``cluster.storage.compaction``): the larger part names those that it replaces, and a
reader ignores these once it has seen that their rows are in it. It also ignores parts of a driver that had lost the run
directory to another one (``evals.ledger.lease``).
"""

from __future__ import annotations

import errno
import hashlib
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

from envs.files import parse_json, regular
from evals.ledger.check import CHECKED, CheckedRows, check_rows
from evals.ledger.columns import COLUMNS, METADATA, SCHEMA_VERSION, check_version, ledger_schema
from evals.ledger.lease import LEASE_KEY, read_fence
from evals.ledger.records import PARQUET_OPTIONS

T = TypeVar("T")

REPLACES_KEY = b"raycade.replaces"
"""Where a part that was merged from others lists their names (JSON) in its metadata."""
MERGED_KEY = b"raycade.merged"
"""Where such a part states the number and the digest of the rows that it was merged from; see ``RowDigest``."""

READERS: Mapping[int, Callable[[pa.Table], pa.Table]] = {SCHEMA_VERSION: lambda table: table}
"""For each schema version that can be read: makes rows of a part rows of today's. Those of older versions come whole."""

_NEVER_NULL = {"kept", "prompt", "role", "parts", "reply", "rule"}
"""Fields of a turn, and of its messages, without which it cannot be shown or read again."""

OF_TURNS = "turns."
"""Before the name of a field of ``turns`` that is read without the others, such as ``turns.finish``."""

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
    """Names of parts whose rows it holds; those that are still there have been compared with it."""
    lease: str = ""
    """The lease of the driver that wrote it; see ``evals.ledger.lease``."""


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


def part_order(path: Path) -> tuple[int, str]:
    """Sorts parts in the order in which they were written."""
    found = re.match(r"part-(\d+)", path.name)
    return (int(found[1]) if found else 0, path.name)


def _open(run_dir: Path, plan: pa.Table | None) -> Ledger:
    folder, fence = run_dir / "episodes", read_fence(run_dir)
    paths = sorted(folder.glob("*.parquet"), key=part_order)
    ledger = Ledger()
    found: list[tuple[LedgerPart, pa.Table]] = []
    replaced: set[str] = set()
    fenced: set[str] = set()
    for path in reversed(paths):  # a merged part comes after those that it replaces
        if path.name in replaced:
            continue
        try:
            part, rows = _read_fingerprint(path)
            if not fence.admits(path.name, part.lease):
                fenced.add(path.name)
                continue
            ledger.schema = pa.unify_schemas([ledger.schema, part.schema])
        except (pa.ArrowException, OSError, ValueError) as error:
            ledger.damage.append(_damage(path, error))
        else:
            replaced |= part.replaces
            found.append((part, rows))
    if any(_is_merged(path) for path in set(folder.glob("*.parquet")).difference(paths)):
        raise LedgerChangedError(str(folder))  # what it replaces may have gone before the first listing came to it
    if read_fence(run_dir).mark != fence.mark:
        raise LedgerChangedError(str(folder))  # another driver has claimed the run: other parts count now
    found.reverse()
    ledger.parts = tuple(part for part, _ in found)
    ledger.replaced = tuple(path for path in paths if path.name in replaced)
    ledger.fenced = tuple(path for path in paths if path.name in fenced)
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
        columns = list(CHECKED)
        upgrade, names = _reader(file, columns)
        return part, upgrade(file.read(columns=names)).select(columns).replace_schema_metadata(None)


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
    metadata = file.metadata.metadata or {}
    upgrade = READERS[check_version(metadata, READERS)]
    schema = upgrade(file.schema_arrow.empty_table()).schema.remove_metadata()
    for name, column in COLUMNS.items():
        if name not in schema.names:
            raise ValueError(f"not a ledger part: it has no column {name!r}")
        if schema.field(name).type != column.type:
            raise ValueError(f"not a ledger part: column {name!r} is {schema.field(name).type}, not {column.type}")
    lease = metadata.get(LEASE_KEY, b"").decode(errors="replace")
    return LedgerPart(path, schema, _checked_replaces(path, file, metadata), lease)


# --- merged parts ---


class RowDigest:
    """Number and digest of the attempts in a merged part, in their order."""

    def __init__(self) -> None:
        """Of no rows yet."""
        self._rows = 0
        self._hash = hashlib.sha256()

    def add(self, rows: pa.Table) -> None:
        """Further rows, with the columns ``episode_id`` and ``attempt``."""
        self._rows += len(rows)
        for key in _attempt_keys(rows).to_pylist():
            self._hash.update(f"{key}\n".encode())

    def stated(self) -> str:
        """As the part's metadata state it."""
        return f"{self._rows} {self._hash.hexdigest()}"


def _attempt_keys(rows: pa.Table) -> pa.ChunkedArray:
    """``ID/ATTEMPT`` of each row."""
    attempts = pc.fill_null(rows["attempt"].cast(pa.string()), "")
    return pc.binary_join_element_wise(pc.fill_null(rows["episode_id"], ""), attempts, "/")


def _checked_replaces(path: Path, file: pq.ParquetFile, metadata: Mapping[bytes, bytes]) -> frozenset[str]:
    """The parts that a part replaces, believed only if it holds all rows of those that are still there.

    Raises:
        ValueError: it does not, or its rows are not those that it was merged from.
    """
    names = _listed_names(metadata.get(REPLACES_KEY, b"[]"))
    if not names:
        return frozenset()
    rows = _attempts(file)
    digest = RowDigest()
    digest.add(rows)
    # parts without a lease were written before merged parts stated a digest
    if (MERGED_KEY in metadata or LEASE_KEY in metadata) and metadata.get(MERGED_KEY) != digest.stated().encode():
        raise ValueError("a merged part whose rows are not those that it says it was merged from")
    keys = _attempt_keys(rows)
    for name in names:
        other = path.with_name(name)
        if part_order(other) >= part_order(path):
            raise ValueError(f"says that it replaces {name}, which is not older")
        try:
            with open_part(other) as replaced:
                missing = pc.invert(pc.is_in(_attempt_keys(_attempts(replaced)), value_set=keys))
        except (LedgerChangedError, pa.ArrowException, OSError, ValueError):
            continue  # removed, as it should be; or no row of it can be read anyway
        if lacking := pc.sum(missing).as_py():
            raise ValueError(f"says that it replaces {name}, but lacks {lacking} of its rows")
    return frozenset(names)


def _listed_names(text: bytes) -> list[str]:
    """A list of file names in JSON.

    Raises:
        ValueError: it is something else.
    """
    names = parse_json(text, REPLACES_KEY.decode())
    if not isinstance(names, list) or not all(isinstance(name, str) and Path(name).name == name for name in names):
        raise ValueError(f"{REPLACES_KEY.decode()} is no list of file names")
    return names


def _attempts(file: pq.ParquetFile) -> pa.Table:
    upgrade, names = _reader(file, ("episode_id", "attempt"))
    return upgrade(file.read(columns=names)).select(("episode_id", "attempt"))


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
        return pq.ParquetFile(regular(path), page_checksum_verification=True)
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
            upgrade, names = _reader(file, [*_parquet_names(schema), "episode_id"])
            for batch in file.iter_batches(batch_size=size, columns=names):
                table = upgrade(pa.Table.from_batches([batch]))
                _check_turns(table)
                columns = [
                    table[item.name] if item.name in table.column_names else pa.nulls(len(table), item.type)
                    for item in schema
                ]
                yield pa.Table.from_arrays(columns, schema=schema)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise LedgerDamagedError([_damage(path, error)]) from error


def _check_turns(table: pa.Table) -> None:
    """See that the turns hold what every reader of them needs.

    Raises:
        ValueError: something of it is null.
    """
    if "turns" in table.column_names:
        for chunk in table["turns"].chunks:
            _check_filled(chunk, "turns")


def _check_filled(values: pa.Array, place: str) -> None:
    if values.null_count:
        raise ValueError(f"{place} is null")
    if pa.types.is_list(values.type):
        _check_filled(values.flatten(), place)
    elif pa.types.is_struct(values.type):
        parts = dict(zip(values.type.names, values.flatten(), strict=True))
        for name in _NEVER_NULL & parts.keys():
            _check_filled(parts[name], f"{place}.{name}")


def _parquet_names(schema: pa.Schema) -> list[str]:
    """The columns to read; of turns that are read in part, the leaves of the file."""
    names = []
    for item in schema:
        if item.name == "turns" and item.type != COLUMNS["turns"].type:
            names += [f"turns.list.element.{field.name}" for field in item.type.value_type]
        else:
            names.append(item.name)
    return names


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
                    _check_turns(table)
                    found += [dict.fromkeys(schema.names) | row for row in table.to_pylist()]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise LedgerDamagedError([_damage(path, error)]) from error
    return found


def write_part(tables: Iterable[pa.Table], schema: pa.Schema, replaces: Collection[str] = (), lease: str = "") -> bytes:
    """The content of a part.

    Args:
        tables: Its rows, one row group each.
        schema: Of all of them.
        replaces: Names of the parts that it was merged from.
        lease: Of the driver that writes it.
    """
    extra = {LEASE_KEY: lease.encode()} if lease else {}
    digest = RowDigest()
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema.with_metadata({**METADATA, **extra}), **PARQUET_OPTIONS) as writer:
        for table in tables:
            writer.write_table(table.replace_schema_metadata(writer.schema.metadata))
            if replaces:
                digest.add(table)
        if replaces:
            names = json.dumps(sorted(replaces))
            writer.add_key_value_metadata({REPLACES_KEY.decode(): names, MERGED_KEY.decode(): digest.stated()})
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
