"""MMA: a maze with three chests, of which only one holds the diamond that was shown at first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

from envs.kidgym.catalog import LOCK_COLORS
from envs.kidgym.decoys import Decoys, behind_all_doors
from envs.kidgym.layout import ATTEMPTS, Layout, lay_out
from envs.kidgym.scene import Item
from envs.kidgym.tasks.maze import Maze
from envs.kidgym.world import label

DECOYS = 2


RELABELED = "All labels will then change; the things themselves stay where they are. "


class MemoryMaze(Maze):
    """The diamond is seen once; then it is a chest like two others, and the right one has to be opened.

    Description: as in MA, with fewer walls and two empty chests that appear later, behind all doors, too; the diamond's chest
        keeps its label.
    Actions: continue; then as in MA, with chests to obtain.
    Reward: 1 when the chest with the diamond is obtained.
    Termination: when any chest is obtained; 4, 6 or 8 steps, which is the fewest possible.

    Balanced: as in MA, with 5 chests at level 1 and 4 at the others, any of which may hold the diamond; and all labels are
    drawn afresh after the first picture, so that none of them tells where the diamond lay.
    """

    name = "MMA"
    title = "Memory Maze"
    budgets = (4, 6, 8)
    limit = "locks have three colors"
    memory = True
    max_actions = 12
    walls = (7, 3, 6)
    decoys = (Decoys(2, 1, 4), Decoys(2, 0, 3), Decoys(1, 0, 3))
    relabeled: tuple[tuple[int, Item], ...] = ()
    """What all things look like after the first picture (balanced)."""

    def build(self, rng: Random) -> None:
        """Draw a maze; two of its barriers (balanced, three or four) are to become chests."""
        if self.balanced:
            maze = self.build_balanced(rng, dict(zip(LOCK_COLORS, LOCK_COLORS, strict=True)))
            self.decoys_later(maze.layout.chests)
            labeled = {cell: item for cell, item in {**self.scene, **dict(self.hidden)}.items() if item.label}
            labeled[self.treasure] = Item("chest")
            self.relabeled = tuple(label(rng, labeled).items())
            return
        layout = self.draw_layout(rng)
        colors = rng.sample(LOCK_COLORS[: self.level], self.level)
        chests = [(cell, Item("chest")) for cell in layout.chests]
        self.furnish(rng, layout, tuple(zip(colors, colors, strict=True)), *chests)
        self.decoys_later(layout.chests)

    def decoys_later(self, chests: Iterable[int]) -> None:
        """Hide the empty chests until the diamond has been seen."""
        self.hidden = tuple((cell, self.scene.pop(cell)) for cell in chests)

    def draw_layout(self, rng: Random) -> Layout:
        """A maze in which the decoys stand behind all doors, as the diamond does: where it lay is all that tells it.

        The number of attempts is bounded; then the decoys stand anywhere along the way.
        """
        for _ in range(ATTEMPTS):
            layout = lay_out(rng, doors=self.level, walls=self.walls[self.level - 1] + DECOYS)
            places = behind_all_doors(layout)
            if len(places) >= DECOYS:
                chests = tuple(rng.sample(places, DECOYS))
                return replace(layout, walls=tuple(wall for wall in layout.walls if wall not in chests), chests=chests)
        return lay_out(rng, doors=self.level, walls=self.walls[self.level - 1], chests=DECOYS)

    def reveal(self) -> None:
        """Three chests stand where the diamond was and elsewhere."""
        self.scene |= {self.treasure: Item("chest", self.scene[self.treasure].label), **dict(self.hidden)}
        self.scene |= dict(self.relabeled)

    @property
    def goal(self) -> str:
        """Remember; then open."""
        if self.watching:
            return (
                "Remember where the diamond lies in the maze: it will be hidden in a chest, among other chests that are empty. "
                f"{RELABELED if self.balanced else ''}When you have understood this, choose the action 'continue'."
            )
        return (
            "Obtain the diamond in the maze. It is hidden in the chest that stands where you saw it; "
            "obtaining another chest loses the game. A locked door blocks the way until you unlock it "
            f"with the key of the same color, and you have to obtain a key before you can use it.{self.not_all}"
        )

    def verdict(self) -> bool | None:
        """Decided by the first chest that is taken."""
        if self.treasure not in self.scene:
            return True
        return None if all(cell in self.scene for cell, _ in self.hidden) else False
