"""MFI: complete the picture of an animal that was shown at first only."""

from __future__ import annotations

from random import Random

from envs.kidgym.scene import Hint
from envs.kidgym.tasks.filling import Filling


class MemoryFilling(Filling):
    """Filling from memory: the hint block shows the animal once, and only then the backpack fills.

    Description: as in FI; at first with an empty backpack, afterwards without the hint.
    Actions: continue; then as in FI.
    Reward: 1 when every position holds the right piece.
    Termination: when all positions are filled; 2 to 5 steps, which is the fewest possible.

    Balanced: as in FI, so that no piece in the frame tells what the hint block showed.
    """

    name = "MFI"
    title = "Memory Filling"
    budgets = (2, 3, 4, 5)
    memory = True

    def build(self, rng: Random) -> None:
        """As in FI, but the pieces are kept for later."""
        super().build(rng)
        self.pieces = tuple(self.backpack)
        self.backpack = []

    def reveal(self) -> None:
        """The pieces appear in the backpack."""
        self.backpack = list(self.pieces)

    @property
    def hint(self) -> Hint | None:
        """The whole animal, at first only."""
        return super().hint if self.watching else None

    @property
    def goal(self) -> str:
        """Remember; then complete."""
        if self.balanced and self.watching:
            return (
                "Remember the picture in the hint block on the left, which is made of four pieces: it will not be shown again, "
                f"and you will have to place the right pieces in the frame at {self.numerals}. "
                "When you have memorized it, choose the action 'continue'."
            )
        if self.balanced:
            return (
                f"Place pieces from the backpack in the frame at {self.numerals}, so that each position holds the piece "
                "that the hint block showed in that place."
            )
        if self.watching:
            return (
                "Remember the animal in the hint block on the left: it will not be shown again, and you will have to "
                f"complete the picture in the frame at {self.numerals}. "
                "When you have understood this, choose the action 'continue'."
            )
        return (
            f"The picture in the frame lacks the pieces at {self.numerals}. Complete it: place pieces "
            "from the backpack so that it shows the animal that you recall from the hint block."
        )
