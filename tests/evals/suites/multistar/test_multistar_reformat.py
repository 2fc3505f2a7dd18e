"""Prior answers as sentences: panels called by where they stand in the picture asked about, answers said."""

import itertools

import pytest

from envs.raven import CONFIGURATIONS, generate
from evals.suites.multistar.questions import chain_questions
from evals.suites.multistar.questions.words import located
from evals.suites.multistar.reformat import prior_sentence


def chain(name, seed=0):
    return {question.node: question for question in chain_questions(generate(name, seed), seed)}


def pairs(questions):
    return [(questions[parent], question) for question in questions.values() for parent in question.parents]


def said(questions, parent, answer, target, **options):
    options_of = questions[parent].options
    return prior_sentence(questions[parent], options_of.index(answer), questions[target], **options)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_answer_is_told_apart(name):
    for seed in range(5):
        for parent, target in pairs(chain(name, seed)):
            sentences = [prior_sentence(parent, option, target) for option in range(len(parent.options))]
            assert len(set(sentences)) == len(sentences)
            assert all(sentence[0].isupper() and sentence.endswith(".") for sentence in sentences)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_question_is_told_of_every_parent_in_other_words(name):
    questions = chain(name, 1)
    for question in questions.values():
        told = [prior_sentence(questions[parent], 0, question) for parent in question.parents]
        assert len(set(told)) == len(told)


@pytest.mark.parametrize(
    ("panel", "target", "place"),
    [
        (1, "two_panels_1_2", "left"),
        (2, "two_panels_1_2", "right"),
        (2, "two_panels_2_3", "left"),
        (3, "two_panels_2_3", "right"),
        (1, "one_row", "left"),
        (2, "one_row", "middle"),
        (3, "one_row", "right"),
    ],
)
def test_panels_are_called_by_their_place_in_the_picture_asked_about(panel, target, place):
    for attribute, part in itertools.product(("number", "position", "shape", "color", "size"), ("in", "out")):
        questions = chain("in_distribute_four_out_center_single", 2)
        parent = questions[f"{attribute}/single_panel_{panel}_{part}"]
        sentence = prior_sentence(parent, 0, questions[f"{attribute}/{target}_{part}"])
        named = {word for word in ("left", "middle", "right") if f"the {word} panel" in sentence.lower()}
        assert named == {place}


def test_sentences_on_one_panel():
    questions = chain("in_distribute_four_out_center_single", 3)
    number = questions["number/single_panel_2_in"]
    for option, answer in enumerate(number.options):
        count = "is 1 object" if answer == "1" else f"are {answer} objects"
        wanted = f"There {count} in the inner part of the middle panel."
        assert prior_sentence(number, option, questions["number/one_row_in"]) == wanted
    shape = questions["shape/single_panel_1_out"]
    assert said(questions, shape.node, shape.options[0], "shape/one_row_out") == (
        f"In the left panel, the object in the outer part is a {shape.options[0]}."
    )
    assert said(questions, "size/single_panel_1_in", "only one object", "size/two_panels_1_2_in") == (
        "In the inner part of the left panel there is only one object."
    )
    position = questions["position/single_panel_3_in"]
    assert said(questions, position.node, position.options[1], "position/two_panels_2_3_in") == (
        f"In the right panel, the {position.subject} is {located(position.options[1])}."
    )


def test_sentences_on_two_panels():
    questions = chain("distribute_four", 3)
    middle = {"parent": "number/two_panels_2_3", "target": "number/one_row"}
    assert (
        said(questions, answer="the same number of objects", **middle)
        == "The middle panel has the same number of objects as the right panel."
    )
    assert said(questions, answer="more objects", **middle) == "The middle panel has more objects than the right panel."
    place = {"parent": "position/two_panels_1_2", "target": "position/one_row"}
    assert said(questions, answer="no", **place) == (
        "The objects in the left panel are not in the same positions as those in the middle panel."
    )
    shape = {"parent": "shape/two_panels_1_2", "target": "shape/one_row"}
    assert said(questions, answer="fewer edges", **shape) == (
        "The objects in the left panel have fewer edges than those in the middle panel."
    )
    assert said(questions, answer="not comparable", **shape) == (
        "The objects in the left panel and those in the middle panel are not comparable in terms of number of edges."
    )
    color = {"parent": "color/two_panels_2_3", "target": "color/one_row"}
    assert said(questions, answer="the same color", **color) == (
        "The objects in the middle panel have the same color as those in the right panel."
    )


def test_sentences_on_rules():
    questions = chain("left_center_single_right_center_single", 3)
    row, rows = questions["color/one_row_left"], questions["color/two_rows_right"]
    assert said(questions, row.node, row.options[2], "color/two_rows_left") == (
        f"The rule for the color of the objects in the left part in the first row is: {row.options[2]}"
    )
    assert said(questions, rows.node, rows.options[0], "final") == (
        f"The rule for the color of the objects in the right part in both rows is: {rows.options[0]}"
    )


# --- as the paper prints it ------------------------------------------------------------------------------------------


def test_the_papers_position_sentence_leaves_the_answer_out():
    questions = chain("distribute_nine", 4)
    parent, target = questions["position/single_panel_1"], questions["position/two_panels_1_2"]
    printed = {prior_sentence(parent, option, target, paper_literal=True) for option in range(4)}
    assert len(printed) == 1
    assert printed.pop().endswith("positioned in the left panel.")


def test_the_papers_panels_two_and_three_are_both_right():
    questions = chain("distribute_nine", 4)
    for target in ("number/two_panels_2_3", "number/one_row"):
        for panel in (2, 3):
            sentence = prior_sentence(
                questions[f"number/single_panel_{panel}"], 0, questions[target], paper_literal=True
            )
            assert sentence.endswith("in the right panel.")


def test_comparisons_and_rules_are_those_of_table_10():
    questions = chain("distribute_four", 3)
    number = {"parent": "number/two_panels_1_2", "target": "number/one_row", "paper_literal": True}
    assert (
        said(questions, answer="more objects", **number)
        == "The left panel has more objects compared to the middle panel."
    )
    place = {"parent": "position/two_panels_2_3", "target": "position/one_row", "paper_literal": True}
    same = "The position of all the objects in the middle panel is {}the same as the objects in the right panel."
    assert said(questions, answer="yes", **place) == same.format("")
    assert said(questions, answer="no", **place) == same.format("not ")
    row = questions["position/one_row"]
    assert said(questions, row.node, row.options[1], "position/two_rows", paper_literal=True) == (
        f"The rule for the position of objects in the first row is: {row.options[1]}"
    )
    one = next(q for q in questions.values() if q.attribute == "number" and "1" in q.options and q.stage == "1P")
    target = next(q for q in questions.values() if one.node in q.parents)
    sentence = prior_sentence(one, one.options.index("1"), target, paper_literal=True)
    assert sentence.startswith("There are 1 objects in the "), "as printed"


def test_what_table_10_does_not_print_is_the_same_either_way():
    for parent, target in pairs(chain("up_center_single_down_center_single", 5)):
        if parent.stage != "1P" and parent.attribute not in ("number", "position"):
            assert prior_sentence(parent, 1, target, paper_literal=True) == prior_sentence(parent, 1, target)


# --- what cannot be told ---------------------------------------------------------------------------------------------


def test_what_is_no_parent_is_refused_by_name():
    questions = chain("center_single", 0)
    with pytest.raises(ValueError, match=r"shape/one_row is no parent of number/two_rows.*number/one_row"):
        prior_sentence(questions["shape/one_row"], 0, questions["number/two_rows"])


def test_an_option_that_was_not_offered_is_refused():
    questions = chain("center_single", 0)
    for option in (4, -1):
        with pytest.raises(IndexError, match="number/one_row has options 0 to 3"):
            prior_sentence(questions["number/one_row"], option, questions["number/two_rows"])
