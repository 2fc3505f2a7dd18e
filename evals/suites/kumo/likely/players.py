"""What built-in players of games of evidence reply: perfect play, and players that leave out a part of the task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from envs.kumo.likely import BayesSearch, LikelyTask
from evals.suites.kumo.likely.chances import state_chances

SHORTCUTS: Mapping[str, str] = {
    "one_test": "takes the test that leaves the likeliest truth likeliest on average, names it, and says how likely each is",
    "all_tests": "plans nothing: takes all tests, then names the likeliest truth, and says how likely each is",
    "rule_outs": "takes tests in their order, and outcomes of one or two cases in ten for impossible, until one truth is left",
}
_RARE = 2
"""Cases up to which ``rule_outs`` takes an outcome for impossible."""


def perfect_reply(task: LikelyTask, search: BayesSearch, taken: Sequence[str]) -> str:
    """The best move; with an answer the exact probabilities."""
    return _reply(task, taken, search.best(taken))


def shortcuts_of(task: LikelyTask, search: BayesSearch, taken: Sequence[str]) -> dict[str, Callable[[], str]]:
    """What each of the shortcut players would reply after these tests."""
    left = [name for name in task.test_names if name not in taken]
    return {
        "one_test": lambda: _reply(task, taken, _likeliest(task, taken) if taken else _surest(task)),
        "all_tests": lambda: _reply(task, taken, left[0] if left else _likeliest(task, taken)),
        "rule_outs": lambda: _by_rule_outs(task, taken, left),
    }


def _reply(task: LikelyTask, taken: Sequence[str], move: str) -> str:
    answer = f"<ANSWER> {move} </ANSWER>"
    return f"{state_chances(task.posterior(taken))}\n{answer}" if move in task.truths else answer


def _likeliest(task: LikelyTask, taken: Sequence[str]) -> str:
    posterior = task.posterior(taken)
    return max(task.truths, key=posterior.__getitem__)


def _surest(task: LikelyTask) -> str:
    """The test after which the likeliest truth is right most often; of equals the first."""
    return max(task.tests, key=lambda test: float(np.sum(test.chances.max(axis=0)))).name


def _by_rule_outs(task: LikelyTask, taken: Sequence[str], left: Sequence[str]) -> str:
    """The next test, or the only truth (else the first) that nothing has ruled out; without probabilities."""
    survivors = list(task.truths)
    for name in taken:
        place = task.test_names.index(name)
        cases = task.tests[place].cases
        possible = [truth for truth in survivors if cases[task.truths.index(truth)][task.shown[place]] > _RARE]
        survivors = possible or survivors  # evidence against all of them is passed over
    move = left[0] if left and len(survivors) > 1 else survivors[0]
    return f"<ANSWER> {move} </ANSWER>"
