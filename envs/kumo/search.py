"""The optimal search (Algorithm 3): the expected number of tests of perfect play, and what perfect play does next.

Values count tests only (base value 0). The weights are those of Eq. 2: an outcome is as likely as the number of surviving
truths that it leaves. A surviving truth that no unused action can rule out must be the answer, because a task's
observations together rule out all others.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from envs.kumo import kernel
from envs.kumo.domain import Observation
from envs.kumo.task import Task

TIE = 1e-7
"""Values closer than this are ties; the published weights carry a term of 1e-9, which parts true ties by about 1e-10."""


class OptimalSearch:
    """Perfect play of one task, exact; what is searched once is remembered for later questions.

    Args:
        task: with at most 16 truths and at most 40 actions.
        slots: limit of the memo; one slot takes 16 bytes, and while it grows half as much again is needed.

    Raises:
        ValueError: the task is too large.
    """

    def __init__(self, task: Task, slots: int = 1 << 23) -> None:
        if len(task.truths) > 16 or len(task.actions) > 40:
            raise ValueError(
                f"the optimal search takes at most 16 truths and 40 actions, not {len(task.truths)} and {len(task.actions)}"
            )
        self.task = task
        self._slots = slots
        self._game = _game(task)
        self._memo = _memo(1 << 12, slots)
        self._scratch = _scratch(self._game)
        self._all = (1 << len(task.truths)) - 1, (1 << len(task.actions)) - 1

    @property
    def expected_steps(self) -> float:
        """Expected number of tests of perfect play from the start."""
        return self._value(*self._all)

    @property
    def states_known(self) -> int:
        """Game states in the memo, values and bounds together."""
        return int(self._memo.status[kernel.USED])

    def action_values(self) -> dict[str, float]:
        """Expected number of tests if perfect play follows after each first action, that action included."""
        return {name: self._after(*self._all, place) for place, name in enumerate(self.task.action_names)}

    def best(self, observed: Mapping[str, Observation]) -> str:
        """The next test of perfect play, or the truth to name once no test can help.

        Ties go to the action that stands first in the task.

        Args:
            observed: what each action taken so far has shown.

        Raises:
            KeyError: an action is not of this task.
            ValueError: an observation belongs to no state of its action, or together they rule out every truth.
        """
        survivors = self.task.survivors(observed)
        if not survivors:
            raise ValueError("the observations rule out every truth")
        left = sum(1 << place for place, truth in enumerate(self.task.truths) if truth in survivors)
        unused = sum(1 << place for place, name in enumerate(self.task.action_names) if name not in observed)
        if len(survivors) == 1:
            return survivors[0]
        for place, truth in enumerate(self.task.truths):
            if truth in survivors and not self._game.able[place] & unused:
                return truth
        limit = self._value(left, unused) + TIE
        for place, name in enumerate(self.task.action_names):
            if unused >> place & 1 and self._after(left, unused, place, limit) <= limit:
                return name
        raise AssertionError("no action attains the value of its state")

    def rollout(self) -> tuple[str, ...]:
        """The tests of perfect play on what this task shows, in order, and last the truth that it names."""
        observed: dict[str, Observation] = {}
        moves: list[str] = []
        while True:
            moves.append(self.best(observed))
            if moves[-1] not in self.task.action_names:
                return tuple(moves)
            observed[moves[-1]] = self.task.observations[self.task.position(moves[-1])]

    def _after(self, left: int, unused: int, action: int, limit: float = math.inf) -> float:
        """Expected tests if ``action`` is next; once that is certain to exceed ``limit``, some number above it."""
        keep, count, size = self._game.keep[action], self._game.number[action], self._game.size
        kept = left & keep
        weights = size[kept] * count
        steps, total = 1.0, int(weights.sum())
        for survivors, weight in zip(kept.tolist(), weights.tolist(), strict=True):
            if weight and steps <= limit:
                steps += weight / total * self._value(survivors, unused & ~(1 << action))
        return steps

    def _value(self, left: int, unused: int) -> float:
        """Expected tests of perfect play from a game state."""
        game = self._game
        unused = kernel.folded(game, left, unused)
        if left.bit_count() <= 1 or any(
            left >> t & 1 and not able & unused for t, able in enumerate(game.able.tolist())
        ):
            return 0.0
        while True:
            value = kernel.recall(game, self._memo, left, unused)
            if value > 0:
                return value
            value = kernel.explore(game, self._memo, self._scratch, left, unused, math.inf)
            if not self._memo.status[kernel.FULL]:
                return value
            larger = _memo(4 * self._memo.keys.size, self._slots)
            kernel.rehash(self._memo, larger)
            larger.status[2:] += self._memo.status[2:]
            self._memo = larger


def _game(task: Task) -> kernel.Game:
    """The task's outcome table as arrays; states with the same effect become one that counts for all."""
    everything = (1 << len(task.truths)) - 1
    bits = {truth: 1 << place for place, truth in enumerate(task.truths)}
    outcomes: list[dict[int, int]] = []
    for action in task.actions:
        counts: dict[int, int] = {}
        for state in action.states:
            kept = everything & ~sum(bits[truth] for truth in state.rules_out)
            counts[kept] = counts.get(kept, 0) + 1
        shared = math.gcd(*counts.values())
        outcomes.append({kept: number // shared for kept, number in counts.items()})
    width = max(map(len, outcomes))
    keep = np.zeros((len(outcomes), width), np.int64)
    count = np.zeros((len(outcomes), width), np.int64)
    for place, counts in enumerate(outcomes):
        keep[place, : len(counts)] = list(counts)
        count[place, : len(counts)] = list(counts.values())
    able = np.array(
        [
            sum(1 << a for a, row in enumerate(outcomes) if any(not kept >> t & 1 for kept in row))
            for t in range(len(task.truths))
        ],
        np.int64,
    )
    reach = np.array([everything & ~functools.reduce(operator.and_, row) for row in outcomes], np.int64)
    size = np.array([left.bit_count() for left in range(everything + 1)], np.int64)
    total = np.stack(
        [np.maximum(sum(size[np.arange(everything + 1) & k] * n for k, n in row.items()), 1) for row in outcomes], 1
    )
    most = HORIZON
    tables = kernel.bound_tables(keep, count, size, total, able, most)
    return kernel.Game(keep, count, able, reach, size, total, *kernel.fold_tables(keep, count, able), *tables)


HORIZON = 6


def _scratch(game: kernel.Game) -> kernel.Scratch:
    actions, states = game.keep.shape
    D = actions + 2
    I = lambda *n: np.zeros((D, *n), np.int64)
    F = lambda *n: np.zeros((D, *n))
    return kernel.Scratch(
        I(),
        I(),
        F(),
        F(),
        I(),
        I(),
        I(),
        I(actions + 3),
        I(actions),
        F(actions),
        I(actions, states),
        F(actions, states),
        F(actions, states),
        I(actions),
    )


def _memo(slots: int, limit: int) -> kernel.Memo:
    slots = min(slots, limit)
    return kernel.Memo(np.zeros(slots, np.int64), np.zeros(slots), np.zeros(6, np.int64), limit)
