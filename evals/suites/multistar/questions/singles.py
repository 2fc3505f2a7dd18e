"""Questions on one panel that name one thing: a count, a shape, a place; and the chain's on whether objects are alike."""

from __future__ import annotations

import random
from collections.abc import Sequence

from envs.raven import TYPE_VALUES
from evals.suites.multistar.questions.question import Draft, QuestionAttribute
from evals.suites.multistar.questions.scene import Object, Objects, alike
from evals.suites.multistar.questions.words import located

SHAPES = TYPE_VALUES[1:]
ABSENT = "it is not in this panel"

ALIKE: dict[QuestionAttribute, tuple[str, str, str]] = {
    "size": ("several objects of one size", "several objects of different sizes", "only one object"),
    "color": ("several objects of one color", "several objects of different colors", "only one object"),
}

_COUNT = (
    "How many objects are there in {area}?",
    "Count the objects in {area}. How many are there?",
    "What is the number of objects in {area}?",
    "How many objects does {area} contain?",
)
_SHAPE = (
    "What is the shape of the object {place}?",
    "Which shape does the object {place} have?",
    "There is an object {place}. What is its shape?",
    "Name the shape of the object {place}.",
)
_POSITION = (
    "Where in this panel is the {subject}?",
    "In which position is the {subject}?",
    "What is the position of the {subject} in this panel?",
    "Find the {subject} in this panel. Where is it?",
)
_READING = " (Reading order is row by row from the top left.)"
_ALIKE = (
    "Which statement about the {noun} of the objects in {area} is true?",
    "In terms of {noun}, what does {area} contain?",
    "Look at the {noun} of the objects in {area}. Which description is right?",
    "Which description of the {noun} of the objects in {area} fits?",
)


def count(rng: random.Random, objects: Objects, area: str) -> Draft:
    """How many objects; the number among others of 1 to 9."""
    truth = len(objects)
    text = rng.choice(_COUNT).format(area=area)
    return Draft(text, str(truth), tuple(str(n) for n in range(1, 10) if n != truth), 4)


def shape(rng: random.Random, item: Object) -> Draft:
    """The shape of the object in a position, among four of five."""
    text = rng.choice(_SHAPE).format(place=located(item.place))
    untrue = tuple(name for name in SHAPES if name != item.shape_name)
    return Draft(text, item.shape_name, untrue, 4, item.place)


def position(rng: random.Random, subject: str, place: str, names: Sequence[str]) -> Draft:
    """Where an object is, among four positions; an object told by counting gives its position half away."""
    counted = subject.endswith("reading order")
    text = rng.choice(_POSITION).format(subject=subject)
    if counted:
        text += _READING
    untrue = tuple(name for name in names if name != place)
    return Draft(text, place, untrue, 4, subject, hint="counted" if counted else "", counts=not counted)


def position_or_absent(rng: random.Random, subject: str, place: str | None, names: Sequence[str]) -> Draft:
    """Where an object is, or that it is not there (``place`` None): three positions at most and the word for neither."""
    text = rng.choice(_POSITION).format(subject=subject)
    truth = place or ABSENT
    untrue = tuple(name for name in (*names, ABSENT) if name != truth)
    return Draft(text, truth, untrue, min(3, len(names)) + 1, subject, fixed=ABSENT)


def all_alike(rng: random.Random, attribute: QuestionAttribute, objects: Objects, area: str) -> Draft:
    """Several objects alike, several that differ, or only one."""
    one, several, single = ALIKE[attribute]
    truth = one if alike(objects, attribute) else several
    if len(objects) == 1:
        truth = single
    text = rng.choice(_ALIKE).format(area=area, noun=attribute)
    untrue = tuple(answer for answer in (one, several, single) if answer != truth)
    return Draft(text, truth, untrue, 3)
