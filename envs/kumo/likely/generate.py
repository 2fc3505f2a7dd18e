"""Games of evidence from a domain: what it rules out becomes rare, and the book says how rare.

A game begins as a task of ``envs.kumo.generate``: its truths, its tests and what their outcomes rule out. An outcome that
rules out a truth is shown in one of ten cases when this truth is right. Of the other outcomes, chance makes one the usual
outcome for this truth; the rest are shown in one or two cases each. The right truth and then the outcomes are drawn by
exactly these numbers, so that a player who believes the book is right on average.

A game is **solvable**: whichever truth is right, taking all tests leaves it a probability of ``ENOUGH`` on average. That is
asked of the book and never of the outcomes drawn, because to throw some of these away would make the book's numbers wrong.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Iterator

import numpy as np

from envs.kumo.domain import Action, Domain
from envs.kumo.generate import GenerationError, stream_tasks
from envs.kumo.likely.search import MOST_ENTRIES, entries, joint
from envs.kumo.likely.task import CASES, LikelyTask, LikelyTest
from envs.kumo.tables import Floats
from envs.kumo.task import Task

ENOUGH = 0.7
"""Probability that all tests leave the right truth on average, whichever it is."""
MOST_OUTCOMES = 4
"""Of a test: those with more are left out."""
TRIES = 500
"""Books in a row that are not solvable, until a domain is given up."""


def stream_likely(domain: Domain, truths: int = 4, tests: int = 6, seed: int = 0) -> Iterator[LikelyTask]:
    """The solvable games of a domain one after the other, without end.

    Args:
        domain: What to draw from.
        truths: Of a game.
        tests: Of a game.
        seed: Another seed gives other games.

    Raises:
        GenerationError: the domain is too small, yields no new tasks, or no solvable ones.
    """
    actions = tuple(action for action in domain.actions if len(action.states) <= MOST_OUTCOMES)
    smaller = dataclasses.replace(domain, actions=actions)
    found = failures = 0
    for plain in stream_tasks(smaller, truths, tests, seed=seed):
        task = _with_evidence(plain, index=found)
        small_enough = entries(truths, task.tests) <= MOST_ENTRIES
        if small_enough and least_certainty(task) >= ENOUGH:
            yield task
            found += 1
            failures = 0
            continue
        failures += 1
        if failures == TRIES:
            raise GenerationError(
                f"domain {domain.name!r}: {TRIES} books in a row of {truths} truths and {tests} tests were not solvable "
                "or too large for the Bayesian search; take fewer truths, or another number of tests"
            )


def certainties(task: LikelyTask) -> Floats:
    """(truths,): the probability that all tests leave each truth on average over their outcomes, if it is right."""
    chances = joint(task, tuple(range(len(task.tests)))).reshape(len(task.truths), -1)
    posterior = chances / chances.sum(axis=0)
    return np.asarray((chances * posterior).sum(axis=1) * len(task.truths), np.float64)


def least_certainty(task: LikelyTask) -> float:
    """The least of the ``certainties``."""
    return float(certainties(task).min())


def _with_evidence(plain: Task, index: int) -> LikelyTask:
    rng = random.Random(
        f"kumo_likely/{plain.domain}/{len(plain.truths)}/{len(plain.actions)}/{plain.seed}/{plain.index}"
    )
    tests = tuple(_test(action, plain.truths, rng) for action in plain.actions)
    right = rng.randrange(len(plain.truths))
    shown = tuple(rng.choices(range(len(test.outcomes)), test.cases[right])[0] for test in tests)
    return LikelyTask(plain.domain, plain.truths, tests, shown, plain.truths[right], index, plain.seed)


def _test(action: Action, truths: tuple[str, ...], rng: random.Random) -> LikelyTest:
    """The test with its numbers; truths with the same usual outcome, ruled out by the same ones, have the same."""

    @functools.cache
    def cases(usual: int, rare: tuple[bool, ...]) -> tuple[int, ...]:
        others = []
        for is_rare in rare:
            others.append(1 if is_rare else rng.choice((1, 2)))
        others[usual] = 0
        others[usual] = CASES - sum(others)
        return tuple(others)

    rows = []
    for truth in truths:
        rare = tuple(truth in state.rules_out for state in action.states)
        usual = rng.choice([place for place, is_rare in enumerate(rare) if not is_rare])
        rows.append(cases(usual, rare))
    outcomes = []
    for state in action.states:
        outcome = state.text
        # A unit stands after numbers only.
        if not isinstance(state.value, str):
            outcome += f" {action.unit}".rstrip()
        outcomes.append(outcome)
    return LikelyTest(action.name, tuple(outcomes), tuple(rows))
