"""Reads RAVEN's text twins back, in all three details, and answers by the rules that the panels obey."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from benchmarks.twin_reader.frames import whole
from benchmarks.twin_reader.worlds import PICTURE
from envs.raven import (
    CONFIGURATIONS,
    SIZE_VALUES,
    TYPE_VALUES,
    Component,
    Configuration,
    Entity,
    Generated,
    Panel,
    Problem,
    solve,
)
from evals.types import LabelScores, Reply, Turn

Object = tuple[str, str, int, float, int]
"""Place, shape, size, radius, shade."""

FOUR = ("top-left", "top-right", "bottom-left", "bottom-right")
NINE = (
    *("top-left", "top-center", "top-right"),
    *("middle-left", "center", "middle-right"),
    *("bottom-left", "bottom-center", "bottom-right"),
)
SLOTS = {
    "Distribute_Four": FOUR,
    "Distribute_Nine": NINE,
    "In_Distribute_Four": tuple(
        f"{each} of the inner part" for each in ("top-left", "top-right", "bottom-left", "bottom-right")
    ),
    "Center_Single": ("center",),
    "Left_Center_Single": ("left part",),
    "Right_Center_Single": ("right part",),
    "Up_Center_Single": ("top part",),
    "Down_Center_Single": ("bottom part",),
    "Out_Center_Single": ("outer part",),
    "In_Center_Single": ("inner part",),
}
_GRID = r"(\w+), size (\d) \(radius ([\d.]+)%\), shade (\d)(?:, turned \d+)?"
_PROSE = (
    r"(.*?): an? (\w+) of size (\d) \(radius ([\d.]+) percent of the panel\) in shade (\d)"
    r"(?:, turned by \d+ degrees counterclockwise)?"
)


class PanelReader:
    """Answers the final question of MultiStAR by reading."""

    async def reply(self, turn: Turn) -> Reply:
        """The label of the candidate that completes most of the rules."""
        text = "".join(part for part in turn.chat[-1].parts if isinstance(part, str))
        label = turn.labels[solve(problem_of(PICTURE.findall(text)[0])).answer]
        logprobs = tuple(0.0 if each == label else -99.0 for each in turn.labels)
        return Reply(label, label_scores=LabelScores(logprobs, 1.0, argmax_is_label=True))


def problem_of(text: str) -> Problem:
    """The sixteen panels that the twin of a puzzle tells of, with no answer and no rules."""
    told = [list(each) for each in _panels(text)]
    configuration = _configuration([thing for panel in told for thing in panel])
    panels = [_panel(configuration, objects) for objects in told]
    assert len(panels) == 16
    return Problem(configuration, tuple(panels[:8]), tuple(panels[8:]), 0, (), "iraven", Generated("", 0))


def _panels(text: str) -> Iterator[list[Object]]:
    if text.startswith("{"):
        told = json.loads(text)
        for panel in (*told["matrix"][:8], *told["answers"]):
            yield [(o["place"], o["shape"], o["size"], o["radius"], o["shade"]) for o in panel["objects"]]
        return
    for block in re.split(r"\n?(?:Row \d, column \d of the matrix|Answer \d):", text)[1:]:
        if block.strip() not in ("?", "a question mark."):
            # Sentences go on behind the title, a grid begins below it.
            yield list(_from_grid(block) if block.startswith("\n") else _from_prose(block))


def _from_grid(block: str) -> Iterator[Object]:
    """Objects by the number of cells in each line; parts stand before their lines."""
    lines = [line.strip() for line in block.strip().splitlines()]
    rows: dict[str, list[str]] = {}
    for line in lines:
        part, colon, cells = line.partition(": ")
        rows.setdefault(part if colon else "", []).extend((cells if colon else line).split(" | "))
    for part, cells in rows.items():
        names = {1: (part or "center",), 4: SLOTS["Distribute_Four"], 9: SLOTS["Distribute_Nine"]}[len(cells)]
        for name, cell in zip(names, cells, strict=True):
            if cell != "-":
                shape, size, radius, shade = whole(_GRID, cell).groups()
                place = f"{name} of the {part}" if part and len(cells) > 1 else name
                yield place, shape, int(size), float(radius), int(shade)


def _from_prose(block: str) -> Iterator[Object]:
    for said in block.strip().removesuffix(".").split("; "):
        place, shape, size, radius, shade = whole(_PROSE, said).groups()
        yield place, shape, int(size), float(radius), int(shade)


def _configuration(objects: Sequence[Object]) -> Configuration:
    """The configuration by the names of places, and by how large its slots are."""
    names = {name for name, *_ in objects}
    extents = {round(2 * radius / 100 / SIZE_VALUES[size - 1], 2) for _, _, size, radius, _ in objects}
    for configuration in CONFIGURATIONS.values():
        known = {name for layout in configuration.layouts for name in SLOTS[layout.name]}
        if names <= known and extents == {layout.extent for layout in configuration.layouts}:
            return configuration
    raise ValueError(f"no configuration has places {names} of sizes {extents}")


def _panel(configuration: Configuration, objects: Sequence[Object]) -> Panel:
    components = []
    for layout in configuration.layouts:
        slots = SLOTS[layout.name]
        entities = [
            Entity(slots.index(name), TYPE_VALUES.index(shape), size - 1, shade, 0)
            for name, shape, size, _, shade in objects
            if name in slots
        ]
        components.append(Component(tuple(entities), 0))
    return Panel(tuple(components))
