"""Effects on identical games: intervals that cover, p-values that hold their level, and what scipy says of the same data."""

import itertools
import math
import operator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from evals.ledger.records import Record, plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.stats.intervals import (
    Estimate,
    difference_estimate,
    intraclass_correlation,
    mean_estimate,
    proportion_estimate,
    weighted_sum,
    wilson_estimate,
)
from evals.summary.independent import effect_over_cells, independent_effects
from evals.summary.overview import overview
from evals.summary.paired import (
    Effect,
    Observation,
    column_measure,
    effects_tables,
    failure_notes,
    file_stem,
    paired_effects,
    puzzle_of,
    sign_flip_p,
    success_observations,
)
from evals.types import Episode, Outcome

CELL = ("model", "CL")


def side(values, cell=CELL, repeats=1):
    """Observations of games in turn, ``repeats`` of each."""
    return [Observation(cell, place // repeats, place % repeats, float(value)) for place, value in enumerate(values)]


# --- the order of rows, and which side is first ---------------------------------------------------------------------


VALUES = st.one_of(
    st.lists(st.floats(0, 1000, allow_subnormal=False), min_size=2, max_size=24),
    st.lists(st.integers(0, 30_000).map(float), min_size=2, max_size=24),
    st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=24),
)


@pytest.mark.parametrize("effects_of", [paired_effects, independent_effects])
@settings(max_examples=30, deadline=None)
@given(VALUES, VALUES, st.integers(1, 3), st.randoms(use_true_random=False))
def test_effects_depend_neither_on_the_order_of_rows_nor_on_which_side_is_first(
    effects_of, values, others, repeats, chance
):
    first, second = side(values, repeats=repeats), side(others, repeats=repeats)
    (effect,) = effects_of(first, second)
    (exchanged,) = effects_of(second, first)
    assert exchanged.p == effect.p
    assert exchanged.difference.mean == -effect.difference.mean
    shuffled = [chance.sample(each, len(each)) for each in (first, second)]
    assert str(effects_of(*shuffled)) == str([effect]), "as text: nan differs from itself"


# --- equal to what others compute -----------------------------------------------------------------------------------


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


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=9))
def test_exact_p_is_the_share_of_signs_that_are_at_least_as_extreme(sums):
    totals = [abs(sum(map(operator.mul, signs, sums))) for signs in itertools.product((-1, 1), repeat=len(sums))]
    expected = sum(total >= abs(sum(sums)) for total in totals) / len(totals)
    assert sign_flip_p([float(each) for each in sums]) == pytest.approx(expected)


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
    assert first.name.startswith("x_a_b-") and second.name == "x_c"
    assert first.columns == ("level", "new", "old", "difference", "p", "Holm p")
    assert [row[-1] for row in first.rows] == [0.04, 0.5]
    assert first.rows[0][:3] == ("1", 0.6, 0.4)
    assert "a/b, CL" in first.title and "10 to 12 games" in first.notes[0] and "3 obs" in first.notes[1]
    assert second.columns == ("new", "old", "difference", "p", "Holm p") and len(second.notes) == 1
    assert second.rows[0][-1] == 0.02 and first.section == "diagnostics"
    assert not list(effects_tables("x", "X", ("task",), ("new", "old"), []))


def test_successes_of_games_of_unequal_size_are_compared_by_game():
    first = [
        Observation(CELL, game, unit, 1.0)
        for game, unit in [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1)]
    ]
    second = [one._replace(value=float(one.game == "c" or one.unit == 2)) for one in first]
    (effect,) = paired_effects(first, second)
    # Gains 2 of 3, 1 of 1, 0 of 2, and with one game of each kind 2 and -2 of 2: center 3 / 10.
    squares = (2 - 0.9) ** 2 + (1 - 0.3) ** 2 + 0.6**2 + (2 - 0.6) ** 2 + (-2 - 0.6) ** 2
    margin = stats.t.ppf(0.975, 2) * math.sqrt(squares) / 10
    found = effect.difference
    assert (found.mean, found.low, found.high, found.n) == pytest.approx((0.5, max(-1, 0.3 - margin), 1.0, 6))
    assert 0.3 + margin > 1
    assert (effect.first, effect.second, effect.games, effect.left_out) == (1.0, 0.5, 3, 0)
    assert effect.p == 0.5, "gains of 2 and 1: two of the four ways to sign them are as extreme"


def test_p_never_falls_below_what_the_draws_can_tell_and_is_one_where_nothing_differs():
    (far,) = independent_effects(side([1] * 60), side([0] * 60))
    (same,) = independent_effects(side([1, 0] * 5), side([1, 0] * 5))
    assert far.p == 1 / 10_000 and same.p == 1
    assert sign_flip_p([0.5, -0.5]) == sign_flip_p([1.0, -1.0]) == sign_flip_p([]) == sign_flip_p([0.0, 0.0]) == 1
    assert sign_flip_p([1.5] * 3) == pytest.approx(0.25, abs=0.015), "two of eight ways"
    assert sign_flip_p([3.0]) == 1 and sign_flip_p([2.0, 2.0]) == 0.5 and sign_flip_p([-2.0, -2.0, -2.0, 0.0]) == 0.25


def test_measured_values_of_independent_games_join_two_t_intervals():
    first, second = [1.0, 2.0, 4.0, 5.0, 3.0, 1.0, 4.0, 3.0, 2.0, 5.0], [0.5, 1.5, 1.0, 0.0, 2.0]
    (effect,) = independent_effects(side(first, repeats=2), side(second))
    one, other = mean_estimate(first, [place // 2 for place in range(10)]), mean_estimate(second)
    assert effect.difference == difference_estimate(one, other) and effect.difference.n == 15
    assert (effect.first, effect.second, effect.games) == (3.0, 1.0, 10)


def test_games_of_unequal_size_change_sides_as_a_whole():
    first = [Observation(CELL, "a", unit, value) for unit, value in enumerate([9.0, 9.0, 9.0])]
    second = [Observation(CELL, game, 0, value) for game, value in [("b", 1.0), ("c", 2.0)]]
    (effect,) = independent_effects(first, second)
    assert effect.p == pytest.approx(1 / 3, abs=0.015), "one of three games goes to the first side"


def test_a_weighted_sum_adds_squares_of_the_distances_to_either_end():
    parts = [Estimate(0.5, 0.3, 0.8, 10), Estimate(0.2, 0.1, 0.4, 5)]
    found = weighted_sum(parts, [2, 3])
    assert (found.mean, found.low, found.high, found.n) == pytest.approx((1.6, 1.6 - 0.5, 1.6 + math.sqrt(0.72), 15))
    assert weighted_sum([], []).n == weighted_sum([*parts, Estimate(0.0, 0.0, 0.0, 0)], [1, 1, 1]).n == 0
    with pytest.raises(ValueError, match="shorter"):
        weighted_sum(parts, [1])


# --- over cells ------------------------------------------------------------------------------------------------------


def cells_of(**values):
    """Observations of cells by their names, each game of a cell of its own."""
    return [one for cell, own in values.items() for one in side(own, cell=(cell,))]


def apart(observations):
    """The same, where games of different cells are different games."""
    return [one._replace(game=(one.cell, one.game)) for one in observations]


def test_a_side_with_more_easy_games_is_not_better_for_that():
    """Worse in each cell, and better in the mean over all games (Simpson's paradox)."""
    mostly_easy = apart(cells_of(easy=[1] * 60 + [0] * 20, hard=[0] * 10))
    mostly_hard = apart(cells_of(easy=[1] * 9 + [0], hard=[1] * 20 + [0] * 60))
    effect = effect_over_cells(mostly_easy, mostly_hard)
    assert (effect.first, effect.second) == pytest.approx(((0.75 + 0) / 2, (0.9 + 0.25) / 2))
    assert effect.difference.mean == pytest.approx(-0.2) and effect.games == 180 and effect.left_out == 0
    parts = independent_effects(mostly_easy, mostly_hard)
    assert effect.difference.mean == pytest.approx(sum(part.difference.mean for part in parts) / 2)


def test_a_cell_that_one_side_lacks_counts_for_neither():
    common, more = apart(cells_of(hard=[1, 0, 0, 1, 0])), apart(cells_of(easy=[1] * 30))
    there = apart(cells_of(hard=[1, 1, 0, 1], odd=[0] * 7))
    effect = effect_over_cells([*more, *common], there)
    assert (effect.left_out, effect.games) == (37, 9)
    [same] = independent_effects(common, there)
    assert effect.difference.mean == same.difference.mean and effect.p == same.p
    assert (effect.difference.low, effect.difference.high) == pytest.approx((same.difference.low, same.difference.high))
    assert effect_over_cells(more, there) is None


CELLS = st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=1, max_size=3)


@settings(max_examples=40, deadline=None)
@example([0.0], [1.0], [0.0, 0.0, 1.0], [0.0, 1.0, 1.0])  # thirds that add up to nothing but a rounding error
@given(CELLS, CELLS, CELLS, CELLS)
def test_p_over_cells_is_the_share_of_all_exchanges_within_cells(one, two, three, four):
    first, second = apart(cells_of(a=one, b=two)), apart(cells_of(a=three, b=four))
    differences = []
    for here in itertools.combinations(range(len(one) + len(three)), len(one)):
        for there in itertools.combinations(range(len(two) + len(four)), len(two)):
            total = 0.0
            for values, chosen in (([*one, *three], here), ([*two, *four], there)):
                inside = [value for place, value in enumerate(values) if place in chosen]
                outside = [value for place, value in enumerate(values) if place not in chosen]
                total += sum(inside) / len(inside) - sum(outside) / len(outside)
            differences.append(abs(total))
    observed = abs(sum(one) / len(one) - sum(three) / len(three) + sum(two) / len(two) - sum(four) / len(four))
    exact = sum(each >= observed - 1e-9 for each in differences) / len(differences)
    effect, back = effect_over_cells(first, second), effect_over_cells(second, first)
    assert effect.p == pytest.approx(exact, abs=0.02)
    assert back.p == effect.p and back.difference.mean == pytest.approx(-effect.difference.mean)
    shuffled = effect_over_cells(first[::-1], second[::-1])
    assert (shuffled.p, shuffled.difference.mean) == (effect.p, pytest.approx(effect.difference.mean))


def test_modes_that_share_their_games_are_as_uncertain_as_one():
    """Games that end alike in two modes tell no more than in one."""
    values, others = [1, 0, 0, 1, 0, 1, 1], [0, 0, 1, 0, 0]
    one = effect_over_cells(cells_of(a=values), cells_of(a=others))
    two = effect_over_cells(cells_of(a=values, b=values), cells_of(a=others, b=others))
    apart_too = effect_over_cells(apart(cells_of(a=values, b=values)), apart(cells_of(a=others, b=others)))
    ends = (one.difference.low, one.difference.high)
    assert (two.difference.low, two.difference.high) == pytest.approx(ends) and two.p == pytest.approx(one.p, abs=0.02)
    assert apart_too.difference.high - apart_too.difference.low < 0.8 * (ends[1] - ends[0])
    assert (two.games, apart_too.games) == (12, 24)


def test_whole_numbers_beyond_the_span_are_no_successes():
    first, second = [3.0, 5.0, 4.0, 7.0, 6.0, 5.0], [1.0, 0.0, 2.0, 1.0, 1.0, 0.0]
    [effect] = paired_effects(side(first), side(second))
    expected = mean_estimate([one - other for one, other in zip(first, second, strict=True)])
    assert (effect.difference.low, effect.difference.high) == pytest.approx((expected.low, expected.high))


def test_one_absurd_difference_takes_no_memory():
    """A file of others may tell any number of tokens; of one size of difference only the signs matter."""
    assert sign_flip_p([2e10]) == 1 and sign_flip_p([3e12] * 5) == pytest.approx(2 / 32)
    assert sign_flip_p([7.0] * 6 + [-7.0]) == pytest.approx(sign_flip_p([1.0] * 6 + [-1.0]))


def test_a_table_of_effects_names_what_varies_and_what_does_not():
    effects = [an_effect("p", "CL", "1", "x", left_out=1200), an_effect("p", "SE", "1", "x", p=0.03, left_out=34)]
    (table,) = effects_tables("kinds", "Kinds", ("task", "level", "mode"), ("new", "old"), effects, ["Mind the gap."])
    assert (table.name, table.title) == ("kinds_p", "Kinds, p, 1, x")
    assert table.columns == ("task", "new", "old", "difference", "p", "Holm p")
    assert table.rows == (
        ("CL", 0.6, 0.4, Estimate(0.2, 0.1, 0.3, 10), 0.02, 0.04),
        ("SE", 0.6, 0.4, Estimate(0.2, 0.1, 0.3, 10), 0.03, 0.04),
    )
    games, left_out, mine = table.notes
    assert (
        games.startswith("10 games") and "2 rows" in games and left_out.startswith("1,234 ") and mine == "Mind the gap."
    )
    assert file_stem("qwen2_5-vl_7b") == "qwen2_5-vl_7b"
    stems = {
        file_stem(name) for name in ("a/b: c-1.5", "a_b_c-1.5", "a b c-1.5", "模型", "型模", "x" * 5000, "x" * 5001)
    }
    assert len(stems) == 7 and max(map(len, stems)) < 100


def test_questions_on_one_puzzle_are_one_cluster():
    questions = [(task, level, index, seed) for task in "ab" for seed in (3, 4) for level in "xy" for index in (1, 2)]
    assert len({puzzle_of(*each) for each in questions}) == 4
    assert len({puzzle_of(*each[:3], 0) for each in questions}) == 8, "no seed tells nothing"
    plan = [Episode("toy", *each[:2], "m", each[2], 0, each[3], "f", 1, player="p") for each in questions]
    records = [Record(episode, Outcome(episode.seed == 3, 1), "", (), 0.0) for episode in plan]
    run = RunData.of_tables(plan_to_table(plan), records_to_table(records, {}))
    games = column_measure(run.of("toy"), "p").observations
    assert len({(one.game, one.unit) for one in games}) == len(questions) and len({one.game for one in games}) == 4
    (line,) = overview(run)
    assert line.success == proportion_estimate([one.value > 0 for one in games], [one.game for one in games])


def test_what_makes_a_game_and_a_cell_can_be_chosen():
    row = {
        "suite": "s",
        "player": "m",
        "task": "t",
        "level": 1,
        "mode": "cot",
        "index": 4,
        "repeat": 3,
        "status": "done",
    }
    rows = [
        {**row, "episode_id": "a", "success": True},
        {**row, "episode_id": "b", "success": False, "mode": "icl", "index": 5},
        {**row, "episode_id": "c", "success": None, "index": 6, "status": "failed"},
    ]
    run = RunData.of_tables(pa.table({"suite": ["s"], "episode_id": ["a"]}), pa.Table.from_pylist(rows)).of("s")
    assert success_observations(run, ("level",), {"mode": "cot", "task": "t"}, ("index",)) == [
        Observation(("1",), (4,), 3, 1.0),
        Observation(("1",), (6,), 3, 0.0),
    ]
    assert failure_notes(run) == ("A failed episode counts as no success.",)
    assert failure_notes(run.without(["c"])) == ()
    assert success_observations(run, ("player", "level"), {"mode": "icl"}) == [
        Observation(("m", "1"), ("t", 1, 5), 3, 0.0)
    ]
    assert success_observations(run, ("player",), {"mode": "cot", "task": "u"}) == []
