"""MMA: a maze with three chests, of which only one holds the diamond that was shown at first."""

from __future__ import annotations

from random import Random

from envs.kidgym.catalogue import LOCK_COLOURS
from envs.kidgym.layout import lay_out
from envs.kidgym.scene import Item
from envs.kidgym.tasks.maze import Maze

DECOYS = 2


class MemoryMaze(Maze):
    """The diamond is seen once; then it is a chest like two others, and the right one has to be opened.

    Description: as in MA, with fewer walls and two empty chests that appear later; the diamond's chest keeps its label.
    Actions: continue; then as in MA, with chests to obtain.
    Reward: 1 when the chest with the diamond is obtained.
    Termination: when any chest is obtained; 4, 6 or 8 steps, which is the fewest possible.
    """

    name = "MMA"
    title = "Memory Maze"
    budgets = (4, 6, 8)
    memory = True
    max_actions = 12
    walls = (7, 3, 6)

    def build(self, rng: Random) -> None:
        """Draw a maze; two of its barriers, which touch the way, are to become chests."""
        layout = lay_out(rng, doors=self.level, walls=self.walls[self.level - 1], chests=DECOYS)
        colours = rng.sample(LOCK_COLOURS[: self.level], self.level)
        chests = [(cell, Item("chest")) for cell in layout.chests]
        self.furnish(rng, layout, tuple(zip(colours, colours, strict=True)), *chests)
        self.decoys = tuple((cell, self.scene.pop(cell)) for cell, _ in chests)

    def reveal(self) -> None:
        """Three chests stand where the diamond was and elsewhere."""
        self.scene |= {self.treasure: Item("chest", self.scene[self.treasure].label), **dict(self.decoys)}

    @property
    def goal(self) -> str:
        """Remember; then open."""
        if self.watching:
            return (
                "Remember where the diamond lies in the maze: it will be hidden in a chest, among other chests that are empty. "
                "When you have understood this, choose the action 'continue'."
            )
        return (
            "Obtain the diamond in the maze. It is hidden in the chest that stands where you saw it; "
            "obtaining another chest loses the game. A locked door blocks the way until you unlock it "
            "with the key of the same colour, and you have to obtain a key before you can use it."
        )

    def verdict(self) -> bool | None:
        """Decided by the first chest that is taken."""
        if self.treasure not in self.scene:
            return True
        return None if all(cell in self.scene for cell, _ in self.decoys) else False
