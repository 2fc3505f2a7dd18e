"""Questions that compare: two objects of a panel, all objects of a panel, or two panels."""

from __future__ import annotations

import random

from evals.multistar.questions.question import QuestionAttribute, offered
from evals.multistar.questions.scene import Object, Objects, alike
from evals.multistar.questions.singles import Draft

COMPARED: dict[QuestionAttribute, tuple[str, str, str]] = {
    "number": ("as many objects", "more objects", "fewer objects"),
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

LOOK = {"shape": "the number of edges", "size": "size", "color": "color"}
_COMPARABLE = " (They are comparable only if, in each of the two panels, these objects have one {attribute}.)"

_OBJECTS = (
    "Compare the object in the {one} with the object in the {other} by {look}. What does the former have?",
    "Seen beside the object in the {other}, what does the object in the {one} have?",
    "By {look}, how does the object in the {one} compare with the object in the {other}? It has ...",
    "As regards {look}, what does the object in the {one} have when set beside the object in the {other}?",
)
_ALIKE = {
    "shape": (
        "Do all objects in this panel have the same shape?",
        "Are the objects in this panel all of one shape?",
        "Is there only one kind of shape in this panel?",
        "Is every object in this panel of the same shape as all others?",
    ),
    "size": (
        "Do all objects in this panel have the same size?",
        "Are the objects in this panel all of one size?",
        "Is there only one size among the objects in this panel?",
        "Is every object in this panel as large as all others?",
    ),
    "color": (
        "Do all objects in this panel have the same color?",
        "Are the objects in this panel all of one color?",
        "Is there only one color among the objects in this panel?",
        "Is every object in this panel of the same shade as all others?",
    ),
}
_RELATION = (
    "Seen from the {other}, where is the {one}?",
    "Where does the {one} stand in relation to the {other}?",
    "How is the {one} placed relative to the {other}?",
    "Take the {other} as the point of reference. Where is the {one}?",
)
_PANELS_NUMBER = (
    "What does {one} have, compared with {other}?",
    "Count the objects in both panels. Compared with {other}, what does {one} hold?",
    "Next to {other}, how many objects does {one} have?",
    "Take the number of objects in {other} as the measure. What does {one} have?",
)
_PANELS = (
    "By {look}, how do the objects in {one} compare with those in {other}? They have ...",
    "Compare the objects in {one} with the objects in {other} by {look}. What do the former have?",
    "Seen beside the objects in {other}, what do the objects in {one} have?",
    "As regards {look}, what do the objects in {one} have when set beside the objects in {other}?",
)
_PANELS_POSITION = (
    "Do the objects in {one} stand in the same places as those in {other}?",
    "Are exactly the same places occupied in {one} and in {other}?",
    "Is every place that is occupied in {one} occupied in {other} too, and the other way round?",
    "Do the occupied places of {one} agree with those of {other}?",
)

DIRECTIONS: dict[tuple[int, int], str] = {
    (0, -1): "straight to the left of it",
    (0, 1): "straight to the right of it",
    (-1, 0): "straight above it",
    (1, 0): "straight below it",
    (-1, -1): "above it and to the left",
    (-1, 1): "above it and to the right",
    (1, -1): "below it and to the left",
    (1, 1): "below it and to the right",
}
"""By the signs of the row and column differences."""
INSIDE, AROUND = "inside it", "all around it"
RELATIONS = (*DIRECTIONS.values(), INSIDE, AROUND)


def _sign(difference: float) -> int:
    return (difference > 0) - (difference < 0)


def compare(rng: random.Random, attribute: QuestionAttribute, one: Object, other: Object) -> Draft:
    """What one object has beside another of the same panel: the same, more or less."""
    outcomes = COMPARED[attribute]
    truth = outcomes[_sign(one.look(attribute) - other.look(attribute))]
    text = rng.choice(_OBJECTS).format(one=one.place, other=other.place, look=LOOK[attribute]) + NOTES[attribute]
    return Draft(text, *offered(rng, truth, [outcome for outcome in outcomes if outcome != truth], 3))


def relation(rng: random.Random, one: str, other: str, found: tuple[Object, Object] | None) -> Draft:
    """Where an object is relative to another, or that one of the two is missing (``found`` None)."""
    text = rng.choice(_RELATION).format(one=one, other=other)
    if found is None:
        return Draft(text, *offered(rng, MISSING, RELATIONS, 4))
    true = relations(*found)
    others = rng.sample([relation for relation in RELATIONS if relation not in true], 2)
    return Draft(text, *offered(rng, true[0], [*others, MISSING], 4))


def relations(one: Object, other: Object) -> tuple[str, ...]:
    """All relations that hold, the plainest first.

    Only objects of an outer and an inner part contain one another, and only those of other configurations are told by
    direction alone; an inner object is also, say, below its surroundings' center.
    """
    direction = DIRECTIONS.get((_sign(one.row - other.row), _sign(one.column - other.column)))
    true = [direction] if direction else []
    if one.place == "outer part":
        true.insert(0, AROUND)
    elif other.place == "outer part":
        true.insert(0, INSIDE)
    return tuple(true)


def same_in_panel(rng: random.Random, attribute: QuestionAttribute, objects: Objects) -> Draft:
    """Whether all of several objects are alike."""
    text = rng.choice(_ALIKE[attribute]) + (NOTES[attribute] if attribute == "size" else "")
    truth, other = ("yes", "no") if alike(objects, attribute) else ("no", "yes")
    return Draft(text, *offered(rng, truth, [other], 2))


def compare_numbers(rng: random.Random, one: Objects, other: Objects, areas: tuple[str, str]) -> Draft:
    """Whether an area holds as many, more or fewer objects than another."""
    outcomes = COMPARED["number"]
    truth = outcomes[_sign(len(one) - len(other))]
    text = rng.choice(_PANELS_NUMBER).format(one=areas[0], other=areas[1])
    return Draft(text, *offered(rng, truth, [outcome for outcome in outcomes if outcome != truth], 3))


def compare_positions(rng: random.Random, one: Objects, other: Objects, areas: tuple[str, str]) -> Draft:
    """Whether the same places are occupied in two areas."""
    same = {item.place for item in one} == {item.place for item in other}
    text = rng.choice(_PANELS_POSITION).format(one=areas[0], other=areas[1])
    return Draft(text, *offered(rng, "yes" if same else "no", ["no" if same else "yes"], 2))


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
    return Draft(text, *offered(rng, truth, [outcome for outcome in outcomes if outcome != truth], 4))
