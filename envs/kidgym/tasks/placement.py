"""PL: find a place around a thing by its compass direction."""

from __future__ import annotations

from random import Random
from typing import Final

from envs.kidgym.catalog import ITEMS, ROMAN, SCENE_OF_TYPE, words
from envs.kidgym.grid import at
from envs.kidgym.scene import Item
from envs.kidgym.world import Action, World

RING: Final = {
    "north": at(2, 1),
    "northeast": at(3, 1),
    "east": at(3, 2),
    "southeast": at(3, 3),
    "south": at(2, 3),
    "southwest": at(1, 3),
    "west": at(1, 2),
    "northwest": at(1, 1),
}
"""The cells around the center by direction, clockwise."""
CENTER: Final = at(2, 2)
COUNTED: Final = ("next", "second", "third")
"""Positions from the opposite direction on, from level 3."""
START: Final = at(2, 4)


class Placement(World):
    """A thing has to be placed opposite of a given direction, or next to there.

    Description: a thing in the middle of 4 (level 1) or 8 numbered positions, another in the backpack, and a direction in
        the goal: its opposite is meant, from level 3 on the next, second or third position from
        there, clockwise or counterclockwise.
    Actions: place the thing at a position.
    Reward: 1 when it stands at the right one.
    Termination: after the one step that there is.
    """

    name = "PL"
    title = "Placement"
    budgets = (1, 1, 1, 1, 1)
    limit = "the fourth position from the opposite is where the given direction points"
    max_actions = 8

    def build(self, rng: Random) -> None:
        """Draw the two things, a direction, a turn, and the positions' numbers."""
        kind, other = rng.choice(list(ITEMS)), rng.choice(list(ITEMS))
        self.background = SCENE_OF_TYPE[kind]
        self.center = f"{kind}/{rng.choice(ITEMS[kind])}"
        self.item = rng.choice([f"{other}/{name}" for name in ITEMS[other] if f"{other}/{name}" != self.center])
        directions = list(RING)[:: 2 if self.level == 1 else 1]
        self.direction = rng.choice(directions)
        self.turn = rng.choice((1, -1)) * (self.level - 2) if self.level >= 3 else 0
        clockwise = list(RING.values())
        self.answer = clockwise[(clockwise.index(RING[self.direction]) + 4 + self.turn) % 8]

        self.agent = START
        self.positions = tuple(rng.sample([RING[name] for name in directions], len(directions)))
        self.scene = {cell: Item(f"roman/{number}") for number, cell in enumerate(self.positions, 1)}
        self.scene[CENTER] = Item(self.center)
        self.backpack = [Item(self.item)]

    @property
    def goal(self) -> str:
        """Direction, what to make of it, and what to place."""
        place = f"place the {words(self.item)} at the corresponding grid around the {words(self.center)}. North is up."
        if self.turn:
            turn = "clockwise" if self.turn > 0 else "counterclockwise"
            return (
                f"The given direction is {self.direction}. Find its opposite direction, then from that opposite direction "
                f"the {COUNTED[abs(self.turn) - 1]} position {turn}, and {place}"
            )
        return f"The given direction is {self.direction}. Find its opposite direction, and {place}"

    def choices(self) -> list[Action]:
        """Every position."""
        return [
            Action(f"place the {words(self.item)} from backpack A at grid {roman}", "place", cell, 0)
            for roman, cell in zip(ROMAN, self.positions, strict=False)
        ]

    def perform(self, action: Action) -> bool:
        """Put the thing in place of the marker."""
        return self.put_down(action.slot, action.cell)

    def verdict(self) -> bool | None:
        """Decided once the backpack is empty."""
        return None if self.backpack else self.scene[self.answer].sprite == self.item
