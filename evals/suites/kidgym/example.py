"""The worked example of in-context learning: one easy game of each task, played by the oracle and explained."""

from __future__ import annotations

import functools
from typing import Final

from envs.kidgym import make, solve
from evals.presentation import joined
from evals.suites.kidgym.prompts import letters_of
from evals.suites.kidgym.templates import Templates
from evals.suites.kidgym.variants import task_and_variant
from evals.types import Part, stable_seed

LEVEL: Final = 1


def example_seed(task: str) -> int:
    """The seed of a task's example; evaluated episodes have seeds with a level and an index in them."""
    return stable_seed("kidgym", task, "example")


@functools.lru_cache(maxsize=256)
def worked_example(name: str, templates: Templates, cell_pixels: int = 64, skin: str = "") -> tuple[Part, ...]:
    """All pictures of the example, and with each what was offered, what was chosen, and why; ``name`` may name a variant.

    Raises:
        ValueError: the oracle finds no way to win the game.
    """
    task, variant = task_and_variant(name)
    world = make(task, LEVEL, example_seed(task), cell_pixels=cell_pixels, skin=skin, variant=variant)
    actions = solve(world)
    if actions is None:
        raise ValueError(f"KidGym task {name}: its example, seed {world.seed}, cannot be won")
    wording, goals, steps = templates.wording, list[str](), list[Part]()
    for number, action in enumerate(actions, 1):
        texts, letters = wording.texts(world), letters_of(world.actions)
        goals.append(wording.goal(world))
        steps += ["\n\n"] * bool(steps)
        steps += templates.fill(
            "example_step",
            step=str(number),
            frame=world.frame,
            actions=wording.listed(letters, texts),
            reason=wording.reason(world, action),
            letter=letters[world.ordered.index(action)],
        )
        world.take(action)
    return templates.fill("example", goal="\n".join(dict.fromkeys(goals)), steps=joined(steps), frame=world.frame)
