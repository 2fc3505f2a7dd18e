"""RAVEN's grammar as data: seven configurations, their layouts and slots, and the values behind attribute levels.

Source: Zhang et al., "RAVEN: A Dataset for Relational and Analogical Visual rEasoNing" (CVPR 2019), section 3 (the
attributed stochastic image grammar).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from envs.suggest import did_you_mean

PANEL = 160
"""Width and height of a panel in pixels."""

Slot = tuple[float, float, float, float]
"""Row center, column center, height and width as fractions of the panel."""

Range = tuple[int, int]
"""Lowest and highest level, both included."""

Attribute = Literal["Number", "Position", "Type", "Size", "Color"]
EntityAttribute = Literal["Type", "Size", "Color"]
ENTITY_ATTRIBUTES: tuple[EntityAttribute, ...] = ("Type", "Size", "Color")
ATTRIBUTES: tuple[Attribute, ...] = ("Number", "Position", "Type", "Size", "Color")

TYPE_VALUES = ("none", "triangle", "square", "pentagon", "hexagon", "circle")
SIZE_VALUES = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
COLOR_VALUES = (255, 224, 196, 168, 140, 112, 84, 56, 28, 0)
"""Gray of the fill: 255 is white (drawn as no fill at all), 0 is black."""
ANGLE_VALUES = (-135, -90, -45, 0, 45, 90, 135, 180)
"""Degrees counter-clockwise; pure noise, no rule governs them."""
UNIFORM = 3
"""The one uniformity level (of 0..3) at which all entities of a component are copies of one another."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the entities of one component may stand and which attribute levels they may take."""

    component: str
    name: str
    slots: tuple[Slot, ...]
    number: Range
    """Levels: a level of n means n + 1 entities."""
    type: Range = (1, 5)
    size: Range = (0, 5)
    color: Range = (0, 9)

    def levels(self, attribute: EntityAttribute) -> Range:
        """The range of an entity attribute."""
        return {"Type": self.type, "Size": self.size, "Color": self.color}[attribute]

    @property
    def extent(self) -> float:
        """Width of a slot as a fraction of the panel; all slots of a layout are equally large squares."""
        return self.slots[0][2]


@dataclass(frozen=True, slots=True)
class Configuration:
    """One of the seven figure configurations."""

    name: str
    """As in the official folder names."""
    title: str
    """As in the papers' tables."""
    structure: str
    layouts: tuple[Layout, ...]
    """One per component, in drawing order."""


def _grid(rows: tuple[float, ...], columns: tuple[float, ...], extent: float) -> tuple[Slot, ...]:
    return tuple((row, column, extent, extent) for row in rows for column in columns)


def _single(component: str, name: str, row: float, column: float, extent: float) -> Layout:
    return Layout(component, name, ((row, column, extent, extent),), (0, 0))


_OUT = Layout("Out", "Out_Center_Single", ((0.5, 0.5, 1, 1),), (0, 0), size=(3, 5), color=(0, 0))
_HALVES, _THIRDS, _INNER = (0.25, 0.75), (0.16, 0.5, 0.83), (0.42, 0.58)

CONFIGURATIONS: dict[str, Configuration] = {
    configuration.name: configuration
    for configuration in (
        Configuration("center_single", "Center", "Singleton", (_single("Grid", "Center_Single", 0.5, 0.5, 1),)),
        Configuration(
            "distribute_four",
            "2x2Grid",
            "Singleton",
            (Layout("Grid", "Distribute_Four", _grid(_HALVES, _HALVES, 0.5), (0, 3)),),
        ),
        Configuration(
            "distribute_nine",
            "3x3Grid",
            "Singleton",
            (Layout("Grid", "Distribute_Nine", _grid(_THIRDS, _THIRDS, 0.33), (0, 8)),),
        ),
        Configuration(
            "left_center_single_right_center_single",
            "Left-Right",
            "Left_Right",
            (
                _single("Left", "Left_Center_Single", 0.5, 0.25, 0.5),
                _single("Right", "Right_Center_Single", 0.5, 0.75, 0.5),
            ),
        ),
        Configuration(
            "up_center_single_down_center_single",
            "Up-Down",
            "Up_Down",
            (
                _single("Up", "Up_Center_Single", 0.25, 0.5, 0.5),
                _single("Down", "Down_Center_Single", 0.75, 0.5, 0.5),
            ),
        ),
        Configuration(
            "in_center_single_out_center_single",
            "Out-InCenter",
            "Out_In",
            (_OUT, _single("In", "In_Center_Single", 0.5, 0.5, 0.33)),
        ),
        Configuration(
            "in_distribute_four_out_center_single",
            "Out-InGrid",
            "Out_In",
            (_OUT, Layout("In", "In_Distribute_Four", _grid(_INNER, _INNER, 0.15), (0, 3), size=(2, 5))),
        ),
    )
}


def configuration_named(name: str) -> Configuration:
    """The configuration with this folder name or paper title.

    Raises:
        ValueError: there is none; the message lists those that exist.
    """
    for configuration in CONFIGURATIONS.values():
        if name in (configuration.name, configuration.title):
            return configuration
    known = ", ".join(f"{c.name} ({c.title})" for c in CONFIGURATIONS.values())
    raise ValueError(f"unknown configuration {name!r}: known are {known}{did_you_mean(name, CONFIGURATIONS)}")


def with_values(configuration: Configuration, most: int | None) -> Configuration:
    """The configuration with at most so many values of shape, size and color, the lowest of each; with all for None."""
    if most is None:
        return configuration
    layouts = []
    for layout in configuration.layouts:
        kept = {name: (low, min(high, low + most - 1)) for name, (low, high) in _ranges(layout).items()}
        layouts.append(replace(layout, **kept))  # type: ignore[arg-type]
    return replace(configuration, layouts=tuple(layouts))


def _ranges(layout: Layout) -> dict[str, Range]:
    return {"type": layout.type, "size": layout.size, "color": layout.color}
