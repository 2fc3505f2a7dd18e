"""Mazes that mislead: keys and doors that are not needed, and empty chests as well kept as the diamond.

They stand where walls were, so that they block no way, and open none: with all of them gone, every door of the way to the
treasure is still needed. All keys lie like this, those that are needed too, within reach from the start: so their places
do not tell which are needed.
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
    """Besides the one that each door of the way needs."""
    doors: int
    chests: int = 0


class Misleading(NamedTuple):
    """A maze and the places of its decoys, which are no walls of it any more."""

    layout: Layout
    """With its own keys, and the empty chests."""
    keys: tuple[int, ...]
    """Places of the keys that are not needed."""
    doors: tuple[int, ...]
    """Places of the doors with nothing behind them."""


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
        # Any chest may get the treasure, so each must be within reach while the decoys stand.
        within_reach = behind_all_doors(layout)
        if len(within_reach) < decoys.chests:
            continue
        places = _places(rng, layout, keys=doors + decoys.keys, doors=decoys.doors)
        if places is None:
            continue
        keys = rng.sample(places[: doors + decoys.keys], doors + decoys.keys)
        # With the decoys gone one can walk there, too: chests are as well kept then.
        after = replace(layout, walls=tuple(wall for wall in layout.walls if wall not in places))
        kept = [wall for wall in behind_all_doors(after) if wall in within_reach]
        if len(kept) < decoys.chests:
            continue
        chests = tuple(rng.sample(kept, decoys.chests))
        walls = tuple(wall for wall in after.walls if wall not in chests)
        layout = replace(layout, keys=tuple(keys[:doors]), walls=walls, chests=chests)
        if decoys.chests:  # without them MA and DMA draw as before
            layout = _hide_anywhere(rng, layout)
        return Misleading(layout, tuple(keys[doors:]), places[len(keys) :])
    raise ValueError(f"no maze of {doors} doors was found with room for {decoys}")


def _hide_anywhere(rng: Random, layout: Layout) -> Layout:
    """Draw the treasure's place from its own and those of the empty chests.

    ``lay_out`` puts the treasure on a free cell, often with more room around it than the walls that chests replace. After
    this draw nothing distinguishes them: a player that has not seen the treasure can only guess.
    """
    treasure, *empty = rng.sample([layout.treasure, *layout.chests], 1 + len(layout.chests))
    return replace(layout, treasure=treasure, chests=tuple(empty))


def _places(rng: Random, layout: Layout, keys: int, doors: int) -> tuple[int, ...] | None:
    """Walls that can become keys and doors: first those of the keys, beside cells that can be walked to from the start."""
    locked = grid.mask([layout.treasure, *layout.doors])
    at_first = grid.region(layout.field & ~locked, layout.agent)
    at_last = grid.region(layout.field & ~(1 << layout.treasure), layout.agent)
    field = layout.field
    places: list[int] = []
    for walkable, count in ((at_first, keys), (at_last, keys + doors)):
        for wall in rng.sample(layout.walls, len(layout.walls)):
            if len(places) >= count:
                break
            if wall in places or not grid.NEIGHBORS[wall] & walkable:
                continue
            # Where one can walk in place of the wall, there must be no way round a door.
            if needs_all(layout, field | 1 << wall):
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
    behind = []
    for wall in layout.walls:
        beside = grid.NEIGHBORS[wall]
        if beside & after and not beside & before:
            behind.append(wall)
    return behind
