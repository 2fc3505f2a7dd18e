"""SO: rank animals by a rule that holds in this world only."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Final

from envs.kidgym.catalog import ROMAN
from envs.kidgym.scene import Item
from envs.kidgym.world import Action, World, slots

SCALES: Final = {
    "weight": ("elephant", "pig", "sheep", "cat", "mouse"),
    "speed": ("horse", "dog", "chick", "tortoise", "snail"),
}
"""Animals whose order in one property is common knowledge, most of it first."""
COMPARATIVES: Final = {"weight": ("heavier", "lighter"), "speed": ("faster", "slower")}
ENDS: Final = {"weight": ("heavy", "light"), "speed": ("fast", "slow")}


class Sorting(World):
    """A made-up rule ties one property of animals to another, and the animals have to be ranked by the other.

    The rule may tie more to more or more to less, and the ranking may be asked for from either end, each half of the time
    and independently: whether the order of the known property has to be turned round can only be told from rule and
    question together. Without the rule both directions are equally likely. The backpack is shuffled.

    Description: 2, 3 or 4 (by level) animals in the backpack, as many numbered positions, and a rule in the goal.
    Actions: place an animal from the backpack on a position that is still free.
    Reward: 1 when every animal is on its position.
    Termination: when the backpack is empty; 2, 3 or 4 steps, which is the fewest possible.

    Balanced: any order of the animals can be this world's. The goal compares every two of them, either one with the other,
    so that neither what is known of animals nor half of a rule tells the order.
    """

    name = "SO"
    title = "Sorting"
    budgets = (2, 3, 4)
    limit = "the backpack has four slots"
    variants = ("published", "balanced")
    max_actions = 16

    def build(self, rng: Random) -> None:
        """Draw the rule's two comparatives, the end that comes first, and the animals; or this world's order of them."""
        self.background = "farm"
        if self.balanced:
            self.draw_order(rng)
        else:
            self.draw_rule(rng)
        count = len(self.answer)
        self.scene = self.scatter(rng, [Item(f"roman/{number}") for number in range(1, count + 1)], labeled=False)
        self.positions = tuple(self.scene)
        self.backpack = [Item(sprite) for sprite in rng.sample(self.answer, count)]

    def draw_rule(self, rng: Random) -> None:
        """Draw a rule that ties one property to the other, the end that comes first, and the animals."""
        self.known = rng.choice(("weight", "speed"))
        self.asked = "speed" if self.known == "weight" else "weight"
        premise = rng.randrange(2)
        conclusion = rng.randrange(2)
        first = rng.randrange(2)
        self.rule = (COMPARATIVES[self.known][premise], COMPARATIVES[self.asked][conclusion])
        self.ends = (ENDS[self.asked][first], ENDS[self.asked][1 - first])

        count = self.level + 1
        drawn = rng.sample(SCALES[self.known], count)
        ranked = [name for name in SCALES[self.known] if name in drawn]
        if premise ^ conclusion != first:
            ranked.reverse()
        self.answer = tuple(f"animal/{name}" for name in ranked)

    def draw_order(self, rng: Random) -> None:
        """Balanced: draw animals in any order, and tell it by comparing every two of them."""
        self.known = self.asked = rng.choice(("weight", "speed"))
        self.ends = ENDS[self.asked]
        order = rng.sample(SCALES[self.asked], self.level + 1)
        self.answer = tuple(f"animal/{name}" for name in order)
        more, less = COMPARATIVES[self.asked]
        said = []
        for first, second in combinations(order, 2):
            said.append(
                rng.choice((f"the {first} is {more} than the {second}", f"the {second} is {less} than the {first}"))
            )
        self.comparisons = tuple(rng.sample(said, len(said)))

    @property
    def goal(self) -> str:
        """Rule and question."""
        grids = ", ".join(ROMAN[: len(self.answer)])
        rule = (
            "; ".join(self.comparisons)
            if self.balanced
            else f"the {self.rule[0]} the animal is, the {self.rule[1]} it is"
        )
        return (
            f"In this world, {rule}. Rank the animals in the backpack "
            f"from {self.ends[0]} to {self.ends[1]} by {self.asked}: place them in this order at grid {grids}."
        )

    def choices(self) -> list[Action]:
        """Every animal on every free position."""
        actions = []
        for roman, cell in zip(ROMAN, self.positions, strict=False):
            is_free = self.scene[cell].sprite.startswith("roman/")
            if not is_free:
                continue
            for slot, letter in slots(self.backpack):
                text = f"place animal from backpack {letter} at grid {roman}"
                actions.append(Action(text, "place", cell, slot))
        return actions

    def perform(self, action: Action) -> bool:
        """Put the animal in place of the marker."""
        return self.put_down(action.slot, action.cell)

    def verdict(self) -> bool | None:
        """Decided by the last animal."""
        if self.backpack:
            return None
        return tuple(self.scene[cell].sprite for cell in self.positions) == self.answer
