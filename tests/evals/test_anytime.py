import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.stats.anytime import (
    LOG_WEIGHTS,
    STAKES,
    asymptotic_sequence,
    at_every_look,
    capital,
    capital_paths,
    confidence_sequence,
    difference_capital,
    difference_sequence,
    e_benjamini_hochberg,
    e_holm,
)
from evals.stats.intervals import NONNEGATIVE, UNIT, clustered_error, mean_estimate

observations = st.lists(st.sampled_from([0.0, 0.2, 0.5, 1.0]), min_size=1, max_size=40)


@pytest.mark.parametrize("mean", [0.1, 0.5, 0.8])
def test_capital_is_a_martingale_under_the_mean_that_is_doubted(mean):
    """On the whole tree of six games: after any start, what a gambler expects to have next is what he has."""
    chances = {1.0: mean, 0.0: 1 - mean}
    for length in range(6):
        for start in itertools.product((0.0, 1.0), repeat=length):
            now = capital(start, mean) if start else None
            for side in ("up", "down"):
                have = math.exp(getattr(now, side)) if now else 1.0
                expected = sum(p * math.exp(getattr(capital((*start, x), mean), side)) for x, p in chances.items())
                assert expected == pytest.approx(have)


def test_rounds_of_unlike_games_earn_nothing_at_their_ends():
    """Two cells with chances .9 and .1, a game of each in a round: their mean is .5, and no round is worth a bet on it."""
    for rounds in (1, 2, 3):
        expected = 0.0
        chances = [0.9, 0.1] * rounds
        for won in itertools.product((0.0, 1.0), repeat=len(chances)):
            weight = math.prod(p if x else 1 - p for x, p in zip(won, chances, strict=True))
            expected += weight * capital(won, 0.5).e_value
        assert expected <= 1 + 1e-12


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(observations, st.randoms())
def test_neither_the_order_nor_who_is_called_first_matters(values, random):
    shuffled = random.sample(values, len(values))
    assert confidence_sequence(shuffled) == confidence_sequence(values)
    differences = [2 * value - 1 for value in values]
    one, other = difference_sequence(differences), difference_sequence([-each for each in differences])
    assert (one.mean, one.low, one.high) == pytest.approx((-other.mean, -other.high, -other.low), abs=1e-9)
    here, there = difference_capital(differences), difference_capital([-each for each in differences])
    assert (here.up, here.e_value) == pytest.approx((there.down, there.e_value))


@settings(max_examples=50, deadline=None)
@given(observations, st.floats(0.01, 0.99))
def test_the_interval_holds_exactly_the_means_that_nobody_refuted(values, mean):
    found = confidence_sequence(values, alpha=0.05)
    evidence = capital(values, mean)
    refuted = max(evidence.up, evidence.down) > math.log(2 / 0.05)
    if abs(mean - found.low) > 1e-9 and abs(mean - found.high) > 1e-9:
        assert refuted == (not found.low <= mean <= found.high)
    assert found.low <= found.mean <= found.high


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=20))
def test_repeats_of_one_game_count_as_one_observation_of_their_mean(games):
    by_total = confidence_sequence([sum(game) for game in games], sizes=[3] * len(games), largest=3)
    by_mean = confidence_sequence([sum(game) / 3 for game in games])
    assert (by_total.low, by_total.high) == pytest.approx((by_mean.low, by_mean.high), abs=1e-9)
    assert by_total.n == 3 * len(games)


def test_games_on_which_both_sides_do_the_same_change_nothing():
    alone = difference_capital([1.0] * 7 + [-1.0])
    among_ties = difference_capital([1.0] * 7 + [0.0] * 500 + [-1.0])
    assert (alone.up, alone.down) == pytest.approx((among_ties.up, among_ties.down))


def test_capital_of_a_written_out_bet():
    """One win against a mean of one half doubles the share that is staked."""
    after = capital([1.0], 0.5)
    weights = np.exp(LOG_WEIGHTS)
    assert math.exp(after.up) == pytest.approx(float(weights @ (1 + STAKES)))
    assert math.exp(after.down) == pytest.approx(float(weights @ (1 - STAKES)))
    assert weights.sum() == pytest.approx(1)


@settings(max_examples=50, deadline=None)
@given(observations)
def test_a_path_ends_where_the_capital_is(values):
    up, down = capital_paths(np.array([values]), 0.4)
    after = capital(values, 0.4)
    assert (up[0, -1], down[0, -1]) == pytest.approx((after.up, after.down))


def test_the_mean_is_covered_at_every_one_of_many_looks():
    """A quick version of `python -m benchmarks.stopping coverage`: 400 runs, skewed, looked at after each of 300 games."""
    generator = np.random.default_rng(5)
    for mean, draws in ((0.03, generator.random((400, 300)) < 0.03), (0.2, generator.beta(0.2, 0.8, (400, 300)))):
        up, down = capital_paths(draws, mean)
        ever_missed = (np.maximum(up, down) >= math.log(2 / 0.05)).any(axis=1)
        assert ever_missed.mean() <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 400)


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_an_interval_without_bounds_ends_where_a_bet_on_every_mean_has_earned_enough(alpha):
    """Bets spread over means by a normal distribution, integrated numerically, instead of the closed form."""
    count, error = 300, 0.5
    squared = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha)) + 1) / 500  # the variance for 500 observations
    low, high = asymptotic_sequence(10.0, error, count, alpha)
    total = (high - 10) / error * math.sqrt(count)  # of the observations, in standard deviations of one
    stakes = np.linspace(-12, 12, 20_001) * math.sqrt(squared)
    shares = np.exp(-(stakes**2) / 2 / squared)
    earned = np.average(np.exp(stakes * total - stakes**2 * count / 2), weights=shares)
    assert earned == pytest.approx(1 / alpha, rel=1e-3)
    assert high - 10 == pytest.approx(10 - low)


@settings(max_examples=25, deadline=None)
@given(observations, st.sampled_from([(1.0, 5.0), (-2.0, 0.5), (0.0, 100.0)]))
def test_a_measure_on_another_scale_has_the_interval_on_that_scale(values, bounds):
    low, high = bounds
    with at_every_look():
        found = mean_estimate([low + (high - low) * value for value in values], bounds=bounds)
    unit = confidence_sequence(values)
    ends = [low + (high - low) * value for value in (unit.mean, unit.low, unit.high)]
    assert (found.mean, found.low, found.high) == pytest.approx(ends, abs=1e-6)


def test_a_measure_without_an_upper_bound_has_asymptotic_ends_by_its_clusters():
    values, games = [1.0, 3.0, 2.0, 7.0, 4.0, 4.0, 9.0], "aabcdef"
    mean, error, count = clustered_error(values, games)
    low, high = asymptotic_sequence(mean, error, count, 0.1)
    with at_every_look():
        free = mean_estimate(values, games, 0.9)
        positive = mean_estimate(values, games, 0.9, NONNEGATIVE)
        shifted = mean_estimate([value - 2 for value in values], games, 0.9, (-2.0, math.inf))
        unknown = [
            mean_estimate(values[:5], "aabcd", bounds=NONNEGATIVE),
            mean_estimate([4.0] * 6),
            mean_estimate([0.0] * 6, bounds=NONNEGATIVE),
        ]
    assert (free.mean, free.low, free.high, free.n) == pytest.approx((mean, low, high, 7)) and count == 6
    factor = math.exp((mean - low) / mean)
    assert (positive.mean, positive.low, positive.high, positive.n) == pytest.approx(
        (mean, mean / factor, mean * factor, 7)
    )
    assert (shifted.low, shifted.high) == pytest.approx((positive.low - 2, positive.high - 2))
    assert [(each.mean, each.n, each.has_interval) for each in unknown] == [
        (3.4, 5, False),
        (4, 6, False),
        (0, 6, False),
    ]


def test_a_share_of_clusters_has_the_interval_of_their_sums_and_of_the_largest():
    values, games = [1.0, 0.0, 1.0, 0.5, 0.0, 1.0], "aaabbc"
    with at_every_look():
        found = mean_estimate(values, games, 0.9, UNIT)
    expected = confidence_sequence([2.0, 0.5, 1.0], 0.1, [3, 2, 1], 3)
    assert (found.mean, found.low, found.high, found.n) == pytest.approx((3.5 / 6, expected.low, expected.high, 6))


def test_clusters_larger_than_announced_are_refused():
    with pytest.raises(ValueError, match="at most 2"):
        confidence_sequence([3.0], sizes=[3], largest=2)


e_values = st.lists(st.floats(0, 1000), min_size=1, max_size=6)


@settings(max_examples=50, deadline=None)
@given(e_values)
def test_e_holm_is_the_closed_test_with_means(values):
    """A hypothesis is rejected if every set that holds it is, by the mean of its e-values."""
    for place, corrected in enumerate(e_holm(values)):
        sets = [
            chosen
            for size in range(1, len(values) + 1)
            for chosen in itertools.combinations(range(len(values)), size)
            if place in chosen
        ]
        means = [math.fsum(values[one] for one in chosen) / len(chosen) for chosen in sets]
        assert corrected == pytest.approx(min(means))


@settings(max_examples=50, deadline=None)
@given(e_values)
def test_e_bh_rejects_the_largest_set_that_is_consistent_with_itself(values):
    count, best = len(values), 0
    for chosen in itertools.product((False, True), repeat=count):
        size = sum(chosen)
        if size and all(value >= count / (0.05 * size) for value, kept in zip(values, chosen, strict=True) if kept):
            best = max(best, size)
    rejected = e_benjamini_hochberg(values)
    assert sum(rejected) == best
