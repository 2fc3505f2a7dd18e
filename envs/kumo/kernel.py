"""The compiled heart of the optimal search: the exact expected number of tests over (surviving truths, unused actions).

It is a best-first search of the and-or graph. From a game state the action with the least lower bound is pursued, and in
it one outcome at a time, just until another action looks better or the value is certain to reach a limit. Three things
keep the graph small without changing any value: actions that can rule out nothing are dropped and actions that are alike
on the surviving truths are exchanged for each other; lower bounds come from easier games (``tables``); and what is known
of a state, its value or a bound, is kept in a hash table of limited size, or where few truths survive in tables
(``endgame``).

Two facts give the bounds. A game is over when one truth is left (or as many as are valid) or when a survivor is *due*:
nothing unused can rule it out. So if each survivor still has k or more actions against it, the game lasts k tests or
leaves one truth before; and it ends with the k-th test only if all k went against the same truth, which survived them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from envs.kumo.endgame import LARGEST, Endgames, settle, tabled
from envs.kumo.memo import FULL, Memo, recall, store
from envs.kumo.tables import HORIZON, Floats, Integers, Tables, compiled, compiled_lean, inlined

PATIENCE = 2.0
"""How far the bound of a state is raised in one go, times the number of its truths: less makes the search return to it
more often, more makes it look at states that turn out not to matter."""


class Stack(NamedTuple):
    """One frame per test on the way from the root; D frames, other letters as in ``tables``."""

    left: Integers
    """(D,): the surviving truths."""
    unused: Integers
    """(D,): the unused actions, folded."""
    limit: Floats
    """(D,): where an exact value stops being of interest."""
    floor: Floats
    """(D,): least bound of the actions that are dismissed because they reach the limit."""
    tried: Integers
    """(D,): number of actions that are not dismissed."""
    place: Integers
    """(D,): which of these is pursued."""
    outcome: Integers
    """(D,): which of its outcomes is pursued."""
    level: Integers
    """(D, A + 3): the survivors that 0, 1, 2, ... unused actions can rule out."""
    action: Integers
    """(D, A): the actions that are not dismissed."""
    bound: Floats
    """(D, A): lower bound of the expected tests, for each of these."""
    surveyed: Integers
    """(D, A): whether the memo has been asked about its outcomes."""
    share: Floats
    """(D, A, S): probability of each outcome."""
    rest: Integers
    """(D, A, S): unused actions after each outcome, folded."""
    guess: Floats
    """(D, A, S): what is known of the state after each outcome: its value, or the negative of a lower bound."""


def new_stack(tables: Tables) -> Stack:
    """Frames for the longest possible game."""
    actions, states = tables.keep.shape
    frames = actions + 2
    shapes: dict[str, tuple[int, ...]] = {"level": (actions + 3,)}
    shapes |= dict.fromkeys(("action", "bound", "surveyed"), (actions,))
    shapes |= dict.fromkeys(("share", "rest", "guess"), (actions, states))
    floats = {"limit", "floor", "bound", "share", "guess"}
    return Stack(
        *(
            np.zeros((frames, *shapes.get(name, ())), np.float64 if name in floats else np.int64)
            for name in Stack._fields
        )
    )


# --- what can be said of a game state at a glance --------------------------------------------------------------------


@inlined
def ones(mask: int) -> int:
    """Number of bits set."""
    bits = 0
    while mask:
        mask &= mask - 1
        bits += 1
    return bits


@compiled
def fold(tables: Tables, left: int, unused: int) -> int:
    """See ``folded``."""
    return folded(tables, left, unused)


@inlined
def folded(tables: Tables, left: int, unused: int) -> int:
    """The unused actions as they enter the key: only relevant ones, and of each kind alike the first so many."""
    unused &= tables.relevant[left]
    several = unused & tables.doubled[left]
    unused ^= several
    action = 0
    while several:
        if several & 1:
            place = int(tables.first[left, action])
            while unused >> place & 1:
                place = int(tables.following[left, place])
            unused |= 1 << place
        several >>= 1
        action += 1
    return unused


@inlined
def due_after(level: Integers, left: int, either: int, both: int) -> tuple[int, int]:
    """Of the truths in ``left`` those with the fewest actions against them, and how many these are.

    ``level`` is as before the last one or two actions; ``either`` are the truths that one of these could rule out, ``both``
    those that each could.
    """
    k = 0
    due = left & (level[0] | level[1] & either | level[2] & both)
    while not due:
        k += 1
        due = left & (level[k] | level[k + 1] & either | level[k + 2] & both)
    return k, due


@inlined
def outlook(tables: Tables, games: Endgames, level: Integers, left: int, unused: int, either: int, both: int) -> float:
    """A lower bound for the value of a game state from the tables alone; 0 if it is over. See ``due_after``."""
    if tables.size[left] <= tables.valid:
        return 0.0
    if games.begin[left] > 0:
        return tabled(games, left, unused)
    k, due = due_after(level, left, either, both)
    if k == 0:
        return 0.0
    k = min(k, HORIZON)
    over = tables.decided[k, left]
    while due:
        low = due & -due
        truth = tables.size[low - 1]
        if k == 1:  # the one test decides, or goes against truths that it may spare
            action = ones((tables.able[truth] & unused) - 1)
            last = due & tables.reach[action]
            due ^= last
            weight = 0
            for state in range(tables.keep.shape[1]):
                kept = left & tables.keep[action, state]
                if kept & last or tables.size[kept] <= tables.valid:
                    weight += tables.size[kept] * tables.number[action, state]
            over = max(over, weight * tables.scale[left, action])
        else:
            due ^= low
            over += tables.spared[k, truth, left]
    return tables.relaxed[k, left] + max(0.0, 1 - over)  # type: ignore[no-any-return]


@inlined
def prospect(
    tables: Tables, games: Endgames, level: Integers, left: int, unused: int, gone: int, known: float
) -> float:
    """A better lower bound for a state that is not over: one test further.

    Either the next test goes against a truth with the fewest actions against it, and every outcome is looked at; or the
    game lasts one test longer than it might.

    Args:
        tables: of the game.
        games: what is known of small sets of truths.
        level: before the last action.
        left: the surviving truths.
        unused: the unused actions, folded.
        gone: the truths that the last action could rule out.
        known: a lower bound that is known already.
    """
    k, due = due_after(level, left, gone, 0)
    if k >= HORIZON:
        return known
    against = 0
    while due:
        low = due & -due
        due ^= low
        against |= tables.able[tables.size[low - 1]]
    against &= unused & tables.firsts[left]
    best = tables.relaxed[k + 1, left]
    while against and best > known:
        low = against & -against
        against ^= low
        action = ones(low - 1)
        reach = tables.reach[action]
        steps, same = 1.0, 0.0
        for state in range(tables.keep.shape[1]):
            kept = left & tables.keep[action, state]
            share = tables.size[kept] * tables.number[action, state] * tables.scale[left, action]
            if kept == left:
                same += share
            elif share > 0:
                steps += share * outlook(tables, games, level, kept, unused ^ low, gone | reach, gone & reach)
                if steps >= best:
                    break
        if same > 0 and steps < best:
            steps += same * outlook(tables, games, level, left, unused ^ low, gone | reach, gone & reach)
        best = min(best, steps)
    return max(best, known)  # type: ignore[no-any-return]


# --- the search ------------------------------------------------------------------------------------------------------


@inlined
def enter(tables: Tables, games: Endgames, stack: Stack, depth: int, offered: int) -> None:
    """Begin a frame: of the actions on offer dismiss those seen at a glance to reach the limit, and list the others."""
    left, unused, limit = stack.left[depth], stack.unused[depth], stack.limit[depth]
    actions, states = tables.keep.shape
    level = stack.level[depth]
    level[:] = 0
    k = actions
    for truth in range(tables.able.size):
        if left >> truth & 1:
            against = ones(tables.able[truth] & unused)
            level[against] |= 1 << truth
            k = min(k, against)
    due = level[k]
    floor, tried = np.inf, 0
    for action in range(actions):
        if not offered >> action & 1:
            continue
        reach = tables.reach[action]
        steps = tables.ahead[min(k - 1 if due & reach else k, HORIZON - 1), left, action]
        if steps < limit:
            steps = 1.0
            for state in range(states):
                kept = left & tables.keep[action, state]
                share = tables.size[kept] * tables.number[action, state] * tables.scale[left, action]
                for earlier in range(state):  # on these truths, states may come to the same
                    if share > 0 and left & tables.keep[action, earlier] == kept:
                        stack.share[depth, tried, earlier] += share
                        steps += share * abs(stack.guess[depth, tried, earlier])
                        share = 0.0
                hope = 0.0
                if share > 0:
                    hope = outlook(tables, games, level, kept, unused & ~(1 << action), reach, 0)
                stack.share[depth, tried, state] = share
                stack.guess[depth, tried, state] = hope if games.begin[kept] > 0 else -hope
                steps += share * hope
        if steps >= limit:
            floor = min(floor, steps)
        else:
            stack.action[depth, tried] = action
            stack.bound[depth, tried] = steps
            stack.surveyed[depth, tried] = 0
            tried += 1
    stack.tried[depth], stack.floor[depth] = tried, floor


@inlined
def survey(tables: Tables, games: Endgames, memo: Memo, stack: Stack, depth: int, place: int) -> float:
    """The bound of an action after asking the memo, or else looking further, about each of its outcomes."""
    left, action = stack.left[depth], stack.action[depth, place]
    unused = stack.unused[depth] & ~(1 << action)
    steps = 1.0
    for state in range(tables.keep.shape[1]):
        guess = stack.guess[depth, place, state]
        if guess < 0:
            kept = left & tables.keep[action, state]
            if games.begin[kept] > 0:
                guess = tabled(games, kept, unused)
            else:
                rest = folded(tables, kept, unused)
                stack.rest[depth, place, state] = rest
                found = recall(memo, kept | rest << tables.able.size)
                if found > 0 or found < guess:
                    guess = found
                else:
                    guess = -prospect(tables, games, stack.level[depth], kept, rest, tables.reach[action], -guess)
            stack.guess[depth, place, state] = guess
        steps += stack.share[depth, place, state] * abs(guess)
    stack.surveyed[depth, place] = 1
    return steps


@inlined
def cheapest(stack: Stack, depth: int) -> tuple[int, float, float]:
    """The listed action with the least bound below the limit, or -1; its bound; and the next best, at most the limit."""
    place, least, second = -1, stack.limit[depth], stack.limit[depth]
    for other in range(stack.tried[depth]):
        bound = stack.bound[depth, other]
        if bound < least:
            place, least, second = other, bound, least
        else:
            second = min(second, bound)
    return place, least, second


@inlined
def least_bound(stack: Stack, depth: int) -> float:
    """The least bound of all actions of a frame, dismissed or listed."""
    least = stack.floor[depth]
    for place in range(stack.tried[depth]):
        least = min(least, stack.bound[depth, place])
    return least  # type: ignore[no-any-return]


@inlined
def most_urgent(tables: Tables, stack: Stack, depth: int, place: int) -> int:
    """The outcome of an action to look into next, or -1 if all are known: likely ones, and few truths are settled soon."""
    outcome, urgency = -1, 0.0
    for state in range(tables.keep.shape[1]):
        if stack.guess[depth, place, state] < 0:
            kept = stack.left[depth] & tables.keep[stack.action[depth, place], state]
            pull = stack.share[depth, place, state] ** 0.5 / tables.size[kept]
            if pull > urgency:
                outcome, urgency = state, pull
    return outcome


@compiled_lean
def explore(
    tables: Tables, games: Endgames, memo: Memo, stack: Stack, left: int, unused: int, offered: int, limit: float
) -> float:
    """The value of a game state that is not over if it is below ``limit``, else a lower bound not below ``limit``.

    The number is meaningless if the memo asks to be grown.

    Args:
        tables: of the game.
        games: what is known of small sets of truths.
        memo: what is known so far.
        stack: space to work in.
        left: the surviving truths.
        unused: the unused actions, folded.
        offered: which of them may come first; -1 for any.
        limit: where an exact value stops being of interest.
    """
    states = tables.keep.shape[1]
    stack.left[0], stack.unused[0], stack.limit[0] = left, unused, limit
    depth, found, entering = 0, 0.0, True
    while True:
        if entering:
            usable = stack.unused[depth] & tables.firsts[stack.left[depth]]
            enter(tables, games, stack, depth, usable & offered if depth == 0 else usable)
        else:  # back from an outcome
            place, outcome = stack.place[depth], stack.outcome[depth]
            stack.guess[depth, place, outcome] = found if found < stack.limit[depth + 1] else -found
            steps = 1.0
            for state in range(states):
                steps += stack.share[depth, place, state] * abs(stack.guess[depth, place, state])
            stack.bound[depth, place] = steps
        place, least, second = cheapest(stack, depth)
        while place >= 0 and not stack.surveyed[depth, place]:
            stack.bound[depth, place] = survey(tables, games, memo, stack, depth, place)
            place, least, second = cheapest(stack, depth)
        outcome = most_urgent(tables, stack, depth, place) if place >= 0 else -1
        if outcome < 0:  # the value is known, or reaches the limit
            found = least if place >= 0 else least_bound(stack, depth)
            if (place >= 0 or stack.tried[depth] > 0) and (depth > 0 or offered == -1):
                key = stack.left[depth] | stack.unused[depth] << tables.able.size
                store(memo, key, found if place >= 0 else -found)
            if depth == 0 or memo.status[FULL]:
                return found
            depth -= 1
            entering = False
            continue
        stack.place[depth], stack.outcome[depth] = place, outcome
        kept = stack.left[depth] & tables.keep[stack.action[depth, place], outcome]
        if tables.size[kept] <= LARGEST and settle(tables, games, kept):
            found = tabled(games, kept, stack.rest[depth, place, outcome])
            stack.limit[depth + 1] = np.inf
            entering = False
            continue
        share = stack.share[depth, place, outcome]
        enough = (stack.limit[depth] - least) / share  # and a little more, so that rounding cannot stall the search
        raised = min(max((second - least) / share, PATIENCE / tables.size[kept]), enough) + 1e-12
        stack.left[depth + 1], stack.unused[depth + 1] = kept, stack.rest[depth, place, outcome]
        stack.limit[depth + 1] = raised - stack.guess[depth, place, outcome]
        depth += 1
        entering = True
