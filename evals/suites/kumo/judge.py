"""What went wrong in a game, planning apart from deduction: each move held against what was known when it was made."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from envs.kumo import OptimalSearch, Task, exact

CHEAP = 8
"""Truths up to which a search takes no time that anybody would notice."""


@dataclass(frozen=True)
class Situation:
    """What is known after some tests."""

    survivors: tuple[str, ...]
    """The truths that nothing shown rules out."""
    open: Mapping[str, frozenset[str]]
    """For each test not taken that can rule out a survivor, those that it can."""
    valid: int = 1
    """How many truths are valid."""

    @property
    def certain(self) -> tuple[str, ...]:
        """The truths that must be right: all survivors if no more are left than are valid, else those out of every reach."""
        if len(self.survivors) <= self.valid:
            return self.survivors
        within_reach = frozenset[str]().union(*self.open.values())
        return tuple(truth for truth in self.survivors if truth not in within_reach)

    @property
    def answer(self) -> str | None:
        """The first of the truths that must be right; None while there is none."""
        return self.certain[0] if self.certain else None


def situation(task: Task, taken: Collection[str]) -> Situation:
    """What is known once the tests in ``taken`` have been taken."""
    return _situation(task, frozenset(taken))


@functools.lru_cache(maxsize=1 << 11)
def _situation(task: Task, taken: frozenset[str]) -> Situation:
    survivors = task.survivors(task.shown(taken))
    able: dict[str, frozenset[str]] = {}
    for action in task.actions:
        if action.name in taken:
            continue
        gone: set[str] = set()
        for state in action.states:
            gone.update(state.rules_out)
        telling = gone.intersection(survivors)
        if telling:
            able[action.name] = frozenset(telling)
    return Situation(survivors, able, len(task.valid_truths))


@dataclass(frozen=True)
class Errors:
    """Error kinds of one game."""

    idle_tests: int = 0
    """Tests before the answer was certain that could tell nothing: none of their outcomes rules out a truth that was
    still possible, or they had been taken before."""
    late_tests: int = 0
    """Tests taken although the answer was certain."""
    regret: tuple[float | None, ...] = ()
    """For each test the expected steps that it lost against the best one; None where not searched."""
    ending: str = ""
    """How the game was ended, one of ``ENDINGS``; empty if no truth was named."""
    certain_after: int | None = None
    """Tests after which the answer was certain; None if it never was."""


ENDINGS: Mapping[str, str] = {
    "certain": "the truth named was certain",
    "early": "the truth named was possible, but so were others",
    "overlooked": "another truth was certain, and the one named had not been ruled out by an outcome",
    "excluded": "the truth named had been ruled out by an outcome",
}


def judge(task: Task, taken: Sequence[str], named: str | None, *, search: bool, guarantee: bool = False) -> Errors:
    """The errors of a game.

    Args:
        task: what was played.
        taken: the tests in order, repeats included.
        named: the truth that was named, if any.
        search: whether to search for the regret of each test.
        guarantee: whether all that follows from the guarantee counts as certain (``envs.kumo.exact``), instead of what the
            published search makes of it.
    """
    lost_by = exact_regret if guarantee else regret_of
    idle = late = 0
    certain_after: int | None = None
    regret: list[float | None] = []
    for number, name in enumerate(taken):
        known = tuple(sorted(set(taken[:number])))
        if _certain(task, known, guarantee):
            late += 1
            if certain_after is None:
                certain_after = number
        elif name not in situation(task, known).open:
            idle += 1
        lost = lost_by(task, known, name) if search else None
        regret.append(lost)
    right = _certain(task, taken, guarantee)
    if right and certain_after is None:
        certain_after = len(taken)
    ending = ""
    if named is not None:
        ending = _ending(named, situation(task, taken).survivors, right)
    return Errors(idle, late, tuple(regret), ending, certain_after)


def _certain(task: Task, taken: Collection[str], guarantee: bool) -> tuple[str, ...]:
    """The truths that are certain after some tests."""
    return exact.certain(task, taken) if guarantee else situation(task, taken).certain


def _ending(named: str, survivors: Collection[str], right: Collection[str]) -> str:
    """Which of ``ENDINGS`` naming a truth was, where outcomes have left ``survivors``, and ``right`` are certain, if any."""
    if named not in survivors:
        return "excluded"
    if not right:
        return "early"
    return "certain" if named in right else "overlooked"


def regret_of(task: Task, taken: tuple[str, ...], test: str) -> float:
    """Expected steps that a test loses against the best one, given the tests taken before in any order.

    A test that can tell nothing loses a whole step.
    """
    now = situation(task, taken)
    if now.answer is not None or test not in now.open:
        return 1.0
    values = values_after(task, taken)
    return max(0.0, values[test] - min(values.values()))


def exact_regret(task: Task, taken: tuple[str, ...], test: str) -> float | None:
    """The same under the guarantee; None where the game that is left is too large for values."""
    if exact.certain(task, taken) or test not in situation(task, taken).open:
        return 1.0
    values = exact.values(task, taken)
    return max(0.0, values[test] - min(values.values())) if values else None


def remaining(task: Task, taken: tuple[str, ...], move: str | None = None) -> float:
    """Expected steps of perfect play to win, the naming of the truth included, or of a game that goes on with this move.

    Naming a truth that is not certain may lose, so it counts as infinite.
    """
    now = situation(task, taken)
    if move in task.truths:
        return 1.0 if move in now.certain else math.inf
    best = 1.0 if now.answer is not None else 1.0 + min(values_after(task, taken).values())
    return best if move is None else best + regret_of(task, tuple(sorted(set(taken))), move)


def values_after(task: Task, taken: Sequence[str]) -> Mapping[str, float]:
    """For each test that can still tell something, the expected steps to the answer if perfect play follows it.

    They are values of the game that is left: the truths still possible and the tests not taken.
    """
    return _values_after(task, frozenset(taken))


@functools.lru_cache(maxsize=1 << 14)
def _values_after(task: Task, taken: frozenset[str]) -> Mapping[str, float]:
    """Searched once for all runs of a task that come by, which are played at about the same time."""
    return OptimalSearch(task.after(taken)).action_values()
