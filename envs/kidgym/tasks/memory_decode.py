"""MDE: remember a table of pairs and find the partner of one entry."""

from __future__ import annotations

from random import Random

from envs.kidgym.catalog import ITEMS
from envs.kidgym.scene import Hint, Item
from envs.kidgym.world import Action, World


class MemoryDecode(World):
    """A table assigns things to things; it is shown once, and then the partner of one entry has to be chosen.

    Description: a table of 1 to 5 (by level) pairs in the hint block, shown at first; then an entry of its left column
        at the upper end of the hint block, and its partner among 3 to 11 distractors: the other partners of the
        table, and things of their type.
    Actions: continue; then choose a thing.
    Reward: 1 when the partner is chosen.
    Termination: with the first choice; 2 to 6 steps (needed are 2).

    Balanced: a table of 4, 6 or 8 pairs, and the things to choose from are its partners, all of one type and no others: it
    has to be remembered whose partner each is.
    """

    name = "MDE"
    title = "Memory Decode"
    budgets = (2, 3, 4, 5, 6)
    limit = "twelve things lie within reach, and the hint block has room for eight pairs"
    memory = True
    max_actions = 8
    variants = ("published", "balanced")

    def build(self, rng: Random) -> None:
        """Draw the table, the entry that is asked for, and the distractors."""
        self.background = "park"
        if self.balanced:
            pairs = 2 * self.level + 2
            left_type, right_type = rng.sample(list(ITEMS), 2)
        else:
            pairs = self.level
            left_type, right_type = rng.choice(list(ITEMS)), rng.choice(list(ITEMS))
            # At level 5 both columns cannot be of food: there are eight foods, and they would need ten.
            while left_type == right_type and len(ITEMS[left_type]) < 2 * pairs:
                right_type = rng.choice(list(ITEMS))
        left = [f"{left_type}/{name}" for name in rng.sample(ITEMS[left_type], pairs)]
        right = [f"{right_type}/{name}" for name in ITEMS[right_type]]
        free = [sprite for sprite in right if sprite not in left]
        self.table = tuple(zip(left, rng.sample(free, pairs), strict=True))
        self.query, self.answer = rng.choice(self.table)
        shown = [self.answer, *self.draw_decoys(rng, right_type)]
        items = [Item(sprite) for sprite in shown]
        self.hidden = tuple(self.scatter(rng, items).items())

    def draw_decoys(self, rng: Random, right_type: str) -> list[str]:
        """The partners of the other entries, and then things of the same type, as far as there are any.

        So neither who remembers which things were partners, nor who remembers their type alone, knows more than that.
        """
        partners = [right for _, right in self.table if right != self.answer]
        taken = (self.query, self.answer, *partners)
        alike: list[str] = []
        others: list[str] = []
        for kind, names in ITEMS.items():
            fitting = alike if kind == right_type else others
            for name in names:
                sprite = f"{kind}/{name}"
                if sprite not in taken:
                    fitting.append(sprite)
        more = rng.sample(alike, len(alike)) + rng.sample(others, len(others))
        return [*partners, *more][: 2 * self.level + 1]

    def reveal(self) -> None:
        """The things appear on the playfield."""
        self.scene = dict(self.hidden)

    @property
    def hint(self) -> Hint:
        """The table; then the entry that is asked for."""
        if self.watching:
            return Hint("pairs", tuple((Item(left), Item(right)) for left, right in self.table))
        return Hint("box", ((Item(self.query),),), "top")

    @property
    def goal(self) -> str:
        """Remember; then choose."""
        if self.watching:
            return (
                "The hint block on the left shows which item stands for which: the arrow points from an item to its partner. "
                "Remember the pairs: they will not be shown again, and you will have to find the partner of one of the items. "
                "When you have understood this, choose the action 'continue'."
            )
        return (
            "The upper-left corner shows an item from the left side of the table that you were shown. "
            "Choose the item that is its partner according to that table."
        )

    def choices(self) -> list[Action]:
        """Everything that lies there."""
        return [Action(f"choose the item with label {item.label}", "choose", cell) for cell, item in self.scene.items()]

    def perform(self, action: Action) -> bool:
        """Take the thing."""
        return self.pick_up(action.cell)

    def verdict(self) -> bool | None:
        """Decided by the first choice."""
        return self.backpack[0].sprite == self.answer if self.backpack else None


class PublishedMemoryDecode(MemoryDecode):
    """The published game: distractors are any things, so that one that was in the table as a partner is mostly the answer."""

    def draw_decoys(self, rng: Random, right_type: str) -> list[str]:
        """Any things but the entry asked for and its partner."""
        others = []
        for kind, names in ITEMS.items():
            for name in names:
                sprite = f"{kind}/{name}"
                if sprite not in (self.query, self.answer):
                    others.append(sprite)
        return rng.sample(others, 2 * self.level + 1)
