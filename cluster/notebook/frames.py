"""Rows of a ledger as Arrow, pandas or polars; the latter two only where they are installed."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from evals.ledger.columns import TurnRow, columns_of
from evals.ledger.ledger import OF_TURNS
from evals.ledger.run_data import RunData

Frame = Literal["pandas", "polars", "arrow"]
FRAMES: Final = ("pandas", "polars", "arrow")
OF_EPISODE: Final = ("episode_id", "player", "suite", "task", "level", "mode", "index", "repeat", "success")
"""What a row of a turn says of its episode."""
TURN_COLUMNS: Final = tuple(columns_of(TurnRow))


def as_frame(table: pa.Table, frame: Frame) -> Any:
    """A table in the library that is asked for; its columns keep their types.

    Args:
        table: Arrow.
        frame: ``pandas`` gives Arrow's types (``pandas.ArrowDtype``): whole numbers stay whole where some are missing.

    Raises:
        ImportError: the library is not installed; it is named.
        ValueError: ``frame`` is another word.
    """
    if frame == "arrow":
        return table
    if frame not in FRAMES:
        raise ValueError(f"frame={frame!r}: is one of {', '.join(FRAMES)}")
    try:
        library = importlib.import_module(frame)
    except ImportError as error:
        missing = f"frame={frame!r}: {frame} is not installed here (pip install {frame}); frame='arrow' needs nothing"
        raise ImportError(missing) from error
    if frame == "polars":
        return library.from_arrow(table)
    return table.to_pandas(types_mapper=library.ArrowDtype)


def episodes_table(run: RunData, columns: Sequence[str] | None) -> pa.Table:
    """A row for each episode that counts.

    Args:
        run: Plan and ledger.
        columns: Stored names, in the order that is wanted; all but ``turns`` where none are given.

    Raises:
        ValueError: there is no such column.
    """
    table = run.episodes(columns)
    if columns is None:
        return table
    _check_known(columns, table.column_names, "episodes")
    return table.select(list(columns))


def turns_table(run: RunData, columns: Sequence[str] | None) -> pa.Table:
    """A row for each turn: its episode's ``OF_EPISODE``, its number from 0 as ``turn``, and its own columns.

    Args:
        run: Plan and ledger.
        columns: Of the turn (docs/ledger.md); all where none are given. What is not asked for is not read.

    Raises:
        ValueError: there is no such column; those that there are are named.
    """
    wanted = TURN_COLUMNS if columns is None else tuple(columns)
    _check_known(wanted, TURN_COLUMNS, "turns")
    # without any, one is read all the same: it says how many turns there are
    read = [f"{OF_TURNS}{name}" for name in wanted or ("finish",)]
    return pa.concat_tables(_turns(run.batches([*OF_EPISODE, *read]), wanted))


def _check_known(columns: Sequence[str], known: Sequence[str], rows: str) -> None:
    unknown = [name for name in columns if name not in known]
    if unknown:
        raise ValueError(f"{rows} have no column {', '.join(unknown)}; docs/ledger.md lists them")


def _turns(batches: Iterable[pa.Table], wanted: Sequence[str]) -> Iterable[pa.Table]:
    for batch in batches:
        episodes, turns = batch.select(OF_EPISODE), batch["turns"].combine_chunks()
        parents = pc.list_parent_indices(turns)
        flat = pc.list_flatten(turns)
        numbers: list[int] = []
        for count in pc.list_value_length(turns).to_pylist():
            numbers.extend(range(count or 0))
        rows = episodes.take(parents).append_column("turn", pa.array(numbers, pa.int32()))
        for name in wanted:
            rows = rows.append_column(name, pc.struct_field(flat, name))
        yield rows
