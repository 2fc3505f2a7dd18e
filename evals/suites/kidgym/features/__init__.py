"""What can be told of each action of a KidGym game, as plain data: what the search for shortcuts learns from.

Nothing here knows the answer. A value is of the action's words, of the thing that it aims at, of the thing that it uses, or
of how these two stand to what else is seen: goal, hint block, board, backpack, and what the first picture showed. Each name
begins with what a player must perceive for it (``SENSES``), so that a player without one of these senses can be
searched for by leaving values out.
"""

from __future__ import annotations

from collections.abc import Sequence

from envs.kidgym import Action, World
from envs.kidgym.frame import Frame
from envs.kidgym.tasks.sorting import Sorting
from evals.suites.kidgym.features.amounts import amounts
from evals.suites.kidgym.features.places import place_of
from evals.suites.kidgym.features.ranks import ranks
from evals.suites.kidgym.features.senses import Values
from evals.suites.kidgym.features.things import alone, seen_there, together
from evals.suites.kidgym.features.words import said, wording
from evals.suites.kidgym.mistakes import Step
from evals.types import OptionFeatures


def option_features(
    world: World, offered: Sequence[Action], opening: Frame, steps: Sequence[Step]
) -> list[OptionFeatures]:
    """The values of each action offered, in the order in which they are shown.

    Args:
        world: The game at this step.
        offered: The actions in that order.
        opening: Its first picture.
        steps: What was done so far.
    """
    shared = said(world, steps)
    found = []
    for place, action in enumerate(offered):
        values: Values = {**shared, **wording(world, action, place, steps)}
        values |= place_of(world, action)
        values |= _things(world, action, opening)
        found.append(OptionFeatures(action.text, values))
    return found


def _things(world: World, action: Action, opening: Frame) -> Values:
    """What the thing that is aimed at and the thing that is used tell, each for itself and both together."""
    target = world.scene.get(action.cell)
    carried = world.backpack[action.slot] if action.slot >= 0 else None
    values = amounts(world, target)
    if target is not None:
        values |= alone(world, "target", target, opening)
    if carried is not None:
        values |= alone(world, "carried", carried, opening)
    # What the first picture showed in the target's place.
    if target is not None and world.memory:
        values |= seen_there(action.cell, target, opening)
    # What is used, where it would stand.
    if carried is not None and isinstance(world, Sorting):
        values |= ranks(world, action, carried)
    if target is not None and carried is not None:
        values |= together(world, action.cell, target, carried, opening)
    return values
