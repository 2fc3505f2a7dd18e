"""Means with confidence intervals that respect clusters: repeated runs of one task are not independent."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True)
class Estimate:
    """A mean with its confidence interval; ``n`` counts observations, not clusters."""

    mean: float
    low: float
    high: float
    n: int


NO_ESTIMATE = Estimate(math.nan, math.nan, math.nan, 0)
"""What can be said of no observations."""


def mean_estimate(
    values: Sequence[float], clusters: Sequence[Hashable] | None = None, confidence: float = 0.95
) -> Estimate:
    """Mean with a cluster-robust interval: the CR1 sandwich variance and Student's t with (clusters - 1) degrees.

    The result does not depend on the order of the observations, to the last bit. A single cluster tells nothing about
    its own spread: the interval's ends are nan.

    Args:
        values: The observations.
        clusters: What each observation belongs to; without it, every observation stands for itself.
        confidence: Nominal coverage of the interval.
    """
    if not values:
        return NO_ESTIMATE
    mean = math.fsum(values) / len(values)
    residuals = _cluster_sums([value - mean for value in values], clusters)
    if len(residuals) < 2:
        return Estimate(mean, math.nan, math.nan, len(values))
    correction = len(residuals) / (len(residuals) - 1)
    error = math.sqrt(correction * math.fsum(total * total for total in residuals)) / len(values)
    margin = student_quantile((1 + confidence) / 2, len(residuals) - 1) * error
    return Estimate(mean, mean - margin, mean + margin, len(values))


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
    share = sum(map(bool, successes)) / n
    return wilson_estimate(share, n, _design_effect(successes, clusters), confidence)


def wilson_estimate(share: float, n: int, design_effect: float = 1.0, confidence: float = 0.95) -> Estimate:
    """A known share of successes among n observations with its Wilson score interval for n over the design effect."""
    effective = n / design_effect
    z = NormalDist().inv_cdf((1 + confidence) / 2)
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
    means = {cluster: math.fsum(group) / len(group) for cluster, group in members.items()}
    between = math.fsum(len(group) * (means[cluster] - mean) ** 2 for cluster, group in members.items()) / (count - 1)
    within = math.fsum((value - means[key]) ** 2 for key, group in members.items() for value in group) / (n - count)
    size = (n - sum(len(group) ** 2 for group in members.values()) / n) / (count - 1)
    spread = between + (size - 1) * within
    return min(1.0, max(0.0, (between - within) / spread)) if spread else None


def _design_effect(successes: Sequence[bool], clusters: Sequence[Hashable] | None) -> float:
    hits = _cluster_sums([float(bool(success)) for success in successes], clusters)
    sizes = _cluster_sums([1.0] * len(successes), clusters)
    mean_size = len(successes) / len(sizes)
    hits, sizes = [*hits, mean_size, 0.0], [*sizes, mean_size, mean_size]
    total = math.fsum(sizes)
    share = math.fsum(hits) / total
    clustered = math.fsum((hit - size * share) ** 2 for hit, size in zip(hits, sizes, strict=True))
    return max(1.0, clustered / (total * share * (1 - share)))


def _cluster_sums(values: Sequence[float], clusters: Sequence[Hashable] | None) -> list[float]:
    if clusters is None:
        return list(values)
    members: dict[Hashable, list[float]] = defaultdict(list)
    for value, cluster in zip(values, clusters, strict=True):
        members[cluster].append(value)
    return [math.fsum(group) for group in members.values()]


@functools.lru_cache
def student_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t distribution with a whole number of degrees of freedom.

    Newton's method from the normal quantile; it rises to the root without overshooting, because the distribution
    function is concave above 0. The distribution function is the finite sum of Abramowitz and Stegun 26.7.3 and 26.7.4.

    Raises:
        ValueError: ``degrees`` is below 1 or ``probability`` is not between 0 and 1.
    """
    if degrees < 1 or not 0 < probability < 1:
        raise ValueError(f"no t quantile for probability {probability} and {degrees} degrees of freedom")
    if probability < 0.5:
        return -student_quantile(1 - probability, degrees)
    quantile = NormalDist().inv_cdf(probability)
    if degrees > 100_000:
        return quantile
    log_scale = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - 0.5 * math.log(degrees * math.pi)
    for _ in range(100):
        density = math.exp(log_scale - (degrees + 1) / 2 * math.log1p(quantile * quantile / degrees))
        step = (2 * probability - 1 - _central_probability(quantile, degrees)) / (2 * density)
        quantile += step
        if abs(step) < 1e-12 * max(1.0, quantile):
            break
    return quantile


def _central_probability(t: float, degrees: int) -> float:
    """Probability that Student's t lies between -t and t."""
    angle = math.atan(t / math.sqrt(degrees))
    squared = math.cos(angle) ** 2
    odd = degrees % 2
    term = math.cos(angle) if odd else 1.0
    total = term if degrees > 1 else 0.0
    for k in range(2 + odd, degrees - 1, 2):
        term *= squared * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total
