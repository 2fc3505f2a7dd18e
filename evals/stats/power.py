"""How small a difference a paired comparison can show, and how many games a given one takes."""

from __future__ import annotations

import math
from statistics import NormalDist

POWER = 0.8
"""Chance of finding a difference that is there."""
ALPHA = 0.05
"""Chance of finding one that is not there, in a two-sided test."""
_DISTANCE = NormalDist().inv_cdf(1 - ALPHA / 2) + NormalDist().inv_cdf(POWER)
"""From no difference to the one that is found so often, in standard errors."""


def smallest_difference(error: float) -> float:
    """The smallest true difference that a two-sided test finds with a chance of ``POWER``, in normal approximation.

    Args:
        error: Standard error of the difference; 0 where no game differs, which tells nothing of other games.

    Returns:
        The difference; nan where it is not known.
    """
    return _DISTANCE * error if error else math.nan


def games_needed(error: float, games: int, difference: float) -> int:
    """How many games would show a ``difference``, if further games are like those played.

    Args:
        error: Standard error of the difference, from ``games`` games.
        games: How many gave it.
        difference: The true difference to find.

    Raises:
        ValueError: the difference is 0, which no number of games shows.
    """
    if not difference:
        raise ValueError("no number of games shows a difference of 0")
    return math.ceil(games * (_DISTANCE * error / difference) ** 2)
