"""Why perfect play takes an action, in words, for the worked examples of in-context learning: one rule for each task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from envs.kidgym import Action, World
from envs.kidgym.catalog import ROMAN, SLOTS, counted, words
from envs.kidgym.tasks.classification import Classification
from envs.kidgym.tasks.counting import Counting
from envs.kidgym.tasks.decode_maze import DecodeMaze
from envs.kidgym.tasks.filling import Filling
from envs.kidgym.tasks.maze import Maze
from envs.kidgym.tasks.memory_decode import MemoryDecode
from envs.kidgym.tasks.memory_filling import MemoryFilling
from envs.kidgym.tasks.memory_maze import MemoryMaze
from envs.kidgym.tasks.placement import COUNTED, RING, Placement
from envs.kidgym.tasks.puzzle import Puzzle
from envs.kidgym.tasks.selection import Selection
from envs.kidgym.tasks.sorting import ENDS, SCALES, Sorting

QUARTERS: Final = ("upper left", "upper right", "lower left", "lower right")


def reason(world: World, action: Action) -> str:
    """One or two sentences on why ``action`` comes next; a task without a rule of its own gets a general one."""
    rule = _RULES.get(world.name)
    return rule(world, action) if rule else "This is the next step on the shortest way to the goal."


def _classification(world: World, action: Action) -> str:
    assert isinstance(world, Classification)
    label = world.scene[action.cell].label
    if action.verb == "pick":
        item = world.scene[action.cell].sprite
        basket = words(dict(world.belongs)[item])
        return f"Label {label} is {_a(item)}, which belongs in the {basket} basket. I take it first."
    item, basket = (held.sprite for held in (world.backpack[action.slot], world.scene[action.cell]))
    return (
        f"Slot {SLOTS[action.slot]} holds {_a(item)}, which belongs in the {words(basket)} basket; "
        f"that is the one with label {label}."
    )


def _selection(world: World, action: Action) -> str:
    assert isinstance(world, Selection)
    if world.watching:
        shown = " and ".join(_a(item.sprite) for item in world.targets)
        return f"The hint block shows {shown}. I remember that."
    item = world.scene[action.cell]
    return f"At first the hint block showed {_a(item.sprite)}. Now that has label {item.label}."


def _sorting(world: World, action: Action) -> str:
    assert isinstance(world, Sorting)
    animal = words(world.backpack[action.slot].sprite)
    asked = [words(name) for name in world.answer]
    animal_here = (
        f"The {animal} in slot {SLOTS[action.slot]} belongs at grid {ROMAN[world.positions.index(action.cell)]}."
    )
    if world.balanced:
        return (
            f"By these comparisons, from {world.ends[0]} to {world.ends[1]} they are: {', '.join(asked)}. {animal_here}"
        )
    known = sorted(asked, key=SCALES[world.known].index)
    return (
        f"From {' to '.join(ENDS[world.known])} by {world.known} they are: {', '.join(known)}. In this world the "
        f"{world.rule[0]} is the {world.rule[1]}, so from {world.ends[0]} to {world.ends[1]} they are: {', '.join(asked)}. "
        f"{animal_here}"
    )


def _maze(world: World, action: Action) -> str:
    assert isinstance(world, Maze)
    item = world.scene[action.cell]
    if action.verb == "unlock":
        key, door = words(world.backpack[action.slot].sprite), words(item.sprite)
        why = "as the hint block shows" if isinstance(world, DecodeMaze) else "which has its color"
        return f"The {key} key in slot {SLOTS[action.slot]} opens the {door} door, label {item.label}, {why}."
    if item.sprite.startswith("key/"):
        key = words(item.sprite)
        door = dict(world.fitting)[key]
        return f"The {key} key, label {item.label}, is within reach, and I need it for the {door} door."
    if isinstance(world, MemoryMaze):
        return f"The diamond lay where the chest with label {item.label} stands now, and the way to it is free."
    return f"The way to the diamond, label {item.label}, is free now."


def _memory_maze(world: World, action: Action) -> str:
    assert isinstance(world, MemoryMaze)
    if world.watching:
        return f"The diamond lies at label {world.scene[world.treasure].label}. I remember that place."
    return _maze(world, action)


def _filling(world: World, action: Action) -> str:
    assert isinstance(world, Filling)
    if world.watching and world.balanced:
        return "The hint block shows a picture made of four pieces. I remember where each of them is."
    if world.watching:
        assert isinstance(world, MemoryFilling)
        return f"The hint block shows {_a(world.animal)}. I remember that."
    place = world.blanks.index(action.cell)
    name, _, quarter = world.missing[place].removeprefix("quarter/").rpartition("/")
    slot, corner = SLOTS[action.slot], QUARTERS[int(quarter) - 1]
    if isinstance(world, Puzzle):
        return (
            f"In the hint block, the triangle at position {ROMAN[place]} has its right angle at the {corner}. "
            f"Slot {slot} holds the triangle that is turned like this."
        )
    if world.balanced:
        recalled = "showed" if isinstance(world, MemoryFilling) else "shows"
        return (
            f"At position {ROMAN[place]} the hint block {recalled} the {corner} quarter of the {name}, "
            f"and slot {slot} holds just that."
        )
    return f"Position {ROMAN[place]} lacks the {corner} quarter of the {name}, and slot {slot} holds just that."


def _placement(world: World, action: Action) -> str:
    assert isinstance(world, Placement)
    names = list(RING)
    opposite = names[(names.index(world.direction) + 4) % len(names)]
    place = next(name for name, cell in RING.items() if cell == action.cell)
    turn = ""
    if world.turn:
        way = "clockwise" if world.turn > 0 else "counterclockwise"
        turn = f" The {COUNTED[abs(world.turn) - 1]} position {way} is {place}."
    roman = ROMAN[world.positions.index(action.cell)]
    return (
        f"The opposite of {world.direction} is {opposite}.{turn} The position {place} of the {words(world.center)} is "
        f"number {roman}."
    )


def _counting(world: World, action: Action) -> str:
    assert isinstance(world, Counting)
    if action.verb == "declare":
        if world.balanced:
            return f"The backpack holds {world.asked}, as the goal asks for."
        return f"The backpack holds {world.collected}, as many as the goal asks for."
    pile = world.scene[action.cell]
    name, _, size = pile.sprite.removeprefix("pile/").rpartition("/")
    count = int(size)
    then = "that is what the goal asks for"
    if world.balanced:
        lacking = world.lacking(name)
        if lacking != count:
            then = f"{lacking - count} will still be missing"
        missing = counted(lacking, name)
        return f"Still missing: {missing}. The pile with label {pile.label} holds {count}; then {then}."
    after = world.collected + count
    if after != world.target:
        then = f"{world.target - after} will be missing still"
    return f"I have {world.collected} of {world.target}. The pile with label {pile.label} holds {count}; then {then}."


def _memory_decode(world: World, action: Action) -> str:
    assert isinstance(world, MemoryDecode)
    if world.watching:
        pairs = [f"{words(left)} with {words(right)}" for left, right in world.table]
        return f"The table pairs {' and '.join(pairs)}. I remember that."
    item = world.scene[action.cell]
    return (
        f"The hint block asks for the partner of the {words(world.query)}. The table paired that with the "
        f"{words(item.sprite)}, which has label {item.label}."
    )


def _a(name: str) -> str:
    """The name with its article: a cow, an apple."""
    return f"a{'n' * (words(name)[0] in 'aeiou')} {words(name)}"


_RULES: Final[Mapping[str, Callable[[World, Action], str]]] = {
    "CL": _classification,
    "SE": _selection,
    "SO": _sorting,
    "MA": _maze,
    "FI": _filling,
    "PU": _filling,
    "PL": _placement,
    "CO": _counting,
    "DMA": _maze,
    "MMA": _memory_maze,
    "MDE": _memory_decode,
    "MFI": _filling,
}
