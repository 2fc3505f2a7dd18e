"""Tables of values for game states with few surviving truths, each made when the search has come by often enough.

Many states that the search meets have two or three survivors, and differ only in which actions are left. So for a set of
truths the values for every choice of unused actions are worked out in one sweep, which takes a fraction of the time that
searching them one by one would. Actions that are alike on the set are counted, not told apart, which keeps tables short.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from envs.kumo.tables import Floats, Integers, Tables, compiled_lean, inlined

LARGEST = 3
"""Survivors up to which there are tables."""
LONGEST = 1 << 13
"""Entries of the longest table."""
ENTRIES = 1 << 21
"""Entries of all tables together: 16 MiB."""
RENT = 64
"""Entries of a table that cost about as much as searching one state: a table is made at the price of the search so far."""
NOT_YET, NEVER = 0, -1
"""In place of where a table begins."""
_NIBBLE = 16


class Endgames(NamedTuple):
    """The tables of one game; letters as in ``tables``, C is the number of nibbles (four actions each) of a set."""

    begin: Integers
    """(L,): where the table of a set of truths begins, ``NOT_YET`` or ``NEVER``."""
    visits: NDArray[np.int32]
    """(L,): how often the search has asked for a table."""
    offset: NDArray[np.int32]
    """(L, C, 16): what the unused actions of a nibble add to the place in the table."""
    value: Floats
    """The tables, one behind the other."""
    used: Integers
    """(1,): entries used."""
    member: Integers
    """(A, A): while a table is made, the actions of each kind."""
    kept: Integers
    """(A, S): the sets that a kind may leave, without those that end the game or change nothing."""
    share: Floats
    """(A, S + 1): their probabilities, and last that of no change."""
    kind: Integers
    """(A, 5): for each kind its actions, its stride, how many are unused, its outcomes, and what it can rule out."""


def new_endgames(tables: Tables) -> Endgames:
    """No tables yet."""
    actions, states = tables.keep.shape
    sets = tables.size.size
    return Endgames(
        np.zeros(sets, np.int64),
        np.zeros(sets, np.int32),
        np.zeros((sets, -(-actions // 4), _NIBBLE), np.int32),
        np.zeros(ENTRIES),
        np.ones(1, np.int64),
        np.zeros((actions, actions), np.int64),
        np.zeros((actions, states), np.int64),
        np.zeros((actions, states + 1)),
        np.zeros((actions, 5), np.int64),
    )


@inlined
def tabled(games: Endgames, left: int, unused: int) -> float:
    """The value of a state whose set of truths has a table."""
    place = games.begin[left]
    for nibble in range(games.offset.shape[1]):
        place += games.offset[left, nibble, unused >> 4 * nibble & 15]
    return games.value[place]  # type: ignore[no-any-return]


@compiled_lean
def settle(tables: Tables, games: Endgames, left: int) -> bool:
    """Count a visit to a set of truths, and make its table, and those of its subsets, if it is time.

    Returns:
        Whether there is a table now.
    """
    if games.begin[left] != NOT_YET:
        return bool(games.begin[left] > 0)
    games.visits[left] += 1
    length = 1
    for action in range(tables.keep.shape[0]):
        if tables.firsts[left] >> action & 1:
            alike, other = 1, action
            while tables.following[left, other] >= 0:
                alike, other = alike + 1, tables.following[left, other]
            length = min(length * (alike + 1), 2 * LONGEST)
    if length > LONGEST:
        games.begin[left] = NEVER
        return False
    if games.visits[left] * RENT < length:
        return False
    subset = 0
    while True:
        subset = subset - left & left
        if tables.size[subset] > tables.valid and games.begin[subset] == NOT_YET and not _make(tables, games, subset):
            games.begin[left] = NEVER
            return False
        if subset == left:
            return True


@compiled_lean
def _make(tables: Tables, games: Endgames, left: int) -> bool:
    """Make one table; those of all smaller sets are there. Whether there was room."""
    kinds, length = _sort(tables, games, left)
    begin = games.used[0]
    if length > LONGEST or begin + length > ENTRIES:
        return False
    games.used[0] += length
    unused = 0
    for place in range(begin, begin + length):
        able = 0
        for kind in range(kinds):
            if games.kind[kind, 2]:
                able |= games.kind[kind, 4]
        least = 0.0
        if able & left == left:
            least = np.inf
            for kind in range(kinds):
                count = games.kind[kind, 2]
                if count:
                    rest = unused & ~(1 << games.member[kind, count - 1])
                    steps = 1 + games.share[kind, -1] * games.value[place - games.kind[kind, 1]]
                    for state in range(games.kind[kind, 3]):
                        steps += games.share[kind, state] * tabled(games, games.kept[kind, state], rest)
                    least = min(least, steps)
        games.value[place] = least
        for kind in range(kinds):  # the next choice of unused actions
            count = games.kind[kind, 2]
            if count < games.kind[kind, 0]:
                unused |= 1 << games.member[kind, count]
                games.kind[kind, 2] += 1
                break
            for member in range(count):
                unused &= ~(1 << games.member[kind, member])
            games.kind[kind, 2] = 0
    games.begin[left] = begin
    return True


@compiled_lean
def _sort(tables: Tables, games: Endgames, left: int) -> tuple[int, int]:
    """Sort the actions into kinds alike on a set; the number of kinds, and the length of the table."""
    kinds, length = 0, 1
    games.offset[left] = 0
    for action in range(tables.keep.shape[0]):
        if not tables.firsts[left] >> action & 1:
            continue
        alike, other = 0, action
        while other >= 0:
            games.member[kinds, alike] = other
            alike += 1
            for unused in range(_NIBBLE):
                if unused >> other % 4 & 1:
                    games.offset[left, other // 4, unused] += length
            other = tables.following[left, other]
        outcomes, same = 0, 0.0
        for state in range(tables.keep.shape[1]):
            kept = left & tables.keep[action, state]
            share = tables.size[kept] * tables.number[action, state] * tables.scale[left, action]
            if kept == left:
                same += share
            elif share > 0 and tables.size[kept] > tables.valid:
                games.kept[kinds, outcomes], games.share[kinds, outcomes] = kept, share
                outcomes += 1
        games.share[kinds, -1] = same
        games.kind[kinds] = 0
        games.kind[kinds, 0], games.kind[kinds, 1] = alike, length
        games.kind[kinds, 3], games.kind[kinds, 4] = outcomes, tables.reach[action]
        kinds += 1
        length *= alike + 1
        if length > LONGEST:
            break
    return kinds, length
