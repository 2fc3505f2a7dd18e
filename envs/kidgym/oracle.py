"""Perfect play by breadth-first search over copies of the world: it knows what is hidden, and no task's script."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable
from itertools import count

from envs.kidgym.world import Action, World


def solve(world: World) -> tuple[Action, ...] | None:
    """The fewest actions that win from the world's present state within its budget; None where that is impossible.

    The world itself is left as it is. States from which the same can be reached (``World.state``) are searched once.
    """
    if world.done:
        return None
    if world.steps + world.least_steps() > world.budget:
        return None
    seen = {world.state()}
    queue: deque[tuple[World, tuple[Action, ...]]] = deque([(world, ())])
    while queue:
        here, path = queue.popleft()
        for action in here.options:
            there = here.copy()
            if there.take(action).success:
                return (*path, action)
            if there.done:
                continue
            # What cannot be won within the budget any more is searched no further.
            if there.steps + there.least_steps() > there.budget:
                continue
            state = there.state()
            if state not in seen:
                seen.add(state)
                queue.append((there, (*path, action)))
    return None


def fewest_steps(world: World) -> int | None:
    """How many actions ``solve`` would take, found sooner: A* search, deepest first, by ``World.least_steps``.

    The world itself is left as it is.
    """
    if world.done:
        return None
    found: dict[Hashable, int] = {world.state(): world.steps}
    order = count()
    queue = [(world.steps + world.least_steps(), 0, next(order), world)]
    while queue:
        bound, _, _, here = heapq.heappop(queue)
        if here.success:
            return here.steps - world.steps
        if bound > world.budget:
            return None
        for action in here.options:
            there = here.copy()
            there.take(action)
            at_least = there.steps
            if not there.success:
                if there.done:
                    continue
                at_least += there.least_steps()
            # A state is searched again where it is reached in fewer steps than before.
            state = (there.success, there.state())
            if there.steps < found.get(state, world.budget + 1):
                found[state] = there.steps
                heapq.heappush(queue, (at_least, -there.steps, next(order), there))
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
