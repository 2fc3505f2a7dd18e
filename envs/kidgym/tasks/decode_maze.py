"""DMA: a maze whose keys open doors of another color, as the hint block tells."""

from __future__ import annotations

from random import Random
from typing import Final

from envs.kidgym.catalog import LOCK_COLORS
from envs.kidgym.layout import lay_out
from envs.kidgym.scene import Hint, Item
from envs.kidgym.tasks.maze import Maze

CYCLES: Final = ({"blue": "yellow", "yellow": "red", "red": "blue"}, {"yellow": "blue", "blue": "red", "red": "yellow"})
"""The two ways to assign each key a door of another color."""


class DecodeMaze(Maze):
    """A maze in which no key opens the door of its own color; the hint block shows what it opens.

    Which of the two possible codes holds is drawn anew for every episode, so that it has to be read. All doors stated
    have to be opened.

    Description: as in MA, with 5 to 10 walls. At level 1 a second key has the door's own color and opens nothing.
    Actions: as in MA.
    Reward: 1 when the diamond is obtained.
    Termination: when the diamond is obtained; 4, 6 or 8 steps, one more than needed.

    Balanced: as in MA, without a step to spare; any of the six codes, also with keys that open doors of their own color.
    """

    name = "DMA"
    title = "Decode Maze"
    budgets = (4, 6, 8)
    limit = "locks have three colors"

    def build(self, rng: Random) -> None:
        """Draw a maze and a code."""
        if self.balanced:
            code = dict(zip(LOCK_COLORS, rng.sample(LOCK_COLORS, len(LOCK_COLORS)), strict=True))
            self.build_balanced(rng, code)
            self.table = tuple(rng.sample(self.fitting, len(self.fitting)))
            return
        layout = lay_out(rng, doors=self.level, walls=rng.randint(5, 10), distractor=self.level == 1)
        code = rng.choice(CYCLES)
        fitting = tuple((key, code[key]) for key in rng.sample(LOCK_COLORS, self.level))
        distractor = () if layout.distractor is None else ((layout.distractor, Item(f"key/{fitting[0][1]}")),)
        self.furnish(rng, layout, fitting, *distractor)
        self.table = tuple(rng.sample(fitting, len(fitting)))

    @property
    def budget(self) -> int:
        """Most steps that this level allows."""
        return super().budget - self.balanced

    @property
    def hint(self) -> Hint:
        """One row for each key: the door that it opens."""
        return Hint("pairs", tuple((Item(f"key/{key}"), Item(f"door/{door}")) for key, door in self.table))

    @property
    def goal(self) -> str:
        """The rules of locks, and where the code is."""
        return (
            "Obtain the diamond in the maze. A locked door blocks the way until you unlock it with its key, "
            "and you have to obtain a key before you can use it. The hint block on the left shows which key opens which door."
            f"{self.not_all}"
        )
