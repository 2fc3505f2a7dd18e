"""Which tasks exist, by name, and how to make an episode of one."""

from __future__ import annotations

from typing import Final, get_args

import gymnasium

from envs.kidgym.scene import RESOLUTIONS
from envs.kidgym.tasks import ALL_TASKS
from envs.kidgym.tasks.memory_decode import MemoryDecode, PublishedMemoryDecode
from envs.kidgym.world import Variant, World

TASKS: Final[dict[str, type[World]]] = {}
"""All registered tasks by short name, the twelve of the paper first."""


MDE_DECOYS: Final = ("table", "published")
"""Distractors of MDE: the table's other partners and things of their type; or any things, as published."""


VARIANTS: Final[tuple[Variant, ...]] = get_args(Variant)


def environment_id(task: str, level: int) -> str:
    """The id under which Gymnasium knows a task's level, such as ``raycade/KidGym-CL-L1-v0``."""
    return f"raycade/KidGym-{task}-L{level}-v0"


def register_task(task: type[World]) -> type[World]:
    """Make a task known by its name, here and to Gymnasium; can be used as a class decorator.

    Raises:
        ValueError: the class lacks a name, a title or budgets, or another task has its name.
    """
    for attribute in ("name", "title", "budgets"):
        if not getattr(task, attribute, None):
            raise ValueError(f"task class {task.__name__} has no {attribute}")
    if not task.name.isalnum():
        raise ValueError(f"task name {task.name!r} of {task.__name__} may hold letters and digits only")
    if TASKS.get(task.name, task) is not task:
        raise ValueError(f"task name {task.name!r} of {task.__name__} is taken by {TASKS[task.name].__name__}")
    TASKS[task.name] = task
    for level in range(1, len(task.budgets) + 1):
        gymnasium.register(
            id=environment_id(task.name, level),
            entry_point="envs.kidgym.env:KidGymEnv",
            kwargs={"task": task.name, "level": level},
        )
    return task


def task_class(task: str) -> type[World]:
    """The class of a task.

    Raises:
        ValueError: there is no such task; the message lists those that exist.
    """
    if task not in TASKS:
        raise ValueError(f"unknown KidGym task {task!r}: there are {', '.join(TASKS)}")
    return TASKS[task]


def _drawn_class(task: str, mde_decoys: str) -> type[World]:
    if mde_decoys not in MDE_DECOYS:
        raise ValueError(f"unknown decoys {mde_decoys!r} of MDE: there are {', '.join(MDE_DECOYS)}")
    cls = task_class(task)
    if mde_decoys == "published" and cls is MemoryDecode:
        return PublishedMemoryDecode
    return cls


def _check_level(cls: type[World], task: str, level: object, variant: Variant) -> None:
    levels = cls.levels(variant)
    if type(level) is int and level in levels:
        return
    known = ", ".join(map(str, levels))
    because = f" ({cls.limit})" if cls.limit else ""
    raise ValueError(f"unknown level {level!r} of KidGym task {task}: there are {known}{because}")


def make(
    task: str,
    level: int,
    seed: int,
    *,
    cell_pixels: int = 64,
    skin: str = "",
    mde_decoys: str = MDE_DECOYS[0],
    variant: Variant = "published",
) -> World:
    """One episode.

    Args:
        task: Short name of a task, such as ``CL``.
        level: From 1 on.
        seed: Decides the episode together with task and level: equal ones play equally in every process.
        cell_pixels: Edge of a cell in the episode's frames: 32, 64 or 96.
        skin: Folder of sprites that replace the built-in ones; empty for none.
        mde_decoys: Where MDE takes its distractors from, ``table`` or ``published``; other tasks are the same with both.
        variant: How the game is drawn; a task that has no such variant (``World.variants``) is drawn as published.

    Raises:
        ValueError: an unknown task, level or resolution (the message says which exist), or a skin that lacks a sprite.
    """
    cls = _drawn_class(task, mde_decoys)
    if variant not in VARIANTS:
        raise ValueError(f"unknown variant {variant!r} of KidGym: there are {', '.join(VARIANTS)}")
    _check_level(cls, task, level, variant)
    if type(cell_pixels) is not int or cell_pixels not in RESOLUTIONS:
        known = ", ".join(map(str, RESOLUTIONS))
        raise ValueError(f"unknown resolution of {cell_pixels!r} pixels a cell: there are {known}")
    if skin:
        from envs.kidgym.render import check_skin  # drawing is loaded only where it is needed

        check_skin(skin)
    drawn_as: Variant = variant if variant in cls.variants else "published"
    return cls(level, seed, cell_pixels, skin, drawn_as)


for _task in ALL_TASKS:
    register_task(_task)
