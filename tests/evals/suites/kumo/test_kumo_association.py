"""Structure against success: the statistics are those of scipy, and simulated players of known skill are seen through."""

import itertools
import math
import random

import numpy as np
import pytest
from scipy import stats

from benchmarks import kumo_association
from evals.suites.kumo.lab.analysis.association import associate, estimated_square


def drawn(kinds=6, n=120, seed=3):
    rng = random.Random(seed)
    labels = [rng.randrange(kinds) for _ in range(n)]
    return labels, [rng.random() < 0.3 + 0.1 * (label % 3) for label in labels]


def table_of(labels, right):
    return np.array([[sum(k == kind and r == won for k, r in zip(labels, right, strict=True)) for won in (True, False)]
                     for kind in dict.fromkeys(labels)])  # fmt: skip


def test_chi_square_and_cramer_s_v_are_those_of_scipy():
    labels, right = drawn()
    found = associate(labels, right)
    table = table_of(labels, right)
    expected = stats.chi2_contingency(table, correction=False)
    assert (found.tasks, found.kinds, found.degrees) == (120, 6, expected.dof)
    assert found.chi_square == pytest.approx(expected.statistic) and found.p == pytest.approx(expected.pvalue)
    assert found.v == pytest.approx(stats.contingency.association(table, method="cramer"))


def test_corrected_v_is_bergsma_s():
    labels, right = drawn()
    table = table_of(labels, right)
    n, (r, c) = table.sum(), table.shape
    phi2 = stats.chi2_contingency(table, correction=False).statistic / n
    phi2 = max(0, phi2 - (r - 1) * (c - 1) / (n - 1))
    rows, columns = r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)
    wanted = math.sqrt(phi2 / min(rows - 1, columns - 1))
    assert wanted > 0.05 and associate(labels, right).v_corrected == pytest.approx(wanted)
    shuffled = random.Random(1).sample(right, len(right))
    assert associate(labels, shuffled).v_corrected <= associate(labels, shuffled).v


def test_estimated_v_squared_is_unbiased_whatever_was_put_in():
    rng = np.random.default_rng(1)
    totals = np.array([2, 3, 5, 8, 13, 40])
    for chances in ([0.6] * 6, [0.1, 0.9, 0.3, 0.7, 0.5, 0.6]):
        chances = np.array(chances)
        share = (totals * chances).sum() / totals.sum()
        true = (totals * (chances - share) ** 2).sum() / totals.sum() / (share * (1 - share))
        hits = rng.binomial(totals, chances, size=(4000, 6))
        assert np.mean([estimated_square(totals, each) for each in hits]) == pytest.approx(true, abs=0.01)
    assert estimated_square(totals, totals) == estimated_square(totals, 0 * totals) == 0, "nothing differs"


def test_permutations_give_the_p_value_of_all_orders():
    labels, right = [0, 0, 0, 1, 1, 1, 2, 2], [True, True, False, False, False, False, True, False]
    table = table_of(labels, right)
    statistic = stats.chi2_contingency(table, correction=False).statistic
    orders = [np.isin(np.arange(8), chosen) for chosen in itertools.combinations(range(8), 3)]
    found = [stats.chi2_contingency(table_of(labels, order), correction=False).statistic for order in orders]
    exact = np.mean(np.array(found) >= statistic - 1e-9)
    one = associate(labels, right, draws=20_000)
    assert one.p_permuted == pytest.approx(exact, abs=0.01)
    assert one.v_by_chance == pytest.approx(np.sqrt(np.array(found) / 8).mean(), abs=0.01)


def test_what_differs_between_strata_only_does_not_count_within_them():
    # Kinds a and b of one domain, c and d of another, which is harder; within them, kinds make no difference.
    kinds = ["a", "b"] * 50 + ["c", "d"] * 50
    right = [place % 10 < 8 for place in range(100)] + [place % 10 < 2 for place in range(100)]
    domains = ["one"] * 100 + ["two"] * 100
    found = associate(kinds, right, domains)
    assert found.p < 0.001 and found.p_permuted < 0.01 and found.p_within > 0.05
    telling = [kind in "ac" for kind in kinds]
    assert associate(kinds, telling, domains).p_within < 0.01
    assert associate(kinds, right).p_within is None
    assert associate(kinds, right, list(range(200))).p_within is None, "strata of one task tell nothing"


@pytest.mark.parametrize(
    ("kinds", "right"), [("ab", [True, True]), ("ab", [False, False]), ("aa", [True, False]), ("", [])]
)
def test_without_two_kinds_and_two_outcomes_there_is_no_association(kinds, right):
    assert associate(list(kinds), right) is None


@pytest.fixture(scope="module")
def some_games():
    return kumo_association.games(["medical", "knots", "aircraft", "bacteria"], 50)


@pytest.mark.slow
def test_where_structure_does_nothing_it_is_found_at_the_nominal_rate(some_games):
    found = kumo_association.simulate(some_games, structure=0, domain=0, players=120)
    assert found.put_in == 0 and found.estimated < 0.25 < 0.7 < found.by_chance
    for rate in (found.rejected, found.rejected_permuted, found.rejected_within):
        assert rate <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 120)
    harder = kumo_association.simulate(some_games, structure=0, domain=1.5, players=60)
    assert harder.rejected_within <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 60), "difficulty of domains is not structure"


@pytest.mark.slow
def test_what_structure_does_is_found_in_its_size(some_games):
    found = kumo_association.simulate(some_games, structure=1.5, domain=0, players=30)
    assert found.rejected_permuted > 0.9
    assert found.estimated == pytest.approx(found.put_in, abs=0.05)
    assert found.put_in > 0.5


def test_in_a_stratum_where_nothing_can_change_places_its_outcomes_stay_as_they_are():
    kinds, right = ["a", "b"] * 6, [True, False] * 5 + [False, True]
    found = associate(kinds + ["a", "b", "b"] * 3, right + [False] * 9, ["x"] * 12 + ["y"] * 9)
    assert (found.tasks, round(found.p_permuted, 4), round(found.p_within, 4)) == (21, 0.0465, 0.041)
