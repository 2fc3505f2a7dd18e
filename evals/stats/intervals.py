"""Means with confidence intervals that respect clusters: repeated runs of one task are not independent."""

from __future__ import annotations

import contextlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

Bounds = tuple[float, float]
"""The possible range of a measure."""
UNBOUNDED: Final[Bounds] = (-math.inf, math.inf)
NONNEGATIVE: Final[Bounds] = (0.0, math.inf)
"""Of counts such as steps and tokens."""
UNIT: Final[Bounds] = (0.0, 1.0)
"""Of scores."""

FEWEST_CLUSTERS: Final = 5
"""Of fewer clusters a mean has no interval: their spread is hardly known, and Student's t would be all that is printed."""


@dataclass(frozen=True)
class Estimate:
    """A mean with its confidence interval; ``n`` counts observations, not clusters.

    The ends are nan where there is no interval: too few clusters, or no spread between them.

    >>> Estimate(0.25, 0.1, 0.5, n=40)
    Estimate(mean=0.25, low=0.1, high=0.5, n=40)
    """

    mean: float
    low: float
    high: float
    n: int

    @property
    def has_interval(self) -> bool:
        """Whether the ends are known."""
        return not math.isnan(self.low + self.high)


IntervalMethod = Callable[[Sequence[float], "Sequence[Hashable] | None", Bounds, float], Estimate]
"""Takes observations, what each belongs to, the possible range and the confidence."""
_METHOD: ContextVar[IntervalMethod | None] = ContextVar("interval method", default=None)
"""How intervals are computed in place of those for a fixed sample."""


@contextlib.contextmanager
def using(method: IntervalMethod | None) -> Iterator[None]:
    """Compute all intervals of means and shares by another method meanwhile; None for those of a fixed sample."""
    token = _METHOD.set(method)
    try:
        yield
    finally:
        _METHOD.reset(token)


NO_ESTIMATE = Estimate(math.nan, math.nan, math.nan, 0)
"""What can be said of no observations."""


def mean_estimate(
    values: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    bounds: Bounds = UNBOUNDED,
) -> Estimate:
    """Mean with a cluster-robust interval: the CR1 sandwich variance and Student's t with (clusters - 1) degrees.

    Between bounds the interval is computed on the logit scale, above a lower bound on the log scale (delta method), so
    that its ends are possible values. The result does not depend on the order of the observations, to the last bit.

    >>> mean_estimate([1.0, 2.0, 2.0, 3.0, 7.0], bounds=NONNEGATIVE)
    Estimate(mean=3.0, low=1.1..., high=7.9..., n=5)

    Args:
        values: The observations.
        clusters: What each observation belongs to; without it, every observation stands for itself.
        confidence: Nominal coverage of the interval.
        bounds: The range that the measure cannot leave.

    Returns:
        The mean; without an interval (ends nan) for fewer than ``FEWEST_CLUSTERS``, or where no observation differs.

    Raises:
        ValueError: a value lies outside the bounds.
    """
    if not values:
        return NO_ESTIMATE
    if min(values) < bounds[0] - _ROUNDING or max(values) > bounds[1] + _ROUNDING:
        raise ValueError(f"values from {min(values)} to {max(values)} lie outside of {bounds}")
    method = _METHOD.get()
    if method is not None:
        return method(values, clusters, bounds, confidence)
    mean, error, count = clustered_error(values, clusters)
    mean = min(max(mean, bounds[0]), bounds[1])
    if count < FEWEST_CLUSTERS:
        return Estimate(mean, math.nan, math.nan, len(values))
    low, high = bounds
    is_bounded = math.isfinite(low) and math.isfinite(high)
    # All observations lie at one end of the range: whole clusters count as successes, or failures, of Wilson's interval.
    if is_bounded and mean in bounds:
        share = wilson_estimate((mean - low) / (high - low), count, confidence=confidence)
        ends = (low + (high - low) * share.low, low + (high - low) * share.high)
        return Estimate(mean, *ends, len(values))
    if error == 0:
        return Estimate(mean, math.nan, math.nan, len(values))
    half_width = student_quantile((1 + confidence) / 2, count - 1) * error
    return Estimate(mean, *ends_within(mean, half_width, bounds), len(values))


def ends_within(mean: float, margin: float, bounds: Bounds) -> tuple[float, float]:
    """The ends of an interval within bounds, for a margin on the measure's own scale."""
    low, high = bounds
    if math.isinf(low):
        return mean - margin, mean + margin
    if math.isinf(high):
        # log(mean - low) has the margin divided by the derivative of its inverse
        factor = math.exp(min(margin / (mean - low), _LARGEST_EXPONENT))
        return low + (mean - low) / factor, low + (mean - low) * factor
    share = (mean - low) / (high - low)
    odds = share / (1 - share)
    factor = math.exp(min(margin / (high - low) / (share * (1 - share)), _LARGEST_EXPONENT))
    below, above = odds / factor, odds * factor
    return low + (high - low) * below / (1 + below), low + (high - low) * above / (1 + above)


_ROUNDING: Final = 1e-9
"""How far computed values may lie beyond a bound."""
_LARGEST_EXPONENT: Final = 300.0
"""Keeps ends finite where a few observations far away make the mean uncertain by orders of magnitude."""


def clustered_error(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> tuple[float, float, int]:
    """Mean, its CR1 standard error (nan for a single cluster), and the number of clusters."""
    mean = math.fsum(values) / len(values)
    residuals = cluster_sums([value - mean for value in values], clusters)
    count = len(residuals)
    if count < 2:
        return mean, math.nan, count
    squares = math.fsum(total * total for total in residuals)
    return mean, math.sqrt(count / (count - 1) * squares) / len(values), count


def student_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t distribution.

    >>> round(student_quantile(0.975, 4), 3)
    2.776
    """
    from scipy.special import stdtrit  # a quarter of a second: commands that compute no interval must not wait for it

    return float(stdtrit(degrees, probability))


def proportion_estimate(
    successes: Sequence[bool], clusters: Sequence[Hashable] | None = None, confidence: float = 0.95
) -> Estimate:
    """Share of successes with a Wilson score interval whose sample size is n over the design effect.

    The design effect is the clustered variance over the binomial one, and never below 1. It is taken after adding one
    cluster of successes and one of failures, both of the mean size (as Agresti and Coull add observations): few
    successes, or none, then count as if whole clusters succeed or fail together, instead of as independent.
    Without clusters, this is the plain Wilson interval.

    Args:
        successes: One truth value per observation.
        clusters: What each observation belongs to; without it, every observation stands for itself.
        confidence: Nominal coverage of the interval.
    """
    n = len(successes)
    if not n:
        return NO_ESTIMATE
    method = _METHOD.get()
    if method is not None:
        return method([float(bool(success)) for success in successes], clusters, UNIT, confidence)
    hits = [float(bool(success)) for success in successes]
    kinds = Counter(zip(cluster_sums(hits, clusters), cluster_sums([1.0] * n, clusters), strict=True))
    return wilson_estimate(sum(hits) / n, n, _design_effect(kinds), confidence)


def proportion_of_counts(hits: Sequence[int], sizes: Sequence[int]) -> Estimate:
    """The same as ``proportion_estimate``, from the successes and the observations of each cluster.

    >>> proportion_of_counts([2, 0], [2, 1]) == proportion_estimate([True, True, False], ["a", "a", "b"])
    True
    """
    # Another method takes observations.
    if _METHOD.get() is not None:
        return proportion_estimate(*_observations(hits, sizes))
    n = sum(sizes)
    if not n:
        return NO_ESTIMATE
    counted = Counter(zip(hits, sizes, strict=True))
    kinds = Counter({(float(won), float(size)): many for (won, size), many in counted.items()})
    return wilson_estimate(sum(hits) / n, n, _design_effect(kinds))


def _observations(hits: Sequence[int], sizes: Sequence[int]) -> tuple[list[bool], list[int]]:
    """The observations that some counts are of: whether each is a success, and its cluster."""
    successes, clusters = list[bool](), list[int]()
    for cluster, (won, size) in enumerate(zip(hits, sizes, strict=True)):
        successes += [number < won for number in range(size)]
        clusters += [cluster for _ in range(size)]
    return successes, clusters


def wilson_estimate(share: float, n: int, design_effect: float = 1.0, confidence: float = 0.95) -> Estimate:
    """A known share of successes among n observations with its Wilson score interval for n over the design effect."""
    effective = n / design_effect
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    # Wilson (1927): the shares from which the observed one is z standard errors away, at most.
    scale = 1 + z * z / effective
    center = (share + z * z / (2 * effective)) / scale
    margin = z / scale * math.sqrt(share * (1 - share) / effective + (z / (2 * effective)) ** 2)
    return Estimate(share, min(max(0.0, center - margin), share), max(min(1.0, center + margin), share), n)


def difference_estimate(first: Estimate, second: Estimate) -> Estimate:
    """First minus second, independent of each other, with an interval recovered from theirs (Newcombe's, MOVER).

    Each end lies sqrt(a^2 + b^2) from the difference, where a and b are the distances to the ends that lead there
    (Newcombe, Statistics in Medicine 17, 1998, method 10). Where one interval is unknown, so is the difference's.
    """
    if first.n == 0 or second.n == 0:
        return NO_ESTIMATE
    mean = first.mean - second.mean
    below = math.hypot(first.mean - first.low, second.high - second.mean)
    above = math.hypot(first.high - first.mean, second.mean - second.low)
    return Estimate(mean, mean - below, mean + above, first.n + second.n)


def weighted_sum(estimates: Sequence[Estimate], weights: Sequence[float]) -> Estimate:
    """A weighted sum of independent estimates, its interval recovered from theirs (method MOVER).

    Each end lies sqrt(sum (weight x distance to that end)^2) from the sum (Zou and Donner, Statistics in Medicine 27,
    2008, pages 1693-1702). Unlike with the delta method, shares of 0 and 1 keep their one-sided doubt. Weights must not be
    negative.
    """
    if not estimates or any(estimate.n == 0 for estimate in estimates):
        return NO_ESTIMATE
    pairs = list(zip(estimates, weights, strict=True))
    mean = math.fsum(weight * estimate.mean for estimate, weight in pairs)
    below = math.sqrt(math.fsum((weight * (estimate.mean - estimate.low)) ** 2 for estimate, weight in pairs))
    above = math.sqrt(math.fsum((weight * (estimate.high - estimate.mean)) ** 2 for estimate, weight in pairs))
    return Estimate(mean, mean - below, mean + above, sum(estimate.n for estimate in estimates))


def intraclass_correlation(values: Sequence[float], clusters: Sequence[Hashable]) -> float | None:
    """How alike observations of one cluster are, from 0 to 1 (analysis of variance, unequal sizes allowed).

    None where the data cannot tell: no cluster has two observations, or all observations are equal.
    """
    members: dict[Hashable, list[float]] = defaultdict(list)
    for value, cluster in zip(values, clusters, strict=True):
        members[cluster].append(value)
    n, count = len(values), len(members)
    if count < 2 or n == count:
        return None
    mean = math.fsum(values) / n
    # Squares of the analysis of variance, per degree of freedom.
    between_squares, within_squares, squared_sizes = [], [], []
    for group in members.values():
        own = math.fsum(group) / len(group)
        between_squares.append(len(group) * (own - mean) ** 2)
        within_squares += [(value - own) ** 2 for value in group]
        squared_sizes.append(len(group) ** 2)
    between = math.fsum(between_squares) / (count - 1)
    within = math.fsum(within_squares) / (n - count)
    # The size that clusters of unequal sizes count as (Donner and Koval, Biometrics 36, 1980).
    size = (n - sum(squared_sizes) / n) / (count - 1)
    spread = between + (size - 1) * within
    return min(1.0, max(0.0, (between - within) / spread)) if spread else None


def _design_effect(kinds: Counter[tuple[float, float]]) -> float:
    """Of clusters, counted by their successes and size."""
    kinds = Counter(kinds)
    n = math.fsum(size * many for (_, size), many in kinds.items())
    hits = math.fsum(won * many for (won, _), many in kinds.items())
    mean_size = n / kinds.total()
    total = n + 2 * mean_size
    share = (hits + mean_size) / total
    # One cluster that succeeds whole and one that fails whole.
    kinds.update([(mean_size, mean_size), (0.0, mean_size)])
    squares = math.fsum((won - size * share) ** 2 * many for (won, size), many in kinds.items())
    return max(1.0, squares / (total * share * (1 - share)))


def cluster_sums(values: Sequence[float], clusters: Sequence[Hashable] | None) -> list[float]:
    """The sum of each cluster's values."""
    if clusters is None or len(set(clusters)) == len(clusters) == len(values):
        return list(values)
    members: dict[Hashable, list[float]] = defaultdict(list)
    for value, cluster in zip(values, clusters, strict=True):
        members[cluster].append(value)
    return [math.fsum(group) for group in members.values()]
