"""What MultiStAR's questions hold to be true: a referee reads thousands, and scenes made by hand settle the hard cases."""

import dataclasses
from pathlib import Path

import pytest

from benchmarks.multistar_audit import audit, drawn, faults
from envs.raven import CONFIGURATIONS, Component, Entity, Generated, Panel, Problem, Rule, generate, read
from evals.suites.multistar.questions import chain_questions, direct_questions

FIXTURES = Path(__file__).resolve().parents[4] / "../shared/fixtures/raven"

CONSTANT = (Rule("Constant", "Number/Position"), *(Rule("Constant", name) for name in ("Type", "Size", "Color")))
GRID, NINE, CENTER = "distribute_four", "distribute_nine", "center_single"


def component(slots, shape=2, size=2, color=3, uniformity=0):
    """Objects in slots; a level may be given once for all or as a list."""
    levels = [[value] * len(slots) if isinstance(value, int) else value for value in (shape, size, color)]
    return Component(tuple(Entity(slot, *own, 4) for slot, *own in zip(slots, *levels, strict=True)), uniformity)


def problem_of(configuration, parts, **rules):
    """A problem whose first panels are given, one component; rules are told by attribute (place, type, size, color)."""
    own = list(CONSTANT)
    for name, rule in rules.items():
        own[("place", "type", "size", "color").index(name)] = rule
    panels = tuple(Panel((part,)) for part in parts)
    panels += panels[-1:] * (8 - len(panels))
    return Problem(
        CONFIGURATIONS[configuration], panels, panels, 0, (tuple(own),), "iraven", Generated(configuration, 0)
    )


def asked(problem, node, seeds=range(40)):
    """The question of a node under many seeds: its true statements, and all that were ever offered beside them."""
    questions = [q for seed in seeds for q in direct_questions(problem, seed, "uniform") if q.node == node]
    for question in questions:
        assert list(faults(problem, question)) == []
    true = {question.options[question.key] for question in questions}
    offered = {option for question in questions for option in question.options} - true
    return true, offered


# --- the referee -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_the_referee_finds_no_fault(configuration):
    result = audit(generate(configuration, seed) for seed in range(1000, 1004))
    assert result.examples == [] and result.questions > 4 * 45


@pytest.mark.slow
def test_the_referee_finds_no_fault_in_official_problems():
    files = sorted(FIXTURES.glob("*/*.npz"))
    if not files:
        pytest.skip("the official-format fixtures are not here")
    result = audit(read(path).problem for path in files)
    # Official answer sets are what they are: a wrong candidate may complete a matrix by another rule.
    assert [example for example in result.examples if " final: " not in example] == []
    assert result.questions > 45 * len(files)


@pytest.mark.slow
def test_the_referee_would_see_a_wrong_key():
    for problem in drawn(2, ["iraven"]):
        for question in (*direct_questions(problem, 0, "uniform"), *chain_questions(problem, 0)):
            for shift in range(1, len(question.options)):
                wrong = dataclasses.replace(question, key=(question.key + shift) % len(question.options))
                assert "wrong key" in list(faults(problem, wrong))


def test_the_referee_would_see_doubtful_references():
    problem = problem_of(GRID, [component([0, 3], shape=[2, 2], color=[1, 5])])
    question = next(q for q in chain_questions(problem, 0) if q.node == "position/single_panel_1")
    assert "ambiguous reference" not in list(faults(problem, question))
    vague = dataclasses.replace(question, text="Where in this panel is the square?")
    assert "ambiguous reference" in list(faults(problem, vague))


def test_the_referee_would_see_a_second_true_option():
    problem = problem_of(GRID, [component([0, 1])] * 3)
    question = next(q for q in direct_questions(problem, 0, "uniform") if q.node == "1R/position")
    union = "The positions occupied in the third panel are those occupied in the first panel, the second, or both."
    false = (question.key + 1) % 4
    options = tuple(union if place == false else option for place, option in enumerate(question.options))
    assert "second true option" in list(faults(problem, dataclasses.replace(question, options=options)))


# --- steps of every width and direction ------------------------------------------------------------------------------


def test_a_move_that_reads_both_ways_is_offered_one_way_only():
    parts = [component(slots) for slots in ([0, 2], [1, 3], [0, 2])]
    problem = problem_of(GRID, parts * 2, place=Rule("Progression", "Position", 1))
    true, offered = asked(problem, "1R/position")
    assert true == {"Every object moves on by one position from panel to panel."}
    assert "Every object moves back by one position from panel to panel." not in offered


# --- statements that are true besides the rule -----------------------------------------------------------------------


def test_places_that_stay_are_also_a_union_which_is_not_offered():
    true, offered = asked(problem_of(GRID, [component([0, 1])] * 6), "2R/position")
    assert true == {"The occupied positions stay the same throughout each row."}
    assert not any("or both" in option for option in offered)
    assert any("but not in the second" in option for option in offered)


def test_white_that_stays_is_also_its_own_sum_and_difference():
    true, offered = asked(problem_of(CENTER, [component([0], color=0)] * 6), "1R/color")
    assert true == {"The color of the objects stays the same throughout the row."}
    assert not any("that of the second" in option for option in offered)
    _, gray = asked(problem_of(CENTER, [component([0], color=4)] * 6), "1R/color")
    assert any("plus that of the second" in option for option in gray)


def test_three_values_in_turn_that_rise_in_steps_are_told_by_the_step_in_one_row():
    turns = [component([0], shape=shape) for shape in (2, 3, 4)] + [component([0], shape=shape) for shape in (3, 4, 2)]
    problem = problem_of(CENTER, turns, type=Rule("Distribute_Three", "Type"))
    true, offered = asked(problem, "1R/shape")
    assert true == {"The shape moves up by one step in the order of edges from panel to panel."}
    assert "The shape takes three different values, with no steady step of one or two." in offered
    true, offered = asked(problem, "2R/shape")
    assert true == {"The shape takes the same three different values in both rows, in another order."}
    assert "The shape moves up by one step in the order of edges from panel to panel." in offered
    true, _ = asked(problem_of(CENTER, turns[3:] * 2, type=Rule("Distribute_Three", "Type")), "1R/shape")
    assert true == {"The shape takes three different values, with no steady step of one or two."}


def test_three_arrangements_without_a_rule_are_told_as_what_is_seen():
    slots = ([0, 1], [0, 2, 3], [3])  # no union, difference or move
    problem = problem_of(GRID, [component(own) for own in slots], place=Rule("Arithmetic", "Number", -1))
    true, offered = asked(problem, "1R/position")
    assert true == {"The occupied positions differ in all three panels, with no steady move, union or difference."}
    assert "There is no clear rule." in offered


# --- objects that differ ---------------------------------------------------------------------------------------------


def test_randomness_that_happens_to_obey_a_rule_is_told_by_what_is_seen():
    noise = [component([0], size=own) for own in (1, 2, 3)] + [component([0], size=own) for own in (1, 1, 4)]
    problem = problem_of(GRID, noise, place=Rule("Arithmetic", "Position", 1))
    assert asked(problem, "1R/size")[0] == {
        "The size that all objects of a panel share grows by one step from panel to panel."
    }
    assert asked(problem, "2R/size")[0] == {"There is no clear rule."}


# --- references ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (component([0, 3], shape=[1, 5]), {"triangle", "circle"}),
        (component([0, 3], shape=[2, 2], size=[1, 4]), {"largest square", "smallest square"}),
        (component([0, 3], shape=[2, 2], color=[1, 4]), {"darkest square", "brightest square"}),
        (component([0, 3]), {"first object in reading order", "second object in reading order"}),
    ],
)
def test_an_object_is_named_by_what_sets_it_apart(part, words):
    problem = problem_of(GRID, [part] * 3)
    questions = [q for seed in range(20) for q in chain_questions(problem, seed) if q.node == "position/single_panel_1"]
    assert {question.subject for question in questions} == words
    assert all(f"the {question.subject}" in question.text for question in questions)
    assert all(list(faults(problem, question)) == [] for question in questions)
