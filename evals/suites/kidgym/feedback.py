"""What a player is told of its latest action (``suite.feedback``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from envs.kidgym import Frame
from envs.kidgym.twin import changes
from evals.presentation import Feedback


@dataclass(frozen=True)
class Acted:
    """What an action did."""

    text: str
    """The action in the words of the prompt."""
    accepted: bool
    before: Frame
    after: Frame
    left_before: float
    """Steps that perfect play would have taken to win before the action, and after it; infinite if it cannot win."""
    left_after: float

    @property
    def reward(self) -> int:
        """1 for an action that brought the win a step nearer, -1 for one that lost the game, else 0."""
        if math.isinf(self.left_after):
            return 0 if math.isinf(self.left_before) else -1
        return 1 if self.left_after < self.left_before else 0


def feedback(acted: Acted, kinds: Sequence[Feedback]) -> str:
    """The sentences of all kinds, in one line."""
    said = [f"Your last action was: {acted.text}."]
    if "legal" in kinds:
        said.append("It was carried out." if acted.accepted else "It could not be carried out.")
    if "changed" in kinds:
        found = changes(acted.before, acted.after)
        said.append(f"What changed: {'; '.join(found)}." if found else "Nothing changed.")
    if "reward" in kinds:
        said.append(f"Its reward: {acted.reward}.")
    return " ".join(said)
