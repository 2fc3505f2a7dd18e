"""How small a difference a paired comparison can show, and how many games a given one takes."""

from __future__ import annotations

import math
from statistics import NormalDist

POWER = 0.8
"""Chance of finding a difference that is there."""
ALPHA = 0.05
"""Chance of finding one that is not there, in a two-sided test."""


def smallest_difference(error: float, power: float = POWER, alpha: float = ALPHA) -> float:
    """The smallest true difference that a two-sided test would find with this ``power``, in normal approximation.

    Args:
        error: Standard error of the difference.
        power: Chance of finding it.
        alpha: Level of the test.
    """
    return _distance(power, alpha) * error


def games_needed(error: float, games: int, difference: float, power: float = POWER, alpha: float = ALPHA) -> int:
    """How many games would show a ``difference``, if further games are like those played.

    Args:
        error: Standard error of the difference, from ``games`` games.
        games: How many gave it.
        difference: The true difference to find.
        power: Chance of finding it.
        alpha: Level of the test.

    Raises:
        ValueError: the difference is 0, which no number of games shows.
    """
    if not difference:
        raise ValueError("no number of games shows a difference of 0")
    return math.ceil(games * (_distance(power, alpha) * error / difference) ** 2)


def _distance(power: float, alpha: float) -> float:
    """From no difference to the one that is found so often, in standard errors."""
    normal = NormalDist()
    return normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(power)
