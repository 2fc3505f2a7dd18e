"""Re-Format: the answer to an earlier question of the chain as a sentence, to be prior information for a later one.

A sentence calls panels by where they stand in the picture of the question that is to be asked (panel 2 is the right one beside
panel 1, the left one beside panel 3 and the middle one of a row), and it says the answer. ``paper_literal`` says what the
paper's Table 10 prints, word for word, for number and position (the table gives no others). Two things in it we hold to be
slips: panels 2 and 3 are always "right", and sentences on the position in one panel leave the answer out, so that no change
of that answer can reach the model.
"""

from __future__ import annotations

import re

from evals.suites.multistar.questions.comparisons import LOOK, NOT_COMPARABLE
from evals.suites.multistar.questions.question import Question
from evals.suites.multistar.questions.singles import SHAPES
from evals.suites.multistar.questions.statements import WHAT
from evals.suites.multistar.questions.words import PART_WORD, located

_IN_ROW = {"1": "left", "2": "middle", "3": "right"}
_AS_PRINTED = {"1": "left", "2": "right", "3": "right"}


def prior_sentence(parent: Question, option: int, target: Question, paper_literal: bool = False) -> str:
    """What is known before ``target`` is asked, if ``parent`` was answered with one of its options.

    Args:
        parent: a question whose node is among the target's parents.
        option: index of the answer, right or wrong.
        target: the question about to be asked.
        paper_literal: as the paper's table 10 prints it.

    Raises:
        ValueError: the parent's answer is no prior information for the target.
        IndexError: the parent has no such option.
    """
    if parent.node not in target.parents:
        known = ", ".join(target.parents) or "none"
        raise ValueError(f"{parent.node} is no parent of {target.node}: its parents are {known}")
    if not 0 <= option < len(parent.options):
        raise IndexError(f"{parent.node} has options 0 to {len(parent.options) - 1}, not {option}")
    answer = (parent.said or parent.options)[option]
    # The table has no other attributes, and no rules of both rows.
    in_table = parent.attribute in ("number", "position") and parent.stage != "2R"
    if paper_literal and in_table:
        return _as_printed(parent, answer)
    match parent.stage:
        case "1P":
            return _one_panel(parent, answer, target, paper_literal)
        case "2P":
            return _two_panels(parent, answer)
        case _:
            return _rule(parent, answer)


def _as_printed(parent: Question, answer: str) -> str:
    """The paper's Table 10; parts of panels are named as in its Listing 1."""
    on_number = parent.attribute == "number"
    match parent.stage:
        case "1R":
            attribute = "number of objects" if on_number else "position of objects"
            return f"The rule for the {attribute}{_where(parent)} in the first row is: {answer.removesuffix('.')}."
        case "1P":
            panel = _area(parent, f"the {_AS_PRINTED[_number(parent)]} panel")
            if on_number:
                return f"There are {answer} objects in {panel}."
            return f"There is a {_shape_of(parent.subject)} positioned in {panel}."
    one, other = _areas(parent)
    if on_number:
        return f"{one.capitalize()} has {answer} compared to {other}."
    same = "the same as" if answer == "yes" else "not the same as"
    return f"The position of all the objects in {one} is {same} the objects in {other}."


def _one_panel(parent: Question, answer: str, target: Question, paper_literal: bool) -> str:
    panel = f"the {_panel(_number(parent), target, paper_literal)} panel"
    area = _area(parent, panel)
    match parent.attribute:
        case "number":
            objects = "is 1 object" if answer == "1" else f"are {answer} objects"
            return f"There {objects} in {area}."
        case "position":
            return f"In {panel}, the {parent.subject} is {located(answer)}."
        case "shape":
            return f"In {panel}, the object {located(parent.subject)} is {_one(answer)}."
        case _:
            verb = "is" if answer.startswith("only") else "are"
            return f"In {area} there {verb} {answer}."


def _number(parent: Question) -> str:
    return parent.node.split("single_panel_")[1][0]


def _panel(number: str, target: Question, paper_literal: bool) -> str:
    if paper_literal:
        return _AS_PRINTED[number]
    if target.stage == "2P":
        return "left" if number == _pair(target)[0] else "right"
    return _IN_ROW[number]


def _pair(question: Question) -> tuple[str, str]:
    found = re.search(r"two_panels_(\d)_(\d)", question.node)
    if not found:
        raise ValueError(f"{question.node} does not name two panels")
    return found[1], found[2]


def _area(parent: Question, panel: str) -> str:
    return f"the {PART_WORD[parent.part]} of {panel}" if parent.part else panel


def _one(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _shape_of(subject: str) -> str:
    last = subject.split()[-1]
    return last if last in SHAPES else "object"


def _two_panels(parent: Question, answer: str) -> str:
    """The chain always asks how the lower-numbered panel compares with the other; both stand in the row to be asked about."""
    one, other = _areas(parent)
    match parent.attribute:
        case "number":
            return f"{one.capitalize()} has {answer} {_than(answer)} {other}."
        case "position":
            same = "are" if answer == "yes" else "are not"
            return f"The objects in {one} {same} in the same positions as those in {other}."
    assert parent.attribute
    if answer == NOT_COMPARABLE:
        return f"The objects in {one} and those in {other} are not comparable in terms of {LOOK[parent.attribute]}."
    return f"The objects in {one} have {answer} {_than(answer)} those in {other}."


def _areas(parent: Question) -> tuple[str, str]:
    """The two panels that a question compares, or their parts that it is about, by their places in the row."""
    one, other = _pair(parent)
    return _area(parent, f"the {_IN_ROW[one]} panel"), _area(parent, f"the {_IN_ROW[other]} panel")


def _than(answer: str) -> str:
    return "as" if answer.startswith("the same") else "than"


def _rule(parent: Question, answer: str) -> str:
    rows = "the first row" if parent.stage == "1R" else "both rows"
    assert parent.attribute
    return f"The rule for {WHAT[parent.attribute]}{_where(parent)} in {rows} is: {answer}"


def _where(parent: Question) -> str:
    return f" in the {PART_WORD[parent.part]}" if parent.part else ""
