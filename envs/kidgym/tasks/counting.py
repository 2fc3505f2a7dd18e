"""CO: collect piles until they make up a number."""

from __future__ import annotations

from random import Random

from envs.kidgym.catalog import PILED, SCENE_OF_TYPE, counted, words
from envs.kidgym.scene import Item
from envs.kidgym.world import Action, World


class Counting(World):
    """Piles of one, two and three of a thing lie about, and a given number has to be collected and declared.

    Description: 1, 2 or 3 (by level) piles of each size, all labeled, and a number from 1 to 3, 2 to 6 or 3 to 9.
    Actions: pick up a pile, which a full backpack refuses; declare that the number has been collected.
    Reward: 1 when the declaration is true.
    Termination: with the declaration, or when the backpack is full and still holds too few; 5 steps (needed are 2 to 4).
    """

    name = "CO"
    title = "Counting"
    budgets = (5, 5, 5)
    max_actions = 10

    def build(self, rng: Random) -> None:
        """Draw a thing and the number."""
        kind = rng.choice(list(PILED))
        self.background = SCENE_OF_TYPE[kind]
        self.item = rng.choice(PILED[kind])
        self.target = rng.randint(self.level, 3 * self.level)
        piles = [Item(f"pile/{self.item}/{size}") for size in (1, 2, 3) for _ in range(self.level)]
        self.scene = self.scatter(rng, piles)
        self.declared = False

    @property
    def declaration(self) -> str:
        """The action that ends the game, in the words of both goal and action list."""
        return f"I have already collected {counted(self.target, self.item)}"

    @property
    def goal(self) -> str:
        """How many, and how to say so."""
        return (
            f"Collect exactly {counted(self.target, self.item)} in all, then choose the action '{self.declaration}'. "
            "You pick up piles: each holds one, two or three of them."
        )

    def choices(self) -> list[Action]:
        """Every pile, with a full backpack too (the declaration alone would give it away), and the declaration."""
        picks = [
            Action(f"pick up the {words(self.item)} with label {pile.label}", "pick", cell)
            for cell, pile in self.scene.items()
        ]
        return [*picks, Action(self.declaration, "declare")]

    def perform(self, action: Action) -> bool:
        """Pick up or declare."""
        if action.verb == "pick":
            return self.pick_up(action.cell)
        self.declared = True
        return True

    @property
    def collected(self) -> int:
        """The sum of the piles in the backpack."""
        return sum(int(pile.sprite.rpartition("/")[2]) for pile in self.backpack)

    def verdict(self) -> bool | None:
        """Decided by the declaration, or by a full backpack that does not suffice."""
        if self.declared:
            return self.collected == self.target
        return False if not self.has_room and self.collected < self.target else None
