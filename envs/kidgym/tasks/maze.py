"""MA: unlock doors with keys of their color to get at the diamond."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import ClassVar, Final

from envs.kidgym.catalog import LOCK_COLORS
from envs.kidgym.decoys import Decoys, Misleading, mislead
from envs.kidgym.layout import Layout, lay_out
from envs.kidgym.scene import Item
from envs.kidgym.world import Action, World, label, slots

NOT_ALL: Final = " Each key unlocks one door and is then gone. Not all keys and doors are needed."
MOST_ACTIONS: Final = 20
"""Options of a balanced maze."""


class Maze(World):
    """A diamond lies behind locked doors, one behind the other, and each door needs its key.

    Every maze is drawn from the seed, can be solved, and needs all of its doors opened.

    Description: 1, 2 or 3 (by level) doors with as many keys, and the diamond, all labeled, between walls.
    Actions: obtain a key or the diamond, within reach or not; use a key from the backpack on a door. What is out of reach
        or does not fit is refused. The key is used up.
    Reward: 1 when the diamond is obtained.
    Termination: when the diamond is obtained; 3, 5 or 7 steps, which is the fewest possible.

    Balanced: more keys lie within reach at the start, two of each color in all, and at levels 1 and 2 doors with nothing
    behind them. Each wastes a step, so that a way has to be planned backwards: which doors, hence which colors.
    """

    name = "MA"
    title = "Maze"
    budgets = (3, 5, 7)
    limit = "locks have three colors"
    max_actions = 10
    walls: ClassVar[tuple[int, ...]] = (9, 8, 7)
    variants = ("published", "balanced")
    decoys: ClassVar[tuple[Decoys, ...]] = (Decoys(5, 2), Decoys(4, 1), Decoys(3, 0))
    """What misleads, by level (balanced)."""
    gates: tuple[int, ...] = ()
    """Cells of the doors on the way to the diamond (balanced)."""

    def build(self, rng: Random) -> None:
        """Draw a maze and the colors of its locks."""
        if self.balanced:
            self.build_balanced(rng, dict(zip(LOCK_COLORS, LOCK_COLORS, strict=True)))
            return
        layout = lay_out(rng, doors=self.level, walls=self.walls[self.level - 1])
        colors = rng.sample(LOCK_COLORS[: self.level], self.level)
        self.furnish(rng, layout, tuple(zip(colors, colors, strict=True)))

    def build_balanced(self, rng: Random, code: dict[str, str]) -> Misleading:
        """Draw a maze with keys and doors that are not needed; ``code`` gives the door that each key opens, by color."""
        self.max_actions = MOST_ACTIONS
        decoys = self.decoys[self.level - 1]
        maze = mislead(rng, self.level, decoys)
        # No color has more than two keys, so none may have more than two doors.
        doors = rng.sample(LOCK_COLORS * 2, self.level + decoys.doors)
        opener = {door: key for key, door in code.items()}
        path = tuple((opener[door], door) for door in doors[: self.level])
        others = Counter(LOCK_COLORS * 2) - Counter(key for key, _ in path)
        keys = rng.sample(list(others.elements()), decoys.keys)
        more: list[tuple[int, Item]] = []
        for cell, door in zip(maze.doors, doors[self.level :], strict=True):
            more.append((cell, Item(f"door/{door}")))
        for cell, key in zip(maze.keys, keys, strict=True):
            more.append((cell, Item(f"key/{key}")))
        for cell in maze.layout.chests:
            more.append((cell, Item("chest")))
        self.furnish(rng, maze.layout, path, *more)
        self.fitting, self.gates = tuple(code.items()), maze.layout.doors
        return maze

    def furnish(
        self, rng: Random, layout: Layout, fitting: tuple[tuple[str, str], ...], *more: tuple[int, Item]
    ) -> None:
        """Fill the scene from a layout; ``fitting`` gives the colors of each key and of the door that it opens."""
        self.background = "maze"
        self.agent, self.treasure, self.fitting = layout.agent, layout.treasure, fitting
        things = {layout.treasure: Item("diamond")}
        things |= {cell: Item(f"key/{key}") for cell, (key, _) in zip(layout.keys, fitting, strict=True)}
        things |= {cell: Item(f"door/{door}") for cell, (_, door) in zip(layout.doors, fitting, strict=True)}
        self.scene = label(rng, things | dict(more)) | dict.fromkeys(layout.walls, Item("wall"))

    @property
    def goal(self) -> str:
        """The rules of locks."""
        return (
            "Obtain the diamond in the maze. A locked door blocks the way until you unlock it with the key of the same color, "
            f"and you have to obtain a key before you can use it.{self.not_all}"
        )

    @property
    def not_all(self) -> str:
        """Balanced: what else decides a game."""
        return NOT_ALL if self.balanced else ""

    def _unlocking(self, cell: int, door: Item) -> Iterator[Action]:
        """Every key in the backpack on one door."""
        for slot, letter in slots(self.backpack):
            if self.backpack[slot].sprite.startswith("key/"):
                text = f"use the key in backpack {letter} to unlock door with label {door.label}"
                yield Action(text, "unlock", cell, slot)

    def choices(self) -> list[Action]:
        """Everything that can be carried, and every key in the backpack on every door."""
        actions: list[Action] = []
        for cell, item in self.scene.items():
            if item.sprite.startswith("door/"):
                actions += self._unlocking(cell, item)
            elif item.label and self.has_room:
                actions.append(Action(f"obtain item with label {item.label}", "obtain", cell))
        return actions

    def perform(self, action: Action) -> bool:
        """Obtain, or unlock if the key fits: key and door are gone."""
        if action.verb == "obtain":
            return self.pick_up(action.cell)
        if not self.walk_to(action.cell):
            return False
        key, door = (item.sprite.partition("/")[2] for item in (self.backpack[action.slot], self.scene[action.cell]))
        if (key, door) not in self.fitting:
            return False
        del self.backpack[action.slot], self.scene[action.cell]
        return True

    def least_steps(self) -> int:
        """Balanced: the diamond, each door on the way that is still locked, and each key for these that is not held."""
        if not self.gates:
            return 0
        opener = {f"door/{door}": f"key/{key}" for key, door in self.fitting}
        wanted = Counter(opener[self.scene[gate].sprite] for gate in self.gates if gate in self.scene)
        missing = wanted - Counter(item.sprite for item in self.backpack)
        return self.watching + wanted.total() + missing.total() + 1

    def verdict(self) -> bool | None:
        """Won with the diamond."""
        return None if self.treasure in self.scene else True
