"""How games of a task are drawn, as part of the task's name: ``FI`` as published, ``FI-balanced`` so that nothing else wins."""

from __future__ import annotations

from typing import Final

from envs.kidgym import TASKS
from envs.kidgym.chance import BALANCED_CHANCE, CHANCE
from envs.kidgym.world import Variant

BALANCED: Final = "-balanced"
"""Ends the name of a task whose games are drawn balanced, in plans and tables."""


def named(task: str, variant: Variant) -> str:
    """A task's name with its variant; a task without that variant is drawn as published, and named so."""
    return task + BALANCED if variant == "balanced" and variant in TASKS[task].variants else task


def task_and_variant(name: str) -> tuple[str, Variant]:
    """What a name is made of.

    >>> task_and_variant("FI-balanced"), task_and_variant("SE")
    (('FI', 'balanced'), ('SE', 'published'))
    """
    return (name.removesuffix(BALANCED), "balanced") if name.endswith(BALANCED) else (name, "published")


def chance_of(name: str) -> tuple[float, float, float] | None:
    """Success of uniform random play at the three levels of a task of the paper, of either variant; None for another task."""
    task, variant = task_and_variant(name)
    return (BALANCED_CHANCE if variant == "balanced" else CHANCE).get(task)
