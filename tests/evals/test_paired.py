"""Effects on identical games: intervals that cover, p-values that hold their level, and what scipy says of the same data."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from evals.paired import (
    Effect,
    Observation,
    effects_tables,
    holm,
    independent_effects,
    paired_effects,
    sign_flip_p,
    success_observations,
)
from evals.run_data import RunData
from evals.statistics import Estimate, difference_estimate, intraclass_correlation, proportion_estimate, wilson_estimate

CELL = ("model", "CL")


def side(values, cell=CELL, repeats=1):
    """Observations of games in turn, ``repeats`` of each."""
    return [Observation(cell, place // repeats, place % repeats, float(value)) for place, value in enumerate(values)]


def games(generator, count, repeats, first, second, spread=0.25):
    """Successes of two players whose chances in a game rise and fall together."""
    ease = generator.uniform(-spread, spread, count)[:, None]
    return [(generator.random((count, repeats)) < share + ease).astype(float).ravel() for share in (first, second)]


# --- equal to what others compute -----------------------------------------------------------------------------------


def test_one_pair_a_game_gives_mcnemars_exact_p():
    first = [1] * 12 + [0] * 3 + [1] * 20 + [0] * 15
    second = [0] * 12 + [1] * 3 + [1] * 20 + [0] * 15
    (effect,) = paired_effects(side(first), side(second))
    assert effect.p == pytest.approx(stats.binomtest(3, 15).pvalue, abs=1e-12)
    assert (effect.first, effect.second, effect.games) == (0.64, 0.46, 50)
    assert effect.difference.mean == pytest.approx(0.18) and effect.difference.n == 50


@pytest.mark.parametrize("seed", range(3))
def test_exact_p_is_that_of_scipys_permutation_test(seed):
    sums = np.random.default_rng(seed).integers(-4, 6, 11).astype(float)
    expected = stats.permutation_test(
        (sums, np.zeros(11)),
        lambda a, b, axis: np.abs((a - b).sum(axis)),
        permutation_type="samples",
        alternative="greater",
    )
    assert sign_flip_p(sums.tolist()) == pytest.approx(expected.pvalue, abs=1e-9)


def test_p_of_measured_values_comes_near_the_exact_one():
    values = np.random.default_rng(3).normal(0.6, 1.0, 12)
    signs = np.array(list(itertools.product((-1, 1), repeat=12)))
    exact = (np.abs(signs @ np.abs(values)) >= abs(values.sum()) - 1e-12).mean()
    found = sign_flip_p(values.tolist())
    assert sign_flip_p([0.5] * 60) == 1 / 10_000, "of 9,999 draws and what was seen"
    assert found == sign_flip_p(values.tolist()), "the same each time"
    assert found == pytest.approx(exact, abs=0.015)


def test_measured_values_get_the_interval_of_a_paired_t_test():
    generator = np.random.default_rng(4)
    first, second = generator.normal(3, 1, 30), generator.normal(2.5, 1, 30)
    (effect,) = paired_effects(side(first), side(second))
    expected = stats.ttest_rel(first, second).confidence_interval()
    assert (effect.difference.low, effect.difference.high) == pytest.approx((expected.low, expected.high))


def test_games_with_repeats_are_the_units_of_measured_values():
    generator = np.random.default_rng(5)
    first, second = generator.normal(3, 1, (20, 4)), generator.normal(2.5, 1, (20, 4))
    (effect,) = paired_effects(side(first.ravel(), repeats=4), side(second.ravel(), repeats=4))
    expected = stats.ttest_rel(first.mean(1), second.mean(1)).confidence_interval()
    assert (effect.difference.low, effect.difference.high) == pytest.approx((expected.low, expected.high))
    assert (effect.games, effect.difference.n) == (20, 80)


def test_successes_get_an_adjusted_interval():
    # 12 and 3 of 50 pairs differ, 13 and 4 of 52 with one more of each: (9 / 52) -+ t x sqrt(17 - 9^2 / 52) / 52.
    (effect,) = paired_effects(side([1] * 12 + [0] * 3 + [1] * 35), side([0] * 12 + [1] * 3 + [1] * 35))
    margin = stats.t.ppf(0.975, 49) * math.sqrt(17 - 81 / 52) / 52
    assert (effect.difference.low, effect.difference.high) == pytest.approx((9 / 52 - margin, 9 / 52 + margin))


def test_where_nothing_differs_doubt_remains():
    (effect,) = paired_effects(side([1] * 40), side([1] * 40))
    assert effect.difference.mean == 0 and -0.1 < effect.difference.low < 0 < effect.difference.high < 0.1
    assert effect.p == 1
    (alone,) = paired_effects(side([1]), side([0]))
    assert math.isnan(alone.difference.low), "a single game tells nothing of games"


def test_independent_shares_get_newcombes_interval_and_fishers_p():
    first, second = [1] * 56 + [0] * 14, [1] * 48 + [0] * 32
    (effect,) = independent_effects(side(first), side(second))
    # Newcombe (1998), table II, method 10: 56/70 against 48/80.
    assert (effect.difference.low, effect.difference.high) == pytest.approx((0.0524, 0.3339), abs=1e-4)
    exact = stats.fisher_exact([[56, 14], [48, 32]]).pvalue
    assert effect.p == pytest.approx(exact, abs=0.004)
    assert (effect.games, effect.left_out) == (150, 0)


def test_independent_games_with_repeats_change_sides_as_a_whole():
    # Three games each, all repeats alike: 2 of the 20 ways to deal them out are as extreme.
    sides = (side([1] * 15, repeats=5), side([0] * 15, repeats=5))
    (effect,) = independent_effects(*sides)
    assert effect.p == pytest.approx(0.1, abs=0.01)
    assert effect.difference.low == pytest.approx(1 - math.hypot(*[1 - proportion_estimate([True] * 3).low] * 2))
    (paired,) = paired_effects(*sides)
    assert paired.p == 0.25, "one sign for each game"


def test_holm_is_step_down():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_alikeness_of_repeats():
    assert intraclass_correlation([1, 1, 0, 0], [1, 1, 2, 2]) == 1
    assert intraclass_correlation([1, 0, 1, 0], [1, 1, 2, 2]) == 0
    assert intraclass_correlation([1, 0], [1, 2]) is None, "no game was repeated"
    assert intraclass_correlation([1, 1, 1, 1], [1, 1, 2, 2]) is None
    assert intraclass_correlation([1, 0], [1, 1]) is None, "a single game"
    generator = np.random.default_rng(6)
    chances = generator.beta(1, 1, 2000)  # an intraclass correlation of 1 / (1 + 1 + 1)
    values = (generator.random((2000, 5)) < chances[:, None]).astype(float)
    assert intraclass_correlation(values.ravel().tolist(), np.repeat(np.arange(2000), 5).tolist()) == pytest.approx(
        1 / 3, abs=0.03
    )


def test_a_difference_joins_the_doubt_of_both():
    certain, doubtful = Estimate(0.2, 0.2, 0.2, 1), Estimate(0.5, 0.4, 0.7, 9)
    found = difference_estimate(doubtful, certain)
    assert (found.mean, found.low, found.high, found.n) == pytest.approx((0.3, 0.2, 0.5, 10))
    assert difference_estimate(certain, doubtful).low == pytest.approx(-0.5), "down by the other's upper end"
    assert difference_estimate(wilson_estimate(1, 10), Estimate(math.nan, math.nan, math.nan, 0)).n == 0


# --- what they promise -----------------------------------------------------------------------------------------------


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


def test_rare_successes_are_covered_too():
    covered = 0
    generator = np.random.default_rng(8)
    for _ in range(400):
        (effect,) = paired_effects(side(generator.random(100) < 0.03), side(generator.random(100) < 0.01))
        covered += effect.difference.low <= 0.02 <= effect.difference.high
    assert covered / 400 >= 0.93


def test_pairs_tell_more_than_sides():
    ((one, other),) = draws(400, 1, 0.5, 0.45, 1)
    paired, independent = paired_effects(one, other)[0], independent_effects(one, other)[0]
    width = [effect.difference.high - effect.difference.low for effect in (paired, independent)]
    assert width[0] < width[1]


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


def test_forgetting_that_repeats_belong_together_would_find_too_much():
    generator = np.random.default_rng(10)
    together, apart = [], []
    for _ in range(150):
        ones, others = (np.repeat(generator.random(20) < 0.5, 5).astype(float) for _ in range(2))
        together.append(paired_effects(side(ones, repeats=5), side(others, repeats=5))[0].p)
        apart.append(paired_effects(side(ones), side(others))[0].p)
    assert np.mean(np.array(together) <= 0.05) <= 0.09 < 0.3 < np.mean(np.array(apart) <= 0.05)


# --- bookkeeping -----------------------------------------------------------------------------------------------------


def test_only_twins_are_compared():
    first = [*side([1, 1, 1]), *side([0, 0], cell=("model", "SE"))]
    second = [*side([0, 1]), *side([1], cell=("model", "PU"))]
    (effect,) = paired_effects(first, second)
    assert (effect.cell, effect.games, effect.left_out) == (CELL, 2, 1)
    assert (effect.first, effect.second) == (1.0, 0.5)
    assert [each.cell for each in independent_effects(first, second)] == [CELL]


def test_a_game_of_another_repeat_is_no_twin():
    whole, part = side([1, 0, 1, 1], repeats=2), side([1, 0, 0, 0], repeats=2)[:3]
    for pair in ((whole, part), (part, whole)):
        (effect,) = paired_effects(*pair)
        assert (effect.difference.n, effect.games, effect.left_out) == (3, 2, 1)


def test_no_interval_of_shares_leaves_their_range_or_its_own_mean():
    (few,) = paired_effects(side([1, 1, 1]), side([0, 0, 0]))
    assert few.difference.mean == few.difference.high == 1 and few.difference.low >= -1
    (many,) = paired_effects(side([1] * 40), side([0] * 40))
    assert many.difference.low < 1 == many.difference.high
    (most,) = paired_effects(side([1] * 1000), side([0] * 1000))
    assert most.difference.high == 1


def an_effect(*cell, p=0.02, count=10, left_out=0):
    return Effect(cell, 0.6, 0.4, Estimate(0.2, 0.1, 0.3, count), p, count, left_out)


def test_each_player_has_a_table_with_its_own_correction():
    effects = [
        an_effect("a/b", "CL", "1"),
        an_effect("a/b", "CL", "2", p=0.5, count=12, left_out=3),
        an_effect("c", "CL", "1"),
    ]
    first, second = effects_tables("x", "X", ("task", "level"), ("new", "old"), effects)
    assert (first.name, second.name) == ("x_a_b", "x_c")
    assert first.columns == ("level", "new", "old", "difference", "p", "Holm p")
    assert [row[-1] for row in first.rows] == [0.04, 0.5]
    assert first.rows[0][:3] == ("1", 0.6, 0.4)
    assert "a/b, CL" in first.title and "10 to 12 games" in first.notes[0] and "3 obs" in first.notes[1]
    assert second.columns == ("new", "old", "difference", "p", "Holm p") and len(second.notes) == 1
    assert second.rows[0][-1] == 0.02 and first.section == "diagnostics"
    assert not list(effects_tables("x", "X", ("task",), ("new", "old"), []))


def test_successes_are_read_from_a_run():
    rows = [
        {"suite": "s", "player": "m", "task": "t", "level": "1", "mode": mode, "index": index, "repeat": 0}
        | {"status": status, "success": success}
        for mode, index, status, success in [
            ("cot", 0, "done", True),
            ("cot", 1, "failed", None),
            ("icl", 0, "done", False),
        ]
    ]
    run = RunData.of_tables(pa.table({"suite": ["s"]}), pa.Table.from_pylist(rows)).of("s")
    assert success_observations(run, ("player",), {"mode": "cot"}) == [Observation(("m",), ("t", "1", 0), 0, 1.0)]
    both = success_observations(run, ("player", "mode"))
    assert [(one.cell[1], one.value) for one in both] == [("cot", 1.0), ("icl", 0.0)]
