"""Questions on one panel that name one thing: a count, a shape, a place; and the chain's on whether objects are alike."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from envs.raven import TYPE_VALUES
from evals.multistar.questions.question import QuestionAttribute, offered
from evals.multistar.questions.scene import Object, Objects, alike

SHAPES = TYPE_VALUES[1:]
ABSENT = "it is not in this panel"

ALIKE: dict[QuestionAttribute, tuple[str, str, str]] = {
    "size": ("several objects of one size", "several objects of different sizes", "only one object"),
    "color": ("several objects of one color", "several objects of different colors", "only one object"),
}

_COUNT = (
    "How many objects are there in {area}?",
    "Count the objects in {area}. What is their number?",
    "What is the number of objects in {area}?",
    "{Area} holds how many objects?",
)
_SHAPE = (
    "What is the shape of the object in the {place}?",
    "Which shape does the object in the {place} have?",
    "An object stands in the {place}. Which shape is it?",
    "Name the shape of the object in the {place}.",
)
_POSITION = (
    "Where in this panel is the {subject}?",
    "In which place does the {subject} stand?",
    "What is the place of the {subject} in this panel?",
    "Find the {subject} in this panel. Where does it stand?",
)
_READING = " (Reading order is row by row from the top-left.)"
_ALIKE = (
    "What is there in {area}?",
    "What does {area} hold?",
    "Look at the {noun} of the objects in {area}. Which is right?",
    "Which description of the objects in {area} fits?",
)


@dataclass(frozen=True, slots=True)
class Draft:
    """Text, options and key of a question, before it is put in its place."""

    text: str
    options: tuple[str, ...]
    key: int
    subject: str = ""


def count(rng: random.Random, objects: Objects, area: str) -> Draft:
    """How many objects; the number and three others of 1 to 9."""
    truth = len(objects)
    text = rng.choice(_COUNT).format(area=area, Area=area[0].upper() + area[1:])
    return Draft(text, *offered(rng, str(truth), [str(n) for n in range(1, 10) if n != truth], 4))


def shape(rng: random.Random, item: Object) -> Draft:
    """The shape of the object in a place, among four of five."""
    text = rng.choice(_SHAPE).format(place=item.place)
    untrue = [name for name in SHAPES if name != item.shape_name]
    return Draft(text, *offered(rng, item.shape_name, untrue, 4), item.place)


def position(rng: random.Random, subject: str, place: str, names: Sequence[str], size: int) -> Draft:
    """Where an object is; ``size`` options."""
    text = rng.choice(_POSITION).format(subject=subject) + (_READING if subject.endswith("reading order") else "")
    return Draft(text, *offered(rng, place, [name for name in names if name != place], size), subject)


def position_or_absent(rng: random.Random, subject: str, place: str | None, names: Sequence[str], size: int) -> Draft:
    """Where an object is, or that it is not there (``place`` None); ``size`` places at most and the word for neither."""
    text = rng.choice(_POSITION).format(subject=subject)
    if place is None:
        return Draft(text, *offered(rng, ABSENT, names, size + 1), subject)
    others = rng.sample([name for name in names if name != place], min(size, len(names)) - 1)
    return Draft(text, *offered(rng, place, [*others, ABSENT], size + 1), subject)


def all_alike(rng: random.Random, attribute: QuestionAttribute, objects: Objects, area: str) -> Draft:
    """Several objects alike, several that differ, or only one."""
    one, several, single = ALIKE[attribute]
    truth = single if len(objects) == 1 else one if alike(objects, attribute) else several
    text = rng.choice(_ALIKE).format(area=area, noun=attribute)
    return Draft(text, *offered(rng, truth, [option for option in (one, several, single) if option != truth], 3))
