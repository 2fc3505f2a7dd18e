"""KidGym, grid tasks for vision-language models, as a suite (games: ``envs.kidgym``)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evals.suites.kidgym.prefix_cache import cache_table
    from evals.suites.kidgym.rerender import RerenderedStep, rerender_episode
    from evals.suites.kidgym.suite import KidGymSuite

__all__ = ["KidGymSuite", "RerenderedStep", "cache_table", "rerender_episode"]

_MODULES = {
    "KidGymSuite": "suite",
    "RerenderedStep": "rerender",
    "cache_table": "prefix_cache",
    "rerender_episode": "rerender",
}


def __getattr__(name: str) -> Any:
    """Imports what is asked for: the help of ``raycade kidgym`` does not wait for the suite."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
