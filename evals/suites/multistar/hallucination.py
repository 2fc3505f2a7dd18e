"""Objects that a reply says are in the picture and that are not there: a kind of error (appendix A.9).

A reply is taken at its word only where it plainly tells what it sees: "two triangles", "a black square". Sentences that deny,
weigh, or speak of options and rules tell nothing, and neither do shapes that the question itself names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from envs.raven import Panel, RavenPicture, load
from evals.suites.multistar.questions import Question
from evals.suites.multistar.questions.singles import SHAPES

FOREIGN: Final = ("star", "heart", "crescent", "heptagon", "octagon", "trapezoid", "parallelogram")
"""Shapes that no picture has. Others (a rectangle, a diamond, an oval) may be words for a frame, a turned square, a circle."""

_AMOUNT = "an? one two three four five six seven eight nine several some [1-9]"
_LOOKS = (
    "small large big tiny medium huge smaller larger black white gr[ae]y dark light filled solid empty outlined shaded"
)
_OTHER_USE = (
    "shape panel grid box frame cell matrix border outline background pattern arrangement area region part of free"
)
_FRAMES = "panel image picture drawing border boundary frame outline background grid canvas"
_TELLING_NOTHING = """
    no not none neither nor without never missing absent lacks? instead rather if would could might may maybe perhaps should
    must has\\sto have\\sto supposes? assumes? says? asks? question options? choices? choose answers? candidates? statements?
    rules? order edges? sides corners tips vertices or whether which unless except like expect(?:ed)? form(?:s|ing)? arranged
    needs? needed between from becomes? turns? than same completes? panels?\\s\\#?[1-9]
"""
"""A panel with a number is one to choose from, as a rule."""
_CORRECTING = re.compile(r"\b(?:wait|actually|again|at first|on closer|correction|mistake|hmm|sorry)\b")
"""A reply that corrects itself says more than it means."""


def _one_of(words: str) -> str:
    return f"(?:{'|'.join(words.split())})"


_NAMED = re.compile(
    rf"\b{_one_of(_AMOUNT)}\s+(?:{_one_of(_LOOKS)}[\s,-]+)*(?P<shape>{'|'.join((*SHAPES, *FOREIGN))})s?\b"
    rf"(?![\s-]*{_one_of(_OTHER_USE)}\b)"
)
_TELLS_NOTHING = re.compile(rf"\b{_one_of(_TELLING_NOTHING)}\b|n['’]t\b|\?")
_SENTENCE = re.compile(r"[.!;\n]+\s*|(?<=\?)\s+")
_FRAME_IS = re.compile(rf"\b{_one_of(_FRAMES)}s?\s+(?:is|are)\s+$")
_AS_A_FRAME = re.compile(
    r"[\s,]*(?:(?:that|which|and)\s+)?(?:(?:is|are)\s+)?"
    r"(?:(?:sub)?divided|split|partitioned|contain(?:s|ing)|hold(?:s|ing)|enclos(?:es|ing)|surround(?:s|ing)|inside|within)\b"
    r"|[\s,]*with\b.*\b(?:in|inside|within)\s+it\b"
)


def shapes_told(reply: str) -> list[str]:
    """The shapes that a reply plainly says to be in the picture, each once."""
    found: dict[str, None] = {}
    said = "" if _CORRECTING.search(reply.lower()) else reply.lower()
    sentences = _SENTENCE.split(said)
    for sentence, following in zip(sentences, [*sentences[1:], ""], strict=True):
        if _TELLS_NOTHING.search(sentence):
            continue
        for match in _NAMED.finditer(sentence):
            before, behind = sentence[: match.start()], sentence[match.end() :] or following
            if match["shape"] != "square" or not _is_frame(before, behind):
                found[match["shape"]] = None
    return [*found]


def _is_frame(before: str, behind: str) -> bool:
    """Whether a square between these words is what a panel is, or what is divided or holds the objects."""
    return bool(_FRAME_IS.search(before) or _AS_A_FRAME.match(behind))


def shapes_shown(question: Question) -> frozenset[str] | None:
    """The shapes in the picture; None where it is a stored one that nobody has described."""
    picture = question.picture
    if not isinstance(picture, RavenPicture):
        return None
    problem = load(picture.source)
    panels = (*problem.context, *problem.candidates)
    if picture.arrangement != "puzzle":
        panels = tuple(panels[number] for number in picture.panels)
    found: set[str] = set()
    for panel in panels:
        found |= _shapes_in(panel)
    return frozenset(found)


def _shapes_in(panel: Panel) -> set[str]:
    found = set()
    for component in panel.components:
        for entity in component.entities:
            found.add(SHAPES[entity.type - 1])
    return found


def absent(reply: str, question: Question) -> list[str]:
    """The shapes that a reply says to be in the question's picture and that are not, nor named by the question."""
    shown = shapes_shown(question)
    if shown is None:
        return []
    asked = " ".join((question.text, *question.options)).lower()
    foreign = [shape for shape in shapes_told(reply) if shape not in shown]
    return [shape for shape in foreign if shape not in asked]


def nodes_with_absent(questions: Iterable[Question], row: Mapping[str, Any]) -> Iterator[str]:
    """The nodes of an episode whose replies name what is not there.

    Args:
        questions: What the episode asked.
        row: Of the ledger, with ``nodes`` and ``turns``.
    """
    asked = {question.node: question for question in questions}
    for node in row["nodes"] or ():
        reply = row["turns"][node["turn"]]["reply"]
        if node["node"] in asked and absent(reply, asked[node["node"]]):
            yield node["node"]
