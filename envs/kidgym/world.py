"""The game that all tasks share: a 5x5 playfield, an agent that walks, a backpack of four slots, and lists of actions.

A task is a subclass of `World` that lays out its scene and says which actions exist, what they do and when the game is won
or lost; `docs/kidgym_new_task.md` is a worked example. A world needs neither Gymnasium nor pixels. It is deterministic in
its task, level and seed, can be copied at any time (for search), and never changes by being looked at.
"""

from __future__ import annotations

import abc
from collections.abc import Hashable, Iterable
from random import Random
from typing import ClassVar, Final, Literal, NamedTuple, Self

from envs.kidgym import grid
from envs.kidgym.catalog import SLOTS
from envs.kidgym.frame import Frame
from envs.kidgym.scene import Hint, Item


class Action(NamedTuple):
    """One entry of the action list: the text that players read, and what the task needs to perform it."""

    text: str
    verb: str
    """Tells a task's actions apart."""
    cell: int = -1
    """The cell that the action aims at, numbered as in ``envs.kidgym.grid``."""
    slot: int = -1
    """The backpack slot that it uses, from 0."""


CONTINUE: Final = Action("continue", "continue")
"""The only action while a memory task shows what has to be remembered."""


Variant = Literal["published", "balanced"]
"""How a task's games are drawn: as published, or so that nothing beside its skill wins them (docs/validity_kidgym.md)."""


PAPER_LEVELS: Final = 3
MOST_ACTIONS: Final = 26
"""Actions have a letter each."""


class StepResult(NamedTuple):
    """What one step did."""

    accepted: bool
    """Whether the action could be performed; a refused action still uses up a step."""
    success: bool
    terminated: bool
    """The task is won or lost."""
    truncated: bool
    """The budget is used up before the task was won or lost."""


class World(abc.ABC):
    """One episode of a task.

    Subclasses set the class attributes and implement ``build``, ``goal``, ``choices``, ``perform`` and ``verdict``; tasks
    with a hint override ``hint``, memory tasks ``reveal``. Attributes that a subclass adds must hold immutable values, or
    be replaced rather than changed in place: a copy shares them.

    Attributes:
        level: From 1 to the number of budgets.
        variant: How the episode is drawn, one of ``variants``.
        seed: Decides the whole episode, the order of every action list included.
        scene: What lies on the playfield, by cell. Everything in it blocks the way.
        agent: The agent's cell.
        facing: The agent's direction, ``grid.DOWN`` at the start.
        backpack: The filled slots from A on; taking from one moves the later ones up.
        watching: True while a memory task shows what has to be remembered.
        steps: Actions used so far, refused ones included.
    """

    name: ClassVar[str]
    """Short name, as in the paper's tables."""
    title: ClassVar[str]
    budgets: ClassVar[tuple[int, ...]]
    """Most steps, by level; the paper's levels are the first three."""
    limit: ClassVar[str] = ""
    """Why there are no more levels."""
    balanced_levels: ClassVar[int] = 3
    """How many of the levels can be drawn balanced."""
    memory: ClassVar[bool] = False
    """Whether the episode opens with a frame that has to be remembered."""
    variants: ClassVar[tuple[Variant, ...]] = ("published",)
    """How games can be drawn; the first is the default."""
    max_actions: int = 16
    """Length of the longest action list of the paper's levels; ``build`` may set another for its variant."""

    def __init__(
        self, level: int, seed: int, cell_pixels: int = 64, skin: str = "", variant: Variant = "published"
    ) -> None:
        self.level, self.seed, self.variant = level, seed, variant
        self.cell_pixels, self.skin = cell_pixels, skin
        self.background = "park"
        self.scene: dict[int, Item] = {}
        self.agent, self.facing = grid.at(0, 0), grid.DOWN
        self.backpack: list[Item] = []
        self.watching = self.memory
        if level > PAPER_LEVELS:
            self.max_actions = max(self.max_actions, MOST_ACTIONS)
        self.steps = 0
        self.success = self.terminated = False
        drawn_as = "" if variant == "published" else f"/{variant}"
        rng = Random(f"{self.name}/{level}/{seed}{drawn_as}")
        self.build(rng)
        self._order = rng.getrandbits(62)
        self._actions: tuple[Action, ...] | None = None

    @classmethod
    def levels(cls, variant: Variant = "published") -> range:
        """The levels that can be drawn."""
        balanced = variant == "balanced" and variant in cls.variants
        return range(1, (cls.balanced_levels if balanced else len(cls.budgets)) + 1)

    # --- what a task says ---------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def build(self, rng: Random) -> None:
        """Lay out the episode for ``self.level``; ``rng`` is the only source of chance."""

    @property
    @abc.abstractmethod
    def goal(self) -> str:
        """What has to be done, in words; memory tasks say something else while ``watching``."""

    @abc.abstractmethod
    def choices(self) -> list[Action]:
        """All actions offered now, in any fixed order (they are shown shuffled); asked for only when not ``watching``."""

    @abc.abstractmethod
    def perform(self, action: Action) -> bool:
        """Do one of ``choices``; False if it cannot be done, in which case nothing but the agent has moved."""

    @abc.abstractmethod
    def verdict(self) -> bool | None:
        """True once the task is won, False once it is lost, None as long as it is open."""

    def reveal(self) -> None:  # noqa: B027 - most tasks have nothing to reveal
        """Change the scene as ``continue`` is chosen; memory tasks bring in here what was hidden."""

    @property
    def hint(self) -> Hint | None:
        """What the hint block shows."""
        return None

    def least_steps(self) -> int:
        """A number of steps without which the game cannot be won from here; the oracle looks no further than that allows."""
        return 0

    def progress(self) -> Hashable:
        """Whatever decides the rest of the game besides scene, backpack, agent and ``watching``."""
        return None

    @property
    def balanced(self) -> bool:
        """Whether the episode is drawn so that nothing beside the task's skill wins it."""
        return self.variant == "balanced"

    # --- what a task builds with --------------------------------------------------------------------------------------

    def scatter(self, rng: Random, items: Iterable[Item], labeled: bool = True) -> dict[int, Item]:
        """Put the agent on a random cell and find a cell within its reach for each item; returns the items by cell."""
        items = list(items)
        self.agent, cells = grid.scatter(rng, len(items))
        placed = dict(zip(cells, items, strict=True))
        return label(rng, placed) if labeled else placed

    def walk_to(self, cell: int) -> bool:
        """Walk the shortest way to a cell beside ``cell`` and turn towards it; False, and no move, if there is no way."""
        free = grid.ALL & ~grid.mask(self.scene)
        beside = grid.nearest(free, self.agent, grid.NEIGHBORS[cell] & free)
        if beside is None:
            return False
        self.agent, self.facing = beside, grid.facing(beside, cell)
        return True

    def pick_up(self, cell: int) -> bool:
        """Take what lies on a cell into the backpack; False, and nothing moves, if there is no way or no room."""
        if not self.has_room or not self.walk_to(cell):
            return False
        self.backpack.append(Item(self.scene.pop(cell).sprite))
        return True

    def put_down(self, slot: int, cell: int) -> bool:
        """Put what a slot holds on a cell, in place of what marks it; False, and nothing moves, if there is no way."""
        if not self.walk_to(cell):
            return False
        self.scene[cell] = self.backpack.pop(slot)
        return True

    @property
    def has_room(self) -> bool:
        """Whether the backpack can take one more thing."""
        return len(self.backpack) < len(SLOTS)

    # --- playing ------------------------------------------------------------------------------------------------------

    @property
    def options(self) -> list[Action]:
        """The actions offered now, before shuffling."""
        return [CONTINUE] if self.watching else self.choices()

    @property
    def ordered(self) -> tuple[Action, ...]:
        """The actions offered now, in the order in which they are shown: drawn afresh at every step.

        Raises:
            ValueError: the task offers none, or more than its ``max_actions``, while the episode goes on.
        """
        if self._actions is not None:
            return self._actions
        options = self.options
        if not (1 <= len(options) <= self.max_actions or self.done):
            raise ValueError(
                f"KidGym task {self.name}, level {self.level}, offers {len(options)} actions at step {self.steps + 1}: "
                f"a list has at least 1 and, by the task's max_actions, at most {self.max_actions}"
            )
        if len(options) > 1:
            Random(self._order + self.steps).shuffle(options)
        self._actions = tuple(options)
        return self._actions

    @property
    def actions(self) -> tuple[str, ...]:
        """The texts of the actions offered now; a player answers with an index into them."""
        return tuple(action.text for action in self.ordered)

    def step(self, index: int) -> StepResult:
        """Take the action at ``index`` of ``actions``.

        An index beyond the list is an action that is refused: it uses up a step.

        Raises:
            ValueError: the episode is over, or the index is negative.
        """
        if index < 0:
            raise ValueError(f"action index {index} is negative")
        return self.take(self.ordered[index] if index < len(self.ordered) else None)

    def take(self, action: Action | None) -> StepResult:
        """Take one of ``options``, or, with None, waste a step."""
        if self.done:
            raise ValueError(f"this episode of {self.name} is over; make another")
        self.steps += 1
        self._actions = None
        accepted = False
        if self.watching and action == CONTINUE:
            self.watching, accepted = False, True
            self.reveal()
        elif action is not None:
            accepted = self.perform(action)
        # While a memory task is watched, and by what is refused, nothing is won or lost.
        verdict = None
        if accepted and not self.watching:
            verdict = self.verdict()
        self.success = verdict is True
        self.terminated = verdict is not None
        return StepResult(accepted, self.success, self.terminated, self.truncated)

    @property
    def budget(self) -> int:
        """Most steps that this level allows."""
        return self.budgets[self.level - 1]

    @property
    def truncated(self) -> bool:
        """Whether the budget is used up before the task was won or lost."""
        return not self.terminated and self.steps >= self.budget

    @property
    def done(self) -> bool:
        """Whether no more steps can be taken."""
        return self.terminated or self.steps >= self.budget

    def copy(self) -> Self:
        """An independent world in the same state."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.scene, other.backpack = self.scene.copy(), self.backpack.copy()
        return other

    def state(self) -> Hashable:
        """Equal for two moments of an episode from which the same can be reached in the same number of steps.

        The agent counts only by the cells that it can walk to, the backpack only by what it holds.
        """
        walkable = grid.region(grid.ALL & ~grid.mask(self.scene), self.agent)
        return self.watching, frozenset(self.scene.items()), tuple(sorted(self.backpack)), walkable, self.progress()

    @property
    def frame(self) -> Frame:
        """What is seen now."""
        return Frame(
            background=self.background,
            cells=tuple(sorted((cell % grid.SIDE, cell // grid.SIDE, item) for cell, item in self.scene.items())),
            agent=(self.agent % grid.SIDE, self.agent // grid.SIDE, self.facing),
            backpack=tuple(self.backpack) + (None,) * (len(SLOTS) - len(self.backpack)),
            hint=self.hint,
            cell_pixels=self.cell_pixels,
            skin=self.skin,
        )


def label(rng: Random, items: dict[int, Item]) -> dict[int, Item]:
    """The same items with the numbers from 0 on as labels, in random order."""
    numbers = rng.sample(range(len(items)), len(items))
    return {cell: Item(item.sprite, str(number)) for (cell, item), number in zip(items.items(), numbers, strict=True)}


def slots(backpack: list[Item]) -> list[tuple[int, str]]:
    """The filled slots: index and letter."""
    return list(enumerate(SLOTS[: len(backpack)]))
