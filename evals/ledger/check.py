"""Which rows of a ledger count: those that the plan knows, as it describes them, each attempt once, the latest only.

Everything here works on whole columns: a ledger may have millions of rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evals.ledger.columns import COLUMNS

Mask = npt.NDArray[np.bool_]

PLANNED = ("suite", "task", "level", "mode", "index", "repeat", "seed", "player")
"""What a row repeats of its episode's row in the plan."""

MOST_ATTEMPTS = 10**6
"""At an episode: each is one more than the one before."""

IDENTITY = ("episode_id", *PLANNED, "status", "error", "success", "attempt")
"""The columns that decide whether a row counts."""

AMOUNTS = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens", "seconds", "cost")
"""What is summed over rows; null where nothing was measured."""

MOST = 2**53
"""Of an amount: up to here floating-point numbers count every integer, and sums of 64-bit integers do not overflow."""

BOUNDS: Mapping[str, int] = {**dict.fromkeys(AMOUNTS, MOST), "score": 1, "steps": MOST}
"""The most that a number may be; the least is 0."""

CHECKED = (*IDENTITY, *BOUNDS)
"""The columns that ``check_rows`` needs."""


@dataclass(frozen=True)
class CheckedRows:
    """Which rows of some parts count."""

    rows: tuple[int, ...]
    """Of each part."""
    columns: pa.Table
    """What was checked, ``CHECKED``, of all parts' rows in a row."""
    sound: Mask
    """For all parts' rows in a row: nothing is wrong with it."""
    latest: Mask
    """It is sound, and of its episode's attempts the latest."""
    problems: tuple[tuple[int, str], ...]
    """Parts by number and what is wrong with rows in them."""

    @classmethod
    def of_none(cls) -> CheckedRows:
        """No part."""
        nothing = pa.schema({name: COLUMNS[name].type for name in CHECKED}).empty_table()
        return cls((), nothing, np.zeros(0, bool), np.zeros(0, bool), ())


def check_rows(parts: Sequence[pa.Table], names: Sequence[str], plan: pa.Table | None) -> CheckedRows:
    """Check every row of a ledger.

    Args:
        parts: The columns ``CHECKED`` of each part.
        names: The parts' names, for messages.
        plan: What was planned; None to take every episode.
    """
    if not parts:
        return CheckedRows.of_none()
    rows = pa.concat_tables([part.select(CHECKED) for part in parts]).combine_chunks()
    sizes = tuple(len(part) for part in parts)
    part_of = np.repeat(np.arange(len(parts)), sizes)
    found = _Problems(rows["episode_id"], part_of)
    _check_outcomes(rows, found)
    _check_amounts(rows, found)
    attempts = _numbers(rows["attempt"])
    found.add((attempts < 1) | (attempts > MOST_ATTEMPTS), lambda row: "has no number of its attempt")
    if plan is None:
        episodes = _numbers(rows["episode_id"].combine_chunks().dictionary_encode().indices)
    else:
        episodes = _numbers(pc.index_in(rows["episode_id"], value_set=plan["episode_id"]))
        found.add(episodes < 0, lambda row: "is not in the plan")
        for name, differs in _relabeled(rows, plan, episodes).items():
            found.add(differs, functools.partial(_says_otherwise, name, rows[name]))
    # By episode, then attempt: rows of one attempt stand side by side, and an episode's latest attempt last.
    order = np.lexsort((attempts, episodes))  # stable: equal attempts stay in the order of the parts
    order = order[~found.any[order]]
    # A row that repeats the attempt before it; the first in the order of the parts is kept.
    again = _same_as_before(episodes[order]) & _same_as_before(attempts[order])
    first = np.arange(len(rows))
    first[order] = order[np.maximum.accumulate(np.where(again, 0, np.arange(len(order))))]
    found.add(first != np.arange(len(rows)), lambda row: f"occurs again (first in {names[int(part_of[first[row]])]})")
    order = order[~again]
    last = ~np.append(_same_as_before(episodes[order])[1:], False)[: len(order)]
    return CheckedRows(sizes, rows, ~found.any, _mask_of(order[last], len(rows)), tuple(found.reasons))


def _says_otherwise(name: str, values: pa.ChunkedArray, row: int) -> str:
    return f"has {name} {values[row]}; the plan says otherwise"


def _check_outcomes(rows: pa.Table, found: _Problems) -> None:
    status = rows["status"]
    done, failed = _is_one_of(status, "done"), _is_one_of(status, "failed")
    found.add(~(done | failed), lambda row: f"has status {status[row]}")
    found.add(failed & _is_one_of(rows["error"], "", None), lambda row: "failed without a cause")
    found.add(done & np.asarray(pc.is_null(rows["success"])), lambda row: "is done but has no success")


def _check_amounts(rows: pa.Table, found: _Problems) -> None:
    for name, most in BOUNDS.items():
        values = rows[name]
        sane = pc.and_(pc.greater_equal(values, 0), pc.less_equal(values, most))  # false for nan
        found.add(~np.asarray(pc.fill_null(sane, True)), functools.partial(_is_out_of_bounds, name, values, most))


def _is_out_of_bounds(name: str, values: pa.ChunkedArray, most: int, row: int) -> str:
    upper = "2**53" if most == MOST else most
    return f"has {name} {values[row]}, which is no number from 0 to {upper}"


def _same_as_before(values: npt.NDArray[np.int64]) -> Mask:
    """Where a value equals the one before it."""
    return np.append([False], values[1:] == values[:-1])[: len(values)]


def _mask_of(rows: npt.NDArray[np.int64], size: int) -> Mask:
    mask = np.zeros(size, bool)
    mask[rows] = True
    return mask


class _Problems:
    """Rows that cannot count, summed up for each part."""

    def __init__(self, ids: pa.ChunkedArray, part_of: npt.NDArray[np.int64]) -> None:
        self.any = np.zeros(len(ids), bool)
        self.reasons: list[tuple[int, str]] = []
        self._ids, self._part_of = ids, part_of

    def add(self, mask: Mask, reason: Callable[[int], str]) -> None:
        """Note the rows of ``mask`` that are not known to be wrong yet; ``reason(row)`` says why of the first."""
        rows = np.flatnonzero(mask & ~self.any)
        self.any[rows] = True
        parts, starts, counts = np.unique(self._part_of[rows], return_index=True, return_counts=True)
        for part, start, count in zip(parts.tolist(), starts.tolist(), counts.tolist(), strict=True):
            row = int(rows[start])
            more = f"; so with {count - 1} more rows" if count > 1 else ""
            self.reasons.append((part, f"episode {self._ids[row]} {reason(row)}{more}"))


def _relabeled(rows: pa.Table, plan: pa.Table, episodes: npt.NDArray[np.int64]) -> dict[str, Mask]:
    """For each planned column: rows that say otherwise than the plan, and those that it lacks."""
    where = pa.array(episodes, mask=episodes < 0)
    found = {}
    for name in PLANNED:
        planned = plan[name].combine_chunks().take(where)
        same = pc.fill_null(pc.equal(rows[name].combine_chunks(), planned), False)
        found[name] = ~np.asarray(same)
    return found


def _is_one_of(values: pa.ChunkedArray, *known: str | None) -> Mask:
    mask: Mask = np.asarray(pc.is_in(values, pa.array(known)))
    return mask


def _numbers(values: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Whole numbers, -1 for null."""
    numbers: npt.NDArray[np.int64] = np.asarray(pc.fill_null(values.cast(pa.int64()), -1))
    return numbers
