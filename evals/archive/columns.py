"""The columns of the list as small numbers: what the page filters, sorts and counts."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

MOST_VALUES: Final = 65_536
"""Different values that a column may have to be stored as numbers of values."""
WIDTHS: Final = (np.uint8, np.uint16, np.uint32)
ID_BYTES: Final = 16


def pack(table: pa.Table) -> tuple[list[dict[str, Any]], bytes]:
    """Each column's name, type and values, and the numbers of all columns one after another, each padded to 8 bytes.

    A column is stored in one of three ways: ``ids`` (16 bytes each, from 32 hexadecimal digits), ``values`` (the number of
    each row's value among ``values``, which are sorted, null last), or ``numbers`` (float32, nan for null).
    """
    heads, tails = [], []
    for name in table.column_names:
        head, numbers = _packed(table[name])
        content = numbers.tobytes()
        heads.append({"name": name, "type": str(numbers.dtype), **head})
        tails.append(content + bytes(-len(content) % 8))
    return heads, b"".join(tails)


def _packed(column: pa.ChunkedArray) -> tuple[dict[str, Any], NDArray[Any]]:
    values = pc.unique(column)
    is_text = pa.types.is_string(column.type)
    if is_text and len(values) == len(column) and _all_ids(column):
        digits = bytes.fromhex("".join(column.to_pylist()))
        return {"kind": "ids"}, np.frombuffer(digits, np.uint8)
    if len(values) > MOST_VALUES and not is_text:
        numbers = pc.fill_null(pc.cast(column, pa.float64()), float("nan")).to_numpy()
        return {"kind": "numbers"}, numbers.astype(np.float32)
    known = values.drop_null()
    known = known.take(pc.sort_indices(known))
    places = pc.fill_null(pc.index_in(column, value_set=known), len(known)).to_numpy()
    listed = known.to_pylist() + [None] * (len(known) < len(values))
    return {"kind": "values", "values": _finite(listed)}, places.astype(smallest(len(listed)))


def smallest(count: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type that holds the numbers below ``count``."""
    return next(width for width in WIDTHS if count <= np.iinfo(width).max + 1)


def _all_ids(column: pa.ChunkedArray) -> bool:
    pattern = f"^[0-9a-f]{{{2 * ID_BYTES}}}$"
    return bool(pc.all(pc.match_substring_regex(column, pattern)).as_py())


def _finite(values: list[Any]) -> list[Any]:
    """The values without nan and infinity, which JSON does not have."""
    return [value if not isinstance(value, float) or np.isfinite(value) else None for value in values]
