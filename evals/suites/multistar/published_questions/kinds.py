"""What a published question asks: its attribute, and the objects, panels and places that its words name.

The files say the stage of a question, in the chain its attribute and part too. Of the direct questions the attribute is told
from the options, since they are the same for every wording, and the part from the order of questions of one kind.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import Final

from envs.raven import Configuration
from evals.suites.multistar.questions.comparisons import COMPARED, NOT_COMPARABLE
from evals.suites.multistar.questions.question import Part, QuestionAttribute, Stage
from evals.suites.multistar.questions.singles import ALIKE, SHAPES
from evals.suites.multistar.questions.words import PARTS

STAGE_OF_FILE: Final[dict[str, Stage]] = {
    "basic": "1P-B",
    "advanced_one_panel": "1P-C",
    "advanced_two_panels": "2P",
    "reasoning_first": "1R",
    "reasoning_second": "2R",
}
"""By the start of the template's file name."""

_PARTS: Final[dict[Part, str]] = {
    "top": r"\b(?:top|upper)\b",
    "bottom": r"\b(?:bottom|lower)\b",
    "in": r"\b(?:inner|interior)\b",
    "out": r"\b(?:outer|exterior)\b",
}
"""How questions name a part; left and right are also what panels are called."""
_SAME, _YES, _NO, _ONLY, _NEITHER = "same", "yes", "no", "only one object", "not comparable"
_OTHER_WORDS: Final = {
    "bigger": "larger",
    "lighter": "brighter",
    "identical": _SAME,
    "outer": "outer part",
    "inner": "inner part",
}
_ASKED: Final[tuple[tuple[str, QuestionAttribute], ...]] = (
    (r"colou?r|dark|bright", "color"),
    (r"size|small|larg|big", "size"),
    (r"position", "position"),
    (r"shape|edge", "shape"),
    (r"number|count|object", "number"),
)
_DIRECTION: Final = r"(?:(?:left|right)(?: and )?)?(?:above|below)|left|right|outside|inside"
_PLACE: Final = re.compile(
    r"\b(?:(?:top|bottom)-(?:left|right) of the inner part|(?:top|middle|bottom)-(?:left|center|right)"
    r"|outer[- ]part|inner[- ]part|center|left|right|top|bottom|down)\b",
    re.IGNORECASE,
)


def plain(option: str) -> str:
    """An option in the words that all wordings share: lower case, no article, one word for each of several synonyms."""
    text = " ".join(option.lower().replace("-", " ").split()).removeprefix("the ").rstrip(".")
    return _OTHER_WORDS.get(text, text)


def attribute_of(text: str, options: Sequence[str]) -> QuestionAttribute:
    """What a direct question is about."""
    words = {plain(option) for option in options}
    attribute = _told_by_options(words)
    if attribute is not None:
        return attribute
    # What there is more of is counted: edges of a shape, or objects.
    if words & {"more", "fewer"}:
        counts_edges = re.search("shape|edge", text, re.IGNORECASE)
        return "shape" if counts_edges else "number"
    # Rules are whole sentences: the attributes that they name count; a rule on the number may name none.
    if any(len(option.split()) > 5 for option in options):
        named = re.findall(r"\b(?:shape|edge|size|colou?r|position)", " ".join(options), re.IGNORECASE)
        return _attribute_named(" ".join(named) or "number")
    # Yes and no fit every attribute: the question itself names it.
    if words <= {_YES, _NO, _ONLY}:
        return _attribute_named(text)
    # What is left are places.
    return "position"


def _told_by_options(words: Set[str]) -> QuestionAttribute | None:
    """The attribute where options are of a kind that tells it by itself."""
    # "3", "4": counts.
    if all(word.isdigit() for word in words):
        return "number"
    if words <= set(SHAPES):
        return "shape"
    # Comparisons offer "same" and the like besides.
    if words & {"larger", "smaller"}:
        return "size"
    if words & {"darker", "brighter"}:
        return "color"
    # "left and above".
    if any(re.fullmatch(_DIRECTION, word) for word in words):
        return "position"
    return None


def _attribute_named(text: str) -> QuestionAttribute:
    """The first attribute of ``_ASKED`` whose words occur in a text."""
    for pattern, attribute in _ASKED:
        if re.search(pattern, text, re.IGNORECASE):
            return attribute
    return "position"


def parts_of(configuration: Configuration) -> tuple[Part, ...]:
    """The parts of a panel in the order in which they are asked about; none where panels have one part."""
    return tuple(part for part, _ in PARTS[configuration.structure] if part is not None)


def part_of(text: str, parts: Sequence[Part], number: int) -> Part:
    """The part that a question names, or, where that cannot be told from its words, the next one in order."""
    told_by_words = [part for part in parts if part in _PARTS]
    named = [part for part in told_by_words if re.search(_PARTS[part], text, re.IGNORECASE)]
    return named[0] if len(named) == 1 else parts[number % len(parts)]


def places_in(text: str) -> list[str]:
    """The places that a text names, in its order."""
    return [plain(found[0]) for found in _PLACE.finditer(text)]


def shapes_in(text: str) -> list[str]:
    """The shapes that a text names, in its order, without those of a note in parentheses."""
    return re.findall("|".join(SHAPES), re.sub(r"\([^)]*\)", "", text.lower()))


def first_panel(text: str, panels: tuple[int, ...]) -> tuple[int, int]:
    """The two panels of a comparison, the one that it is about first; the lower one stands left."""
    found = re.search(r"\b(left|right)(?:-hand)? panel", text, re.IGNORECASE)
    one, other = panels
    return (other, one) if found and found[1].lower() == "right" else (one, other)


def said(stage: Stage, attribute: QuestionAttribute | None, option: str) -> str:
    """An option as earlier answers are told in the chain (``evals.suites.multistar.reformat``)."""
    word = plain(option)
    if stage == "2P":
        if attribute not in COMPARED:
            return word
        same, more, fewer = COMPARED[attribute]
        words = {_SAME: same, "more": more, "larger": more, "darker": more, _NEITHER: NOT_COMPARABLE}
        return words.get(word, fewer)
    if stage == "1P":
        if attribute == "position":
            return place_words(word)
        if attribute not in ALIKE:
            return word
        one, several, single = ALIKE[attribute]
        return {_YES: one, _NO: several}.get(word, single)
    # Rules, and the numbers of panels, are told as they are.
    return option


def place_words(place: str) -> str:
    """A place as our sentences call it."""
    if place in ("left", "right", "top", "bottom"):
        return f"{place} part"
    if place == "down":
        return "bottom part"
    if place == "middle center":
        return "center"
    return re.sub(r"^(top|middle|bottom) ", r"\1-", place)
