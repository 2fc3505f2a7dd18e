"""The built-in players: perfect play, uniform chance and shortcuts, through the very same play loop as any model."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from evals.searches import found_by
from evals.types import LabelScores, PlayerError, Reply, Turn


class OraclePlayer:
    """Replies what perfect play would; the suite says what that is."""

    async def reply(self, turn: Turn) -> Reply:
        """Answer with the turn's oracle.

        Raises:
            PlayerError: the suite gives no oracle for this turn.
        """
        if turn.oracle is None:
            raise PlayerError(f"the suite {turn.episode.suite!r} has no oracle for this turn")
        text = await found_by(turn.oracle)
        return Reply(text, label_scores=certain(turn.labels, text) if turn.labels else None)


class RandomPlayer:
    """Replies with one of the offered options, uniformly; the same one whenever the same turn is asked again."""

    async def reply(self, turn: Turn) -> Reply:
        """Draw one option (or label).

        Raises:
            PlayerError: the turn offers nothing to choose from.
        """
        choices = turn.options or turn.labels
        if not choices:
            raise PlayerError("the turn offers no options to draw from")
        text = random.Random(turn.seed).choice(choices)
        scores = None
        if turn.labels:
            scores = LabelScores((-math.log(len(turn.labels)),) * len(turn.labels), mass=1.0, argmax_is_label=True)
        return Reply(text, label_scores=scores)


@dataclass(frozen=True)
class ShortcutPlayer:
    """Replies as one of the suite's shortcuts does (``Suite.shortcuts``): what a model could score without the skill."""

    name: str

    async def reply(self, turn: Turn) -> Reply:
        """Answer with the turn's shortcut of this name.

        Raises:
            PlayerError: the suite does not offer it for this turn.
        """
        if self.name not in turn.shortcuts:
            raise PlayerError(f"the suite {turn.episode.suite!r} has no shortcut {self.name!r} for this turn")
        text = await found_by(turn.shortcuts[self.name])
        return Reply(text, label_scores=certain(turn.labels, text) if turn.labels else None)


def certain(labels: tuple[str, ...], chosen: str) -> LabelScores:
    """Label scores of a player who is sure: probability 1 for the label it chose."""
    return LabelScores(tuple(0.0 if label == chosen else -math.inf for label in labels), mass=1.0, argmax_is_label=True)


BUILT_IN_PLAYERS: dict[str, OraclePlayer | RandomPlayer] = {"oracle": OraclePlayer(), "random": RandomPlayer()}
