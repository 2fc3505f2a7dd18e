"""Tasks that installed packages bring along."""

from __future__ import annotations

import functools
import importlib.metadata
from typing import Final

TASK_ENTRY_POINTS: Final = "raycade.kidgym"
"""Installed packages may name here modules that register tasks of their own (``envs.kidgym.register_task``)."""


@functools.cache
def load_user_tasks() -> None:
    """Import the modules that installed packages name under ``TASK_ENTRY_POINTS``; they register tasks."""
    for entry in sorted(importlib.metadata.entry_points(group=TASK_ENTRY_POINTS), key=lambda entry: entry.name):
        entry.load()
