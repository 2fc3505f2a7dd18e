"""Trajectories in files: Parquet or JSON lines, written and read piece by piece."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from envs.disk import whole_file
from envs.files import FileError, read_json_lines
from envs.files.parquet import local, open_parquet
from evals.suites.kumo.lab.trajectories.plays import Row

SCHEMA = pa.schema(
    [
        pa.field("domain", pa.string(), nullable=False),
        pa.field("level", pa.string(), nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("index", pa.int64(), nullable=False),
        pa.field("play", pa.int64(), nullable=False),
        pa.field("book", pa.string(), nullable=False),
        pa.field("reasons", pa.bool_(), nullable=False),
        pa.field("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())])), nullable=False),
        pa.field("loss_mask", pa.list_(pa.int64()), nullable=False),
        pa.field("actions", pa.list_(pa.string()), nullable=False),
        pa.field("truths", pa.list_(pa.string()), nullable=False),
        pa.field("tests", pa.list_(pa.string()), nullable=False),
        pa.field("expected_tests", pa.float64(), nullable=False),
        pa.field("task", pa.string(), nullable=False),
    ]
)
KINDS = (".parquet", ".jsonl")
_ROWS = 500
"""Read at a time."""


class TrajectoryFileError(ValueError):
    """A file that cannot be written or read as one of trajectories; says which, and where."""


def check_new(path: Path, kinds: Sequence[str] = KINDS) -> None:
    """Refuse a name that is taken, of another kind, or in a folder that is not there.

    Args:
        path: Of the file to be.
        kinds: Endings that its name may have.

    Raises:
        TrajectoryFileError: see above.
    """
    if path.suffix not in kinds:
        raise TrajectoryFileError(f"{path}: trajectories are written as {' or '.join(kinds)}; end the name so")
    if not path.parent.is_dir():
        raise TrajectoryFileError(f"{path}: there is no folder {path.parent}")
    if path.exists():
        raise TrajectoryFileError(f"{path} is there already and is not overwritten; remove it or choose another name")


def write(path: Path, batches: Iterable[list[Row]], schema: pa.Schema = SCHEMA) -> None:
    """Write rows as they come; the file has its name only once it is complete.

    Args:
        path: Of the new file.
        batches: Its rows, some at a time.
        schema: Their columns.

    Raises:
        TrajectoryFileError: the name is taken, or of another kind.
        WriteError: it cannot be written.
    """
    check_new(path)
    with whole_file(path) as beside:
        if path.suffix == ".parquet":
            with pq.ParquetWriter(local(beside), schema, compression="zstd") as writer:
                for rows in batches:
                    writer.write_table(pa.Table.from_pylist(rows, schema))
        else:
            with beside.open("w", encoding="utf-8") as file:
                for rows in batches:
                    file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        check_new(path)


def read(path: Path) -> Iterator[Row]:
    """The rows of a file, one after the other.

    Raises:
        TrajectoryFileError: it cannot be read, or a row is no trajectory; the row is named.
    """
    try:
        for number, row in enumerate(_rows(path), 1):
            _check(row, f"{path}, row {number:,}")
            yield {"reasons": False, **row}
    except OSError as cause:
        why = cause.strerror or cause
        raise TrajectoryFileError(f"{path}: cannot be read: {why}") from None
    except FileError as cause:
        raise TrajectoryFileError(str(cause)) from None
    except pa.ArrowInvalid as cause:
        raise TrajectoryFileError(f"{path}: damaged: {cause}") from None


def _rows(path: Path) -> Iterator[Any]:
    if path.suffix == ".parquet":
        with open_parquet(path) as file:
            for batch in file.iter_batches(_ROWS):
                yield from batch.to_pylist()
        return
    for _, row in read_json_lines(path):
        yield row


def _check(row: Any, place: str) -> None:
    if not isinstance(row, Mapping):
        raise TrajectoryFileError(f"{place}: not a trajectory")
    needed = [name for name in SCHEMA.names if name != "reasons"]
    missing = [name for name in needed if row.get(name) is None]
    if missing:
        raise TrajectoryFileError(f"{place}: not a trajectory: {', '.join(missing)} missing")
    for column in SCHEMA:
        if column.name not in row:  # reasons, of a file from before there were any
            continue
        try:
            pa.array([row[column.name]], column.type)
        except (pa.ArrowException, OverflowError):
            raise TrajectoryFileError(f"{place}: not a trajectory: {column.name} must be {column.type}") from None
