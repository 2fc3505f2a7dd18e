"""Perfect play under the guarantee that players are told: all tests together leave only the right truths.

The published search (``search``) does not use it beyond one case: a survivor that nothing left can rule out is right. But
the outcomes still to come must rule out every other survivor, so often less is possible than it assumes.

A *world* is an outcome for every test such that just as many truths as are valid survive all of them. Each set of truths
that is right in some world is as likely as any other, and so is each world in which it is right. That follows the
generator, which first draws the right truth evenly and then outcomes that leave no other. It differs in that the generator
also draws which tests are offered, from the whole domain, which players do not see, and decides some outcomes by a solver.

What is certain can be told of a game of any size, values only of games in which few enough truths and tests are left.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from itertools import combinations

import numpy as np

from envs.kumo.search import TIE, outcomes_of
from envs.kumo.tables import Floats, Integers, compiled
from envs.kumo.task import Task

LARGEST = 20
"""Truths and tests left, together, up to which there are values: .03 seconds and 24 MiB."""


def worlds(task: Task, taken: Collection[str]) -> Mapping[int, float]:
    """For each set of truths (a bitmask) that may still be the right ones, the number of worlds in which it is.

    Args:
        task: of any size.
        taken: the tests taken so far; what they showed is known.

    Raises:
        KeyError: a test is not of this task.
    """
    return _worlds(task, frozenset(taken))


@functools.lru_cache(maxsize=1 << 11)
def _worlds(task: Task, taken: frozenset[str]) -> Mapping[int, float]:
    survivors = task.survivors(task.shown(taken))
    left: Integers = np.array([sum(1 << place for place, truth in enumerate(task.truths) if truth in survivors)])
    ways: Floats = np.ones(1)
    # One test after the other: the sets that its outcomes leave, and in how many ways.
    for action, states in zip(task.action_names, outcomes_of(task), strict=True):
        if action not in taken:
            after = (left[:, None] & np.array([*states])).ravel()
            weights = (ways[:, None] * np.array([*states.values()])).ravel()
            counts = np.bincount(after, weights).astype(np.float64)
            counts[0] = 0  # no world rules out every truth
            left = np.flatnonzero(counts)
            ways = counts[left]
    valid = len(task.valid_truths)
    return {mask: count for mask, count in zip(left.tolist(), ways.tolist(), strict=True) if mask.bit_count() == valid}


def certain(task: Task, taken: Collection[str]) -> tuple[str, ...]:
    """The truths that are right in every world that is left; none where that is not known, or no world is left."""
    everywhere = functools.reduce(int.__and__, worlds(task, taken), -1)
    if everywhere <= 0:
        return ()
    return tuple(truth for place, truth in enumerate(task.truths) if everywhere >> place & 1)


def values(task: Task, taken: Collection[str]) -> Mapping[str, float]:
    """For each test that can still rule out a survivor, the expected tests until a truth is certain if it comes next.

    It counts itself. There are none once a truth is certain, and where more than ``LARGEST`` truths and tests are left.
    """
    return _values(task, frozenset(taken))


def _mask(places: Iterable[int]) -> int:
    return sum(1 << place for place in places)


@functools.lru_cache(maxsize=1 << 11)
def _values(task: Task, taken: frozenset[str]) -> Mapping[str, float]:
    rest = task.after(taken)
    if len(rest.truths) + len(rest.actions) > LARGEST:
        return {}
    # There are none once a truth is certain.
    if certain(task, taken) or not worlds(task, taken):
        return {}
    at_first = worlds(task, ())
    places = [task.truths.index(truth) for truth in rest.truths]
    weights = np.zeros(1 << len(places))
    for right in combinations(range(len(places)), len(task.valid_truths)):
        # The same truths as a set of the whole task's and of the rest's.
        of_task = _mask(places[truth] for truth in right)
        of_rest = _mask(right)
        weights[of_rest] = 1 / at_first.get(of_task, np.inf)
    outcomes = outcomes_of(rest)
    most = max(map(len, outcomes), default=1)
    keep, number = np.zeros((2, len(outcomes), most), np.int64)
    for action, states in enumerate(outcomes):
        keep[action, : len(states)] = list(states)
        number[action, : len(states)] = list(states.values())
    expected = _first_tests(keep, number, weights).tolist()
    return dict(zip(rest.action_names, expected, strict=True))


def best(task: Task, taken: Collection[str]) -> str:
    """The truth that is certain, of several the first, or the best test, of equals the first.

    Raises:
        ValueError: the game that is left is too large, or no world is.
    """
    for truth in certain(task, taken):
        return truth
    found = values(task, taken)
    if not found:
        raise ValueError(f"the exact search takes sound tasks with at most {LARGEST} truths and tests together")
    limit = min(found.values()) + TIE
    return next(test for test, value in found.items() if value < limit)


def rollout(task: Task) -> tuple[str, ...]:
    """The tests of perfect play on what this task shows, in order, and last the truth that it names.

    Raises:
        ValueError: as of ``best``.
    """
    taken: list[str] = []
    while not certain(task, taken):  # a name may be a test's and a truth's
        taken.append(best(task, taken))
    return (*taken, best(task, taken))


@compiled
def _first_tests(keep: Integers, number: Integers, weights: Floats) -> Floats:
    """(A,): for each action the expected tests if it comes first.

    Worked out for all sets of truths (L of them), from no unused action to all.

    Args:
        keep: (A, S) the truths that an outcome leaves, as a bitmask.
        number: (A, S) how many states have this outcome.
        weights: (L,) what a world weighs in which just these truths are right.
    """
    actions, outcomes = keep.shape
    sets, rounds = weights.size, 1 << actions
    weight = np.zeros((rounds, sets))  # of all worlds that are left
    steps = np.zeros((rounds, sets))  # their expected tests times their weight
    right = np.full((rounds, sets), -1)  # the truths that are right in all of them
    first = np.zeros(actions)
    weight[0] = weights
    for left in range(sets):
        if weights[left] > 0:
            right[0, left] = left
    for unused in range(1, rounds):
        for left in range(1, sets):
            any_action = 0
            while not unused >> any_action & 1:
                any_action += 1
            for outcome in range(outcomes):
                if number[any_action, outcome]:
                    rest, kept = unused & unused - 1, left & keep[any_action, outcome]
                    weight[unused, left] += number[any_action, outcome] * weight[rest, kept]
                    right[unused, left] &= right[rest, kept]
            # Over once a truth is right in every world; where there is none, nothing counts.
            if right[unused, left] != 0:
                continue
            least = np.inf
            for action in range(actions):
                if unused >> action & 1:
                    after = weight[unused, left]
                    for outcome in range(outcomes):
                        kept = left & keep[action, outcome]
                        after += number[action, outcome] * steps[unused ^ 1 << action, kept]
                    least = min(least, after)
                    first[action] = after / weight[unused, left]
            steps[unused, left] = least
    return first
