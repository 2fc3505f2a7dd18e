"""A player that never opens the book: it names the truth of which, in the real world, everything shown would be true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from envs.kumo import Domain, Task
from envs.kumo.world import true_states

MEMORY: Final = "memory"

Shown = Mapping[str, frozenset[int]]
"""For each truth the outcomes of a test that are true of it; none where that is unknown."""


def memory_move(domain: Domain, task: Task, taken: Sequence[str]) -> str:
    """The next test, or the truth to name.

    It takes the test that parts best what it thinks possible, until one is left or no test parts them. Where it thinks
    nothing possible, it names the truth of which the fewest outcomes are false.

    Args:
        domain: Has the table of what is true (``Domain.true_of``).
        task: What is played.
        taken: The tests taken so far.
    """
    known = {name: _known(domain, task, name) for name in task.action_names}
    against = _against(known, task, taken)
    possible = [truth for truth, false in against.items() if not false]
    if not possible:
        return min(task.truths, key=against.__getitem__)
    left = {name: _left(known[name], possible) for name in task.action_names}
    best = min(left, key=left.__getitem__)
    if left[best] >= len(possible):
        # No test parts them; one that was taken parts them no more.
        return possible[0]
    return best


def _against(known: Mapping[str, Shown], task: Task, taken: Sequence[str]) -> dict[str, int]:
    """How many of the outcomes shown are false of each truth."""
    against = dict.fromkeys(task.truths, 0)
    for name in dict.fromkeys(taken):
        place = task.position(name)
        action = task.actions[place]
        shown = action.states.index(action.state_of(task.observations[place]))
        for truth, true in known[name].items():
            if true and shown not in true:
                against[truth] += 1
    return against


def _known(domain: Domain, task: Task, name: str) -> Shown:
    action = task.actions[task.position(name)]
    return {truth: true_states(domain, truth, action) for truth in task.truths}


def _left(known: Shown, possible: Sequence[str]) -> float:
    """How many of the truths thought possible a test leaves on average, if what it shows is true of one of them."""
    total = 0
    for right in possible:
        for truth in possible:
            unknown = not known[right] or not known[truth]
            if unknown or known[right] & known[truth]:
                total += 1
    return total / len(possible)
