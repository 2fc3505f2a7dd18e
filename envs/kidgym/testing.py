"""Checks for tasks of one's own: run ``check_task`` in your own tests."""

from __future__ import annotations

from collections.abc import Iterable

from envs.kidgym.oracle import plan
from envs.kidgym.registry import make, task_class
from envs.kidgym.world import World

SEEDS = range(5)


def check_task(task: str, *, skin: str = "", seeds: Iterable[int] = SEEDS) -> None:
    """See that a registered task can be played, won and seen, at every level.

    Args:
        task: Its short name.
        skin: Folder with drawings of its items and scene, where the built-in ones lack them.
        seeds: Games of each level that are looked at.

    Raises:
        AssertionError: it cannot; the message names level and seed.
        ValueError: there is no such task, or the skin cannot be read.
    """
    for level in range(1, len(task_class(task).budgets) + 1):
        for seed in seeds:
            _check_game(task, level, seed, skin)


def _check_game(task: str, level: int, seed: int, skin: str) -> None:
    game = f"{task}, level {level}, seed {seed}"
    world = make(task, level, seed, cell_pixels=32, skin=skin)
    again = make(task, level, seed, cell_pixels=32, skin=skin)
    assert _shown(world) == _shown(again), f"{game}: made twice, it shows two different games"
    path = plan(world)
    assert path is not None, f"{game}: nothing wins within {world.budget} steps"
    for index in path:
        _check_picture(world, game)
        world.step(index)
    _check_picture(world, game)
    assert world.success, f"{game}: the shortest way to win does not win"


def _shown(world: World) -> tuple[object, ...]:
    return world.goal, tuple(world.actions), world.frame.description


def _check_picture(world: World, game: str) -> None:
    try:
        world.frame.render()
    except ValueError as error:
        raise AssertionError(f"{game}: its picture after {world.steps} steps cannot be drawn: {error}") from error
