"""The exact success probability of a player who draws uniformly from every action list."""

from __future__ import annotations

from collections.abc import Hashable
from random import Random

from envs.kidgym.world import World


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
    world, rng = world.copy(), Random(seed)
    while not world.done:
        world.step(rng.randrange(len(world.actions)))
    return world
