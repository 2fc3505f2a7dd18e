"""Intervals that hold what they promise, above all when runs of one task agree with each other."""

import contextlib
import math
import random
from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.stats.anytime import at_every_look
from evals.stats.intervals import (
    FEWEST_CLUSTERS,
    NO_ESTIMATE,
    NONNEGATIVE,
    UNIT,
    difference_estimate,
    intraclass_correlation,
    mean_estimate,
    proportion_estimate,
    proportion_of_counts,
    student_quantile,
    wilson_estimate,
)


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
    values, tasks = [1.0, 2.0, 4.0, 2.0, 3.0], ["a", "b", "c", "d", "e"]
    once = mean_estimate(values)
    five_times = mean_estimate(values * 5, tasks * 5)
    assert (five_times.mean, five_times.low, five_times.high) == pytest.approx((once.mean, once.low, once.high))
    assert (once.n, five_times.n) == (5, 25)
    # mean 2.4, sum of squares 5.2, standard error sqrt(5.2 / 4 / 5), t(0.975, 4) = 2.776445
    assert once.high == pytest.approx(2.4 + 2.776445 * math.sqrt(5.2 / 20), abs=1e-6)


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


def test_clusters_of_unequal_size_get_the_sandwich_variance():
    # Residuals from the mean 3 sum to -3, 0, 3, 0, 0 by cluster: CR1 variance (5 / 4) (9 + 9) / 6^2; t(0.95, 4) = 2.131847.
    estimate = mean_estimate([1.0, 2.0, 3.0, 6.0, 3.0, 3.0], ["a", "a", "b", "c", "d", "e"], confidence=0.9)
    margin = 2.131847 * math.sqrt(22.5) / 6
    assert (estimate.mean, estimate.n) == (3.0, 6)
    assert (estimate.low, estimate.high) == pytest.approx((3 - margin, 3 + margin), abs=1e-5)


def test_the_design_effect_is_taken_with_one_cluster_more_of_each_kind():
    # Hits 3, 0, 1 of 3, 2, 1, and 2, 0 of 2, 2: share 0.6, squared deviations 1.44 + 1.44 + 0.16 + 0.64 + 1.44.
    estimate = proportion_estimate([True, True, True, False, False, True], ["a", "a", "a", "b", "b", "c"], 0.9)
    assert estimate == wilson_estimate(4 / 6, 6, 5.12 / (10 * 0.6 * 0.4), 0.9)


@pytest.mark.parametrize(
    ("share", "n", "effect", "confidence", "low", "high"),
    [
        (0.8, 10, 1.0, 0.95, 0.490162, 0.943318),
        (0.8, 10, 1.0, 0.90, 0.540793, 0.931442),
        (0.8, 10, 2.0, 0.95, 0.375535, 0.963773),
        (0.0, 10, 1.0, 0.95, 0.0, 0.277533),
        (1.0, 10, 1.0, 0.95, 0.722467, 1.0),
    ],
)
def test_wilsons_interval_is_that_of_scipy(share, n, effect, confidence, low, high):
    estimate = wilson_estimate(share, n, effect, confidence)
    assert (estimate.mean, estimate.n) == (share, n)
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=1e-5)
    if effect == 1:
        assert estimate == wilson_estimate(share, n, confidence=confidence), "the default"
    if confidence == 0.95:
        assert estimate == wilson_estimate(share, n, effect)


def test_every_observation_needs_its_cluster():
    for estimate in (mean_estimate, proportion_estimate, intraclass_correlation):
        with pytest.raises(ValueError):
            estimate([1.0, 0.0, 1.0], ["a", "b"])


def test_alikeness_of_groups_of_unequal_size():
    # Groups (1, 2), (3), (5, 6, 7): mean squares 25.5 / 2 between and 2.5 / 3 within, mean size (6 - 14 / 6) / 2.
    between, within, size = 25.5 / 2, 2.5 / 3, (6 - 14 / 6) / 2
    found = intraclass_correlation([1, 2, 3, 5, 6, 7], "aabccc")
    assert found == pytest.approx((between - within) / (between + (size - 1) * within))


def test_a_difference_of_which_one_side_is_unknown_is_unknown():
    known = wilson_estimate(0.5, 10)
    for found in (difference_estimate(known, NO_ESTIMATE), difference_estimate(NO_ESTIMATE, known)):
        assert found.n == 0 and math.isnan(found.mean)


@pytest.mark.parametrize("bounds", [UNIT, NONNEGATIVE, (-1.0, 1.0), (-1.0, math.inf)])
@given(data=st.data())
def test_every_interval_keeps_the_range_of_its_measure_and_holds_its_mean(bounds, data):
    low, high = bounds
    value = st.floats(low, min(high, 1e6), allow_subnormal=False)
    values = data.draw(st.lists(value, min_size=1, max_size=40))
    clusters = data.draw(st.lists(st.integers(0, 12), min_size=len(values), max_size=len(values)))
    estimate = mean_estimate(values, clusters, bounds=bounds)
    if estimate.has_interval:
        assert low <= estimate.low <= estimate.mean + 1e-9 and estimate.mean - 1e-9 <= estimate.high <= high
        assert math.isfinite(estimate.high) and len(set(clusters)) >= FEWEST_CLUSTERS
    successes = [value > low for value in values]
    share = proportion_estimate(successes, clusters)
    assert 0 <= share.low <= share.mean <= share.high <= 1
    other = proportion_estimate(data.draw(st.lists(st.booleans(), min_size=1)))
    difference = difference_estimate(share, other)
    assert -1 <= difference.low <= difference.mean <= difference.high <= 1


def test_few_clusters_and_equal_observations_have_no_interval_but_at_an_end_of_the_range():
    few = mean_estimate([0.1, 0.2, 0.3, 0.2], bounds=UNIT)
    assert few.mean == pytest.approx(0.2) and not few.has_interval, "0.2 [-0.06, 0.46] by Student's t"
    assert not mean_estimate([4.0] * 20, bounds=NONNEGATIVE).has_interval, "not [4, 4]"
    nothing = mean_estimate([0.0] * 5, bounds=UNIT)
    assert (nothing.low, nothing.high) == (wilson_estimate(0.0, 5).low, wilson_estimate(0.0, 5).high)


def test_bounded_means_are_estimated_on_the_log_and_logit_scales():
    values = [1.0, 2.0, 2.0, 3.0, 7.0]  # standard error sqrt(22 / 4 / 5); t(0.975, 4) = 2.776445
    margin = 2.776445 * math.sqrt(22 / 20)
    above = mean_estimate(values, bounds=NONNEGATIVE)
    assert (above.low, above.high) == pytest.approx((3 * math.exp(-margin / 3), 3 * math.exp(margin / 3)), rel=1e-6)
    within = mean_estimate([value / 10 for value in values], bounds=UNIT)
    logit = [math.log(0.3 / 0.7) + sign * margin / 10 / 0.21 for sign in (-1, 1)]
    assert (within.low, within.high) == pytest.approx([1 / (1 + math.exp(-each)) for each in logit], rel=1e-6)
    with pytest.raises(ValueError, match="outside"):
        mean_estimate([1.5], bounds=UNIT)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)).map(sorted), max_size=12), st.booleans())
def test_clusters_that_are_counted_give_the_interval_of_their_observations(clusters, at_each_look):
    """Whichever way intervals are computed."""
    counts = [(hits, size) for hits, size in clusters if size]
    successes = [number < hits for hits, size in counts for number in range(size)]
    names = [name for name, (_, size) in enumerate(counts) for _ in range(size)]
    with at_every_look() if at_each_look else contextlib.nullcontext():
        counted = proportion_of_counts([hits for hits, _ in counts], [size for _, size in counts])
        assert astuple(counted) == pytest.approx(astuple(proportion_estimate(successes, names)), nan_ok=True)
