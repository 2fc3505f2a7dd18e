"""Tasks that others bring along, as packages or in plugin folders."""

from __future__ import annotations

from typing import Final

from envs import plugins

GROUP: Final = "raycade.kidgym"
"""Group of modules that register tasks of their own when they are imported (``envs.kidgym.register_task``)."""


def load_user_tasks() -> None:
    """Import the modules that are registered; each registers its tasks.

    Raises:
        ValueError: a module cannot be imported, or a plugin folder cannot be read.
    """
    for name in sorted(plugins.registered(GROUP)):
        plugins.load(GROUP, name)
