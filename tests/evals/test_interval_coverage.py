"""Intervals and p-values keep what they promise, found by simulation: coverage of 95 %, and no more false alarms than alpha."""

import numpy as np
import pytest
from scipy import stats

from evals.stats.intervals import mean_estimate, proportion_estimate
from evals.summary.independent import independent_effects
from evals.summary.paired import paired_effects
from tests.evals.test_paired import side

pytestmark = pytest.mark.slow


def clustered_successes(generator, clusters, size, share, correlation):
    """Successes whose chance is drawn per cluster from a beta distribution with the given intra-cluster correlation."""
    strength = (1 - correlation) / correlation
    chances = generator.beta(share * strength, (1 - share) * strength, clusters)
    successes = generator.random((clusters, size)) < chances[:, None]
    return successes.ravel().tolist(), np.repeat(np.arange(clusters), size).tolist()


def coverage(share, estimate, draws):
    intervals = [estimate(*draw) for draw in draws]
    return sum(interval.low <= share <= interval.high for interval in intervals) / len(intervals)


@pytest.mark.parametrize(("clusters", "share"), [(10, 0.8), (50, 0.5), (50, 0.95), (250, 0.8)])
def test_a_95_percent_interval_of_repeated_runs_covers_the_truth_95_times_in_100(clusters, share):
    generator = np.random.default_rng(1)
    draws = [clustered_successes(generator, clusters, 5, share, 0.5) for _ in range(400)]
    assert coverage(share, proportion_estimate, draws) >= 0.93
    assert coverage(share, lambda successes, _: proportion_estimate(successes), draws) < 0.88, "naive would do as well"


def test_means_of_repeated_runs_cover_too():
    generator = np.random.default_rng(2)
    draws = []
    for _ in range(500):
        task = generator.normal(3.0, 1.0, 20)
        values = task[:, None] + generator.normal(0, 0.5, (20, 5))
        draws.append((values.ravel().tolist(), np.repeat(np.arange(20), 5).tolist()))
    assert 0.92 <= coverage(3.0, mean_estimate, draws) <= 0.98
    assert coverage(3.0, lambda values, _: mean_estimate(values), draws) < 0.8, "naive would do as well"


# --- effects on identical games --------------------------------------------------------------------------------------


def games(generator, count, repeats, first, second, spread=0.25):
    """Successes of two players whose chances in a game rise and fall together."""
    ease = generator.uniform(-spread, spread, count)[:, None]
    return [(generator.random((count, repeats)) < share + ease).astype(float).ravel() for share in (first, second)]


def draws(count, repeats, first, second, times, seed=0):
    generator = np.random.default_rng(seed)
    for _ in range(times):
        one, other = games(generator, count, repeats, first, second)
        yield side(one, repeats=repeats), side(other, repeats=repeats)


@pytest.mark.parametrize(
    ("count", "repeats", "first", "second"), [(100, 1, 0.5, 0.4), (20, 5, 0.7, 0.5), (100, 1, 0.26, 0.25)]
)
@pytest.mark.parametrize("effects", [paired_effects, independent_effects])
def test_intervals_cover(effects, count, repeats, first, second):
    covered = 0
    for one, other in draws(count, repeats, first, second, 300):
        (effect,) = effects(one, other)
        covered += effect.difference.low <= first - second <= effect.difference.high
    assert covered / 300 >= 0.93


@pytest.mark.parametrize("effects", [paired_effects, independent_effects])
@pytest.mark.parametrize("repeats", [1, 5])
def test_p_is_uniform_where_nothing_differs(effects, repeats):
    found = np.array([effects(*pair)[0].p for pair in draws(40, repeats, 0.5, 0.5, 250, seed=repeats)])
    assert (found <= 0.05).mean() <= 0.09
    assert 0.3 <= np.mean(found <= 0.5) <= 0.6, "discrete, so a little on the safe side"


def test_p_of_measured_values_is_uniform_where_nothing_differs():
    generator = np.random.default_rng(9)
    found = [paired_effects(side(generator.normal(size=20)), side(generator.normal(size=20)))[0].p for _ in range(200)]
    assert stats.kstest(found, "uniform").pvalue > 0.01
