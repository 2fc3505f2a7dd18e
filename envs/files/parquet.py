"""Parquet files: what a file would take in memory is bounded before any of it is read.

A file of a few kilobytes can stand for terabytes: a long text, stored once, that a million rows refer to, or a page that
compresses well. Its footer says how many values each of its columns has; the texts themselves are looked at only where
that does not settle it.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from envs.files.regular import MIB, FileError, regular

MOST_BYTES = 2048 * MIB
"""What any file may take in memory."""
MOST_RATIO = 1000
"""A larger file may take so many times its own size: prompts repeat one another."""
WIDEST_NUMBER = 8
"""Bytes."""


def local(path: str | Path) -> Path:
    """The path for pyarrow, which takes a relative one with a colon (``qwen3:8b/plan.parquet``) for the address of a store."""
    return Path(path).absolute()


def open_parquet(
    path: str | Path, columns: tuple[str, ...] = (), read: Collection[str] | None = None
) -> pq.ParquetFile:
    """A Parquet file, its checksums verified as it is read.

    Args:
        path: A regular file.
        columns: What it must have.
        read: What the caller may read of it, as ``ParquetFile.read`` takes names; all by default.

    Raises:
        OSError: it cannot be opened.
        pyarrow.ArrowException: it is no Parquet file.
        FileError: it has a column twice, lacks one, or ``read`` would take too much memory.
    """
    file = pq.ParquetFile(local(regular(path)), page_checksum_verification=True)
    try:
        names = file.schema_arrow.names
        _check_names(path, file.metadata.metadata or {}, names)
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise FileError(path, f"has the column {twice[0]!r} twice")
        missing = [name for name in columns if name not in names]
        if missing:
            raise FileError(path, f"has no column {missing[0]!r}")
        check_memory(path, file, read)
    except BaseException:
        file.close()
        raise
    return file


def _check_names(path: str | Path, metadata: Mapping[bytes, bytes], names: Sequence[str]) -> None:
    """See that no column was renamed by damage: the footer has no checksum, but Arrow stores the names there twice."""
    stored = metadata.get(b"ARROW:schema")
    if stored is None:
        return  # written by something else
    written = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(stored))).names  # opening the file has read it, too
    for name, other in zip(names, written, strict=False):
        if name != other:
            raise FileError(
                path, f"its footer is damaged: a column is named {name!r} in one place and {other!r} in another"
            )


def read_parquet(path: str | Path, columns: tuple[str, ...] = ()) -> pa.Table:
    """All rows of a Parquet file, of these columns or of all; errors as of ``open_parquet``."""
    with open_parquet(path, columns, columns or None) as file:
        table = file.read(columns=list(columns) or None)
    table.validate(full=True)  # texts may be no UTF-8
    return table


_sound: set[tuple[str, int, int, int, frozenset[str] | None]] = set()
"""Files that were checked: path, number, size, time of change, and what may be read of them."""


def check_memory(path: str | Path, file: pq.ParquetFile, read: Collection[str] | None = None) -> None:
    """See that the columns that are read (all by default) do not take too much memory.

    Raises:
        FileError: they would.
    """
    status = Path(path).stat()
    names = None if read is None else frozenset(read)
    version = (str(path), status.st_ino, status.st_size, status.st_mtime_ns, names)
    if version in _sound:  # a ledger's part is opened several times
        return
    leaves: Collection[int] = range(file.metadata.num_columns)
    if names is not None:
        leaves = _leaves_of(file, names)
    most = max(MOST_BYTES, MOST_RATIO * status.st_size)
    _check_leaves(Path(path), file.metadata, leaves, most)
    _sound.add(version)


def _leaves_of(file: pq.ParquetFile, names: Collection[str]) -> list[int]:
    """The leaves that names stand for: a column's own, and all that are nested in it."""
    within = tuple(f"{name}." for name in names)
    leaves = []
    for leaf in range(file.metadata.num_columns):
        path = file.schema.column(leaf).path
        if path in names or path.startswith(within):
            leaves.append(leaf)
    return leaves


def _check_leaves(path: Path, footer: pq.FileMetaData, leaves: Collection[int], most: int) -> None:
    groups = range(footer.num_row_groups)
    bounds: dict[int, int] = {}
    names: dict[int, str] = {}
    texts: list[int] = []
    for leaf in leaves:
        bounds[leaf] = sum(_bound(footer, group, leaf) for group in groups)
        names[leaf] = footer.schema.column(leaf).path
        if any(_has_dictionary(footer, group, leaf) for group in groups):
            texts.append(leaf)
    # Mostly the footer settles it.
    if sum(bounds.values()) <= most:
        return
    # Of a column of texts it does not tell: these are read, one by one until the sum is small enough, those that may take most
    # of all first.
    texts.sort(key=lambda leaf: bounds[leaf], reverse=True)
    with pq.ParquetFile(local(path), read_dictionary=[names[leaf] for leaf in texts]) as file:
        for leaf in texts:
            stored = sum(footer.row_group(group).column(leaf).total_uncompressed_size for group in groups)
            bounds[leaf] = stored + _text_bytes(file, names[leaf])
            if sum(bounds.values()) <= most:
                return
    total = sum(bounds.values())
    raise FileError(path, f"would take {total:,} bytes of memory, where at most {most:,} are read")


def _has_dictionary(footer: pq.FileMetaData, group: int, leaf: int) -> bool:
    """Whether a column stores each of its texts once, and numbers in their places."""
    chunk = footer.row_group(group).column(leaf)
    return bool(chunk.physical_type.endswith("BYTE_ARRAY") and chunk.has_dictionary_page)


def _bound(footer: pq.FileMetaData, group: int, leaf: int) -> int:
    """The most bytes that a column of a row group can take, as far as the footer tells."""
    chunk = footer.row_group(group).column(leaf)
    stored = max(0, chunk.total_uncompressed_size)
    values = max(0, chunk.num_values, footer.row_group(group).num_rows)
    # No text of a dictionary, or of one that repeats the beginning of the text before, is longer than the whole column as
    # it is stored.
    repeats = _has_dictionary(footer, group, leaf) or "DELTA_BYTE_ARRAY" in chunk.encodings
    return int(stored + values * (stored if repeats else WIDEST_NUMBER))


def _text_bytes(file: pq.ParquetFile, name: str) -> int:
    """The bytes that a column of texts takes in truth; its texts are read once in each row group, however often they occur."""
    groups = list(range(file.num_row_groups))
    readings = [groups]
    if "." in name:
        # Arrow reads a dictionary within lists from one row group at a time only.
        readings = [[group] for group in groups]
    total = 0
    for some in readings:
        for batch in file.iter_batches(65_536, some, [name]):
            for column in batch.columns:
                total += _bytes_of(_innermost(column))
    return int(total)


def _bytes_of(texts: pa.Array) -> int:
    """The bytes of texts; of those in a dictionary, each is stored once and counts wherever it occurs."""
    if not isinstance(texts, pa.DictionaryArray):
        return int(texts.nbytes)
    of_each = pc.binary_length(texts.dictionary)
    lengths = of_each.take(texts.indices)
    return int(pc.sum(lengths).as_py() or 0)  # the sum of no lengths is null


def _innermost(values: pa.Array) -> pa.Array:
    """The only leaf of a nested array."""
    while pa.types.is_list(values.type) or pa.types.is_struct(values.type) or pa.types.is_large_list(values.type):
        values = values.flatten()[0] if pa.types.is_struct(values.type) else values.flatten()
    return values
