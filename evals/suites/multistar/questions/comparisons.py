"""Questions that compare: two objects of a panel, all objects of a panel, or two panels."""

from __future__ import annotations

import random
from collections.abc import Sequence

from evals.suites.multistar.questions.question import Draft, QuestionAttribute
from evals.suites.multistar.questions.scene import Object, Objects, alike
from evals.suites.multistar.questions.words import OUTER, located

COMPARED: dict[QuestionAttribute, tuple[str, str, str]] = {
    "number": ("the same number of objects", "more objects", "fewer objects"),
    "shape": ("the same number of edges", "more edges", "fewer edges"),
    "size": ("the same size", "a larger size", "a smaller size"),
    "color": ("the same color", "a darker color", "a brighter color"),
}
"""Equal, more, less: what the sign 0, 1 or -1 of a difference finds in the tuple."""
NOT_COMPARABLE = "not comparable"
MISSING = "one of the two shapes is not in this panel"

NOTES: dict[QuestionAttribute, str] = {
    "shape": " (Shapes in rising order of edges: triangle, square, pentagon, hexagon, circle.)",
    "size": " (The size of an object is the distance from its center to its outermost point.)",
    "color": "",
}

LOOK = {"shape": "number of edges", "size": "size", "color": "color"}
_COMPARABLE = " (They are comparable only if the objects compared all have the same {attribute} within each panel.)"

_OBJECTS = (
    "In terms of {look}, how does the object {one} compare with the object {other}?",
    "Compare the {look} of the object {one} with that of the object {other}. What does the object {one} have?",
    "How does the {look} of the object {one} compare with that of the object {other}?",
    "Relative to the object {other}, what {look} does the object {one} have?",
)
_ALIKE = (
    "Do all objects in this panel have the same {attribute}?",
    "Are all objects in this panel of one {attribute}?",
    "Is there only one {attribute} among the objects in this panel?",
    "Does every object in this panel have the same {attribute} as the others?",
)
_RELATION = (
    "Seen from the {other}, where is the {one}?",
    "Where is the {one} in relation to the {other}?",
    "How is the {one} placed relative to the {other}?",
    "Take the {other} as the point of reference. Where is the {one}?",
)
_PANELS_NUMBER = (
    "How does the number of objects in {one} compare with the number in {other}?",
    "Count the objects in both panels. Compared with {other}, what does {one} have?",
    "Does {one} have the same number of objects as {other}, more, or fewer?",
    "Compare {one} with {other} by the number of objects. What does {one} have?",
)
_PANELS = (
    "In terms of {look}, how do the objects in {one} compare with those in {other}?",
    "Compare the {look} of the objects in {one} with that of the objects in {other}. What do the objects in {one} have?",
    "How does the {look} of the objects in {one} compare with that of the objects in {other}?",
    "Relative to the objects in {other}, what {look} do the objects in {one} have?",
)
_PANELS_POSITION = (
    "Are the objects in {one} in the same positions as those in {other}?",
    "Are exactly the same positions occupied in {one} and in {other}?",
    "Is every position that is occupied in {one} also occupied in {other}, and vice versa?",
    "Do the occupied positions in {one} match those in {other}?",
)

DIRECTIONS: dict[tuple[int, int], str] = {
    (0, -1): "directly to the left of it",
    (0, 1): "directly to the right of it",
    (-1, 0): "directly above it",
    (1, 0): "directly below it",
    (-1, -1): "above it and to the left",
    (-1, 1): "above it and to the right",
    (1, -1): "below it and to the left",
    (1, 1): "below it and to the right",
}
"""By the signs of the row and column differences."""
INSIDE, AROUND = "inside it", "around it"
RELATIONS = (*DIRECTIONS.values(), INSIDE, AROUND)


def _sign(difference: float) -> int:
    return (difference > 0) - (difference < 0)


def _untrue(outcomes: Sequence[str], truth: str) -> tuple[str, ...]:
    return tuple(outcome for outcome in outcomes if outcome != truth)


def compare(rng: random.Random, attribute: QuestionAttribute, one: Object, other: Object) -> Draft:
    """What one object has beside another of the same panel: the same, more or less."""
    outcomes = COMPARED[attribute]
    truth = outcomes[_sign(one.look(attribute) - other.look(attribute))]
    text = rng.choice(_OBJECTS).format(one=located(one.place), other=located(other.place), look=LOOK[attribute])
    # An outer object is always white, and larger than any inner one, so that the words give its size and color away.
    told = attribute != "shape" and OUTER in (one.place, other.place)
    hint = "outer part" if told else ""
    return Draft(text + NOTES[attribute], truth, _untrue(outcomes, truth), 3, hint=hint, counts=not told)


def relation(rng: random.Random, one: str, other: str, found: tuple[Object, Object] | None) -> Draft:
    """Where an object is relative to another, or that one of the two is missing (``found`` None)."""
    text = rng.choice(_RELATION).format(one=one, other=other)
    true = relations(*found) if found else (MISSING,)
    untrue = tuple(answer for answer in (*RELATIONS, MISSING) if answer not in true)
    return Draft(text, true[0], untrue, 4, fixed=MISSING)


def relations(one: Object, other: Object) -> tuple[str, ...]:
    """All relations that hold, the plainest first.

    Only objects of an outer and an inner part contain one another, and only those of other configurations are told by
    direction alone; an inner object is also, say, below its surroundings' center.
    """
    direction = DIRECTIONS.get((_sign(one.row - other.row), _sign(one.column - other.column)))
    true = [direction] if direction else []
    if one.place == OUTER:
        true.insert(0, AROUND)
    elif other.place == OUTER:
        true.insert(0, INSIDE)
    return tuple(true)


def same_in_panel(rng: random.Random, attribute: QuestionAttribute, objects: Objects) -> Draft:
    """Whether all of several objects are alike."""
    text = rng.choice(_ALIKE).format(attribute=attribute)
    if attribute == "size":
        text += NOTES[attribute]
    truth, other = ("yes", "no") if alike(objects, attribute) else ("no", "yes")
    return Draft(text, truth, (other,), 2)


def compare_numbers(rng: random.Random, one: Objects, other: Objects, areas: tuple[str, str]) -> Draft:
    """Whether an area holds as many, more or fewer objects than another."""
    outcomes = COMPARED["number"]
    truth = outcomes[_sign(len(one) - len(other))]
    text = rng.choice(_PANELS_NUMBER).format(one=areas[0], other=areas[1])
    return Draft(text, truth, _untrue(outcomes, truth), 3)


def compare_positions(rng: random.Random, one: Objects, other: Objects, areas: tuple[str, str]) -> Draft:
    """Whether the same positions are occupied in two areas."""
    same = {item.place for item in one} == {item.place for item in other}
    text = rng.choice(_PANELS_POSITION).format(one=areas[0], other=areas[1])
    truth, untrue = ("yes", "no") if same else ("no", "yes")
    return Draft(text, truth, (untrue,), 2)


def compare_panels(
    rng: random.Random, attribute: QuestionAttribute, one: Objects, other: Objects, areas: tuple[str, str]
) -> Draft:
    """What the objects of an area have beside those of another; not comparable where they differ among themselves."""
    outcomes = (*COMPARED[attribute], NOT_COMPARABLE)
    truth = NOT_COMPARABLE
    if alike(one, attribute) and alike(other, attribute):
        truth = outcomes[_sign(one[0].look(attribute) - other[0].look(attribute)) % 3]
    text = rng.choice(_PANELS).format(one=areas[0], other=areas[1], look=LOOK[attribute])
    text += _COMPARABLE.format(attribute=attribute) + NOTES[attribute]
    return Draft(text, truth, _untrue(outcomes, truth), 4)
