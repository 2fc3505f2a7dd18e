"""The optimal search (Algorithm 3): the expected number of tests of perfect play, and what perfect play does next.

Values count tests only (base value 0). The weights are those of Eq. 2: an outcome is as likely as the number of surviving
truths that it leaves. A surviving truth that no unused action can rule out must be the answer, because a task's
observations together rule out all others. Where several truths are valid, naming any of them wins: the game is over when
no more than these survive, or when a survivor is due as before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping

from envs.kumo import endgame, kernel, memo
from envs.kumo.domain import Observation
from envs.kumo.tables import build
from envs.kumo.task import Task

TRUTHS, ACTIONS = 13, 18
"""Largest games that were measured to end: within 70 CPU seconds and 450 MiB, 5.9 million states (Music); ten seconds at
most with 12 and 16."""
VERSION = 1
"""Of what perfect play does, ties included: raise it when that changes, and kept results are searched anew."""
SLOTS = 1 << 23
"""Default limit of the memo: 128 MiB."""
TIE = 1e-7
"""Values closer than this are ties; the published weights carry a term of 1e-9, which parts true ties by about 1e-10."""


def check_size(truths: int, actions: int) -> None:
    """Refuse games that the exact search does not take.

    Raises:
        ValueError: the game is too large; what it may have is said.
    """
    if truths > TRUTHS or actions > ACTIONS:
        raise ValueError(
            f"the optimal search takes at most {TRUTHS} truths and {ACTIONS} actions, not {truths} and {actions}"
        )


class OptimalSearch:
    """Perfect play of one task, exact; what is searched once is remembered for later questions.

    Args:
        task: with at most 13 truths and 18 actions.
        slots: limit of the memo, a power of two. A slot takes 16 bytes; while the memo grows, a quarter more is needed.
            A memo that is too small makes the search slower, not less exact.

    Raises:
        ValueError: the task is too large.
    """

    def __init__(self, task: Task, slots: int = SLOTS) -> None:
        truths, actions = len(task.truths), len(task.actions)
        check_size(truths, actions)
        self.task = task
        self._tables = build(outcomes_of(task), truths, len(task.valid_truths))
        self._games = endgame.new_endgames(self._tables)
        self._stack = kernel.new_stack(self._tables)
        self._memo = memo.new_memo(1 << 12, slots)
        self._start = (1 << truths) - 1, (1 << actions) - 1

    @property
    def expected_steps(self) -> float:
        """Expected number of tests of perfect play from the start."""
        return self._value(*self._start)

    @property
    def states_known(self) -> int:
        """Game states in the memo, values and bounds together."""
        return int(self._memo.status[memo.USED])

    def expected_after(self, observed: Mapping[str, Observation]) -> float:
        """Expected number of tests of perfect play that are still to come; 0 once a truth can be named.

        Args and errors: as of ``best``.
        """
        return self._value(*self._situation(observed))

    def action_values(self) -> dict[str, float]:
        """Expected number of tests if perfect play follows after each first action, that action included."""
        return {name: self._after(*self._start, place) for place, name in enumerate(self.task.action_names)}

    def best(self, observed: Mapping[str, Observation]) -> str:
        """The next test of perfect play, or the truth to name once no test can help.

        Ties go to the action that stands first in the task.

        Args:
            observed: what each action taken so far has shown.

        Raises:
            KeyError: an action is not of this task.
            ValueError: an observation belongs to no state of its action, or together they rule out every truth.
        """
        left, unused = self._situation(observed)
        if self._is_over(left, unused):
            survivors = [truth for place, truth in enumerate(self.task.truths) if left >> place & 1]
            if len(survivors) <= self._tables.valid:
                return survivors[0]
            # One that no test left can rule out is right, too.
            return next(truth for truth in survivors if not self._against(truth) & unused)
        return next(self._best_tests(left, unused))

    def best_tests(self, observed: Mapping[str, Observation]) -> tuple[str, ...]:
        """All tests that are equally good and best, in the task's order; none once a truth can be named.

        Args and errors: as of ``best``.
        """
        left, unused = self._situation(observed)
        return () if self._is_over(left, unused) else tuple(self._best_tests(left, unused))

    def _situation(self, observed: Mapping[str, Observation]) -> tuple[int, int]:
        """The surviving truths and the unused actions, as bitmasks."""
        survivors = self.task.survivors(observed)
        if not survivors:
            raise ValueError("the observations rule out every truth")
        left = sum(1 << place for place, truth in enumerate(self.task.truths) if truth in survivors)
        return left, sum(1 << place for place, name in enumerate(self.task.action_names) if name not in observed)

    def _best_tests(self, left: int, unused: int) -> Iterator[str]:
        limit = self._value(left, unused) + TIE
        for place, name in enumerate(self.task.action_names):
            if (unused & int(self._tables.relevant[left])) >> place & 1:
                offered = 1 << int(self._tables.first[left, place])
                if self._explore(left, unused, offered, limit) < limit:
                    yield name

    def rollout(self) -> tuple[str, ...]:
        """The tests of perfect play on what this task shows, in order, and last the truth that it names."""
        observed: dict[str, Observation] = {}
        while not self._is_over(*self._situation(observed)):  # a name may be a test's and a truth's
            test = self.best(observed)
            observed[test] = self.task.observations[self.task.position(test)]
        return (*observed, self.best(observed))

    def _after(self, left: int, unused: int, action: int) -> float:
        """Expected number of tests if ``action`` is next."""
        kept = left & self._tables.keep[action]
        weights = self._tables.size[kept] * self._tables.number[action]
        steps = 0.0
        for survivors, weight in zip(kept.tolist(), weights.tolist(), strict=True):
            if weight:
                steps += weight * self._value(survivors, unused & ~(1 << action))
        return 1 + steps / max(1, int(weights.sum()))

    def _value(self, left: int, unused: int) -> float:
        """Expected number of tests from a game state."""
        if self._is_over(left, unused):
            return 0.0
        key = left | kernel.fold(self._tables, left, unused) << len(self.task.truths)
        known = memo.look_up(self._memo, key)
        return known if known > 0 else self._explore(left, unused, -1, math.inf)

    def _explore(self, left: int, unused: int, offered: int, limit: float) -> float:
        unused = kernel.fold(self._tables, left, unused)
        while True:
            value = kernel.explore(self._tables, self._games, self._memo, self._stack, left, unused, offered, limit)
            if not self._memo.status[memo.FULL]:
                return value
            larger = memo.new_memo(4 * self._memo.keys.size, self._memo.limit)
            memo.rehash(self._memo, larger)
            self._memo = larger

    def _is_over(self, left: int, unused: int) -> bool:
        """Whether only valid truths are left, or one that nothing can rule out any more."""
        due = any(
            left >> place & 1 and not against & unused for place, against in enumerate(self._tables.able.tolist())
        )
        return due or left.bit_count() <= self._tables.valid

    def _against(self, truth: str) -> int:
        """The actions that can rule a truth out, as a bitmask."""
        return int(self._tables.able[self.task.truths.index(truth)])


def outcomes_of(task: Task) -> list[dict[int, int]]:
    """For each action, how many of its states leave which truths (a bitmask)."""
    everything = (1 << len(task.truths)) - 1
    bits = {truth: 1 << place for place, truth in enumerate(task.truths)}
    found = []
    for action in task.actions:
        kept = [everything & ~sum(bits[truth] for truth in state.rules_out) for state in action.states]
        found.append(dict(Counter(kept)))
    return found
