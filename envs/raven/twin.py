"""RAVEN panels told in words: where objects are, and how they look, as a careful person would read it off the picture.

Objects are named in the order of their places, never in the order in which they were made, and what a drawing does not show is
not told: how far a circle is turned, or which of two sizes it is where the published drawing has the same pixels for both.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from envs.picture import Detail
from envs.raven.grammar import ANGLE_VALUES, SIZE_VALUES, TYPE_VALUES, Layout
from envs.raven.places import PLACES
from envs.raven.scene import Entity, Panel, Problem

VERSION: Final = 1
"""Raised whenever the same picture would be told in other words."""

LEGEND: Final = (
    "Sizes count from 1 (smallest) to 6 (largest) within a part of a panel; the radius, in percent of the panel's width, "
    "can be compared between parts. Shades count from 0 (white) to 9 (black). Turns are in degrees counterclockwise."
)
"""What a reader has to be told beforehand."""

SAME_AFTER: Final = {"triangle": 360, "square": 90, "pentagon": 360, "hexagon": 60, "circle": 1}
"""Degrees after which a turned shape looks as before, as far as angles of 45 degrees tell."""
PART_NAMES: Final = {
    "Grid": "",
    "Left": "left part",
    "Right": "right part",
    "Up": "top part",
    "Down": "bottom part",
    "Out": "outer part",
    "In": "inner part",
}
LINES: Final = {"Left_Right": "vertical", "Up_Down": "horizontal"}
"""By structure, the line that divides every panel."""

_INNER_GRID, _SQUARE, _TWIN_SIZES = "In_Distribute_Four", 2, (2, 3)
"""Squares of these two sizes have the same pixels in the published drawing of the inner grid."""


@dataclass(frozen=True)
class Look:
    """How one object looks."""

    shape: str
    size: int
    """1 (smallest) to 6, within its part."""
    radius: float
    """From its center to its outermost point, in percent of the panel's width; comparable between parts."""
    shade: int
    """0 (white) to 9 (black)."""
    turned: int
    """Degrees counterclockwise from upright."""


@dataclass(frozen=True)
class Place:
    """One place of a panel, with the object in it if there is one."""

    part: str
    """Empty where a panel is not divided."""
    name: str
    row: float
    """Of its center, as a fraction of the panel: places of one row stand side by side."""
    look: Look | None


def twin(problem: Problem, arrangement: str, panels: Sequence[int], detail: Detail) -> str:
    """The panels of a picture in words, without a line break at its end.

    Args:
        problem: What is drawn.
        arrangement: ``panels``, ``rows`` or ``puzzle``, as in ``envs.raven.RavenPicture``.
        panels: Which of the sixteen are shown, from 0; the puzzle shows all.
        detail: Of the words.
    """
    whole = arrangement == "puzzle"
    places = [_places(problem, panel) for panel in problem.panels]
    shown = range(16) if whole else panels
    titles = _titles(arrangement, len(shown))
    told: list[tuple[str, list[Place]]] = []
    for title, panel in zip(titles, shown, strict=True):
        told.append((title, places[panel]))
    line = LINES.get(problem.configuration.structure, "")
    if detail == "json":
        return _json(told, line, whole)
    tell: Callable[[Sequence[Place]], str] = _grid if detail == "grid" else _prose
    blocks = []
    if line:
        blocks.append(f"A {line} line divides every panel.")
    # The ninth place of the matrix is what is asked for.
    if whole:
        told.insert(8, ("Row 3, column 3 of the matrix", []))
    for title, objects in told:
        blocks.append(f"{title}:{tell(objects)}")
    return "\n".join(blocks)


def _titles(arrangement: str, count: int) -> list[str]:
    """What the shown panels are called, in their order."""
    cells = [f"Row {row}, column {column}" for row in (1, 2, 3) for column in (1, 2, 3)]
    if arrangement == "rows":
        return cells[:count]
    if arrangement == "puzzle":
        matrix = [f"{cell} of the matrix" for cell in cells[:8]]
        answers = [f"Answer {number}" for number in range(1, 9)]
        return matrix + answers
    return ["Panel"] if count == 1 else ["Left panel", "Right panel"]


def _places(problem: Problem, panel: Panel) -> list[Place]:
    """All places of a panel, part by part and in reading order within each."""
    official = problem.source.render == "official"
    found = []
    for layout, component in zip(problem.configuration.layouts, panel.components, strict=True):
        part = PART_NAMES[layout.component]
        looks = {entity.slot: _look(layout, entity, official) for entity in component.entities}
        for slot, name in enumerate(PLACES[layout.name]):
            row = layout.slots[slot][0]
            found.append(Place(part, name, row, looks.get(slot)))
    return found


def _look(layout: Layout, entity: Entity, official: bool) -> Look:
    shape, size = TYPE_VALUES[entity.type], entity.size
    in_question = layout.name == _INNER_GRID and entity.type == _SQUARE
    if official and in_question and size in _TWIN_SIZES:
        size = _TWIN_SIZES[0]
    radius = round(100 * layout.extent * SIZE_VALUES[size] / 2, 2)
    turned = ANGLE_VALUES[entity.angle] % SAME_AFTER[shape]
    return Look(shape, size + 1, radius, entity.color, turned)


# --- as a grid -------------------------------------------------------------------------------------------------------


def _grid(panel: Sequence[Place]) -> str:
    """One line for each row of places; a part that is divided has its name before each of them."""
    if not panel:
        return " ?"
    lines = []
    for (part, _), row in itertools.groupby(panel, key=lambda place: (place.part, place.row)):
        cells = " | ".join("-" if place.look is None else _short(place.look) for place in row)
        lines.append(f"{part}: {cells}" if part else cells)
    return "\n  " + "\n  ".join(lines)


def _short(look: Look) -> str:
    turned = f", turned {look.turned}" if look.turned else ""
    return f"{look.shape}, size {look.size} (radius {look.radius:g}%), shade {look.shade}{turned}"


# --- in sentences ----------------------------------------------------------------------------------------------------


def _prose(panel: Sequence[Place]) -> str:
    if not panel:
        return " a question mark."
    objects = [f"{place.name}: {_long(place.look)}" for place in panel if place.look is not None]
    return f" {'; '.join(objects)}."


def _long(look: Look) -> str:
    turned = f", turned by {look.turned} degrees counterclockwise" if look.turned else ""
    return f"a {look.shape} of size {look.size} (radius {look.radius:g} percent of the panel) in shade {look.shade}{turned}"


# --- as JSON ---------------------------------------------------------------------------------------------------------


def _json(told: Sequence[tuple[str, Sequence[Place]]], line: str, puzzle: bool) -> str:
    panels = [{"panel": title, "objects": _objects(places)} for title, places in told]
    fields: dict[str, Any] = {"dividing_line": line} if line else {}
    if puzzle:
        missing = {"panel": "Row 3, column 3 of the matrix", "objects": "?"}
        return json.dumps({**fields, "matrix": [*panels[:8], missing], "answers": panels[8:]})
    return json.dumps({**fields, "panels": panels})


def _objects(places: Sequence[Place]) -> list[dict[str, Any]]:
    return [{"place": place.name, **vars(place.look)} for place in places if place.look is not None]
