"""The compiled heart of the optimal search: exact expected numbers of tests over (surviving truths, unused actions).

Truth sets and action sets are bitmasks. Three things make it fast without changing any value. Game states are folded:
actions that can rule out no surviving truth are dropped from the unused ones, and actions that have become alike on the
surviving truths are exchanged for each other. Values are searched only as far as they can matter: below a limit, best
action first, with a lower bound from the relaxed game in which actions may be repeated. And what is known of a state,
its value or a bound, is kept in a hash table of limited size.

Machine code is cached in this package's ``__pycache__``; where that cannot be written, in numba's directory for the user
(or ``NUMBA_CACHE_DIR``); where neither can, it is compiled anew in each process, which takes some seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])
Integers = NDArray[np.int64]

PROBES = 8
USED, FULL = 0, 1


def compiled(function: Function) -> Function:
    """Compile with numba, and keep the machine code on disk where there is a place for it."""
    try:
        return numba.njit(cache=True)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # numba finds no writable place for its cache
        return numba.njit(function)  # type: ignore[no-any-return]


class Game(NamedTuple):
    """A game as arrays: T truths, A actions, at most S distinct outcomes each, L subsets of truths (2**T)."""

    keep: Integers
    """(A, S): the truths that an outcome leaves."""
    number: Integers
    """(A, S): how many of the action's states have this outcome; 0 is padding."""
    size: Integers
    """(L,): number of truths in a set."""
    able: Integers
    """(T,): the actions that can rule a truth out."""
    relevant: Integers
    """(L,): the actions that can rule something out of a set."""
    first: Integers
    """(L, A): the first action alike on a set."""
    following: Integers
    """(L, A): the next action alike on a set, or -1."""
    bound: NDArray[np.float64]
    """(K, L): expected tests of the relaxed game that ends for free after k tests; see ``lower_bounds``."""


class Memo(NamedTuple):
    """Hash table with linear probing from key to what is known: a value, or the negative of a lower bound."""

    keys: Integers
    values: NDArray[np.float64]
    status: Integers
    """Number of slots used; whether the table asks to be grown."""
    limit: int
    """Slots beyond which it is never grown; old entries are overwritten instead."""


@compiled
def subset_tables(keep: Integers, count: Integers, truths: int) -> tuple[Integers, Integers, Integers, Integers, Integers]:
    """The fields ``size, able, relevant, first, following`` of ``Game``."""
    actions, states = keep.shape
    sets = 1 << truths
    size = np.zeros(sets, np.int64)
    for left in range(1, sets):
        size[left] = size[left >> 1] + (left & 1)
    able = np.zeros(truths, np.int64)
    for action in range(actions):
        for state in range(states):
            for truth in range(truths):
                if count[action, state] and not keep[action, state] >> truth & 1:
                    able[truth] |= 1 << action
    relevant = np.zeros(sets, np.int64)
    first = np.empty((sets, actions), np.int64)
    following = np.full((sets, actions), -1, np.int64)
    last = np.empty(actions, np.int64)
    marks = np.empty(actions, np.uint64)
    for left in range(1, sets):
        low = 0
        while not left >> low & 1:
            low += 1
        relevant[left] = relevant[left & (left - 1)] | able[low]
        for action in range(actions):
            marks[action] = mark(keep, count, left, action)
            first[left, action] = action
            last[action] = action
            if not relevant[left] >> action & 1:
                continue
            for other in range(action):
                if (
                    first[left, other] == other
                    and marks[other] == marks[action]
                    and alike(keep, count, left, action, other)
                ):
                    first[left, action] = other
                    following[left, last[other]] = action
                    last[other] = action
                    break
    return size, able, relevant, first, following


@compiled
def mark(keep: Integers, count: Integers, left: int, action: int) -> np.uint64:
    """A hash of what an action can do to a set of truths, equal for actions that are alike on it."""
    total, emptied = np.uint64(0), np.uint64(0)
    for state in range(keep.shape[1]):
        mixed = np.uint64(left & keep[action, state]) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        total += np.uint64(count[action, state]) * (mixed ^ (mixed >> np.uint64(32)))
        if count[action, state] and not left & keep[action, state]:
            emptied = np.uint64(1)
    return total + emptied


@compiled
def alike(keep: Integers, count: Integers, left: int, one: int, two: int) -> bool:
    """Whether two actions leave the same sets equally often.

    States that leave nothing have no weight, but it matters whether there are any: they make an action able to rule out.
    """
    for this, that in ((one, two), (two, one)):
        for state in range(keep.shape[1]):
            kept = left & keep[this, state]
            ours, theirs = 0, 0
            for other in range(keep.shape[1]):
                if left & keep[this, other] == kept:
                    ours += count[this, other]
                if left & keep[that, other] == kept:
                    theirs += count[that, other]
            if ours != theirs and (kept or min(ours, theirs) == 0):
                return False
    return True


@compiled
def lower_bounds(keep: Integers, count: Integers, size: Integers, relevant: Integers, able: Integers) -> NDArray[np.float64]:
    """Field ``bound`` of ``Game``: ``bound[k, left]`` is a lower bound where each truth in ``left`` has k actions or more.

    A game ends when one truth is left or a surviving truth has no action that could rule it out, which needs at least k
    more tests. So the value is no less than that of the relaxed game where actions may be repeated and that ends when one
    truth is left or after k tests.
    """
    most = 0
    for truth in range(able.size):
        most = max(most, ones(able[truth]))
    bound = np.zeros((most + 1, size.size))
    for k in range(1, most + 1):
        for left in range(size.size):
            if size[left] < 2:
                continue
            best = np.inf
            for action in range(keep.shape[0]):
                if relevant[left] >> action & 1:
                    total, steps = 0, 0.0
                    for state in range(keep.shape[1]):
                        kept = left & keep[action, state]
                        weight = size[kept] * count[action, state]
                        total += weight
                        steps += weight * bound[k - 1, kept]
                    best = min(best, 1 + steps / max(total, 1))
            bound[k, left] = best if best < np.inf else 0.0
    return bound


@compiled
def ones(mask: int) -> int:
    """Number of bits set."""
    bits = 0
    while mask:
        mask &= mask - 1
        bits += 1
    return bits


@compiled
def folded(game: Game, left: int, unused: int) -> int:
    """The unused actions as they enter the key: only relevant ones, and of each kind alike the first so many."""
    unused &= game.relevant[left]
    result = 0
    for action in range(game.keep.shape[0]):
        if unused >> action & 1:
            place = game.first[left, action]
            while result >> place & 1:
                place = game.following[left, place]
            result |= 1 << place
    return result


@compiled
def known(game: Game, memo: Memo, left: int, unused: int) -> float:
    """What is known of a game state (``unused`` folded): its value, or the negative of a lower bound that is positive."""
    if game.size[left] <= 1:
        return 0.0
    k = 64
    for truth in range(game.able.size):
        if left >> truth & 1:
            k = min(k, ones(game.able[truth] & unused))
    if k == 0:  # this truth can be ruled out by nothing, so it is the answer
        return 0.0
    key = left | unused << game.able.size
    slot = home(memo, key)
    for _ in range(PROBES):
        if memo.keys[slot] == key:
            return memo.values[slot]  # type: ignore[no-any-return]
        if memo.keys[slot] == 0:
            break
        slot = slot + 1 & memo.keys.size - 1
    return -game.bound[k, left]  # type: ignore[no-any-return]


@compiled
def home(memo: Memo, key: int) -> int:
    """The slot where the search for a key begins."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed ^ mixed >> np.uint64(32)) & np.uint64(memo.keys.size - 1))  # type: ignore[return-value]


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


@compiled
def survey(
    game: Game,
    memo: Memo,
    left: int,
    unused: int,
    action: int,
    share: NDArray[np.float64],
    rest: Integers,
    guess: NDArray[np.float64],
) -> float:
    """A lower bound for the expected tests when ``action`` comes next, from what is known of the states behind it.

    Fills in, for each outcome, its probability, the unused actions after it (folded) and what is known of that state.
    """
    total = 0
    for state in range(share.size):
        weight = game.size[left & game.keep[action, state]] * game.number[action, state]
        share[state] = weight
        total += weight
    steps = 1.0
    for state in range(share.size):
        share[state] /= max(total, 1)
        guess[state] = 0
        if share[state] > 0:
            kept = left & game.keep[action, state]
            rest[state] = folded(game, kept, unused & ~(1 << action))
            guess[state] = known(game, memo, kept, rest[state])
            steps += share[state] * abs(guess[state])
    return steps


@compiled
def explore(game: Game, memo: Memo, left: int, unused: int, limit: float) -> float:
    """The value of a game state (``unused`` folded) if it is below ``limit``, else a lower bound not below ``limit``.

    Returns at once with a meaningless number when the memo asks to be grown.
    """
    value = known(game, memo, left, unused)
    if value >= 0 or -value >= limit:
        return abs(value)
    actions, states = game.keep.shape
    order = np.empty(actions, np.int64)
    bounds = np.empty(actions)
    share, guess, rest = np.empty(states), np.empty(states), np.empty(states, np.int64)
    tried = 0
    for action in range(actions):
        if unused >> action & 1 and game.first[left, action] == action:
            bound = survey(game, memo, left, unused, action, share, rest, guess)
            place = tried
            while place > 0 and bounds[place - 1] > bound:
                bounds[place] = bounds[place - 1]
                order[place] = order[place - 1]
                place -= 1
            bounds[place] = bound
            order[place] = action
            tried += 1
    best, floor = limit, np.inf
    for place in range(tried):
        if bounds[place] >= best:  # and so are all that follow
            floor = min(floor, bounds[place])
            break
        action = order[place]
        steps = survey(game, memo, left, unused, action, share, rest, guess)
        for state in range(states):
            if steps >= best:
                break
            if guess[state] < 0:
                enough = -guess[state] + (best - steps) / share[state]
                found = explore(game, memo, left & game.keep[action, state], rest[state], enough)
                if memo.status[FULL]:
                    return 0.0
                steps += share[state] * (found + guess[state])
                if found >= enough:
                    steps = max(steps, best)
        if steps < best:
            best = steps
        else:
            floor = min(floor, steps)
    value = best if best < limit else floor
    store(memo, left | unused << game.able.size, value if best < limit else -value)
    return value
