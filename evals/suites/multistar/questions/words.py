"""The names of places and parts, and the sentences that say what a panel's parts are."""

from __future__ import annotations

from envs.raven import Configuration
from envs.raven.places import NINE, PLACES
from evals.suites.multistar.questions.question import Part

OUTER = "outer part"

PARTS: dict[str, tuple[tuple[Part | None, int], ...]] = {
    "Singleton": ((None, 0),),
    "Left_Right": (("left", 0), ("right", 1)),
    "Up_Down": (("top", 0), ("bottom", 1)),
    "Out_In": (("in", 1), ("out", 0)),
}
"""By structure, the parts in asking order, each with the index of its component."""

PART_WORD: dict[Part | None, str] = {
    "left": "left part",
    "right": "right part",
    "top": "top part",
    "bottom": "bottom part",
    "in": "inner part",
    "out": "outer part",
}

SETTINGS: dict[str, str] = {
    "Singleton": "",
    "Left_Right": "A vertical line divides every panel into a left part and a right part; there are objects in both.",
    "Up_Down": "A horizontal line divides every panel into a top part and a bottom part; there are objects in both.",
    "Out_In": "Every panel has an outer part, which is one large object, and an inner part, which is what is inside it.",
}


def located(place: str) -> str:
    """Where something is, in words: "in the left part", "in the top-left position of the inner part"."""
    if place in PART_WORD.values():
        return f"in the {place}"
    corner, _, part = place.partition(" of ")
    position = f"in the {corner} position"
    return f"{position} of {part}" if part else position


def places(configuration: Configuration) -> tuple[str, ...]:
    """The names of all places in a panel; for Center also those where nothing ever stands."""
    if configuration.name == "center_single":
        return NINE
    return tuple(name for layout in configuration.layouts for name in PLACES[layout.name])


def suffix(part: Part | None) -> str:
    """What a node's name ends in."""
    return f"_{part}" if part else ""
