"""Perfect play with uncertain evidence, exact: the least expected cost over all plans of tests and answers.

A *situation* is what the tests taken have shown. By Bayes' rule it fixes how likely each truth is, so the best decision
depends on nothing else. Naming the truth t there costs ``wrong`` times the probability that t is not right; taking a test
costs 1 and leads to one of its outcomes. The costs of all situations are worked out backwards, from all tests taken to none
(dynamic programming); those of one set of tests are one array with an axis for each of its tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import combinations

import numpy as np

from envs.kumo.likely.task import LikelyTask, LikelyTest
from envs.kumo.tables import Floats

MOST_ENTRIES = 4_000_000
"""Situations times truths that the search takes: .03 seconds and 10 MiB."""
TIE = 1e-9
"""Costs closer than this are equal."""

Tests = tuple[int, ...]
"""A set of tests: their positions, in order."""


def entries(truths: int, tests: Iterable[LikelyTest]) -> int:
    """Situations of a game, times its truths: how large its search is."""
    return truths * math.prod(1 + len(test.outcomes) for test in tests)


def joint(task: LikelyTask, taken: Tests) -> Floats:
    """P(truth, outcomes): an array with an axis for the truth and one for each test taken."""
    found = np.full((len(task.truths), *[1] * len(taken)), 1 / len(task.truths))
    for axis, test in enumerate(taken, 1):
        shape = [len(task.truths), *[1] * len(taken)]
        shape[axis] = -1
        found = found * task.tests[test].chances.reshape(shape)
    return found


class BayesSearch:
    """The costs of all situations of one task.

    Args:
        task: What is played.
        wrong: Cost of naming a wrong truth; a test costs 1.

    Raises:
        ValueError: the task is too large.
    """

    def __init__(self, task: LikelyTask, wrong: float) -> None:
        size = entries(len(task.truths), task.tests)
        if size > MOST_ENTRIES:
            raise ValueError(
                f"the Bayesian search takes games of at most {MOST_ENTRIES:,} situations times truths, not {size:,}"
            )
        self.task, self.wrong = task, wrong
        self._costs: dict[Tests, Floats] = {}
        everything = range(len(task.tests))
        for count in reversed(range(len(task.tests) + 1)):
            for taken in combinations(everything, count):
                self._costs[taken] = self._least(taken)

    def _least(self, taken: Tests) -> Floats:
        """The cost from each situation of these tests on, times the probability of the situation."""
        chances = joint(self.task, taken)
        situation = chances.sum(axis=0)
        least = self.wrong * (situation - chances.max(axis=0))
        for test in range(len(self.task.tests)):
            if test not in taken:
                least = np.minimum(least, situation + self._after(taken, test))
        return np.asarray(least, np.float64)

    def _after(self, taken: Tests, test: int) -> Floats:
        """The cost that is left after one more test, summed over its outcomes."""
        longer = tuple(sorted((*taken, test)))
        return np.asarray(self._costs[longer].sum(axis=longer.index(test)), np.float64)

    @property
    def expected_cost(self) -> float:
        """Of perfect play from the start."""
        return float(self._costs[()])

    def values(self, taken: Iterable[str]) -> Mapping[str, float]:
        """For each test not taken and each truth, the expected cost from here on if it is next and perfect play follows.

        Args:
            taken: The tests so far, repeats included; what they showed is the task's.

        Raises:
            ValueError: the task has no such test.
        """
        names = self.task.test_names
        before = tuple(sorted({names.index(name) for name in taken}))
        here = tuple(self.task.shown[test] for test in before)
        reached = float(joint(self.task, before).sum(axis=0)[here])
        found: dict[str, float] = {}
        for place, name in enumerate(names):
            if place not in before:
                found[name] = 1 + float(self._after(before, place)[here]) / reached
        posterior = self.task.posterior(names[test] for test in before)
        for truth, chance in posterior.items():
            found[truth] = self.wrong * (1 - chance)
        return found

    def best(self, taken: Iterable[str]) -> str:
        """What perfect play does next: a test or a truth; of equals a truth first, then in the task's order."""
        values = self.values(taken)
        limit = min(values.values()) + TIE
        # not below it: where costs are huge, the limit is the least cost itself
        return next(name for name in (*self.task.truths, *self.task.test_names) if values.get(name, math.inf) <= limit)
