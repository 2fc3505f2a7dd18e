"""Generates mazes whose treasure lies behind a given number of doors, every one of which has to be opened.

The published mazes are lists of a hundred layouts a level, filtered by a check that some of them can never pass; these are
drawn afresh from the seed. Doors are put on cut cells between agent and treasure, and the key of each door on the agent's
side of it, so that a maze can be solved by construction: in ``2 * doors + 1`` actions and not in fewer. The number of
attempts is bounded, and a corridor that always works stands behind them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from envs.kidgym.grid import ALL, CELLS, at, mask, members, region, spread

ATTEMPTS: Final = 100


@dataclass(frozen=True)
class Layout:
    """Where the parts of a maze lie; cells are numbered as in ``envs.kidgym.grid``."""

    agent: int
    treasure: int
    doors: tuple[int, ...]
    """In the order in which they must be opened."""
    keys: tuple[int, ...]
    """``keys[i]`` is the place of the key that opens ``doors[i]``."""
    walls: tuple[int, ...]
    chests: tuple[int, ...] = ()
    """Places of empty chests: they can be reached, and never have to be moved."""
    distractor: int | None = None
    """Place of a key that opens nothing: it can be reached, never has to be moved, and hides no way round a door."""

    @property
    def field(self) -> int:
        """Set of the cells that can be walked on once all keys and doors are gone, the treasure's included."""
        return ALL & ~mask(self.walls) & ~mask(self.chests) & ~(0 if self.distractor is None else 1 << self.distractor)


def lay_out(rng: Random, doors: int, walls: int, chests: int = 0, distractor: bool = False) -> Layout:
    """Draw a maze in which the treasure can be reached by opening all doors, and not by opening fewer.

    Args:
        rng: Source of all chance.
        doors: 1 to 3 doors between agent and treasure; as many keys are laid.
        walls: Together with chests and distractor at least ``doors`` and at most 12.
        chests: Empty chests to put in places where a wall might be.
        distractor: Whether to lay a key that opens nothing.

    Raises:
        ValueError: the numbers are outside of these bounds.
    """
    barriers = walls + chests + distractor
    if not (1 <= doors <= 3 and doors <= barriers <= 12):
        raise ValueError(f"a maze has 1 to 3 doors and up to 12 barriers, not {doors} doors and {barriers} barriers")
    for _ in range(ATTEMPTS):
        furnished = _furnish(rng, _carve(rng, ALL, barriers), doors)
        if furnished is None:
            continue
        layout = _replace_walls(rng, furnished, chests, distractor)
        if layout is not None:
            return layout
    # No attempt had room for everything: a corridor always works, if there are walls enough to be replaced.
    layout = _replace_walls(rng, _corridor(rng, doors, barriers), chests, distractor)
    if layout is None:
        raise ValueError(f"no room for {chests} chests and {int(distractor)} distractors among {barriers} barriers")
    return layout


def _carve(rng: Random, field: int, outside: int, keep: int = 0) -> int:
    """Take random cells from a connected set until so many are outside it; it stays connected and keeps ``keep``."""
    # Of two or more connected cells two can always be spared, so that no pass over the cells is in vain.
    while True:
        for cell in rng.sample(CELLS, len(CELLS)):
            if (ALL & ~field).bit_count() >= outside:
                return field
            bit = 1 << cell
            if field & bit and not keep & bit and not _cuts(field, cell):
                field &= ~bit


def _behind(field: int, cuts: Iterable[int], treasure: int) -> dict[int, int]:
    """The cells that each cut cell, closed, keeps from the treasure."""
    behind = {}
    for cut in cuts:
        if cut != treasure:
            open_cells = field & ~(1 << cut)
            behind[cut] = open_cells & ~region(open_cells, treasure)
    return behind


def _starts(cells: Sequence[int], behind: Mapping[int, int], doors: int) -> list[int]:
    """Where an agent stands that could have so many doors, or more, on its way."""
    found = []
    for cell in cells:
        possible_doors = sum(side >> cell & 1 for side in behind.values())
        if possible_doors >= doors:
            found.append(cell)
    return found


def _furnish(rng: Random, field: int, doors: int) -> Layout | None:
    """Choose treasure, agent, doors and keys in a connected set of cells, or None if it has no room for them."""
    cells = members(field)
    cuts = [cell for cell in cells if _cuts(field, cell)]
    rng.shuffle(cuts)
    for treasure in rng.sample(cells, len(cells)):
        behind = _behind(field, cuts, treasure)
        agents = _starts(cells, behind, doors)
        if not agents:
            continue
        agent = rng.choice(agents)
        on_the_way = [cut for cut, side in behind.items() if side >> agent & 1]
        # What the agent can walk to with only this door locked; it grows from the first door to the last.
        reach = {cut: region(field & ~(1 << cut), agent) for cut in on_the_way[:doors]}
        gates = sorted(reach, key=lambda cut: reach[cut].bit_count())
        keys = _lay_keys(rng, agent, mask(gates), [reach[gate] for gate in gates])
        if not keys:
            continue
        walls = members(ALL & ~field)
        return Layout(agent, treasure, tuple(gates), keys, tuple(walls))
    return None


def _cuts(field: int, cell: int) -> bool:
    """Whether a connected set falls apart without the cell."""
    rest = field & ~(1 << cell)
    return region(rest, rest.bit_length() - 1) != rest


def _lay_keys(rng: Random, agent: int, doors: int, sides: list[int]) -> tuple[int, ...] | None:
    """Lay the key of each door on a free cell of the agent's side of that door; the sides grow from door to door."""
    taken, keys = doors | 1 << agent, []
    for side in sides:
        places = members(side & ~taken)
        if not places:
            return None
        keys.append(rng.choice(places))
        taken |= 1 << keys[-1]
    return tuple(keys)


def _replace_walls(rng: Random, layout: Layout, chests: int, distractor: bool) -> Layout | None:
    """Put chests and distractor where walls are that the agent can come to, or None where there are too few."""
    field = layout.field
    walkable = region(field & ~(1 << layout.treasure), layout.agent)
    walls = [wall for wall in layout.walls if spread(1 << wall) & walkable]
    rng.shuffle(walls)
    key = None
    if distractor:
        # It must hide no way round a door.
        harmless = (wall for wall in walls if needs_all(layout, field | 1 << wall))
        key = next(harmless, None)
        if key is None:
            return None
        walls.remove(key)
    if len(walls) < chests:
        return None
    places = walls[:chests]
    replaced = {*places, key}
    rest = tuple(wall for wall in layout.walls if wall not in replaced)
    return replace(layout, walls=rest, chests=tuple(places), distractor=key)


def needs_all(layout: Layout, field: int) -> bool:
    """Whether each door alone, locked, keeps the agent from the treasure in a set of cells."""
    return not any(region(field & ~(1 << door), layout.agent) >> layout.treasure & 1 for door in layout.doors)


def _corridor(rng: Random, doors: int, barriers: int) -> Layout:
    """A maze that always exists: a corridor of doors along the upper edge, with the treasure in the corner."""
    treasure, gates = at(0, 0), tuple(at(x, 0) for x in range(doors, 0, -1))
    corridor = mask([treasure, *gates])
    room = ALL & ~corridor & ~mask(at(x, 1) for x in range(doors))
    room = _carve(rng, room, barriers + doors + 1, keep=1 << at(doors + 1, 0))
    agent, *keys = rng.sample(members(room), doors + 1)
    return Layout(agent, treasure, gates, tuple(keys), tuple(members(ALL & ~room & ~corridor)))
