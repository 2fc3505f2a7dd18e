"""Rules in words: what a rule question asks, and the statements among which one is to be found."""

from __future__ import annotations

from evals.suites.multistar.questions.question import QuestionAttribute

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
    "position": " (Positions are counted row by row from the top left; the first follows the last.)",
    "shape": " (Shapes in rising order of edges: triangle, square, pentagon, hexagon, circle.)",
    "color": " (There are ten shades, numbered from 0, white, to 9, black.)",
    "size": " (There are six sizes, numbered from 1, smallest, to 6, largest.)",
}
ONE_ROW = (
    "Read this row of three panels from left to right. Which rule governs {what}{where}?",
    "Which rule describes {what}{where} in this row, read from left to right?",
    "What happens to {what}{where} from the first panel to the third in this row?",
    "From left to right, which statement about {what}{where} is true of this row?",
)
TWO_ROWS = (
    "Read both rows of three panels from left to right. Which rule, the same in both, governs {what}{where}?",
    "Which rule describes {what}{where} in both rows, each read from left to right?",
    "What happens to {what}{where} from the first panel to the third in both rows?",
    "From left to right, which statement about {what}{where} is true of both rows?",
)
_STEP: dict[QuestionAttribute, tuple[str, str, str]] = {
    "number": ("grows by {n}", "shrinks by {n}", ""),
    "shape": ("moves up by {n} in the order of edges", "moves down by {n} in the order of edges", " step"),
    "color": ("gets darker by {n}", "gets brighter by {n}", " shade"),
    "size": ("grows by {n}", "shrinks by {n}", " step"),
}
"""Up, down, and the unit."""
_COUNTED = {"number": "number of objects", "color": "number of the shade", "size": "number of the size"}
"""What is added or taken away."""


def names(attribute: QuestionAttribute, slots: int) -> tuple[str, ...]:
    """The statements that can be made; on four positions a move on by two and one back by two are the same."""
    found = STATEMENTS[attribute]
    if attribute == "position" and slots == 4:
        found = tuple(name for name in found if name != "-2")
    return found


def statement(attribute: QuestionAttribute, name: str, *, rows: int, slots: int) -> str:
    """A statement in words.

    Args:
        attribute: what it is about.
        name: one of ``STATEMENTS``.
        rows: 1 or 2, how many rows are shown.
        slots: positions in a panel (or part); with more than one, panels may hold objects that differ.
    """
    if name == "none":
        return "There is no clear rule."
    if attribute == "position":
        return _position_statement(name, rows)
    shared = slots > 1 and attribute != "number"
    match name:
        case "constant":
            return _constant_statement(attribute, rows, mixed=shared)
        case "sum" | "difference":
            sign = "plus" if name == "sum" else "minus"
            counted = _COUNTED[attribute]
            if shared:
                counted += " that all its objects share"
            return f"In the third panel, the {counted} equals that of the first panel {sign} that of the second."
    subject = "The number of objects" if attribute == "number" else f"The {attribute}"
    if shared:
        subject += " that all objects of a panel share"
    if name in STEPS:
        up, down, unit = _STEP[attribute]
        moves = up if STEPS[name] > 0 else down
        words = moves.format(n=_amount(STEPS[name], unit))
        return f"{subject} {words} from panel to panel."
    return f"{subject} {_three_values(attribute, rows)}"


def _three_values(attribute: QuestionAttribute, rows: int) -> str:
    if rows != 1:
        return "takes the same three different values in both rows, in another order."
    # Shapes have no sums (``STATEMENTS``).
    sums = "" if attribute == "shape" else " and no sum or difference"
    return f"takes three different values, with no steady step of one or two{sums}."


def _amount(step: int, unit: str) -> str:
    if abs(step) == 1:
        return f"one{unit}"
    return f"two{unit}s" if unit else "two"


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
        amount = _amount(STEPS[name], " position")
        return f"Every object moves {way} by {amount} from panel to panel."
    match name, rows:
        case "sum", _:
            return (
                "The positions occupied in the third panel are those occupied in the first panel, the second, or both."
            )
        case "difference", _:
            return (
                "The positions occupied in the third panel are those occupied in the first panel but not in the second."
            )
        case "three", 2:
            return "The occupied positions form the same three different arrangements in both rows, in another order."
        case "three", _:
            return "The occupied positions differ in all three panels, with no steady move, union or difference."
        case _:
            where = "the row" if rows == 1 else "each row"
            return f"The occupied positions stay the same throughout {where}."
