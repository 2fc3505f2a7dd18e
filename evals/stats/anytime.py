"""Anytime-valid intervals and evidence: they hold however often one looks and whenever one stops.

Everything here is one bet. A gambler who doubts that bounded observations have the mean m stakes a share c of his money on
each of them: an observation x in [0, 1] multiplies what he has by 1 - c + c x / m if he bets on a larger mean, and by
1 - c + c (1 - x) / (1 - m) if he bets on a smaller one. If m is the mean, no strategy makes money, so his capital is an
e-process: it ever reaches 1 / alpha with a probability of at most alpha (Ville's inequality). He spreads his money over many
stakes at the start, because the best one is not known, and never moves it (the "hedged, diversified Kelly" bet of
Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, JRSS B 86, 2024, sections 4 and B).

- Means that he has ruined are outside of the *confidence sequence*: an interval that covers the mean at all times at once.
- A paired difference d in [-1, 1] is the observation (d + 1) / 2. With successes, games that both win or both lose then
  change nothing: what counts are the discordant games, a mixture over the chance of McNemar's test.
- Capital depends on the observations, not on their order. By the inequality of means it is also valid where rounds of
  observations have different means, if the mean of each round is the one that is tested (docs/stopping_mathematics.md).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evals.stats.intervals import FEWEST_CLUSTERS, Bounds, Estimate, cluster_sums, clustered_error, ends_within, using

Floats = npt.NDArray[np.float64]

STAKES: Floats = 0.9 * 2.0 ** (-np.arange(18) / 2)
"""Shares of the capital, from .9, which finds large differences in a dozen games, to .0025, which finds those of .01 in
50,000. They are as many steps apart on the scale on which the best stake falls, which is one over the root of the games."""
LOG_WEIGHTS: Floats = np.log(np.sqrt(STAKES) / np.sqrt(STAKES).sum())
"""What is put on each stake at the start: more on the large ones, so that large differences are found soon."""
_HALVINGS = 40
"""Of an interval in which an end of a confidence sequence is looked for: 1e-12 of its width."""


@dataclass(frozen=True)
class Capital:
    """Natural logarithms of what the two gamblers have who began with 1."""

    up: float
    """Of the one who bets that the mean is larger."""
    down: float
    """Of the one who bets that it is smaller."""

    @property
    def e_value(self) -> float:
        """Of both together, half the money each: evidence against the mean; at least 1 / alpha rejects it at level alpha."""
        return math.exp(min(float(np.logaddexp(self.up, self.down)) - math.log(2), 700.0))


def capital(values: Sequence[float], mean: float) -> Capital:
    """What betting against a mean, between 0 and 1, has earned on observations in [0, 1]."""
    found, many = np.unique(np.asarray(values, np.float64), return_counts=True)
    kinds = (found, np.ones(len(found)), many.astype(np.float64))
    up, down = _log_capital(kinds, mean, 1.0)
    return Capital(float(up), float(down))


def confidence_sequence(
    totals: Sequence[float],
    alpha: float = 0.05,
    sizes: Sequence[float] | None = None,
    largest: float | None = None,
) -> Estimate:
    """Mean of observations in [0, 1] with an anytime-valid interval: all means that no gambler has refuted.

    Each end is where one gambler's capital reaches 2 / alpha. His capital falls as the doubted mean comes nearer, so the
    end is found by halving.

    Args:
        totals: Of each cluster, the sum of its observations.
        alpha: Chance that the intervals ever miss the mean.
        sizes: Observations of each cluster; 1 by default.
        largest: Most observations that a cluster may have, known before the first; 1 by default.

    Raises:
        ValueError: a cluster is larger than ``largest``, or its total is not between 0 and its size.
    """
    return ConfidenceSequence(totals, alpha, sizes, largest).after(len(totals))


class ConfidenceSequence:
    """As ``confidence_sequence``, for looks after many numbers of clusters: what they share is computed once."""

    def __init__(
        self,
        totals: Sequence[float],
        alpha: float = 0.05,
        sizes: Sequence[float] | None = None,
        largest: float | None = None,
    ) -> None:
        """As ``confidence_sequence``."""
        values = np.asarray(totals, np.float64)
        counts = np.ones(len(values)) if sizes is None else np.asarray(sizes, np.float64)
        self._largest, self._limit = 1.0 if largest is None else float(largest), math.log(2 / alpha)
        if len(values) and (counts.max() > self._largest or values.min() < 0 or np.any(values > counts * (1 + 1e-12))):
            raise ValueError(f"clusters of at most {self._largest:g} observations between 0 and 1 are needed")
        found, places = np.unique(np.stack([values, counts]), axis=1, return_inverse=True)
        self._totals, self._sizes, self._places = found[0], found[1], places.ravel()

    def after(self, clusters: int) -> Estimate:
        """The mean of the first so many clusters, with its interval."""
        many = np.bincount(self._places[:clusters], minlength=len(self._totals)).astype(np.float64)
        kinds = (self._totals[many > 0], self._sizes[many > 0], many[many > 0])
        return _estimate(kinds, self._largest, self._limit)


def success_sequence(won: int, games: int, alpha: float = 0.05) -> Estimate:
    """As ``confidence_sequence`` of games that were won or lost, from their numbers alone."""
    many = np.array([games - won, won], np.float64)
    outcomes = np.array([0.0, 1.0])[many > 0]
    return _estimate((outcomes, np.ones(len(outcomes)), many[many > 0]), 1.0, math.log(2 / alpha))


def _estimate(kinds: _Kinds, largest: float, limit: float) -> Estimate:
    count = math.fsum(kinds[1] * kinds[2])
    if not count:
        return Estimate(math.nan, 0.0, 1.0, 0)
    mean = math.fsum(kinds[0] * kinds[2]) / count
    low = _end(kinds, largest, limit, side=0, refuted=0.0, kept=mean)
    high = _end(kinds, largest, limit, side=1, refuted=1.0, kept=mean)
    return Estimate(mean, low, high, round(count))


def difference_sequence(differences: Sequence[float], alpha: float = 0.05) -> Estimate:
    """Mean of paired differences in [-1, 1], one for each game, with an anytime-valid interval.

    Args:
        differences: Of each game, first minus second; of a game played several times, the mean over its pairs.
        alpha: Chance that the intervals ever miss the true difference.
    """
    found = confidence_sequence([(each + 1) / 2 for each in differences], alpha)
    return Estimate(2 * found.mean - 1, 2 * found.low - 1, 2 * found.high - 1, found.n)


def difference_capital(differences: Sequence[float]) -> Capital:
    """What betting has earned against no true difference of games whose differences are in [-1, 1]."""
    return capital([(each + 1) / 2 for each in differences], 0.5)


def capital_paths(
    totals: npt.ArrayLike, mean: float, sizes: npt.ArrayLike = 1.0, largest: float = 1.0
) -> tuple[Floats, Floats]:
    """Logarithms of both gamblers' capital after each cluster, for as many runs at once as there are rows.

    Args:
        totals: Of each cluster, the sum of its observations, each in [0, 1]; shape (..., times).
        mean: The mean that is doubted.
        sizes: Observations of each cluster.
        largest: Most observations that a cluster may have, known before the first.

    Returns:
        Capital of the bets on a larger and on a smaller mean, each of the shape of ``totals``.
    """
    values = np.asarray(totals, np.float64)
    paths = []
    for gain in _gains(values, np.asarray(sizes, np.float64), mean, largest):
        path = np.full(values.shape, -np.inf)
        for stake, weight in zip(STAKES, LOG_WEIGHTS, strict=True):
            path = np.logaddexp(path, weight + np.cumsum(np.log1p(stake * gain), axis=-1))
        paths.append(path)
    return paths[0], paths[1]


TUNED_FOR = 500
"""The number of observations at which an asymptotic interval is about as narrow as it can be."""


def asymptotic_sequence(mean: float, error: float, count: int, alpha: float = 0.05) -> tuple[float, float]:
    """Ends of an interval for a mean without known bounds, anytime-valid once there are many observations.

    It is the normal mixture of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (Time-uniform central limit theory and
    asymptotic confidence sequences, Annals of Statistics 52, 2024, theorem 2.2).

    Args:
        mean: Of the observations.
        error: Its standard error.
        count: Independent observations, or clusters.
        alpha: Chance that the intervals ever miss the mean, in the limit.
    """
    rate = -2 * math.log(alpha) + math.log(-2 * math.log(alpha)) + 1
    squared = rate / TUNED_FOR
    variance = count * squared + 1
    margin = error * math.sqrt(variance / (count * squared) * math.log(variance / alpha**2))
    return mean - margin, mean + margin


def estimate_at_every_look(
    values: Sequence[float], clusters: Sequence[Hashable] | None, bounds: Bounds, confidence: float
) -> Estimate:
    """A mean as tables show it, with an anytime-valid interval (an ``IntervalMethod``).

    By betting where the measure has bounds, else asymptotically. A run stops between games, so the largest cluster that
    there is is the largest that its plan has.
    """
    low, high = bounds
    is_bounded = math.isfinite(low) and math.isfinite(high)
    if not is_bounded:
        return _asymptotic_estimate(values, clusters, bounds, confidence)
    sizes = cluster_sums([1.0] * len(values), clusters)
    scaled = [min(max((value - low) / (high - low), 0.0), 1.0) for value in values]
    shares = cluster_sums(scaled, clusters)
    found = confidence_sequence(shares, 1 - confidence, sizes, max(sizes))
    mean, below, above = (low + (high - low) * value for value in (found.mean, found.low, found.high))
    return Estimate(mean, below, above, len(values))


def _asymptotic_estimate(
    values: Sequence[float], clusters: Sequence[Hashable] | None, bounds: Bounds, confidence: float
) -> Estimate:
    mean, error, count = clustered_error(values, clusters)
    mean = max(mean, bounds[0])
    without_interval = Estimate(mean, math.nan, math.nan, len(values))
    # Too few clusters, or none that differs from the others.
    if count < FEWEST_CLUSTERS or not error:
        return without_interval
    # All observations lie at the lower end.
    if mean <= bounds[0]:
        return without_interval
    below, _ = asymptotic_sequence(mean, error, count, 1 - confidence)
    return Estimate(mean, *ends_within(mean, mean - below, bounds), len(values))


def at_every_look() -> AbstractContextManager[None]:
    """Compute all intervals as anytime-valid ones meanwhile."""
    return using(estimate_at_every_look)


def e_holm(e_values: Sequence[float]) -> list[float]:
    """E-values that may be compared with 1 / alpha one by one, with a family-wise error of at most alpha.

    Holm's procedure for e-values (Vovk and Wang, E-values: calibration, combination and applications, Annals of Statistics
    49, 2021; closed test with arithmetic means, which allows any dependence).
    """
    order = sorted(range(len(e_values)), key=lambda place: -e_values[place])
    corrected = [0.0] * len(e_values)
    ascending = sorted(e_values)
    for place in order:
        mine = e_values[place]
        # The worst subset that holds this hypothesis holds the smallest others: the mean is taken over each such subset.
        others = list(ascending)
        others.remove(mine)
        total, worst = mine, mine
        for size, other in enumerate(others, start=2):
            total += other
            worst = min(worst, total / size)
        corrected[place] = worst
    return corrected


def e_benjamini_hochberg(e_values: Sequence[float], alpha: float = 0.05) -> list[bool]:
    """Which hypotheses are rejected with a false discovery rate of at most alpha, under any dependence.

    The e-BH procedure (Wang and Ramdas, False discovery rate control with e-values, JRSS B 84, 2022).
    """
    count = len(e_values)
    descending = sorted(e_values, reverse=True)
    threshold = math.inf
    for rank, e_value in enumerate(descending, start=1):
        if e_value >= count / (alpha * rank):
            threshold = count / (alpha * rank)
    return [e_value >= threshold for e_value in e_values]


# --- the bets --------------------------------------------------------------------------------------------------------

_Kinds = tuple[Floats, Floats, Floats]
"""Distinct (total, size) of clusters and how many there are of each: clusters that are alike need be counted only."""


def _gains(totals: Floats, sizes: Floats, mean: float, largest: float) -> tuple[Floats, Floats]:
    """What both gamblers win on each cluster, as a multiple of the stake: nothing in the mean if ``mean`` is right."""
    return (totals / mean - sizes) / largest, ((sizes - totals) / (1 - mean) - sizes) / largest


def _log_capital(kinds: _Kinds, mean: float, largest: float) -> tuple[np.float64, np.float64]:
    """Both gamblers' capital. A cluster is one bet on its total against what the mean promises for its size."""
    totals, sizes, many = kinds
    sides = []
    for gain in _gains(totals, sizes, mean, largest):
        # Rows are stakes, columns the kinds of clusters; alike clusters win alike, so their logarithms are multiplied.
        logs = np.log1p(STAKES[:, None] * gain[None, :]) @ many
        sides.append(np.logaddexp.reduce(LOG_WEIGHTS + logs))
    return sides[0], sides[1]


def _end(kinds: _Kinds, largest: float, limit: float, side: int, refuted: float, kept: float) -> float:
    """The mean nearest to the observed one, ``kept``, at which the gambler of this side reaches ``limit``.

    ``refuted`` is where his capital is largest: 0 for the bet on a larger mean, 1 for that on a smaller one.
    """
    totals, sizes, _ = kinds
    # Without a single gain on his side he refutes nothing: only failures for the bet on more, only successes for less.
    if side == 0 and totals.max() <= 0:
        return refuted
    if side == 1 and np.all(totals >= sizes):
        return refuted
    for _ in range(_HALVINGS):
        middle = (refuted + kept) / 2
        if _log_capital(kinds, middle, largest)[side] >= limit:
            refuted = middle
        else:
            kept = middle
    return refuted
