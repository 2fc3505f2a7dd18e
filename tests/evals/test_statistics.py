"""Intervals that hold what they promise, above all when runs of one task agree with each other."""

import itertools
import math
import random

import numpy as np
import pytest

from evals.statistics import mean_estimate, proportion_estimate, student_quantile


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


def test_independent_successes_get_the_plain_wilson_interval():
    # Wilson's interval for 8 of 10: (0.4902, 0.9433), as in any textbook.
    estimate = proportion_estimate([True] * 8 + [False] * 2)
    assert (estimate.mean, estimate.n) == (0.8, 10)
    assert estimate.low == pytest.approx(0.49016, abs=1e-5)
    assert estimate.high == pytest.approx(0.94332, abs=1e-5)
    assert proportion_estimate([True] * 8 + [False] * 2, range(10)) == estimate


@pytest.mark.parametrize("outcome", [True, False])
def test_without_any_exception_the_tasks_are_the_units(outcome):
    tasks = [task for task in range(20) for _ in range(5)]
    estimate = proportion_estimate([outcome] * 100, tasks)
    twenty = proportion_estimate([outcome] * 20)
    assert estimate.mean == twenty.mean == float(outcome)
    assert (estimate.low, estimate.high) == pytest.approx((twenty.low, twenty.high))
    assert estimate.high - estimate.low > 0.15
    assert 0.0 <= estimate.low <= estimate.mean <= estimate.high <= 1.0


def test_a_first_success_does_not_pretend_that_all_runs_are_independent():
    tasks = [task for task in range(50) for _ in range(5)]
    none = proportion_estimate([False] * 250, tasks)
    one = proportion_estimate([True] + [False] * 249, tasks)
    assert one.high > 0.9 * none.high
    assert one.high > 2 * proportion_estimate([True] + [False] * 249).high


def test_agreeing_runs_tell_as_much_as_their_tasks():
    values, tasks = [1.0, 2.0, 4.0], ["a", "b", "c"]
    once = mean_estimate(values)
    five_times = mean_estimate(values * 5, tasks * 5)
    assert (five_times.mean, five_times.low, five_times.high) == pytest.approx((once.mean, once.low, once.high))
    assert (once.n, five_times.n) == (3, 15)
    # mean 7/3, variance 7/3, standard error sqrt(7)/3, t(0.975, 2) = 4.302653
    assert once.high == pytest.approx(7 / 3 + 4.302653 * math.sqrt(7) / 3, abs=1e-6)


def test_nothing_and_a_single_task_are_not_dressed_up():
    for estimate in (mean_estimate([]), proportion_estimate([])):
        assert math.isnan(estimate.mean) and math.isnan(estimate.low) and estimate.n == 0
    single = mean_estimate([3.0])
    assert single.mean == 3.0 and math.isnan(single.low) and math.isnan(single.high)
    repeated = mean_estimate([3.0, 4.0], ["a", "a"])
    assert repeated.mean == 3.5 and math.isnan(repeated.low)
    sure = proportion_estimate([True])
    assert sure.mean == 1.0 and sure.low < 0.25 and sure.high == 1.0


def test_an_estimate_does_not_depend_on_the_order_of_the_rows():
    rows = [(random.Random(i).random() * 10 ** (i % 7), i % 9) for i in range(200)]
    shuffled = random.Random(0).sample(rows, len(rows))
    assert mean_estimate(*zip(*rows, strict=True)) == mean_estimate(*zip(*shuffled, strict=True))
    yes = [(value > 50, task) for value, task in rows]
    no = [(value > 50, task) for value, task in shuffled]
    assert proportion_estimate(*zip(*yes, strict=True)) == proportion_estimate(*zip(*no, strict=True))


def test_student_quantiles_are_those_of_the_tables():
    table = {(0.975, 1): 12.7062, (0.975, 2): 4.30265, (0.975, 9): 2.26216, (0.975, 49): 2.00958, (0.95, 5): 2.01505}
    for (probability, degrees), quantile in table.items():
        assert student_quantile(probability, degrees) == pytest.approx(quantile, abs=1e-4)
        assert student_quantile(1 - probability, degrees) == pytest.approx(-quantile, abs=1e-4)
    with pytest.raises(ValueError, match="0 degrees"):
        student_quantile(0.975, 0)


def test_student_quantiles_agree_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    for probability, degrees in itertools.product((0.6, 0.95, 0.975, 0.995), (1, 2, 3, 4, 7, 30, 249, 1000, 200_000)):
        assert student_quantile(probability, degrees) == pytest.approx(stats.t.ppf(probability, degrees), rel=1e-4)
