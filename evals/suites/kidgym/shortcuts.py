"""Players that cheat as a model could: what is won without the skill that a task is named after.

A shortcut names an action; where it has none for a task, or leaves several open, one is drawn uniformly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Final

from envs.kidgym import Action, World, grid, make, solve
from envs.kidgym.tasks.classification import Classification
from envs.kidgym.tasks.counting import Counting
from envs.kidgym.tasks.decode_maze import DecodeMaze
from envs.kidgym.tasks.filling import Filling
from envs.kidgym.tasks.maze import Maze
from envs.kidgym.tasks.memory_decode import MemoryDecode
from envs.kidgym.tasks.memory_filling import MemoryFilling
from envs.kidgym.tasks.memory_maze import MemoryMaze
from envs.kidgym.tasks.placement import RING, Placement
from envs.kidgym.tasks.puzzle import Puzzle
from envs.kidgym.tasks.sorting import SCALES, Sorting

Options = Iterable[Action]


def shortcut_action(name: str, world: World) -> Action:
    """What the shortcut ``name`` does next; the same whenever it is asked at the same step of the same game."""
    rng = Random(f"{name}/{world.name}/{world.level}/{world.seed}/{world.steps}")
    options = list(world.ordered)
    chosen = [action for action in _RULES[name](world) if action in options]
    return rng.choice(chosen or options)


def _first_option(world: World) -> Options:
    return world.ordered[:1]


def _ignores_rule(world: World) -> Options:
    match world:
        case Sorting():
            return _ranks_as_known(world)
        case Placement():
            # The direction as it is given, without the turn.
            return [action for action in world.options if action.cell == RING[world.direction]]
        case DecodeMaze():
            return _opens_own_colors(world)
        case _:
            return ()


def _ranks_as_known(world: Sorting) -> Options:
    """The order of the animals that the player knows of, without the rule that the game shows."""
    known = [f"animal/{name}" for name in SCALES[world.known]]
    animals = [animal for animal in known if animal in world.answer]
    number = len(animals) - len(world.backpack)
    position, animal = world.positions[number], animals[number]
    placing = [action for action in world.options if action.cell == position]
    return [action for action in placing if world.backpack[action.slot].sprite == animal]


def _opens_own_colors(world: DecodeMaze) -> Options:
    """Keys open doors of their own color, whatever the table says; else take a key that works."""
    unlocking = []
    taking = []
    for action in world.options:
        if action.verb == "unlock" and _same_color(world, action):
            unlocking.append(action)
        elif action.verb == "obtain" and _works(world, action):
            taking.append(action)
    return unlocking or taking


def _any_listed(world: World) -> Options:
    if not isinstance(world, MemoryDecode) or world.watching:
        return ()
    partners = {right for _, right in world.table}
    return [action for action in world.options if world.scene[action.cell].sprite in partners]


def _right_kind(world: World) -> Options:
    match world:
        case Puzzle():
            return ()
        case MemoryDecode(watching=False):
            kind = world.answer.partition("/")[0]
            return [action for action in world.options if world.scene[action.cell].sprite.startswith(f"{kind}/")]
        case Filling(watching=False):
            needed = dict(zip(world.blanks, world.missing, strict=True))
            found = []
            for action in world.options:
                piece = world.backpack[action.slot].sprite
                if _of_one_animal(piece, needed[action.cell]):
                    found.append(action)
            return found
        case _:
            return ()


def _right_and_missing(world: World) -> Options:
    if not isinstance(world, Filling) or isinstance(world, Puzzle):
        return ()
    missing = list(_not_on_board(world))
    return [action for action in _right_kind(world) if action in missing]


def _fills_evenly(world: World) -> Options:
    if not isinstance(world, Classification):
        return ()
    # What was accepted tells how full each basket is; where they are alike, either is as good.
    outside = Counter(item.sprite for item in (*world.scene.values(), *world.backpack))
    inside = Counter(world.things) - outside
    accepted = {basket: inside[thing] for thing, basket in world.belongs}
    fewest = min(accepted.values())
    putting = [action for action in world.options if action.verb == "put"]
    return [action for action in putting if accepted[world.scene[action.cell].sprite] == fewest]


def _not_on_board(world: World) -> Options:
    if not isinstance(world, Filling) or world.watching:
        return ()
    laid = {item.sprite for item in world.scene.values()}
    return [action for action in world.options if world.backpack[action.slot].sprite not in laid]


def _remembers_label(world: World) -> Options:
    if not isinstance(world, MemoryMaze):
        return ()
    if not world.balanced or world.watching:
        return _next_of_plan(world)
    # Where labels were drawn afresh, the chest that has the diamond's now, if any has.
    start = make(world.name, world.level, world.seed, variant=world.variant)
    its_label = start.scene[world.treasure].label
    chests = _chests_behind_doors(world)
    labeled = {cell for cell in chests if world.scene[cell].label == its_label}
    return _plan_for(world, labeled or chests)


def _skips_the_beginning(world: World) -> Options:
    if not isinstance(world, MemoryFilling | MemoryMaze) or world.watching:
        return ()
    if isinstance(world, MemoryFilling):
        # Balanced, nothing but the first picture tells one piece from another.
        return () if world.balanced else _next_of_plan(world)
    if world.balanced:
        return _plan_for(world, _chests_behind_doors(world))
    return _opens_doors_then_a_chest(world)


def _opens_doors_then_a_chest(world: MemoryMaze) -> Options:
    """As long as there is a door, whatever works but opens no chest; then one of the best kept chests."""
    works = [action for action in world.options if _works(world, action)]
    has_doors = any(item.sprite.startswith("door/") for item in world.scene.values())
    if has_doors:
        return [action for action in works if world.scene[action.cell].sprite != "chest"]
    chests = _best_kept(world)
    return [action for action in works if action.cell in chests]


def _chests_behind_doors(world: MemoryMaze) -> set[int]:
    return {cell for cell in (world.treasure, *dict(world.hidden)) if cell in world.scene}


def _next_of_plan(world: World) -> Options:
    """The next step of perfect play; none where nothing wins any more."""
    plan = solve(world)
    return plan[:1] if plan else ()


def _plan_for(world: MemoryMaze, chests: set[int]) -> Options:
    """The next step of perfect play for one of the chests, drawn once for the game."""
    believed = world.copy()
    believed.treasure = Random(f"chest/{world.seed}").choice(sorted(chests))
    return _next_of_plan(believed)


def _nearest_pile(world: World) -> Options:
    if not isinstance(world, Counting):
        return ()
    lacking = {f"pile/{name}" for name, _ in world.wanted if world.lacking(name) > 0}
    if not lacking or not world.has_room:
        return [action for action in world.options if action.verb == "declare"]
    picks = [action for action in world.options if action.verb == "pick"]
    piles = [action for action in picks if world.scene[action.cell].sprite.rpartition("/")[0] in lacking]
    nearest = min(_distance(world, action.cell) for action in piles)
    return [action for action in piles if _distance(world, action.cell) == nearest]


def _whatever_works(world: World) -> Options:
    if not isinstance(world, Maze) or world.watching:
        return ()
    works = [action for action in world.options if _works(world, action)]
    # The diamond, else a key or a door, else a chest.
    diamonds = [action for action in works if world.scene[action.cell].sprite == "diamond"]
    others = [action for action in works if world.scene[action.cell].sprite not in ("chest", "diamond")]
    return diamonds or others or works


def _walks_over_things(world: World) -> Options:
    # In balanced mazes no key lies in the way: there is nothing to get wrong.
    if not isinstance(world, Maze) or world.watching or world.balanced:
        return ()
    believed = world.copy()
    believed.__class__ = _believing(type(world))  # type: ignore[assignment]
    return _next_of_plan(believed)


_RULES: Final[Mapping[str, Callable[[World], Options]]] = {
    "first_option": _first_option,
    "ignores_rule": _ignores_rule,
    "any_listed": _any_listed,
    "right_kind": _right_kind,
    "not_on_board": _not_on_board,
    "right_and_missing": _right_and_missing,
    "fills_evenly": _fills_evenly,
    "remembers_label": _remembers_label,
    "skips_the_beginning": _skips_the_beginning,
    "nearest_pile": _nearest_pile,
    "whatever_works": _whatever_works,
    "walks_over_things": _walks_over_things,
}

SHORTCUTS: Final[Mapping[str, str]] = {
    "first_option": "always takes the first action of the list",
    "ignores_rule": "SO: ranks by what is known of the animals; PL: places where the given direction points; DMA: uses keys on "
    "doors of their own color",
    "any_listed": "MDE: chooses any thing that was a partner in the table",
    "right_kind": "FI, MFI: any piece of the right animal anywhere; MDE: any thing of the partners' type",
    "not_on_board": "FI, PU, MFI: any piece that the board does not show yet, anywhere",
    "right_and_missing": "FI, MFI: any piece of the right animal that the board does not show yet, anywhere",
    "fills_evenly": "CL: puts things into the basket with fewer in it, without looking at them",
    "remembers_label": "MMA: remembers the diamond's label, not its place, and plans perfectly",
    "skips_the_beginning": "MFI, MMA: plays perfectly from the second picture on, without having seen the first one",
    "nearest_pile": "CO: takes the nearest pile until there are enough",
    "whatever_works": "MA, DMA, MMA: takes any key and unlocks any door that can be had now, without a plan",
    "walks_over_things": "MA, DMA, MMA: plans perfectly, but takes keys for cells that one can walk over",
}
"""Shortcut players by name; in tasks that they have no rule for they play as ``random`` does."""

APPLIES: Final[Mapping[str, tuple[str, ...]]] = {
    "first_option": (),
    "ignores_rule": ("SO", "PL", "DMA"),
    "any_listed": ("MDE",),
    "right_kind": ("FI", "MDE", "MFI"),
    "not_on_board": ("FI", "PU", "MFI"),
    "right_and_missing": ("FI", "MFI"),
    "fills_evenly": ("CL",),
    "remembers_label": ("MMA",),
    "skips_the_beginning": ("MMA", "MFI"),
    "nearest_pile": ("CO",),
    "whatever_works": ("MA", "DMA", "MMA"),
    "walks_over_things": ("MA", "DMA", "MMA"),
}
"""The tasks that a shortcut has a rule for; ``first_option`` plays all alike."""


# --- what shortcuts see ----------------------------------------------------------------------------------------------


def _works(world: World, action: Action) -> bool:
    return world.copy().take(action).accepted


def _of_one_animal(piece: str, other: str) -> bool:
    return piece.rpartition("/")[0] == other.rpartition("/")[0]


def _same_color(world: World, action: Action) -> bool:
    key, door = (item.sprite.partition("/")[2] for item in (world.backpack[action.slot], world.scene[action.cell]))
    return key == door


def _distance(world: World, cell: int) -> int:
    """Steps to a cell beside ``cell``; more than there are cells where no way leads there."""
    free, reached = grid.ALL & ~grid.mask(world.scene), 1 << world.agent
    for steps in range(grid.SIDE**2):
        if reached & grid.NEIGHBORS[cell]:
            return steps
        reached |= grid.spread(reached) & free
    return grid.SIDE**2


def _best_kept(world: MemoryMaze) -> set[int]:
    """The chests that the most doors, each locked by itself, would keep the player from at the beginning."""
    start = make(world.name, world.level, world.seed)
    start.step(0)
    doors: list[int] = []
    chests: list[int] = []
    walls: list[int] = []
    for cell, item in start.scene.items():
        if item.sprite.startswith("door/"):
            doors.append(cell)
        elif item.sprite == "chest":
            chests.append(cell)
        elif item.sprite == "wall":
            walls.append(cell)
    free = grid.ALL & ~grid.mask([*walls, *chests])
    # How far the player gets where one door is locked.
    reached = [grid.region(free & ~(1 << door), start.agent) for door in doors]

    def kept(chest: int) -> int:
        beside = grid.NEIGHBORS[chest]
        return sum(not cells & beside for cells in reached)

    most = max(map(kept, chests))
    return {chest for chest in chests if kept(chest) == most}


def _believing(task: type[World]) -> type[World]:
    """The task as one sees it who takes keys for cells to walk over."""

    def walk_to(self: World, cell: int) -> bool:
        free = grid.ALL & ~grid.mask(place for place, item in self.scene.items() if not item.sprite.startswith("key/"))
        return grid.nearest(free, self.agent, grid.NEIGHBORS[cell] & free) is not None

    return type(f"Believed{task.__name__}", (task,), {"walk_to": walk_to})
