"""What a reply is worth in training. Under each kind perfect play has the highest total that any policy can have."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

from evals.conversation import PlayedTurn, Record
from evals.searches import found_by
from evals.types import Turn

RewardKind = Literal["success", "regret", "shaped"]
"""``success``: the game's credit (0 to 1) with its last reply. ``regret``: from that, each reply takes off the expected steps
that it lost against the best one, as a share of the budget. ``shaped``: to that, each reply adds by how much it brought
the win nearer (``potential``)."""


class NoRewardError(ValueError):
    """The suite does not say how far a game is from its win, so only ``success`` can be rewarded."""


class Rewards:
    """The rewards of one game.

    With ``shaped`` they telescope: whatever is played, the total is the game's credit less the potential of its first turn,
    so policies rank as they do by ``success`` (Ng, Harada & Russell 1999, with a discount of 1).
    """

    def __init__(self, kind: RewardKind, opening: Turn) -> None:
        """Nothing is rewarded yet.

        Raises:
            NoRewardError: see there.
        """
        if kind != "success" and opening.remaining is None:
            raise NoRewardError(
                f"reward={kind}: turns of the suite {opening.episode.suite!r} do not say what perfect play still takes "
                "(Turn.remaining); use reward=success"
            )
        self.kind = kind
        self.total = 0.0
        """Of the rewards so far."""
        self._budget = max(1, opening.episode.budget)
        self._potential: float | None = None

    async def asked(self, turn: Turn) -> None:
        """A turn is asked: with ``shaped`` its potential is searched, which may take seconds in large games."""
        if self.kind == "shaped" and self._potential is None:
            self._potential = await self._potential_of(turn)

    async def answered(self, played: PlayedTurn, following: Turn | None, record: Record | None) -> float:
        """The reward of a reply.

        Args:
            played: What was asked, replied and read.
            following: The turn that is asked next.
            record: How the game ended with this reply; None while it goes on.
        """
        reward = 0.0
        if record is not None and record.outcome is not None:
            reward = record.outcome.credit
        if self.kind == "regret":
            reward -= await self._lost_by(played, ended=record is not None)
        if self.kind == "shaped":
            reward += await self._gained(following)
        self.total += reward
        return reward

    async def _gained(self, following: Turn | None) -> float:
        """How much the potential rises with a reply; the turn after it has this potential, a game that ended has 0."""
        before = self._potential or 0.0
        after = 0.0
        if following is not None:
            after = await self._potential_of(following)
        self._potential = after
        return after - before

    async def _potential_of(self, turn: Turn) -> float:
        if turn.remaining is None:
            return 0.0
        return potential(await found_by(partial(turn.remaining, None)), self._budget)

    async def _lost_by(self, played: PlayedTurn, *, ended: bool) -> float:
        remaining = played.turn.remaining
        if remaining is None:
            return 0.0
        if played.action is None:  # a reply that names no action takes a turn, unless it ends the game
            return 0.0 if ended else 1 / self._budget
        best = await found_by(partial(remaining, None))
        chosen = await found_by(partial(remaining, played.action))
        # A game that this action loses, or may lose, costs its success and nothing besides.
        return 0.0 if math.isinf(chosen) else max(0.0, chosen - best) / self._budget


def potential(remaining: float, budget: int) -> float:
    """How near a win is: 0 where it is reached, -1 where it takes the whole budget or cannot be reached any more.

    >>> potential(5, 20), potential(math.inf, 20)
    (-0.25, -1.0)
    """
    return -min(remaining, budget) / budget
