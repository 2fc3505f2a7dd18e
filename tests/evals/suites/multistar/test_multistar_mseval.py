"""MSEval's definition: the published listings, its bounds, and the other readings."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.suites.multistar.mseval import (
    Asked,
    Convention,
    Sweep,
    information,
    mseval,
    option_probabilities,
    own_information,
    weight_bounds,
)

# The published logits of Listings 2 to 6 by node (1P_1, 1P_2, 1P_3, 2P_12, 2P_23, 1R), which option is right, the answers
# to 1R with each option of each parent, and the published score with the digits that it is printed with.
LISTINGS = {
    2: (
        [
            (11.125, 11.125, 20.75),
            (11.125, 10.5625, 19.875),
            (10.375, 10.375, 19.75),
            (16.5, 17.75, 16.375, 15.0625),
            (18.875, 18.0, 16.125, 19.5),
            (20.0, 21.375, 20.5, 19.75),
        ],
        (0, 1, 0, 2, 1, 1),
        ("BBC", "BBB", "BAB", "BBBD", "BBBB"),
        "1.066",
    ),
    3: (
        [
            (17.125, 24.5, 16.0, 16.0),
            (17.5, 23.875, 17.125, 15.8125),
            (17.375, 16.875, 24.125, 17.375),
            (21.625, 20.875, 20.0, 22.25),
            (20.875, 21.75, 21.875, 20.25),
            (21.75, 22.75, 19.25, 16.625),
        ],
        (1, 1, 2, 3, 2, 0),
        ("AABB", "BBBA", "ABCA", "BABB", "BCCB"),
        "2.506839853582758",
    ),
    4: (
        [
            (21.125, 26.375, 20.375, 22.375),
            (22.5, 25.5, 21.25, 24.625),
            (22.875, 21.125, 27.5, 23.625),
            (30.5, 30.25, 30.75, 30.875),
            (30.375, 29.75, 30.375, 30.25),
            (32.75, 33.0, 31.25, 30.5),
        ],
        (1, 1, 2, 3, 2, 0),
        ("BBAC", "ABAB", "BBBB", "ACBB", "BBBB"),
        "2.228",
    ),
    5: (
        [
            (31.125, 31.125, 29.625),
            (31.0, 31.125, 29.5),
            (31.375, 31.375, 31.625),
            (30.875, 30.75, 30.25, 30.75),
            (30.25, 30.125, 30.5, 30.125),
            (31.125, 30.375, 31.0, 31.375),
        ],
        (2, 2, 0, 2, 3, 3),
        ("DDA", "DDD", "DDD", "DADA", "DDDC"),
        "0.955",
    ),
    6: (
        [
            (0, 0, 30.625, 0),
            (0, 30.5, 0, 0),
            (0, 0, 30.875, 0),
            (0, 30.0, 0, 0),
            (0, 28.25, 0, 0),
            (0, 0, 31.67, 0),
        ],
        (2, 1, 2, 1, 1, 1),
        ("CCCB", "CCBC", "BBCC", "ACCC", "CCCC"),
        "2.345087186311839",
    ),
}


def listing(number):
    logits, keys, answers, published = LISTINGS[number]
    nodes = [Asked(option_probabilities(values), key) for values, key in zip(logits, keys, strict=True)]
    return nodes[-1], sweeps(nodes[:-1], answers), published


def sweeps(parents, answers, letters="ABCDEFGH"):
    return [
        Sweep(parent, tuple(letters.index(letter) for letter in given), ())
        for parent, given in zip(parents, answers, strict=True)
    ]


@pytest.mark.parametrize("number", LISTINGS)
def test_the_published_listings_are_reproduced_to_their_last_digit(number):
    question, swept, published = listing(number)
    value = mseval(question, swept).value
    if len(published) > 6:
        assert value == pytest.approx(float(published), abs=1e-12)
    else:
        assert f"{value:.3f}" == published


def test_entropies_of_four_hard_answers_are_the_five_values_there_can_be():
    parent = Asked((0.25,) * 4, 0)
    found = [
        information(sweep, Convention()) for sweep in sweeps([parent] * 5, ("AAAA", "AAAB", "AABB", "AABC", "ABCD"))
    ]
    assert found == pytest.approx([0, 0.811278, 1, 1.5, 2], abs=1e-6)


def test_without_parents_it_is_the_probability_over_that_of_a_guess():
    assert mseval(Asked((0.5, 0.25, 0.25), 0), []).value == pytest.approx(1.5)


def test_a_question_computed_by_hand():
    # The parent (2 options, right with 0.9) decides the answer: 1 bit. The question (4 options, right with 0.4): 2 bits.
    parent, question = Asked((0.9, 0.1), 0), Asked((0.4, 0.2, 0.2, 0.2), 0)
    score = mseval(question, sweeps([parent], ["AB"]))
    own = math.exp(2) / (math.exp(1) + math.exp(2))
    assert score.value == pytest.approx((1 - own) * 1.8 + own * 1.6)
    assert score.parents_weight == pytest.approx(1 - own)
    # In nats: CMI of the parent ln 2, of the question ln 4, so their powers of e are 2 and 4.
    assert mseval(question, sweeps([parent], ["AB"]), Convention.named("natural_logs")).value == pytest.approx(
        2 / 6 * 1.8 + 4 / 6 * 1.6
    )


def test_a_model_prior_weighs_options_by_the_players_own_probabilities():
    swept = sweeps([Asked((0.9, 0.1), 0)], ["AB"])[0]
    by_hand = -0.9 * math.log2(0.9) - 0.1 * math.log2(0.1)
    assert information(swept, Convention(model_prior=True)) == pytest.approx(by_hand)
    assert own_information(Asked((0.9, 0.1), 0), Convention(model_prior=True)) == pytest.approx(by_hand)


def test_soft_distributions_carry_what_hard_answers_hide():
    parent = Asked((0.5, 0.5), 0)
    swept = Sweep(parent, (0, 0), ((0.9, 0.1), (0.6, 0.4)))
    assert information(swept, Convention()) == 0
    mixed = -0.75 * math.log2(0.75) - 0.25 * math.log2(0.25)
    left = sum(-p * math.log2(p) - (1 - p) * math.log2(1 - p) for p in (0.9, 0.6)) / 2
    assert information(swept, Convention(soft_distributions=True)) == pytest.approx(mixed - left)
    same = Sweep(parent, (0, 0), ((0.9, 0.1), (0.9, 0.1)))
    assert information(same, Convention(soft_distributions=True)) == pytest.approx(0)


def test_a_parent_that_changes_nothing_tells_nothing_and_never_less():
    """Entropies are rounded: their difference may fall below zero by a last bit."""
    for shares in ((0.1, 0.2, 0.7), (0.3, 0.3, 0.4), (0.05, 0.9, 0.05), (1 / 3, 1 / 3, 1 / 3)):
        for weights in ((0.1, 0.9), (0.3, 0.3, 0.4), (0.7, 0.1, 0.2), (1 / 7, 2 / 7, 4 / 7)):
            swept = Sweep(Asked(weights, 0), (0,) * len(weights), (shares,) * len(weights))
            for nats, prior in itertools.product((False, True), repeat=2):
                assert 0 <= information(swept, Convention(nats, True, prior)) < 1e-12


def test_unknown_conventions_are_refused_by_name():
    for name in ("bits", "decoded+natural_logs", "natural_logs+natural_logs", ""):
        with pytest.raises(ValueError, match="no convention"):
            Convention.named(name)
    assert Convention.named("natural_logs+soft_distributions") == Convention(True, True, False)


def test_unknown_probabilities_never_become_zeros():
    for logprobs in ((-1.0, math.nan), (-math.inf, -math.inf)):
        with pytest.raises(ValueError, match="no probabilities"):
            option_probabilities(logprobs)
    assert option_probabilities((0.0, -math.inf)) == (1.0, 0.0)


options = st.integers(2, 8)


@st.composite
def chains(draw):
    def asked():
        size = draw(options)
        return Asked((1 / size,) * size, draw(st.integers(0, size - 1)))

    question = asked()
    parents = [asked() for _ in range(draw(st.integers(0, 10)))]
    answer = st.integers(0, len(question.probabilities) - 1)
    return question, [
        Sweep(
            parent,
            tuple(draw(answer) for _ in parent.probabilities),
            (question.probabilities,) * len(parent.probabilities),
        )
        for parent in parents
    ]


@pytest.mark.slow
@given(chains(), st.booleans(), st.booleans(), st.booleans())
def test_whoever_guesses_scores_one_in_every_reading(chain, nats, soft, prior):
    assert mseval(*chain, Convention(nats, soft, prior)).value == pytest.approx(1)


@pytest.mark.slow
@given(chains(), st.booleans())
def test_parents_weigh_between_none_and_all_information(chain, nats):
    question, swept = chain
    convention = Convention(natural_logs=nats)
    counts = [len(sweep.parent.probabilities) for sweep in swept]
    least, most = weight_bounds(len(question.probabilities), counts, convention)
    assert least - 1e-12 <= mseval(question, swept, convention).parents_weight <= most + 1e-12


@pytest.mark.parametrize("nats", [False, True])
@pytest.mark.parametrize(("options", "count"), [(2, 3), (3, 2), (3, 4), (4, 3), (4, 4), (2, 8), (3, 8)])
def test_the_bounds_are_those_that_some_answers_reach(options, count, nats):
    question, parent = (Asked((1 / size,) * size, 0) for size in (options, count))
    convention = Convention(natural_logs=nats)
    weights = [
        mseval(question, [Sweep(parent, answers, ())] * 2, convention).parents_weight
        for answers in itertools.product(range(options), repeat=count)
    ]
    assert (min(weights), max(weights)) == pytest.approx(weight_bounds(options, [count] * 2, convention))


def test_perfect_play_has_the_whole_of_what_can_be_had_under_any_weights():
    one = Asked((1.0, 0.0), 0)
    target = Asked((0.0, 1.0, 0.0, 0.0), 1)
    for answers in ((1, 1), (1, 2)):
        score = mseval(target, [Sweep(one, answers, (target.probabilities,) * 2)])
        assert score.share == 1 and score.value < 4, "a parent of two options lowers the maximum"
    guess = Asked((0.25,) * 4, 1)
    assert mseval(guess, []).share == pytest.approx(0.25)
    half = Asked((0.5, 0.5), 0)
    weight = 1 / (1 + math.exp(2))
    by_hand = (weight * 1 + (1 - weight) * 4) / (weight * 2 + (1 - weight) * 4)
    assert mseval(target, [Sweep(half, (1, 1), (target.probabilities,) * 2)]).share == pytest.approx(by_hand)
