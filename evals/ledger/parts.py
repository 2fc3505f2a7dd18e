"""One part of a ledger: reading it with its checks, writing it, and what a merged part says of those that it replaces."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from envs.files import parse_json
from envs.files.parquet import check_memory, open_parquet
from evals.ledger.check import CHECKED
from evals.ledger.columns import COLUMNS, METADATA, SCHEMA_VERSION, check_version
from evals.ledger.lease import LEASE_KEY, MOST_DIGITS
from evals.ledger.records import PARQUET_OPTIONS

REPLACES_KEY = b"raycade.replaces"
"""Where a part that was merged from others lists their names (JSON) in its metadata."""
MERGED_KEY = b"raycade.merged"
"""Where such a part states the number and the digest of the rows that it was merged from; see ``RowDigest``."""

READERS: Mapping[int, Callable[[pa.Table], pa.Table]] = {SCHEMA_VERSION: lambda table: table}
"""For each schema version that can be read: makes rows of a part rows of today's. Those of older versions come whole."""

_NEVER_NULL = {"kept", "prompt", "role", "parts", "reply", "rule"}
"""Fields of a turn, and of its messages, without which it cannot be shown or read again."""

ROWS_AT_ONCE = 65_536
ROWS_WITH_TURNS_AT_ONCE = 2_000

_ATTEMPT = ("episode_id", "attempt")
"""What tells the attempts in a part apart."""

_GONE = (errno.ENOENT, errno.ESTALE)
_HINDRANCES = (errno.EACCES, errno.EPERM, errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE)


@dataclass(frozen=True)
class Damage:
    """A part that cannot be read, or rows in it that cannot count."""

    path: Path
    reason: str
    may_be_sound: bool = False
    """Whether only this process cannot read it (``hindered``)."""


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


def part_order(path: Path) -> tuple[int, str]:
    """Sorts parts in the order in which they were written."""
    found = re.match(rf"part-([0-9]{{1,{MOST_DIGITS}}})(?![0-9])", path.name)
    return (int(found[1]) if found else 0, path.name)


def read_fingerprint(path: Path) -> tuple[LedgerPart, pa.Table]:
    """What a part is, and the columns that identify its rows.

    Raises:
        pyarrow.ArrowException, OSError: not a sound Parquet file.
        ValueError: not a part of a ledger, or one of an unknown version.
        LedgerChangedError: it is no longer there.
    """
    columns = list(CHECKED)
    with open_part(path, columns) as file:
        schema = _checked_schema(file)
        upgrade, names = _reader(path, file, columns)
        rows = upgrade(file.read(columns=names)).select(columns).replace_schema_metadata(None)
        rows.validate(full=True)  # texts may be no UTF-8
        return _describe(path, file, schema, lambda: rows), rows


def describe_part(path: Path) -> LedgerPart:
    """What a part says of itself.

    Raises:
        LedgerDamagedError: it is no sound part of a ledger.
        LedgerChangedError: it is no longer there.
    """
    try:
        with open_part(path, _ATTEMPT) as file:
            return _describe(path, file, _checked_schema(file), lambda: _attempts(path, file))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise LedgerDamagedError([damage_of(path, error)]) from error


def _reader(
    path: Path, file: pq.ParquetFile, names: Sequence[str]
) -> tuple[Callable[[pa.Table], pa.Table], list[str] | None]:
    """What makes a part's rows of today's, and the columns to read for these ones: all of an older version's."""
    version = check_version(file.metadata.metadata, READERS)
    if version == SCHEMA_VERSION:
        return READERS[version], list(names)
    check_memory(path, file)
    return READERS[version], None


def _checked_schema(file: pq.ParquetFile) -> pa.Schema:
    """A part's columns, as of today's version."""
    version = check_version(file.metadata.metadata or {}, READERS)
    stored = file.schema_arrow.remove_metadata()
    schema = stored
    if version != SCHEMA_VERSION:
        schema = READERS[version](stored.empty_table()).schema.remove_metadata()
    names = set(schema.names)
    for name, column in COLUMNS.items():
        if name not in names:
            raise ValueError(f"not a ledger part: it has no column {name!r}")
        if schema.field(name).type != column.type:
            raise ValueError(f"not a ledger part: column {name!r} is {schema.field(name).type}, not {column.type}")
    return schema


def _describe(path: Path, file: pq.ParquetFile, schema: pa.Schema, attempts: Callable[[], pa.Table]) -> LedgerPart:
    """What a part says of itself; ``attempts`` gives the columns ``_ATTEMPT`` of its rows, which merged parts need."""
    metadata = file.metadata.metadata or {}
    lease = metadata.get(LEASE_KEY, b"").decode(errors="replace")
    return LedgerPart(path, schema, _checked_replaces(path, metadata, attempts), lease)


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
        # Of the keys with a line break after each, joined by Arrow: Python's strings cost more than reading the rows.
        lines = pc.binary_join_element_wise(_attempt_keys(rows), "", "\n").combine_chunks()
        joined = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "")
        self._hash.update(joined[0].as_buffer())

    def stated(self) -> str:
        """As the part's metadata state it."""
        return f"{self._rows} {self._hash.hexdigest()}"


def _attempt_keys(rows: pa.Table) -> pa.ChunkedArray:
    """``ID/ATTEMPT`` of each row."""
    attempts = pc.fill_null(rows["attempt"].cast(pa.string()), "")
    return pc.binary_join_element_wise(pc.fill_null(rows["episode_id"], ""), attempts, "/")


def _checked_replaces(path: Path, metadata: Mapping[bytes, bytes], attempts: Callable[[], pa.Table]) -> frozenset[str]:
    """The parts that a part replaces, believed only if it holds all rows of those that are still there."""
    names = _listed_names(metadata.get(REPLACES_KEY, b"[]"))
    if not names:
        return frozenset()
    rows = attempts()
    _check_digest(rows, metadata)
    _check_older(names, path)
    still_there = sorted({entry.name for entry in os.scandir(path.parent)} & {*names})
    keys = _attempt_keys(rows) if still_there else None
    for name in still_there:
        lacking = _lacking(path.with_name(name), keys)
        if lacking:
            raise ValueError(f"says that it replaces {name}, but lacks {lacking} of its rows")
    return frozenset(names)


def _check_digest(rows: pa.Table, metadata: Mapping[bytes, bytes]) -> None:
    digest = RowDigest()
    digest.add(rows)
    # Parts without a lease were written before merged parts stated a digest.
    states_digest = MERGED_KEY in metadata or LEASE_KEY in metadata
    if states_digest and metadata.get(MERGED_KEY) != digest.stated().encode():
        raise ValueError("a merged part whose rows are not those that it says it was merged from")


def _check_older(names: Iterable[str], path: Path) -> None:
    order = part_order(path)
    for name in names:
        if part_order(Path(name)) >= order:
            raise ValueError(f"says that it replaces {name}, which is not older")


def _lacking(part: Path, keys: pa.Array) -> int:
    """How many rows of a part are not among these keys; none where it cannot be read."""
    try:
        with open_part(part, _ATTEMPT) as file:
            missing = pc.invert(pc.is_in(_attempt_keys(_attempts(part, file)), value_set=keys))
    except (LedgerChangedError, pa.ArrowException, OSError, ValueError):
        return 0  # removed, as it should be; or no row of it can be read anyway
    lacking: int | None = pc.sum(missing).as_py()
    return lacking or 0


def _listed_names(text: bytes) -> list[str]:
    """A list of file names in JSON."""
    names = parse_json(text, REPLACES_KEY.decode())
    if not isinstance(names, list) or not all(isinstance(name, str) and Path(name).name == name for name in names):
        raise ValueError(f"{REPLACES_KEY.decode()} is no list of file names")
    return names


def _attempts(path: Path, file: pq.ParquetFile) -> pa.Table:
    upgrade, names = _reader(path, file, _ATTEMPT)
    return upgrade(file.read(columns=names)).select(_ATTEMPT)


def is_merged(path: Path) -> bool:
    """Whether a part was merged from others; an unsound one was not."""
    try:
        return bool(describe_part(path).replaces)
    except LedgerDamagedError:
        return False  # the next reading will find it


def open_part(path: Path, read: Sequence[str] | None = None) -> pq.ParquetFile:
    """A part's file, of which these columns are read, or all; its checksums are verified meanwhile.

    Raises:
        LedgerChangedError: it is no longer there.
    """
    try:
        return open_parquet(path, read=read)
    except OSError as error:
        raise _unless_gone(path, error) from error


def read_batches(path: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    """All rows of a part with the columns of ``schema``, those that it lacks null.

    Raises:
        LedgerDamagedError: it cannot be read.
        LedgerChangedError: it is no longer there.
    """
    size = ROWS_WITH_TURNS_AT_ONCE if "turns" in schema.names else ROWS_AT_ONCE
    wanted = [
        *_parquet_names(schema),
        "attempt",
    ]  # a narrow one, by which rows are counted where all others are lacking
    try:
        with open_part(path, wanted) as file:
            upgrade, names = _reader(path, file, wanted)
            for batch in file.iter_batches(batch_size=size, columns=names):
                table = upgrade(pa.Table.from_batches([batch]))
                check_values(table)
                columns = []
                for item in schema:
                    is_there = item.name in table.column_names
                    columns.append(table[item.name] if is_there else pa.nulls(len(table), item.type))
                yield pa.Table.from_arrays(columns, schema=schema)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise LedgerDamagedError([damage_of(path, error)]) from error


def check_values(table: pa.Table) -> None:
    """See that all texts are UTF-8 and that the turns hold what every reader of them needs.

    Raises:
        ValueError: a text is not, or something of the turns is null.
    """
    table.validate(full=True)
    if "turns" in table.column_names:
        for chunk in table["turns"].chunks:
            _check_filled(chunk, "turns")


def _check_filled(values: pa.Array, place: str) -> None:
    if values.null_count:
        raise ValueError(f"{place} is null")
    if pa.types.is_list(values.type):
        _check_filled(values.flatten(), place)
        return
    if not pa.types.is_struct(values.type):
        return
    parts = dict(zip(values.type.names, values.flatten(), strict=True))
    for name, below in parts.items():
        if name in _NEVER_NULL:
            _check_filled(below, f"{place}.{name}")
    if {"text", "picture"} <= parts.keys():
        _check_parts(parts["text"], parts["picture"], place)


def _check_parts(texts: pa.Array, pictures: pa.Array, place: str) -> None:
    """Each part of a message is a text or a picture."""
    is_one = pc.xor(pc.is_valid(texts), pc.is_valid(pictures))
    if not pc.all(is_one, min_count=0).as_py():
        raise ValueError(f"{place} has a part that is neither a text nor a picture, or both")


def _parquet_names(schema: pa.Schema) -> list[str]:
    """The columns to read; of turns that are read in part, the leaves of the file."""
    names = []
    for item in schema:
        if item.name == "turns" and item.type != COLUMNS["turns"].type:
            names += [f"turns.list.element.{field.name}" for field in item.type.value_type]
        else:
            names.append(item.name)
    return names


def rows_at(path: Path, schema: pa.Schema, places: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    """Rows of a part by their places, of the row groups that hold them alone."""
    found: list[dict[str, Any]] = []
    try:
        with open_part(path) as file:
            upgrade, names = _reader(path, file, schema.names)
            first = 0
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                here = places[(places >= first) & (places < first + rows)] - first
                first += rows
                if len(here):
                    table = upgrade(file.read_row_group(group, columns=names)).take(here)
                    check_values(table)
                    found += [dict.fromkeys(schema.names) | row for row in table.to_pylist()]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise LedgerDamagedError([damage_of(path, error)]) from error
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
    # No driver writes links, so nobody will replace one that leads nowhere or in a circle.
    if not isinstance(error, OSError) or path.is_symlink():
        return error
    if error.errno in _GONE or not path.exists():
        raise LedgerChangedError(path.name) from error
    return error


def damage_of(path: Path, error: Exception) -> Damage:
    """What is wrong with a part that cannot be read.

    Raises:
        LedgerChangedError: it is no longer there.
    """
    error = _unless_gone(path, error)
    return Damage(path, " ".join(str(error).split()) or type(error).__name__, hindered(error))


def hindered(error: BaseException) -> bool:
    """Whether a file that may be sound cannot be read by this process: it lacks permission, memory or file handles.

    Or the file's path is no UTF-8 text, which readers of Parquet need.
    """
    if isinstance(error, MemoryError | UnicodeEncodeError):
        return True
    if isinstance(error, OSError) and error.errno in _HINDRANCES:
        return True
    # Arrow's words for a thread that cannot be started.
    return "Resource temporarily unavailable" in str(error)
