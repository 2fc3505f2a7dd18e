"""Mazes that mislead: keys and doors that are not needed, and empty chests as well kept as the diamond.

They stand where walls were, so that they block no way, and open none: with all of them gone, every door of the way to the
treasure is still needed. The keys lie within reach from the start, as it is the choice among them that misleads.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final, NamedTuple

from envs.kidgym import grid
from envs.kidgym.layout import Layout, lay_out, needs_all

BARRIERS: Final = 12
ATTEMPTS: Final = 2000
"""The hardest mazes are found in one of 30 attempts."""


class Decoys(NamedTuple):
    """How many things mislead."""

    keys: int
    doors: int
    chests: int = 0


class Misleading(NamedTuple):
    """A maze and the places of its decoys, which are no walls of it any more; chests stand in the layout."""

    layout: Layout
    keys: tuple[int, ...]
    doors: tuple[int, ...]


def mislead(rng: Random, doors: int, decoys: Decoys) -> Misleading:
    """Draw a maze with decoys.

    Args:
        rng: Source of all chance.
        doors: Between agent and treasure, 1 to 3.
        decoys: What misleads, 12 things at most.

    Raises:
        ValueError: no maze was found that has room for them.
    """
    for _ in range(ATTEMPTS):
        layout = lay_out(rng, doors=doors, walls=BARRIERS)
        if len(behind_all_doors(layout)) < decoys.chests:
            continue
        places = _decoy_places(rng, layout, decoys)
        if places is None:
            continue
        # With the decoys gone one can walk there, too: chests are as well kept then.
        after = replace(layout, walls=tuple(wall for wall in layout.walls if wall not in places))
        kept = behind_all_doors(after)
        if len(kept) >= decoys.chests:
            chests = tuple(rng.sample(kept, decoys.chests))
            walls = tuple(wall for wall in after.walls if wall not in chests)
            return Misleading(replace(layout, walls=walls, chests=chests), places[: decoys.keys], places[decoys.keys :])
    raise ValueError(f"no maze of {doors} doors was found with room for {decoys}")


def _decoy_places(rng: Random, layout: Layout, decoys: Decoys) -> tuple[int, ...] | None:
    """Walls that can become decoys: first those of the keys, beside cells that can be walked to from the start."""
    locked = grid.mask([layout.treasure, *layout.doors, *layout.keys])
    at_first = grid.region(layout.field & ~locked, layout.agent)
    at_last = grid.region(layout.field & ~(1 << layout.treasure), layout.agent)
    field, places = layout.field, list[int]()
    for walkable, count in ((at_first, decoys.keys), (at_last, decoys.keys + decoys.doors)):
        for wall in rng.sample(layout.walls, len(layout.walls)):
            free = wall not in places and grid.NEIGHBORS[wall] & walkable
            if free and len(places) < count and needs_all(layout, field | 1 << wall):
                places.append(wall)
                field |= 1 << wall
        if len(places) < count:
            return None
    return tuple(places)


def behind_all_doors(layout: Layout) -> list[int]:
    """The walls that can be walked up to once all doors are open, but not while the last one is locked."""
    open_ways = layout.field & ~(1 << layout.treasure)
    after = grid.region(open_ways, layout.agent)
    before = grid.region(open_ways & ~(1 << layout.doors[-1]), layout.agent)
    return [wall for wall in layout.walls if grid.NEIGHBORS[wall] & after and not grid.NEIGHBORS[wall] & before]
