"""What a comparison can show: statsmodels' figures, and the power that a simulation finds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import NormalIndPower

from evals.stats.power import ALPHA, FEWEST, POWER, games_needed, smallest_difference
from evals.summary.paired import EXACT_TOTAL, holm, paired_effects, sign_flip_p
from tests.evals.test_paired import side


@pytest.mark.parametrize(("spread", "games"), [(0.6, 100), (0.3, 40)])
def test_the_smallest_difference_and_the_games_needed_are_statsmodels(spread, games):
    error = spread / math.sqrt(games)
    solved = NormalIndPower(ddof=0).solve_power(nobs1=games, alpha=ALPHA, power=POWER, ratio=0)
    assert smallest_difference(error, games) == pytest.approx(solved * spread, rel=1e-4)
    needed = NormalIndPower(ddof=0).solve_power(effect_size=0.1 / spread, alpha=ALPHA, power=POWER, ratio=0)
    assert games_needed(error, games, 0.1) == math.ceil(needed)


def test_games_that_are_all_alike_tell_nothing_of_others():
    assert math.isnan(smallest_difference(0.0, 10))


@given(st.lists(st.floats(0.1, 9), min_size=1, max_size=12), st.floats(0.01, 9))
def test_games_too_few_to_be_found_show_no_difference(sums, difference):
    """The sign-flip test is exact: however large the differences are, so few games never have a small p."""
    can_be_found = sign_flip_p(sums) < ALPHA
    assert can_be_found == (len(sums) >= FEWEST)
    assert math.isnan(smallest_difference(0.001, len(sums))) == (not can_be_found)
    needed = games_needed(0.001, len(sums), difference)
    assert sign_flip_p([difference] * needed) < ALPHA


def test_no_number_of_games_shows_no_difference():
    with pytest.raises(ValueError, match="0"):
        games_needed(0.1, 10, 0.0)


def test_the_smallest_difference_is_found_four_times_in_five():
    generator = np.random.default_rng(1)
    first, second = (generator.random(200) < share for share in (0.6, 0.6))
    detectable = smallest_difference(paired_effects(side(first), side(second))[0].error, 200)
    found = 0
    for _ in range(400):
        one, other = generator.random(200) < 0.6, generator.random(200) < 0.6 - detectable
        found += paired_effects(side(one), side(other))[0].p < 0.05
    assert 0.7 <= found / 400 <= 0.88, "the exact test is a little on the safe side of the normal approximation"


def test_the_error_is_that_of_a_regression_with_clustered_errors():
    generator = np.random.default_rng(5)
    first, second = generator.normal(3, 1, (20, 4)), generator.normal(2.5, 1, (20, 4))
    (effect,) = paired_effects(side(first.ravel(), repeats=4), side(second.ravel(), repeats=4))
    fit = OLS((first - second).ravel(), np.ones(80)).fit(
        cov_type="cluster", cov_kwds={"groups": np.repeat(np.arange(20), 4)}, use_t=True
    )
    assert effect.error == pytest.approx(fit.bse[0])
    assert (effect.difference.low, effect.difference.high) == pytest.approx(tuple(fit.conf_int()[0]))


def test_the_error_of_successes_is_that_of_their_interval():
    (effect,) = paired_effects(side([1] * 12 + [0] * 3 + [1] * 35), side([0] * 12 + [1] * 3 + [1] * 35))
    width = effect.difference.high - effect.difference.low
    assert effect.error == pytest.approx(width / 2 / stats.t.ppf(0.975, 49))
    (alone,) = paired_effects(side([1.5]), side([0.0]))
    assert math.isnan(alone.error)


@pytest.mark.parametrize("counts", [(3, 12), (0, 5), (700, 640)])
def test_p_is_statsmodels_mcnemar(counts):
    lost, won = counts
    (effect,) = paired_effects(side([1] * won + [0] * lost + [1] * 9), side([0] * won + [1] * lost + [1] * 9))
    assert effect.p == pytest.approx(mcnemar([[9, won], [lost, 0]], exact=True).pvalue, rel=1e-9)


def test_holm_is_statsmodels():
    p = np.random.default_rng(2).random(25) ** 3
    assert holm(p.tolist()) == pytest.approx(multipletests(p, method="holm")[1].tolist())


@pytest.mark.slow
def test_p_of_half_a_million_flips_is_quick_and_right():
    (effect,) = paired_effects(side([1] * 250_500 + [0] * 249_500), side([0] * 250_500 + [1] * 249_500))
    assert effect.p == pytest.approx(stats.binomtest(249_500, 500_000).pvalue, rel=1e-6)


def test_many_games_of_several_sizes_are_drawn():
    generator = np.random.default_rng(3)
    sums = generator.choice([-2.0, -1.0, 1.0, 2.0], EXACT_TOTAL)
    scale = math.sqrt(float((sums**2).sum()))
    assert sign_flip_p(sums.tolist()) == pytest.approx(2 * stats.norm.sf(abs(sums.sum()) / scale), abs=0.03)
