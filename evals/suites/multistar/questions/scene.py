"""What the questions see of a panel: its objects, each with its place, looks and true size."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from envs.raven import SIZE_VALUES, TYPE_VALUES, Problem
from envs.raven.places import PLACES
from evals.suites.multistar.questions.question import QuestionAttribute


@dataclass(frozen=True, slots=True)
class Object:
    """One object of a panel."""

    component: int
    slot: int
    place: str
    row: float
    column: float
    """Its center, as fractions of the panel."""
    shape: int
    size: int
    color: int
    """Levels."""
    radius: float
    """From its center to its outermost point, in panel widths; comparable between parts, as size levels are not."""

    @property
    def shape_name(self) -> str:
        """The shape as a word."""
        return TYPE_VALUES[self.shape]

    def look(self, attribute: QuestionAttribute) -> float:
        """What a comparison compares: the rank in the order of edges, the radius or the shade (0 white to 9 black)."""
        return {"shape": self.shape, "size": self.radius, "color": self.color}[attribute]


Objects = tuple[Object, ...]


Panels = tuple[Objects, ...]
"""The eight context panels."""

_SQUARE, _TWIN_SIZES, _INNER_GRID = 2, (2, 3), "In_Distribute_Four"


def as_drawn(problem: Problem, panels: Panels) -> Panels:
    """The panels with the sizes that their pictures show.

    The published drawing cuts half sides of squares to whole pixels, so that in the inner grid those of two size levels are
    the same pixels; they look like the smaller. Our own drawing tells them apart.
    """
    layouts = problem.configuration.layouts
    if problem.source.render == "own" or layouts[-1].name != _INNER_GRID:
        return panels
    lower, upper = _TWIN_SIZES
    radius = layouts[-1].extent * SIZE_VALUES[lower] / 2
    drawn = []
    for objects in panels:
        seen = []
        for item in objects:
            in_grid = layouts[item.component].name == _INNER_GRID
            if in_grid and (item.shape, item.size) == (_SQUARE, upper):
                item = dataclasses.replace(item, size=lower, radius=radius)
            seen.append(item)
        drawn.append(tuple(seen))
    return tuple(drawn)


def scene(problem: Problem) -> Panels:
    """The objects of the eight context panels, components in order and slots in reading order."""
    layouts = problem.configuration.layouts
    return tuple(
        tuple(
            Object(
                index,
                entity.slot,
                PLACES[layout.name][entity.slot],
                *layout.slots[entity.slot][:2],
                entity.type,
                entity.size,
                entity.color,
                layout.extent * SIZE_VALUES[entity.size] / 2,
            )
            for index, (layout, component) in enumerate(zip(layouts, panel.components, strict=True))
            for entity in sorted(component.entities, key=lambda entity: entity.slot)
        )
        for panel in problem.context
    )


def of_part(objects: Iterable[Object], component: int | None) -> Objects:
    """The objects of one component, or all of them."""
    return tuple(item for item in objects if component is None or item.component == component)


def alike(objects: Objects, attribute: QuestionAttribute) -> bool:
    """Whether all objects look the same in one attribute."""
    return len({item.look(attribute) for item in objects}) == 1


def unique_shapes(objects: Objects) -> Objects:
    """The objects whose shape no other object of the panel has."""
    shapes = [item.shape for item in objects]
    return tuple(item for item in objects if shapes.count(item.shape) == 1)


_EXTREMES = (("largest", "size", 1), ("smallest", "size", -1), ("darkest", "color", 1), ("brightest", "color", -1))
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


def described(item: Object, objects: Objects, whole: str = "") -> str:
    """Words (after "the") that single out one object among all of its panel without telling its place.

    By its shape alone; else by what it excels in among those of its shape; else, where it has a double, by counting.

    Args:
        item: the object.
        objects: all objects of the panel.
        whole: the part within which to count, where not within the panel.
    """
    rivals = [other for other in objects if other.shape == item.shape and other is not item]
    if not rivals:
        return item.shape_name
    for word, attribute, sign in _EXTREMES:
        if all(sign * item.look(attribute) > sign * other.look(attribute) for other in rivals):  # type: ignore[arg-type]
            return f"{word} {item.shape_name}"
    counted = of_part(objects, item.component) if whole else objects
    return f"{_ORDINALS[counted.index(item)]} object{f' of the {whole}' if whole else ''} in reading order"
