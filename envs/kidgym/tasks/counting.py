"""CO: collect piles until they make up a number."""

from __future__ import annotations

from random import Random
from typing import Final

from envs.kidgym.catalog import PILED, SCENE_OF_TYPE, counted, words
from envs.kidgym.scene import Item
from envs.kidgym.world import Action, World

LABELED_PILES: Final = 10
"""Most piles of several things: each has a digit."""

ASKED: Final[tuple[tuple[tuple[tuple[int, ...], int], ...], ...]] = (
    (((1, 2, 3), 2), ((1, 2, 3), 2), ((2, 2, 3), 3)),
    (((1, 2, 3), 2), ((2, 2, 3), 3), ((1, 2, 3), 4)),
    (((1, 2, 3), 2), ((1, 2, 3), 2), ((2, 3), 3), ((2, 3), 3)),
)
"""Balanced, by level: for each thing the sizes of its piles and the number asked for.

A player that tells one from several, but not two from three, has two or three choices for each thing. It would have only one
if 1 or 5 were asked for, or 3 of piles of (1, 1, 3).
"""


class Counting(World):
    """Piles of one, two and three of a thing lie about, and a given number has to be collected and declared.

    Description: 1 to 4 (by level) piles of each size, all labeled, and a number from the level to three times the level.
    Actions: pick up a pile, which a full backpack refuses; declare that the number has been collected.
    Reward: 1 when the declaration is true.
    Termination: with the declaration, or when the backpack is full and still holds too few; 5 steps (needed are 2 to 4).

    Balanced: piles of 3 or, at level 3, 4 things, and a number of each thing has to be collected. Of each thing just one of
    its piles, or two of them, will do. So piles that are taken without counting are all right in one game of 27 to 36,
    without telling things apart in one of 18 to 36, and without telling two from three in one of 12 to 16.
    """

    name = "CO"
    title = "Counting"
    budgets = (5, 5, 5, 5)
    limit = "twelve piles lie within reach; of several things, ten"
    max_actions = 10
    variants = ("published", "balanced")

    def build(self, rng: Random) -> None:
        """Draw things, their piles, and the number of each."""
        kind = rng.choice(list(PILED))
        self.background = SCENE_OF_TYPE[kind]
        if self.balanced:
            piles = self.draw_several(rng, kind)
        else:
            self.item = rng.choice(PILED[kind])
            self.target = rng.randint(self.level, 3 * self.level)
            self.wanted: tuple[tuple[str, int], ...] = ((self.item, self.target),)
            piles = [Item(f"pile/{self.item}/{size}") for size in (1, 2, 3) for _ in range(self.level)]
        self.scene = self.scatter(rng, piles)
        self.declared = False

    def draw_several(self, rng: Random, kind: str) -> list[Item]:
        """Balanced: draw several things with a number each that a single choice of piles makes up; returns all piles."""
        self.max_actions = max(self.max_actions, LABELED_PILES + 1)
        asked = list(ASKED[self.level - 1])
        names = rng.sample(PILED[kind], len(asked))
        rng.shuffle(asked)
        self.wanted = tuple((name, number) for name, (_, number) in zip(names, asked, strict=True))
        self.item, self.target = "", sum(number for _, number in asked)
        return [Item(f"pile/{name}/{size}") for name, (sizes, _) in zip(names, asked, strict=True) for size in sizes]

    @property
    def asked(self) -> str:
        """What is to be collected, in words."""
        *parts, last = (counted(number, name) for name, number in self.wanted)
        return f"{', '.join(parts)} and {last}" if parts else last

    @property
    def declaration(self) -> str:
        """The action that ends the game, in the words of both goal and action list."""
        return f"I have already collected {self.asked}"

    @property
    def goal(self) -> str:
        """How many, and how to say so."""
        if self.balanced:
            return (
                f"Collect exactly {self.asked}, then choose the action '{self.declaration}'. "
                "You pick up piles: each holds one, two or three of a thing."
            )
        return (
            f"Collect exactly {self.asked} in all, then choose the action '{self.declaration}'. "
            "You pick up piles: each holds one, two or three of them."
        )

    def choices(self) -> list[Action]:
        """Every pile, with a full backpack too (the declaration alone would give it away), and the declaration."""
        thing = "pile" if self.balanced else words(self.item)
        picks = [
            Action(f"pick up the {thing} with label {pile.label}", "pick", cell) for cell, pile in self.scene.items()
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

    def lacking(self, name: str) -> int:
        """How many of a thing are still to be collected; negative if there are too many."""
        held = (pile.sprite.rpartition("/") for pile in self.backpack)
        return dict(self.wanted).get(name, 0) - sum(int(size) for of, _, size in held if of == f"pile/{name}")

    def verdict(self) -> bool | None:
        """Decided by the declaration, or by a full backpack that does not suffice."""
        lacking = [self.lacking(name) for name, _ in self.wanted]
        if self.declared:
            return not any(lacking)
        return False if not self.has_room and max(lacking) > 0 else None
