"""The 5x5 playfield as a bitboard: which cells an agent can walk to, and where it ends up.

A cell is a number from 0 to 24 (``5 * y + x``, x to the right, y downwards); a set of cells is an integer with one bit per
cell. Walking is in the four directions.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Final

SIDE: Final = 5
CELLS: Final = range(SIDE * SIDE)
ALL: Final = (1 << SIDE * SIDE) - 1
_WEST: Final = sum(1 << cell for cell in CELLS if cell % SIDE == 0)
_EAST: Final = _WEST << SIDE - 1
_TRIES: Final = 100

DOWN, RIGHT, UP, LEFT = range(4)
"""Directions that the agent faces."""


def at(x: int, y: int) -> int:
    """The cell in column ``x`` and row ``y``."""
    return SIDE * y + x


def mask(cells: Iterable[int]) -> int:
    """The set of the given cells."""
    bits = 0
    for cell in cells:
        bits |= 1 << cell
    return bits


def members(bits: int) -> list[int]:
    """The cells of a set, in ascending order."""
    return [cell for cell in CELLS if bits >> cell & 1]


def spread(bits: int) -> int:
    """A set of cells together with all their neighbors."""
    return (bits | (bits & ~_EAST) << 1 | (bits & ~_WEST) >> 1 | bits << SIDE | bits >> SIDE) & ALL


NEIGHBORS: Final = tuple(spread(1 << cell) & ~(1 << cell) for cell in CELLS)
"""For each cell the set of its two to four neighbors."""


def region(free: int, start: int) -> int:
    """All cells that can be walked to from ``start`` through ``free`` cells, ``start`` included."""
    reached, grown = 0, 1 << start
    while grown != reached:
        reached, grown = grown, spread(grown) & free | grown
    return reached


def nearest(free: int, start: int, goals: int) -> int | None:
    """The cell of the set ``goals`` that the fewest steps through ``free`` cells reach; None when none can be reached.

    Of several equally near cells it is the one with the lowest number.
    """
    reached = 1 << start
    while not reached & goals:
        grown = spread(reached) & free | reached
        if grown == reached:
            return None
        reached = grown
    hits = reached & goals
    return (hits & -hits).bit_length() - 1


def facing(cell: int, neighbor: int) -> int:
    """The direction from a cell to its neighbor."""
    return {SIDE: DOWN, 1: RIGHT, -SIDE: UP, -1: LEFT}[neighbor - cell]


def scatter(rng: Random, count: int) -> tuple[int, list[int]]:
    """A cell for the agent and ``count`` distinct others for objects, all within the agent's reach.

    An object is within reach if it touches a cell that the agent can walk to while all objects lie. The draw is uniform
    over such placements (rejection, with a bound); a comb-shaped placement that always works stands behind it.

    Raises:
        ValueError: more than 12 objects, for which no placement is promised.
    """
    if count > 12:
        raise ValueError(f"{count} objects do not fit within reach on a {SIDE}x{SIDE} field: at most 12")
    for _ in range(_TRIES):
        agent, *objects = rng.sample(CELLS, count + 1)
        if within_reach(agent, objects):
            return agent, objects
    # Rows 1 and 3 and the middle column stay empty, so that every other cell touches a cell that can be walked to.
    comb = [cell for cell in CELLS if cell // SIDE % 2 == 0 and cell % SIDE != 2]
    return at(2, 2), rng.sample(comb, count)


def within_reach(agent: int, objects: list[int]) -> bool:
    """Whether each object touches a cell that the agent can walk to."""
    walkable = region(ALL & ~mask(objects), agent)
    return mask(objects) & ~spread(walkable) == 0
