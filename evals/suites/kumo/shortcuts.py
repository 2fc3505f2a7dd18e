"""Players that cheat as a model could: what can be scored at KUMO without planning, or without reading what a test shows."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from envs.kumo import Task, exact
from evals.suites.kumo.judge import situation
from evals.types import stable_seed

SHORTCUTS: Mapping[str, str] = {
    "names_at_once": "takes no test: names the truth that would most often be right if outcomes were drawn by chance",
    "one_test": "takes the test that splits best, then names the likeliest truth left",
    "random_tests": "takes tests by chance, but draws every conclusion and names the truth as soon as it is certain",
    "greedy": "draws every conclusion, and takes the test that leaves fewest truths on average, looking one step ahead",
}


EXACT = "exact_oracle"
"""The player of perfect play under the guarantee; no shortcut, but it is asked as they are."""


def shortcuts_of(task: Task, taken: Sequence[str], episode_id: str) -> dict[str, Callable[[], str]]:
    """What each of the shortcut players would reply after the tests in ``taken``."""
    known = tuple(dict.fromkeys(taken))

    def one_test() -> str:
        if not known:
            return _best_split(task, known)
        return _guess(task, known) or _likeliest(task, known)

    return {
        "names_at_once": lambda: _likeliest(task, ()),
        "one_test": one_test,
        "random_tests": lambda: _certain(task, known) or _any_test(task, known, stable_seed(episode_id, len(taken))),
        "greedy": lambda: _certain(task, known) or _best_split(task, known),
        EXACT: lambda: exact.best(task, known),
    }


def _certain(task: Task, taken: Sequence[str]) -> str | None:
    return situation(task, taken).answer or _guess(task, taken)


def _guess(task: Task, taken: Sequence[str]) -> str | None:
    """Any truth once none is left, which happens in malformed tasks only."""
    return None if situation(task, taken).survivors else task.truths[0]


def _any_test(task: Task, taken: Sequence[str], seed: int) -> str:
    return random.Random(seed).choice([name for name in task.action_names if name not in taken])


def _best_split(task: Task, taken: Sequence[str]) -> str:
    """The test after which fewest truths are left on average (Eq. 2: an outcome is as likely as it leaves truths)."""
    now = situation(task, taken)
    survivors = frozenset(now.survivors)

    def left(name: str) -> float:
        sizes = [len(survivors.difference(state.rules_out)) for state in task.actions[task.position(name)].states]
        return sum(size * size for size in sizes) / max(1, sum(sizes))

    return min((name for name in task.action_names if name in now.open), key=left)


def _likeliest(task: Task, taken: Sequence[str]) -> str:
    """The truth that would most often be right; of equals the first in the task's order."""
    odds = odds_of(task, taken)
    return max(situation(task, taken).survivors, key=odds.__getitem__)


def odds_of(task: Task, taken: Sequence[str]) -> Mapping[str, float]:
    """How often each truth would be left after all tests, if each not taken showed any of its outcomes.

    Each world (``envs.kumo.exact``) counts alike here, which the generator's own choices differ from.
    """
    worlds = exact.worlds(task, taken)
    total = sum(worlds.values()) or 1
    found = {}
    for place, truth in enumerate(task.truths):
        left = [count for right, count in worlds.items() if right >> place & 1]
        found[truth] = sum(left) / total
    return found
