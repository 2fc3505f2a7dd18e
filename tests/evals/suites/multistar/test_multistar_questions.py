"""MultiStAR's question sets: how many, on which pictures, with how many options, and what stands on what."""

import itertools
import random
from collections import Counter, defaultdict
from types import SimpleNamespace

import pytest

from benchmarks.multistar_blind import measure
from benchmarks.multistar_sets import sets_of
from envs.raven import CONFIGURATIONS, Generated, generate, load
from evals.suites.multistar.questions import (
    QUESTION_ATTRIBUTES,
    chain_questions,
    direct_nodes,
    direct_questions,
    options,
)
from evals.suites.multistar.questions.chain import chain_sketches
from evals.suites.multistar.questions.options import balance
from evals.suites.multistar.questions.sketch import _has_twin, posed

TWO_PARTS = {
    "left_center_single_right_center_single": ("left", "right"),
    "up_center_single_down_center_single": ("top", "bottom"),
    "in_center_single_out_center_single": ("in", "out"),
    "in_distribute_four_out_center_single": ("in", "out"),
}


@pytest.fixture(scope="module")
def problems():
    return {name: [generate(name, seed) for seed in range(10)] for name in CONFIGURATIONS}


@pytest.fixture(scope="module")
def chains(problems):
    return {name: [chain_questions(problem, 0) for problem in own] for name, own in problems.items()}


# --- the chain -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_parents_come_first_and_are_those_of_the_dependency_graph(chains, name):
    parts = [f"_{part}" for part in TWO_PARTS[name]] if name in TWO_PARTS else [""]
    for chain in chains[name]:
        parents = {question.node: question.parents for question in chain}
        assert len(parents) == len(chain)
        for attribute, part in itertools.product(QUESTION_ATTRIBUTES, parts):
            one, two, three = (f"{attribute}/single_panel_{number}{part}" for number in (1, 2, 3))
            early, late = f"{attribute}/two_panels_1_2{part}", f"{attribute}/two_panels_2_3{part}"
            row = f"{attribute}/one_row{part}"
            assert parents[one] == parents[two] == parents[three] == ()
            assert parents[early] == (one, two) and parents[late] == (two, three)
            assert parents[row] == (one, two, three, early, late)
            assert parents[f"{attribute}/two_rows{part}"] == (row,)
        assert parents["final"] == tuple(f"{a}/two_rows{part}" for a in QUESTION_ATTRIBUTES for part in parts)
        seen = set()
        for question in chain:
            assert seen.issuperset(question.parents)
            seen.add(question.node)


# --- the direct set --------------------------------------------------------------------------------------------------


def test_templates_are_named_in_the_order_in_which_they_are_asked(problems):
    for name, own in problems.items():
        nodes = direct_nodes(CONFIGURATIONS[name])
        assert len(nodes) == len(set(nodes)) == (39 if name in TWO_PARTS else 26)
        for problem in own:
            numbers = [nodes.index(question.node) for question in direct_questions(problem, 0)]
            assert numbers == sorted(numbers)


def test_the_chain_asks_for_rules_as_the_direct_set_does(problems):
    for own in problems.values():
        direct = {question.node: question for question in direct_questions(own[0], 5)}
        for question in chain_questions(own[0], 5):
            if question.stage in ("1R", "2R"):
                part = f"_{question.part}" if question.part else ""
                twin = direct.get(f"{question.stage}/{question.attribute}{part}")
                assert (twin is not None) == question.counts, "what does not count is not asked directly"
                if twin is None:
                    continue
                assert (twin.text, twin.options, twin.key) == (question.text, question.options, question.key)


# --- chance ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_place_among_the_options_is_favored(problems):
    keys = defaultdict(Counter)
    for problem in itertools.chain.from_iterable(problems.values()):
        for questions in (direct_questions(problem, 1, "uniform")[:-1], chain_questions(problem, 1)[:-1]):
            for question in questions:
                keys[len(question.options)][question.key] += 1
    for size, counts in keys.items():
        total = sum(counts.values())
        assert all(abs(counts[place] / total - 1 / size) < 0.05 for place in range(size))


# --- options that give nothing away ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_stage_can_be_answered_without_its_picture():
    stages, _ = measure(training=30, test=30)
    assert {stage for _, stage in stages} == {"1P", "1P-B", "1P-C", "2P", "1R", "2R", "final"}
    for (kind, stage), tally in stages.items():
        assert tally.excess < 0.07, (kind, stage, str(tally))  # 300 to 1,600 questions: up to 0.02 is noise


@pytest.mark.parametrize(
    ("rates", "most", "count", "kept"),
    [
        ({"a": 0.6, "b": 0.2, "c": 0.2}, 3, 3, {"a": 1 / 3, "b": 1, "c": 1}),
        ({"a": 0.5, "b": 0.5}, 4, 2, {"a": 1, "b": 1}),
        ({"a": 0.4, "b": 0.2, "c": 0.2, "d": 0.2}, 2, 2, dict.fromkeys("abcd", 1)),
        ({"a": 0.7, "b": 0.299, "c": 0.001}, 4, 2, {"a": 0.299 / 0.7, "b": 1}),
        ({"a": 0.9, "b": 0.1}, 2, 0, {}),
        ({"a": 1.0}, 4, 0, {}),
    ],
)
def test_a_balance_caps_what_is_true_too_often(rates, most, count, kept):
    found = balance(rates, most)
    assert found.count == count and found.kept == pytest.approx(kept)
    assert sum(found.inclusion.values()) == pytest.approx(count)
    for answer, share in found.inclusion.items():
        assert share == pytest.approx(count * rates[answer] * kept[answer] / sum(rates[a] * kept[a] for a in kept))


@pytest.mark.slow
def test_every_option_of_every_set_is_the_key_equally_often(monkeypatch):
    rates = {"a": 0.5, "b": 0.2, "c": 0.15, "d": 0.1, "e": 0.05}
    monkeypatch.setattr(options, "answer_rates", lambda: {"world": {"kind": rates}})
    options._balance_of.cache_clear()
    rng, keys = random.Random(1), defaultdict(Counter)
    for _ in range(20_000):
        (truth,) = rng.choices(list(rates), list(rates.values()))
        draft = options.Draft("?", truth, tuple(set(rates) - {truth}), 3)
        drawn = options.draw_options(rng, "world", "kind", draft, "balanced")
        if drawn.counts:
            keys[frozenset(drawn.options)][drawn.options[drawn.key]] += 1
    options._balance_of.cache_clear()
    assert len(keys) > 5
    for shown, counts in keys.items():
        for answer in shown:
            assert counts[answer] / counts.total() == pytest.approx(1 / 3, abs=4 / counts.total() ** 0.5 * 0.48)


RATES = {
    ("still", frozenset({"union"})): 0.4,
    ("union", frozenset()): 0.15,
    ("union", frozenset({"still"})): 0.1,
    ("on", frozenset({"back"})): 0.1,
    ("back", frozenset()): 0.1,
    ("none", frozenset()): 0.15,
}
"""How often each statement is true, with those that must not stand beside it."""


def test_in_sets_that_are_solved_for_every_option_is_true_equally_often():
    mass = defaultdict(Counter)
    for (truth, beside), sets in sets_of(RATES, 3).items():
        assert sum(sets.values()) <= 1.0001
        for chosen, share in sets.items():
            assert truth in chosen and not beside.intersection(chosen)
            mass[chosen][truth] += share * RATES[truth, beside]
    for chosen, counts in mass.items():
        assert [counts[name] for name in chosen] == pytest.approx([counts.total() / 3] * 3, abs=2e-4)
    assert sum(counts.total() for counts in mass.values()) == pytest.approx(0.45, abs=1e-3), "as many as there can be"


@pytest.mark.slow
def test_the_variant_draws_rules_of_positions_in_sets_and_nothing_else(problems):
    drawn = Counter()
    for problem in itertools.chain.from_iterable(problems.values()):
        for sketch in chain_sketches(problem, 1):
            usual, other = (posed(problem, 1, sketch, drawing) for drawing in ("balanced", "by_sets"))
            if usual == other:
                continue
            assert sketch.name.startswith(("1R/position", "2R/position"))
            said = [sketch.draft.say[name] for name in sketch.draft.untrue]
            truth = other.options[other.key]
            assert truth == usual.options[usual.key] and {*other.options} - {truth} <= {*said}
            drawn[other.counts] += 1
    assert drawn[True] > 10 and drawn[False] > 0


def test_a_question_is_asked_with_the_sets_of_its_case_at_their_shares(monkeypatch):
    monkeypatch.setattr(options, "option_sets", lambda: {"world kind a/c": [(["a", "b"], 0.5), (["a", "d"], 0.2)]})
    monkeypatch.setattr(options, "_kinds_with_sets", lambda: {"world kind"})
    draft = options.Draft("?", "a", ("b", "d"), 2, say={name: name.upper() for name in "abcd"})
    rng, found = random.Random(1), Counter()
    for _ in range(4000):
        drawn = options.draw_options(rng, "world", "kind", draft, "by_sets")
        assert drawn.options[drawn.key] == "A"
        found[frozenset(drawn.options) if drawn.counts else None] += 1
    shares = [found[asked] / 4000 for asked in (frozenset("AB"), frozenset("AD"), None)]
    assert shares == pytest.approx([0.5, 0.2, 0.3], abs=0.03)


def test_words_that_the_published_drawing_does_not_show_do_not_count():
    """ "The smallest square" among squares of two sizes that have the same pixels."""
    form, hidden = "in_distribute_four_out_center_single", []
    for seed in (0, 119, 463):
        own, published = (
            chain_questions(load(Generated(form, seed, render=render)), 0) for render in ("own", "official")
        )
        for ours, theirs in zip(own, published, strict=True):
            assert ours.text == theirs.text
            if ours.attribute == "position" and ours.stage == "1P" and ours.counts and not theirs.counts:
                assert "largest square" in ours.text or "smallest square" in ours.text
                hidden.append(seed)
    assert hidden == [119, 463, 463, 463]


@pytest.mark.parametrize(
    ("render", "target", "groups", "has"),
    [
        *(("official", 2, [(3, 5)], True), ("official", 2, [(2, 5)], False), ("official", 7, [(1, 4), (6, 8)], True)),
        *(("official", 2, [], False), ("own", 2, [(3, 5)], False)),
    ],
)
def test_an_answer_has_a_twin_where_its_number_from_1_is_in_a_group(render, target, groups, has, monkeypatch):
    monkeypatch.setattr("evals.suites.multistar.questions.sketch.twins", lambda problem: groups)
    problem = SimpleNamespace(source=SimpleNamespace(render=render), target=target)
    assert _has_twin(problem) is has
