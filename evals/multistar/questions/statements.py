"""Rules in words: what a rule question asks, and the statements among which one is to be found."""

from __future__ import annotations

from evals.multistar.questions.question import QuestionAttribute

STEPS = {"+1": 1, "+2": 2, "-1": -1, "-2": -2}
PLAIN = ("constant", *STEPS, "sum", "difference")
STATEMENTS: dict[QuestionAttribute, tuple[str, ...]] = {
    attribute: tuple(
        name for name in (*PLAIN, "three", "none") if attribute != "shape" or name not in ("sum", "difference")
    )
    for attribute in ("number", "position", "shape", "color", "size")
}


WHAT: dict[QuestionAttribute, str] = {
    "number": "the number of objects",
    "position": "the positions of the objects",
    "shape": "the shape of the objects",
    "color": "the color of the objects",
    "size": "the size of the objects",
}
RULE_NOTES: dict[QuestionAttribute, str] = {
    "number": "",
    "position": " (Places count row by row from the top-left; after the last comes the first again.)",
    "shape": " (Shapes in rising order of edges: triangle, square, pentagon, hexagon, circle.)",
    "color": " (There are ten shades, numbered from 0, white, to 9, black.)",
    "size": " (There are six sizes, numbered from 1, smallest, to 6, largest.)",
}
ONE_ROW = (
    "Read this row of three panels from left to right. Which rule is followed by {what}{where}?",
    "Which rule describes {what}{where} in this row, read from left to right?",
    "What happens to {what}{where} from the first to the third panel of this row?",
    "From left to right, which statement about {what}{where} is true of this row?",
)
TWO_ROWS = (
    "Read both rows of three panels from left to right. Which rule do they share for {what}{where}?",
    "Which one rule describes {what}{where} in both rows, each read from left to right?",
    "What happens to {what}{where} from the first to the third panel in either row?",
    "From left to right, which statement about {what}{where} is true of both rows?",
)
_STEP: dict[QuestionAttribute, tuple[str, str, str]] = {
    "number": ("grows by {n}", "shrinks by {n}", ""),
    "shape": ("moves up by {n} in the order of edges", "moves down by {n} in the order of edges", " step"),
    "color": ("gets darker by {n}", "gets brighter by {n}", " shade"),
    "size": ("grows by {n}", "shrinks by {n}", " step"),
}
"""Up, down, and the unit."""
_AGAIN = "in both rows the same three different {}, in another order"


def statement(attribute: QuestionAttribute, name: str, *, rows: int, slots: int) -> str:
    """A statement in words.

    Args:
        attribute: what it is about.
        name: one of ``STATEMENTS``.
        rows: 1 or 2, how many rows are shown.
        slots: places in a panel (or part); with more than one, panels may hold objects that differ.
    """
    if name == "none":
        return "There is no clear rule."
    if attribute == "position":
        return _position_statement(name, rows)
    if attribute == "number":
        subject = "The number of objects"
    else:
        subject = f"The {attribute}" if slots == 1 else f"The {attribute} that all objects of a panel share"
    if name in STEPS:
        up, down, unit = _STEP[attribute]
        words = (up if STEPS[name] > 0 else down).format(n=_amount(STEPS[name], unit))
        return f"{subject} {words} from panel to panel."
    if name == "three":
        return f"{subject} takes {'three different values' if rows == 1 else _AGAIN.format('values')}."
    if name == "constant":
        return _constant_statement(attribute, rows, mixed=slots > 1 and attribute != "number")
    sign = "plus" if name == "sum" else "minus"
    counted = subject if attribute == "number" else f"By number, {subject[0].lower()}{subject[1:]}"
    return f"{counted} is, in the third panel, that of the first {sign} that of the second."


def _amount(step: int, unit: str) -> str:
    return f"one{unit}" if abs(step) == 1 else f"two{unit}s" if unit else "two"


def _constant_statement(attribute: QuestionAttribute, rows: int, *, mixed: bool) -> str:
    row = "the row" if rows == 1 else "each row"
    if not mixed:
        return f"{WHAT[attribute].capitalize()} stays the same throughout {row}."
    return (
        f"The {attribute} stays the same: all objects of {row} share one {attribute}, or each {attribute} occurs equally often "
        "in all its panels."
    )


def _position_statement(name: str, rows: int) -> str:
    if name in STEPS:
        way = "on" if STEPS[name] > 0 else "back"
        return f"Every object moves {way} by {_amount(STEPS[name], ' place')} from panel to panel."
    if name == "sum":
        return "The places occupied in the third panel are those occupied in the first panel, the second or both."
    if name == "difference":
        return "The places occupied in the third panel are those occupied in the first panel but not in the second."
    if name == "three":
        three = "three different arrangements" if rows == 1 else _AGAIN.format("arrangements")
        return f"The occupied places form {three}."
    return f"The occupied places stay the same throughout {'the row' if rows == 1 else 'each row'}."
