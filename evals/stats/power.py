"""How small a difference a paired comparison can show, and how many games a given one takes."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

POWER = 0.8
"""Chance of finding a difference that is there."""
ALPHA = 0.05
"""Chance of finding one that is not there, in a two-sided test."""
_DISTANCE = NormalDist().inv_cdf(1 - ALPHA / 2) + NormalDist().inv_cdf(POWER)
"""From no difference to the one that is found so often, in standard errors."""
FEWEST: Final = math.floor(1 + math.log2(1 / ALPHA)) + 1
"""Games below which no outcome is found: the least p of the sign-flip test of so many games is 2 / 2 ** games."""


def smallest_difference(error: float, games: int) -> float:
    """The smallest true difference that a two-sided test finds with a chance of ``POWER``, in normal approximation.

    Args:
        error: Standard error of the difference; 0 where no game differs, which tells nothing of other games.
        games: How many gave it.

    Returns:
        The difference; nan where it is not known, and for fewer games than ``FEWEST``, which show none.
    """
    if not error or games < FEWEST:
        return math.nan
    return _DISTANCE * error


def games_needed(error: float, games: int, difference: float) -> int:
    """How many games would show a ``difference``, if further games are like those played; never fewer than ``FEWEST``.

    Args:
        error: Standard error of the difference, from ``games`` games.
        games: How many gave it.
        difference: The true difference to find.

    Raises:
        ValueError: the difference is 0, which no number of games shows.
    """
    if not difference:
        raise ValueError("no number of games shows a difference of 0")
    return max(FEWEST, math.ceil(games * (_DISTANCE * error / difference) ** 2))
