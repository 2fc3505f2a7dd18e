"""PU: complete a pattern of triangles with the missing tiles."""

from __future__ import annotations

from random import Random

from envs.kidgym.scene import Hint, Item
from envs.kidgym.tasks.filling import Filling


class Puzzle(Filling):
    """Filling with four abstract tiles: right triangles that differ only in how they are turned.

    Description: a pattern of all four tiles, 1 to 4 (by level) of them missing at numbered positions; the whole pattern
        in the hint block; all four tiles in the backpack, those already on the board included.
    Actions: as in FI.
    Reward: 1 when every position holds the right tile.
    Termination: when all positions are filled; 1 to 4 steps, which is the fewest possible.

    Balanced: the frame shows no tiles, so that those on the board do not tell which are missing.
    """

    name = "PU"
    title = "Puzzle"

    def build(self, rng: Random) -> None:
        """Draw one of the 24 patterns and what is missing from it."""
        if self.balanced:
            self.build_balanced(rng, self.draw_pieces(rng))
            return
        self.pattern = tuple(f"tile/{corner}" for corner in rng.sample(range(1, 5), 4))
        self.set_board(rng, list(self.pattern))
        self.fill_backpack(rng, list(self.pattern))

    def draw_pieces(self, rng: Random) -> list[str]:
        """Balanced: the four tiles."""
        return [f"tile/{corner}" for corner in range(1, 5)]

    @property
    def hint(self) -> Hint | None:
        """The whole pattern."""
        upper_left, upper_right, lower_left, lower_right = (Item(tile) for tile in self.pattern)
        return Hint("box", ((upper_left, upper_right), (lower_left, lower_right)))

    @property
    def goal(self) -> str:
        """What the board has to become."""
        if self.balanced:
            return (
                "The hint block on the left shows a pattern of four pieces. Place pieces from the backpack in the "
                f"frame at {self.numerals}, so that each position holds the piece that the hint block shows in that place."
            )
        return (
            f"The pattern in the frame lacks the pieces at {self.numerals}. Complete it: place pieces "
            "from the backpack so that it equals the pattern in the hint block on the left."
        )
