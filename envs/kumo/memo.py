"""A hash table in arrays, of limited size, for the compiled search."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from envs.kumo.tables import Floats, Integers, compiled, inlined

PROBES = 8
"""Slots that an entry may be away from its home."""
USED, FULL = 0, 1
"""Places in ``Memo.status``."""


class Memo(NamedTuple):
    """Hash table from game state to what is known: its value, or the negative of a lower bound."""

    keys: Integers
    values: Floats
    status: Integers
    """Number of slots used; whether the table asks to be grown."""
    limit: int
    """Slots beyond which it is never grown; entries are overwritten instead."""


def new_memo(slots: int, limit: int) -> Memo:
    """An empty memo; both numbers are powers of two."""
    slots = min(slots, limit)
    return Memo(np.zeros(slots, np.int64), np.zeros(slots), np.zeros(2, np.int64), limit)


@inlined
def home(memo: Memo, key: int) -> int:
    """The slot where the search for a key begins."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed ^ mixed >> np.uint64(32)) & np.uint64(memo.keys.size - 1))  # type: ignore[return-value]


@compiled
def look_up(memo: Memo, key: int) -> float:
    """See ``recall``."""
    return recall(memo, key)


@inlined
def recall(memo: Memo, key: int) -> float:
    """What the memo holds under a key, or 0."""
    slot, found = home(memo, key), 0.0
    for _ in range(PROBES):
        if memo.keys[slot] == key:
            found = memo.values[slot]
            break
        if memo.keys[slot] == 0:
            break
        slot = slot + 1 & memo.keys.size - 1
    return found


@compiled
def store(memo: Memo, key: int, value: float) -> None:
    """Remember what is known; asks for a larger table when half full, and overwrites once none larger is allowed."""
    start = home(memo, key)
    slot = start
    for _ in range(PROBES):
        if memo.keys[slot] == key or memo.keys[slot] == 0:
            break
        slot = slot + 1 & memo.keys.size - 1
    else:
        slot = start
    if memo.keys[slot] == 0:
        memo.status[USED] += 1
        if 2 * memo.status[USED] > memo.keys.size and memo.keys.size < memo.limit:
            memo.status[FULL] = 1
    memo.keys[slot] = key
    memo.values[slot] = value


@compiled
def rehash(old: Memo, new: Memo) -> None:
    """Fill a larger table from a smaller one."""
    for slot in range(old.keys.size):
        if old.keys[slot] != 0:
            store(new, old.keys[slot], old.values[slot])
