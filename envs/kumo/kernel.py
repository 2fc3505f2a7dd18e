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
Floats = NDArray[np.float64]

PROBES = 8
SLACK = 0.2
DEEP = 3
USED, FULL = 0, 1


def compiled(function: Function) -> Function:
    """Compile with numba, and keep the machine code on disk where there is a place for it."""
    try:
        return numba.njit(cache=True)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # numba finds no writable place for its cache
        return numba.njit(function)  # type: ignore[no-any-return]


def inlined(function: Function) -> Function:
    return numba.njit(inline="always")(function)


class Game(NamedTuple):
    """A game as arrays: T truths, A actions, at most S distinct outcomes each, L subsets of truths (2**T)."""

    keep: Integers
    """(A, S): the truths that an outcome leaves."""
    number: Integers
    """(A, S): how many of the action's states have this outcome; 0 is padding."""
    able: Integers
    """(T,): the actions that can rule a truth out."""
    reach: Integers
    """(A,): the truths that an action can rule out."""
    size: Integers
    """(L,): number of truths in a set."""
    total: Integers
    """(L, A): sum of the weights of an action's outcomes, at least 1."""
    relevant: Integers
    """(L,): the actions that can rule something out of a set."""
    first: Integers
    """(L, A): the first action alike on a set."""
    following: Integers
    """(L, A): the next action alike on a set, or -1."""
    doubled: Integers
    """(L,): the actions that are alike with another one."""
    relaxed: Floats
    """(K, L): expected tests of the relaxed game that ends for free after k tests."""
    decided: Floats
    """(K, L): largest probability that k tests leave one truth or none."""
    spared: Floats
    """(K, T, L): largest probability that a truth survives k tests which could rule it out."""
    quick: Floats
    """(K, L, A): expected tests with a first action, then relaxed k"""


class Memo(NamedTuple):
    """Hash table with linear probing from key to what is known: a value, or the negative of a lower bound."""

    keys: Integers
    values: Floats
    status: Integers
    """Number of slots used; whether the table asks to be grown."""
    limit: int
    """Slots beyond which it is never grown; old entries are overwritten instead."""


class Scratch(NamedTuple):
    """Working space of the search, one row for each depth of the recursion."""

    lefts: Integers
    unuseds: Integers
    limits: Floats
    floors: Floats
    trieds: Integers
    places: Integers
    chosens: Integers
    levels: Integers
    order: Integers
    bounds: Floats
    rests: Integers
    share: Floats
    guess: Floats
    surveyed: Integers


@compiled
def fold_tables(keep: Integers, count: Integers, able: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    """The fields ``relevant, first, following, doubled`` of ``Game``."""
    actions, sets = keep.shape[0], 1 << able.size
    relevant, doubled = np.zeros(sets, np.int64), np.zeros(sets, np.int64)
    first, following = np.empty((sets, actions), np.int64), np.full((sets, actions), -1, np.int64)
    last = np.empty(actions, np.int64)
    marks = np.empty(actions, np.uint64)
    for left in range(1, sets):
        low = 0
        while not left >> low & 1:
            low += 1
        relevant[left] = relevant[left & (left - 1)] | able[low]
        for action in range(actions):
            first[left, action] = action
            last[action] = action
            if not relevant[left] >> action & 1:
                continue
            marks[action] = mark(keep, count, left, action)
            for other in range(action):
                if (
                    relevant[left] >> other & 1
                    and first[left, other] == other
                    and marks[other] == marks[action]
                    and alike(keep, count, left, action, other)
                ):
                    first[left, action] = other
                    following[left, last[other]] = action
                    last[other] = action
                    doubled[left] |= 1 << action | 1 << other
                    break
    return relevant, first, following, doubled


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
def bound_tables(
    keep: Integers, number: Integers, size: Integers, total: Integers, able: Integers, most: int
) -> tuple[Floats, Floats, Floats, Floats]:
    """The fields ``relaxed, decided, spared`` of ``Game``, for up to ``most`` tests; actions may be repeated."""
    actions, states = keep.shape
    relaxed = np.zeros((most + 1, size.size))
    decided = np.zeros((most + 1, size.size))
    spared = np.zeros((most + 1, able.size, size.size))
    gone = np.empty(able.size)
    quick = np.ones((most + 1, size.size, actions))
    for left in range(size.size):
        decided[0, left] = size[left] <= 1
        for truth in range(able.size):
            spared[0, truth, left] = left >> truth & 1
    for k in range(1, most + 1):
        for left in range(size.size):
            if size[left] <= 1:
                decided[k, left] = 1
            for truth in range(able.size):
                spared[k, truth, left] = 0
            if left == 0:
                continue
            least = np.inf
            for action in range(actions):
                steps, done = 0.0, 0.0
                gone[:] = 0
                for state in range(states):
                    kept = left & keep[action, state]
                    weight = size[kept] * number[action, state]
                    if weight:
                        steps += weight * relaxed[k - 1, kept]
                        done += weight * decided[k - 1, kept]
                        for truth in range(able.size):
                            gone[truth] += weight * spared[k - 1, truth, kept]
                least = min(least, 1 + steps / total[left, action])
                decided[k, left] = max(decided[k, left], done / total[left, action])
                for truth in range(able.size):
                    if able[truth] >> action & 1:
                        spared[k, truth, left] = max(spared[k, truth, left], gone[truth] / total[left, action])
            relaxed[k, left] = least if size[left] > 1 else 0.0
        for left in range(size.size):
            for action in range(actions):
                steps = 0.0
                for state in range(states):
                    kept = left & keep[action, state]
                    steps += size[kept] * number[action, state] * relaxed[k, kept]
                quick[k, left, action] = 1 + steps / total[left, action]
    return relaxed, decided, spared, quick


@inlined
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
    several = unused & game.doubled[left]
    result = unused & ~several
    action = 0
    while several:
        if several & 1:
            place = game.first[left, action]
            while result >> place & 1:
                place = game.following[left, place]
            result |= 1 << place
        several >>= 1
        action += 1
    return result


@compiled
def recall(game: Game, memo: Memo, left: int, unused: int) -> float:
    """What the memo holds of a game state (``unused`` folded), or 0."""
    key = left | unused << game.able.size
    slot = home(memo, key)
    for _ in range(PROBES):
        if memo.keys[slot] == key:
            return memo.values[slot]  # type: ignore[no-any-return]
        if memo.keys[slot] == 0:
            break
        slot = slot + 1 & memo.keys.size - 1
    return 0.0


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
def prospect(keep, number, able, reach, size, total, relaxed, decided, spared, level, unused, kept, action):
    horizon = relaxed.shape[0] - 1
    gone = reach[action]
    j = 1
    due = kept & (level[j] | level[j + 1] & gone)
    while not due:
        j += 1
        due = kept & (level[j] | level[j + 1] & gone)
    if j > DEEP or j >= horizon:
        return 0.0
    better = relaxed[j + 1, kept]
    todo = 0
    while due:
        low = due & -due
        todo |= able[size[low - 1]]
        due ^= low
    todo &= unused & ~(1 << action)
    for other in range(keep.shape[0]):
        if todo >> other & 1:
            also = reach[other]
            steps = 0.0
            for state in range(keep.shape[1]):
                left = kept & keep[other, state]
                if size[left] <= 1 or number[other, state] == 0:
                    continue
                i = j - 1
                now = left & (level[i] | level[i + 1] & (gone | also) | level[i + 2] & gone & also)
                while not now:
                    i += 1
                    now = left & (level[i] | level[i + 1] & (gone | also) | level[i + 2] & gone & also)
                if i > 0:
                    i = min(i, horizon)
                    over = decided[i, left]
                    while now:
                        low = now & -now
                        over += spared[i, size[low - 1], left]
                        now ^= low
                    steps += size[left] * number[other, state] * (relaxed[i, left] + max(0.0, 1 - over))
            better = min(better, 1 + steps / total[kept, other])
    return better


@compiled
def explore(game: Game, memo: Memo, scratch: Scratch, root: int, rest: int, ceiling: float) -> float:
    """The value of a game state that is not over if it is below ``ceiling``, else a lower bound not below it."""
    keep, number, able, reach, size, total, relevant, first, following, doubled, relaxed, decided, spared, quick = game
    keys, values, status, bound_slots = memo
    lefts, unuseds, limits, floors, trieds, places, chosens, levels, order, bounds, rests, share, guess, surveyed = (
        scratch
    )
    actions, states = keep.shape
    truths = able.size
    horizon = relaxed.shape[0] - 1
    depth, entering, found = 0, True, 0.0
    lefts[0], unuseds[0], limits[0] = root, rest, ceiling
    while True:
        left, unused, limit = lefts[depth], unuseds[depth], limits[depth]
        if entering:
            status[2] += 1
            # levels
            for k in range(actions + 3):
                levels[depth, k] = 0
            k = actions
            for truth in range(truths):
                if left >> truth & 1:
                    c = ones(able[truth] & unused)
                    levels[depth, c] |= 1 << truth
                    k = min(k, c)
            due = levels[depth, k]
            for j in range(k, actions + 2):
                levels[depth, j + 1] |= levels[depth, j]
            floor, tried = np.inf, 0
            for action in range(actions):
                if not (unused >> action & 1 and first[left, action] == action):
                    continue
                gone = reach[action]
                steps = quick[min(k - 1 if due & gone else k, horizon), left, action]
                if steps >= limit:
                    floor = min(floor, steps)
                    continue
                steps = 1.0
                scale = total[left, action]
                for state in range(states):
                    kept = left & keep[action, state]
                    part = size[kept] * number[action, state] / scale
                    share[depth, tried, state] = part
                    hope = 0.0
                    if part > 0 and size[kept] > 1:
                        j = k - 1
                        now = kept & (levels[depth, j] | levels[depth, j + 1] & gone)
                        while not now:
                            j += 1
                            now = kept & (levels[depth, j] | levels[depth, j + 1] & gone)
                        if j > horizon:
                            hope = relaxed[horizon, kept]
                        elif j > 0:
                            over = decided[j, kept]
                            while now:
                                low = now & -now
                                over += spared[j, size[low - 1], kept]
                                now ^= low
                            hope = relaxed[j, kept] + max(0.0, 1 - over)
                    guess[depth, tried, state] = -hope
                    steps += part * hope
                if steps >= limit:
                    floor = min(floor, steps)
                else:
                    order[depth, tried] = action
                    bounds[depth, tried] = steps
                    surveyed[depth, tried] = 0
                    tried += 1
            if tried == 0:
                found = floor
                if depth == 0:
                    return found
                depth -= 1
                entering = False
                continue
            status[3] += 1
            trieds[depth], floors[depth] = tried, floor
        else:
            place, chosen = places[depth], chosens[depth]
            guess[depth, place, chosen] = found if found < limits[depth + 1] else -found
            steps = 1.0
            for state in range(states):
                steps += share[depth, place, state] * abs(guess[depth, place, state])
            bounds[depth, place] = steps
        while True:
            place, second = 0, limit
            for other in range(1, trieds[depth]):
                if bounds[depth, other] < bounds[depth, place]:
                    second = min(second, bounds[depth, place])
                    place = other
                else:
                    second = min(second, bounds[depth, other])
            steps = bounds[depth, place]
            if steps >= limit or surveyed[depth, place]:
                break
            surveyed[depth, place] = 1
            action = order[depth, place]
            steps = 1.0
            for state in range(states):
                hope = guess[depth, place, state]
                if hope < 0:
                    kept = left & keep[action, state]
                    spare = unused & ~(1 << action) & relevant[kept]
                    several = spare & doubled[kept]
                    if several:
                        spare &= ~several
                        other = 0
                        while several:
                            if several & 1:
                                spot = first[kept, other]
                                while spare >> spot & 1:
                                    spot = following[kept, spot]
                                spare |= 1 << spot
                            several >>= 1
                            other += 1
                    rests[depth, place, state] = spare
                    key = kept | spare << truths
                    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
                    slot = np.int64((mixed ^ mixed >> np.uint64(32)) & np.uint64(keys.size - 1))
                    for _ in range(PROBES):
                        if keys[slot] == key:
                            if values[slot] > 0 or values[slot] < hope:
                                hope = values[slot]
                                guess[depth, place, state] = hope
                            break
                        if keys[slot] == 0:
                            break
                        slot = slot + 1 & keys.size - 1
                    if hope < 0:
                        deeper = prospect(
                            keep,
                            number,
                            able,
                            reach,
                            size,
                            total,
                            relaxed,
                            decided,
                            spared,
                            levels[depth],
                            unused,
                            kept,
                            action,
                        )
                        if deeper > -hope:
                            hope = -deeper
                            guess[depth, place, state] = hope
                steps += share[depth, place, state] * abs(hope)
            bounds[depth, place] = steps
        value, chosen, weight = 0.0, -1, 0.0
        if steps >= limit:
            found = min(steps, floors[depth])
            value = -found
        else:
            for state in range(states):
                if guess[depth, place, state] < 0 and share[depth, place, state] > weight:
                    chosen, weight = state, share[depth, place, state]
            if chosen < 0:
                found = value = steps
        if value != 0:
            store(memo, left | unused << truths, value)
            if status[FULL]:
                return 0.0
            if depth == 0:
                return found
            depth -= 1
            entering = False
            continue
        places[depth], chosens[depth] = place, chosen
        hope = -guess[depth, place, chosen]
        lefts[depth + 1] = left & keep[order[depth, place], chosen]
        unuseds[depth + 1] = rests[depth, place, chosen]
        limits[depth + 1] = hope + min(max((second - steps) / weight, SLACK), (limit - steps) / weight)
        depth += 1
        entering = True
