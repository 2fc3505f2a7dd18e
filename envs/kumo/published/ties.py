"""How many tests perfect play takes where several are equally good: on average over all of them, not only of the first."""

from __future__ import annotations

from envs.kumo.domain import Observation
from envs.kumo.search import OptimalSearch


def mean_actions(search: OptimalSearch) -> float:
    """Tests and prediction of perfect play on what the task shows, if of equally good tests each is taken equally often.

    Raises:
        ValueError: the observations of a malformed task rule out every truth on the way.
    """
    task = search.task
    known: dict[frozenset[str], float] = {}

    def after(taken: frozenset[str]) -> float:
        if taken in known:
            return known[taken]
        observed: dict[str, Observation] = {name: task.observations[task.position(name)] for name in taken}
        tests = search.best_tests(observed)
        steps = 1.0
        if tests:
            steps += sum(after(taken | {name}) for name in tests) / len(tests)
        known[taken] = steps
        return steps

    return after(frozenset())
