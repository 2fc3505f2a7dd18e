"""FI: complete the picture of an animal with the missing quarters."""

from __future__ import annotations

from random import Random
from typing import Final

from envs.kidgym.catalog import QUARTERED, ROMAN
from envs.kidgym.grid import at
from envs.kidgym.scene import Hint, Item
from envs.kidgym.world import Action, World, slots

BOARD: Final = (at(1, 1), at(2, 1), at(1, 2), at(2, 2))
"""Cells of the 2x2 board in the order of the quarters."""
MIRRORED: Final = ((1, 2), (3, 4))
"""Quarters that mirror each other, left and right."""
START: Final = at(3, 3)
PIECES: Final = 4


class Filling(World):
    """A 2x2 board lacks some pieces, and the backpack holds them among others.

    Description: an animal cut in quarters, 1 to 4 (by level) of them missing at numbered positions; the whole animal in
        the hint block; in the backpack the missing quarters and others, of any animal.
    Actions: place a piece from the backpack at a position that is still free. Any piece fits.
    Reward: 1 when every position holds the right piece.
    Termination: when all positions are filled; 1 to 4 steps, which is the fewest possible.

    Balanced: the hint block shows four pieces as a picture, two mirrored quarters of two animals each, in any order; the
    backpack holds just these, and the frame nothing but the positions. What is missing can only be seen in the hint block,
    by its animal and its side.
    """

    name = "FI"
    title = "Filling"
    budgets = (1, 2, 3, 4)
    limit = "the picture has four pieces"
    balanced_levels = 4
    variants = ("published", "balanced")
    max_actions = 12

    def build(self, rng: Random) -> None:
        """Draw an animal, its missing quarters and pieces that do not belong."""
        if self.balanced:
            self.build_balanced(rng, self.draw_pieces(rng))
            return
        self.animal = rng.choice(QUARTERED)
        whole = [f"quarter/{self.animal}/{quarter}" for quarter in range(1, 5)]
        missing = self.set_board(rng, whole)
        others = [f"quarter/{name}/{quarter}" for name in QUARTERED for quarter in range(1, 5)]
        others = [piece for piece in others if piece not in missing]
        self.fill_backpack(rng, [*missing, *rng.sample(others, PIECES - len(missing))])

    def draw_pieces(self, rng: Random) -> list[str]:
        """Balanced: four pieces of which an animal alone, or a side alone, tells no more than two apart."""
        animals, sides = rng.sample(QUARTERED, 2), rng.choice(MIRRORED)
        return [f"quarter/{animal}/{side}" for animal in animals for side in sides]

    def build_balanced(self, rng: Random, pieces: list[str]) -> None:
        """Draw the order of four pieces, and which of them are to be placed; the frame shows none of the others."""
        self.pattern = tuple(rng.sample(pieces, len(pieces)))
        self.set_board(rng, list(self.pattern))
        self.scene = {cell: self.scene[cell] for cell in self.blanks}
        self.fill_backpack(rng, pieces)

    def set_board(self, rng: Random, whole: list[str]) -> list[str]:
        """Lay the board with as many blanks as the level, numbered in reading order; returns the missing pieces."""
        self.background = "gallery"
        self.agent = START
        blanks = sorted(rng.sample(range(len(BOARD)), self.level))
        self.blanks = tuple(BOARD[blank] for blank in blanks)
        self.missing = tuple(whole[blank] for blank in blanks)
        self.scene = {cell: Item(piece) for cell, piece in zip(BOARD, whole, strict=True)}
        self.scene |= {cell: Item(f"roman/{number}") for number, cell in enumerate(self.blanks, 1)}
        return list(self.missing)

    def fill_backpack(self, rng: Random, pieces: list[str]) -> None:
        """Put the pieces in the backpack in random order."""
        self.backpack = [Item(piece) for piece in rng.sample(pieces, len(pieces))]

    @property
    def hint(self) -> Hint | None:
        """The whole animal; balanced, the four pieces in their order."""
        if not self.balanced:
            return Hint("box", ((Item(f"animal/{self.animal}"),),))
        upper_left, upper_right, lower_left, lower_right = map(Item, self.pattern)
        return Hint("box", ((upper_left, upper_right), (lower_left, lower_right)))

    @property
    def goal(self) -> str:
        """What the board has to become."""
        if self.balanced:
            return (
                "The hint block on the left shows a picture made of four pieces. Place pieces from the backpack in the "
                f"frame at {self.numerals}, so that each position holds the piece that the hint block shows in that place."
            )
        return (
            f"The picture in the frame lacks the pieces at {self.numerals}. Complete it: place pieces "
            "from the backpack so that it shows the animal in the hint block on the left."
        )

    @property
    def numerals(self) -> str:
        """The positions that were blank at first."""
        return f"position{'s' if self.level > 1 else ''} {', '.join(ROMAN[: self.level])}"

    def choices(self) -> list[Action]:
        """Every piece at every free position."""
        actions = []
        for roman, cell in zip(ROMAN, self.blanks, strict=False):
            is_free = self.scene[cell].sprite.startswith("roman/")
            if not is_free:
                continue
            for slot, letter in slots(self.backpack):
                text = f"place the piece from backpack {letter} into the grid at position {roman}"
                actions.append(Action(text, "place", cell, slot))
        return actions

    def perform(self, action: Action) -> bool:
        """Put the piece in place of the marker."""
        return self.put_down(action.slot, action.cell)

    def verdict(self) -> bool | None:
        """Decided by the last piece."""
        placed = tuple(self.scene[cell].sprite for cell in self.blanks)
        if any(piece.startswith("roman/") for piece in placed):
            return None
        return placed == self.missing
