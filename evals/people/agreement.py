"""How far people agree: Fleiss' kappa (Fleiss 1971), with an interval from leaving out one game at a time."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evals.stats.intervals import FEWEST_CLUSTERS, Estimate, student_quantile

_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Agreement:
    """Kappa and what it is made of: ``(observed - chance) / (1 - chance)``."""

    kappa: Estimate
    """nan where all ratings are in one category, so that chance would agree as well; n counts games."""
    observed: float
    """Share of pairs of ratings of one game that agree, as a mean over games."""
    chance: float
    """The same share if ratings were drawn from all: the sum of the squared shares of categories."""
    ratings: int


def fleiss_kappa(ratings: Iterable[tuple[Hashable, Hashable]]) -> Agreement | None:
    """Agreement over pairs of a game and the category that one person put it in.

    Games that fewer than two people rated are left out. Games may have different numbers of ratings: each then has the share
    of agreeing pairs among its own, and counts alike in the mean; with equal numbers this is Fleiss' formula.

    >>> agreement = fleiss_kappa([(1, "a"), (1, "a"), (2, "a"), (2, "b")])
    >>> agreement.observed, agreement.chance, round(agreement.kappa.mean, 3)
    (0.5, 0.625, -0.333)

    Returns:
        None where no game has two ratings.
    """
    rated = _rated(ratings)
    if not rated:
        return None
    categories = list(dict.fromkeys(itertools.chain.from_iterable(rated)))
    counted = [[counts[category] for category in categories] for counts in rated]
    table = np.array(counted, dtype=float)
    of_game = table.sum(axis=1)
    agreeing = ((table**2).sum(axis=1) - of_game) / (of_game * (of_game - 1))
    observed, chance = float(agreeing.mean()), _chance(table.sum(axis=0))
    kappa = _kappa(observed, chance)
    low, high = _interval(kappa, table, agreeing)
    return Agreement(Estimate(kappa, low, high, len(rated)), observed, chance, int(table.sum()))


def _rated(ratings: Iterable[tuple[Hashable, Hashable]]) -> list[Counter[Hashable]]:
    """Of each game that two people or more rated, how many put it in each category."""
    by_game: defaultdict[Hashable, Counter[Hashable]] = defaultdict(Counter)
    for game, category in ratings:
        by_game[game][category] += 1
    return [counts for counts in by_game.values() if counts.total() > 1]


def _kappa(observed: float, chance: float) -> float:
    return math.nan if math.isclose(chance, 1.0) else (observed - chance) / (1 - chance)


def _chance(of_category: npt.NDArray[Any]) -> float:
    return float(((of_category / of_category.sum()) ** 2).sum())


def _interval(kappa: float, table: npt.NDArray[Any], agreeing: npt.NDArray[Any]) -> tuple[float, float]:
    """The jackknife's interval, with Student's t; none for few games, or where every game says the same."""
    games = len(table)
    if games < FEWEST_CLUSTERS or math.isnan(kappa):
        return math.nan, math.nan
    without = (agreeing.sum() - agreeing) / (games - 1)
    others = table.sum(axis=0) - table
    left = [_kappa(observed, _chance(rest)) for observed, rest in zip(without, others, strict=True)]
    error = math.sqrt((games - 1) / games * float(((np.array(left) - np.mean(left)) ** 2).sum()))
    if not error > 0:
        return math.nan, math.nan
    margin = student_quantile((1 + _CONFIDENCE) / 2, games - 1) * error
    return max(-1.0, kappa - margin), min(1.0, kappa + margin)
