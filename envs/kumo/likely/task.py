"""A game of evidence as a value: how often each test shows each outcome under each truth, and what it shows this time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from envs.kumo.tables import Floats

CASES = 10
"""What the cases of one truth add up to in each test."""


@dataclass(frozen=True)
class LikelyTest:
    """A test whose outcomes are more or less likely, depending on which truth is right.

    Attributes:
        name: As the domain calls it.
        outcomes: What it can show, as players read it.
        cases: For each truth of the task, in its order, in how many of ``CASES`` cases the test shows each outcome when this
            truth is the right one.
    """

    name: str
    outcomes: tuple[str, ...]
    cases: tuple[tuple[int, ...], ...]

    @cached_property
    def chances(self) -> Floats:
        """P(outcome | truth): an array of shape (truths, outcomes)."""
        return np.array(self.cases, np.float64) / CASES


@dataclass(frozen=True)
class LikelyTask:
    """One game. Every truth is as likely as the others at first, and tests are independent given the right truth.

    Attributes:
        domain: Name of the domain.
        truths: What may be right.
        tests: What may be taken.
        shown: For each test the outcome that it shows in this game, as a position; drawn once, so that taking it again
            shows the same.
        right: The right truth.
        index: The task's place among those of its domain, size and seed.
        seed: Of the tasks.
    """

    domain: str
    truths: tuple[str, ...]
    tests: tuple[LikelyTest, ...]
    shown: tuple[int, ...]
    right: str
    index: int = 0
    seed: int = 0

    @cached_property
    def test_names(self) -> tuple[str, ...]:
        """The names of the tests, in the task's order."""
        return tuple(test.name for test in self.tests)

    def outcome(self, test: str) -> str:
        """What a test shows in this game.

        Raises:
            ValueError: the task has no such test.
        """
        place = self.test_names.index(test)
        return self.tests[place].outcomes[self.shown[place]]

    def posterior(self, taken: Iterable[str]) -> Mapping[str, float]:
        """How likely each truth is after these tests, by Bayes' rule.

        Raises:
            ValueError: the task has no such test.
        """
        weights = np.ones(len(self.truths))
        for name in dict.fromkeys(taken):
            place = self.test_names.index(name)
            weights *= self.tests[place].chances[:, self.shown[place]]
        return dict(zip(self.truths, (weights / weights.sum()).tolist(), strict=True))

    def to_json(self) -> dict[str, Any]:
        """The task as JSON values."""
        return {
            "domain": self.domain,
            "truths": list(self.truths),
            "tests": {test.name: {"outcomes": test.outcomes, "cases": test.cases} for test in self.tests},
            "shown": {name: self.outcome(name) for name in self.test_names},
            "right": self.right,
            "index": self.index,
            "seed": self.seed,
        }
