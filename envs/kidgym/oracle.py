"""Perfect play by breadth-first search over copies of the world: it knows what is hidden, and no task's script."""

from __future__ import annotations

from collections import deque

from envs.kidgym.world import Action, World


def solve(world: World) -> tuple[Action, ...] | None:
    """The fewest actions that win from the world's present state within its budget; None where that is impossible.

    The world itself is left as it is. States from which the same can be reached (``World.state``) are searched once.
    """
    if world.done or world.steps + world.least_steps() > world.budget:
        return None
    seen = {world.state()}
    queue: deque[tuple[World, tuple[Action, ...]]] = deque([(world, ())])
    while queue:
        here, path = queue.popleft()
        for action in here.options:
            there = here.copy()
            if there.take(action).success:
                return (*path, action)
            if not there.done and there.steps + there.least_steps() <= there.budget:
                state = there.state()
                if state not in seen:
                    seen.add(state)
                    queue.append((there, (*path, action)))
    return None


def plan(world: World) -> tuple[int, ...] | None:
    """The same as indices: each into the ``actions`` that will be shown at its step."""
    actions = solve(world)
    if actions is None:
        return None
    world, indices = world.copy(), []
    for action in actions:
        indices.append(world.ordered.index(action))
        world.take(action)
    return tuple(indices)
