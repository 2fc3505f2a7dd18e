"""CL: sort things into baskets by their kind."""

from __future__ import annotations

from random import Random

from envs.kidgym.catalog import BASKET_COLORS, ITEMS, SCENE_OF_TYPE, SLOTS, words
from envs.kidgym.scene import Item
from envs.kidgym.world import Action, World, slots


class Classification(World):
    """Two kinds of things lie about, and each kind belongs in the basket of a given color.

    Description: 1 to 4 (by level) of each of two items of one type, and two baskets, all labeled.
    Actions: pick up a thing; put a thing from the backpack into a basket. The wrong basket refuses it. A full backpack
        offers no more picking up.
    Reward: 1 when everything is in its basket.
    Termination: when everything is in its basket; 4, 8, 12 or 16 steps, which is the fewest possible.

    Balanced: four kinds and four baskets, and 2 to 8 things of at least 2, 3 or 4 kinds; so the baskets are not filled
    evenly, and what was put into one tells little of the others.
    """

    name = "CL"
    title = "Classification"
    budgets = (4, 8, 12, 16)
    limit = "at most ten things with two baskets, twelve with four, lie within reach"
    balanced_levels = 4
    variants = ("published", "balanced")
    max_actions = 9

    def build(self, rng: Random) -> None:
        """Draw a type, two of its items (balanced, four) and as many basket colors."""
        count = len(BASKET_COLORS) if self.balanced else 2
        kind = rng.choice(list(ITEMS))
        self.background = SCENE_OF_TYPE[kind]
        items = [f"{kind}/{name}" for name in rng.sample(ITEMS[kind], count)]
        baskets = [f"basket/{color}" for color in rng.sample(BASKET_COLORS, count)]
        self.belongs = tuple(zip(items, baskets, strict=True))
        things = items * self.level
        if self.balanced:
            self.max_actions = max(self.max_actions, len(SLOTS) * count)
            different = rng.sample(items, min(self.level + 1, count))
            more = rng.choices(items, k=2 * self.level - len(different))
            things = [*different, *more]
        self.things = tuple(things)
        shown = [Item(sprite) for sprite in (*things, *baskets)]
        self.scene = self.scatter(rng, shown)

    @property
    def goal(self) -> str:
        """Which item goes where."""
        *parts, last = (f"every {words(item)} in the {words(basket)} basket" for item, basket in self.belongs)
        not_all = " Not every kind needs to be on the board." if self.balanced else ""
        return f"Put {', '.join(parts)} and {last}.{not_all}"

    def choices(self) -> list[Action]:
        """Everything outside a basket can be picked up, everything in the backpack put in either basket."""
        actions = []
        for cell, item in self.scene.items():
            if item.sprite.startswith("basket/"):
                actions += [
                    Action(
                        f"put the item from backpack {letter} into the basket with label {item.label}",
                        "put",
                        cell,
                        slot,
                    )
                    for slot, letter in slots(self.backpack)
                ]
            elif self.has_room:
                actions.append(Action(f"pick up the item with label {item.label}", "pick", cell))
        return actions

    def perform(self, action: Action) -> bool:
        """Pick up, or put in a basket if it is the right one."""
        if action.verb == "pick":
            return self.pick_up(action.cell)
        if not self.walk_to(action.cell):
            return False
        if (self.backpack[action.slot].sprite, self.scene[action.cell].sprite) not in self.belongs:
            return False
        del self.backpack[action.slot]
        return True

    def least_steps(self) -> int:
        """Two for each thing on the playfield, one for each in the backpack."""
        return 2 * (len(self.scene) - len(self.belongs)) + len(self.backpack)

    def verdict(self) -> bool | None:
        """Won when only the baskets are left."""
        return True if not self.backpack and len(self.scene) == len(self.belongs) else None
