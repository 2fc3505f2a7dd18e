"""The exact success probability of a player who draws uniformly from every action list.

`ANALYTIC` is what follows from the published rules, by combinatorics or, for mazes, exhaustively over the published
layouts. Worlds made here have the same values except where a cure changes the game, `CHANGED`.
"""

from __future__ import annotations

from collections.abc import Hashable
from random import Random
from typing import Final

from envs.kidgym.world import World

ANALYTIC: Final[dict[str, tuple[float, float, float]]] = {
    "CL": (1 / 4, 1 / 16, 1 / 64),
    "SE": (1 / 4, 1 / 15, 1 / 56),
    "SO": (1 / 2, 1 / 6, 1 / 24),
    "MA": (1 / 4, 0.036, 0.0027),
    "FI": (1 / 4, 1 / 12, 1 / 24),
    "PU": (1 / 4, 1 / 12, 1 / 24),
    "PL": (1 / 4, 1 / 8, 1 / 8),
    "CO": (1 / 9, 0.0695, 0.0447),
    "DMA": (0.216, 0.122, 0.041),
    "MMA": (1 / 48, 0.0014, 0.00004),
    "MDE": (1 / 4, 1 / 6, 1 / 8),
    "MFI": (1 / 4, 1 / 12, 1 / 24),
}
"""Success of uniform random play by task and level under the published rules."""

_OTHER_MAZES: Final = "other mazes: drawn from the seed, not a hundred layouts, so keys lie differently"
_ALL_DOORS: Final = (
    "every door has to be opened: no short cuts and no unsolvable colourings, as some published mazes have"
)
CHANGED: Final[dict[tuple[str, int], str]] = {
    ("MA", 2): _OTHER_MAZES,
    ("MA", 3): _OTHER_MAZES,
    ("DMA", 1): f"{_ALL_DOORS}; the key that fits nothing never has to be moved",
    ("DMA", 2): _ALL_DOORS,
    ("DMA", 3): _ALL_DOORS,
    ("MMA", 2): _OTHER_MAZES,
    ("MMA", 3): _OTHER_MAZES,
}
"""Cells whose value a cure changes, and how."""


def random_success(world: World) -> float:
    """Probability that uniform random play wins from the world's present state, by dynamic programming over its states."""
    return _value(world, {})


def _value(world: World, known: dict[tuple[int, Hashable], float]) -> float:
    if world.done:
        return float(world.success)
    key = (world.steps, world.state())
    if key not in known:
        options = world.options
        total = 0.0
        for action in options:
            there = world.copy()
            there.take(action)
            total += _value(there, known)
        known[key] = total / len(options)
    return known[key]


def play_randomly(world: World, seed: int) -> World:
    """A copy of the world, played to its end by drawing uniformly from every action list."""
    rng = Random(f"{world.name}/{world.level}/{world.seed}/{seed}")
    world = world.copy()
    while not world.done:
        world.step(rng.randrange(len(world.actions)))
    return world
