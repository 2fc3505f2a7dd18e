"""MultiStAR and MSEval: staged questions on RAVEN matrices, scored by what a model gives each of the choices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evals.suites.multistar.suite import MultiStarSuite

__all__ = ["MultiStarSuite"]


def __getattr__(name: str) -> Any:
    """Imports what is asked for: the help of ``raycade multistar`` does not wait for the suite."""
    if name != "MultiStarSuite":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from evals.suites.multistar.suite import MultiStarSuite

    return MultiStarSuite
