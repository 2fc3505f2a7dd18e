"""Where an action's target is, and what it would open."""

from __future__ import annotations

from typing import Final

from envs.kidgym import Action, World, grid
from envs.kidgym.catalog import LOCK_COLORS
from envs.kidgym.tasks.placement import RING
from evals.shortcut_search.classes import COARSE
from evals.suites.kidgym.features.senses import Values
from evals.suites.kidgym.features.words import DIRECTION, DIRECTIONS

_FAR: Final = 99.0
"""Steps to what no way leads to."""


def place_of(world: World, action: Action) -> Values:
    """Where the target is, and what it would open."""
    if action.cell < 0:
        return {}
    x, y = action.cell % grid.SIDE, action.cell // grid.SIDE
    agent_x, agent_y = world.agent % grid.SIDE, world.agent // grid.SIDE
    free = grid.ALL & ~grid.mask(world.scene)
    here = grid.region(free, world.agent)
    opened = grid.region(free | 1 << action.cell, world.agent) if grid.NEIGHBORS[action.cell] & here else here
    values: Values = {
        "position: column": float(x),
        "position: row": float(y),
        "position: straight distance": float(abs(x - agent_x) + abs(y - agent_y)),
        "position: steps to it": _steps_to(free, world.agent, action.cell),
        "position: cells that it opens": float((opened & ~here).bit_count()),
        "position: things that it opens": float(_within(world, opened) - _within(world, here)),
    }
    prizes = grid.mask(cell for cell, item in world.scene.items() if item.sprite in ("diamond", "chest"))
    if prizes:
        values |= _on_the_way(world, action, prizes)
    values["kind position: opens the way to a diamond or chest"] = bool(
        grid.spread(opened) & prizes & ~grid.spread(here) & ~(1 << action.cell)
    )
    compass = [name for name, cell in RING.items() if cell == action.cell]
    given = DIRECTION.findall(world.goal)
    if compass and given:
        turn = (DIRECTIONS.index(compass[0]) - DIRECTIONS.index(given[0])) % len(DIRECTIONS)
        either_way = min(turn, len(DIRECTIONS) - turn)
        values["direction position: eighths of a turn from the given direction"] = str(turn)
        values[f"{COARSE}direction position: eighths of a turn from the given direction, either way"] = str(either_way)
    return values


def _on_the_way(world: World, action: Action, prizes: int) -> Values:
    """Whether a door is on every way to what is sought, and whether a key opens such a door."""
    needed = _doors_needed(world, prizes)
    if action.cell in needed:
        return {"kind position: no way but through it": True}
    target = world.scene.get(action.cell)
    if target is None or not target.sprite.startswith("key/"):
        return {}
    senses, opened = _opened_by(world, target.sprite.removeprefix("key/"))
    doors = sum(world.scene[door].sprite.removeprefix("door/") == opened for door in needed)
    held = sum(item.sprite == target.sprite for item in world.backpack)
    return {f"{senses}: doors on the way that it opens, less keys held": float(doors - held)}


def _opened_by(world: World, color: str) -> tuple[str, str | None]:
    """The color of the doors that a key opens, behind the senses that it takes to know it."""
    if world.hint is not None and world.hint.style == "pairs":
        # The game tells which key goes with which door.
        opened_by = {row[0].sprite.removeprefix("key/"): row[1].sprite.removeprefix("door/") for row in world.hint.rows}
        return "kind color position order", opened_by.get(color)
    # A key opens the doors of its own color.
    return "kind color position", color if color in LOCK_COLORS else None


def _doors_needed(world: World, prizes: int) -> list[int]:
    """The doors without which no prize can be reached."""
    doors = [cell for cell, item in world.scene.items() if item.sprite.startswith("door/")]
    solid = grid.mask(cell for cell, item in world.scene.items() if item.sprite in ("wall", "chest", "diamond"))
    needed = []
    for door in doors:
        without = grid.region(grid.ALL & ~solid & ~(1 << door), world.agent)
        if not grid.spread(without) & prizes:
            needed.append(door)
    return needed


def _steps_to(free: int, agent: int, cell: int) -> float:
    """Steps to a cell beside ``cell``."""
    reached = 1 << agent
    for steps in range(grid.SIDE**2):
        if reached & grid.NEIGHBORS[cell]:
            return float(steps)
        reached |= grid.spread(reached) & free
    return _FAR


def _within(world: World, walkable: int) -> int:
    """Labeled things that can be reached from a set of cells."""
    return sum(bool(item.label and grid.NEIGHBORS[cell] & walkable) for cell, item in world.scene.items())
