"""SE: remember which things were shown and choose them from a larger lot."""

from __future__ import annotations

from random import Random

from envs.kidgym.catalog import ITEMS, SCENE_OF_TYPE
from envs.kidgym.scene import Hint, Item
from envs.kidgym.world import Action, World


class Selection(World):
    """Things are shown in the hint block once; afterwards they have to be found among others of their type.

    Description: 1 to 4 (by level) targets, shown at first; then 3 to 6 distractors lie beside them, all labeled.
    Actions: continue; then choose a thing, which moves to the backpack.
    Reward: 1 when exactly the targets were chosen, in any order.
    Termination: when as many things were chosen as there are targets; 2 to 5 steps, which is the fewest possible.
    """

    name = "SE"
    title = "Selection"
    budgets = (2, 3, 4, 5)
    limit = "the backpack has four slots"
    memory = True
    max_actions = 8

    def build(self, rng: Random) -> None:
        """Draw a type and distinct items of it: first the targets, then the distractors."""
        count = 2 * self.level + 2
        self.type = rng.choice([kind for kind, names in ITEMS.items() if len(names) >= count])
        self.background = SCENE_OF_TYPE[self.type]
        drawn = [Item(f"{self.type}/{name}") for name in rng.sample(ITEMS[self.type], count)]
        self.targets = tuple(drawn[: self.level])
        self.hidden = tuple(self.scatter(rng, drawn).items())

    def reveal(self) -> None:
        """The things appear on the playfield."""
        self.scene = dict(self.hidden)

    @property
    def hint(self) -> Hint | None:
        """The targets one below the other, at first only."""
        return Hint("column", tuple((target,) for target in self.targets)) if self.watching else None

    @property
    def goal(self) -> str:
        """Remember; then choose."""
        one = self.level == 1
        items = f"one {self.type} item" if one else f"{self.level} {self.type} items"
        if not self.watching:
            if one:
                return f"The hint block showed {items}. Choose the one you recall."
            return f"The hint block showed {items}. Choose all the items you recall, one by one."
        they, them = ("it", "it") if one else ("they", "them")
        return (
            f"The hint block on the left shows {items}. Remember {them}: {they} will not be "
            f"shown again, and you will have to choose {them} among others. "
            "When you have understood this, choose the action 'continue'."
        )

    def choices(self) -> list[Action]:
        """Everything that still lies there."""
        return [
            Action(f"choose {self.type} with label {item.label}", "choose", cell) for cell, item in self.scene.items()
        ]

    def perform(self, action: Action) -> bool:
        """Take the thing."""
        return self.pick_up(action.cell)

    def verdict(self) -> bool | None:
        """Decided by the last choice; a wrong one before it goes unremarked."""
        if len(self.backpack) < self.level:
            return None
        return sorted(self.backpack) == sorted(self.targets)
