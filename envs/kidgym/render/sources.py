"""Where each built-in drawing comes from: OpenMoji's color drawings, or our own.

The OpenMoji drawings (openmoji.org, license CC BY-SA 4.0) are data files of the package ``emosvg``; we only read its
files, because importing it would need the cairo library.
"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from string import Template
from typing import Final

from envs.kidgym.catalog import ROMAN
from envs.kidgym.render import glyphs

OPENMOJI: Final[dict[str, str]] = {
    "animal/cat": "1F408-200D-2B1B", "animal/cow": "1F404", "animal/dog": "1F415", "animal/elephant": "1F418",
    "animal/fish": "1F420", "animal/giraffe": "1F992", "animal/horse": "1F40E", "animal/monkey": "1F412",
    "animal/mouse": "1F401", "animal/pig": "1F416", "animal/rabbit": "1F407", "animal/sheep": "1F411",
    "animal/snail": "1F40C", "animal/tortoise": "1F422",
    "fruit/apple": "1F34E", "fruit/banana": "1F34C", "fruit/cherry": "1F352", "fruit/grape": "1F347",
    "fruit/lemon": "1F34B", "fruit/orange": "1F34A", "fruit/peach": "1F351", "fruit/strawberry": "1F353",
    "fruit/watermelon": "1F349",
    "food/cake": "1F370", "food/chicken_leg": "1F357", "food/hamburger": "1F354", "food/hot_dog": "1F32D",
    "food/pizza": "1F355", "food/sandwich": "1F96A",
    "toy/balloon": "1F388", "toy/basketball": "1F3C0", "toy/soccer_ball": "26BD", "toy/teddy_bear": "1F9F8",
    "toy/toy_car": "1F697", "toy/toy_train": "1F682", "toy/yo_yo": "1FA80",
    "diamond": "1F48E",
}  # fmt: skip
"""Sprites that are OpenMoji drawings, by code point; add a line here to give the built-in skin another item."""

COLORS: Final[dict[str, dict[str, str]]] = {
    "blue": {"main": "#2b62cf", "shade": "#163a86", "light": "#7fa6f0"},
    "green": {"main": "#5cc04c", "shade": "#2c7a24", "light": "#b4e6a4"},
    "red": {"main": "#d8262c", "shade": "#8c1117", "light": "#f08a84"},
    "yellow": {"main": "#ffd21f", "shade": "#b98600", "light": "#fff0a0"},
}
"""Hues of baskets, keys and doors. Their lightness differs too (blue < red < green < yellow), for color-blind readers."""

RECOLORED: Final[dict[str, dict[str, str]]] = {"animal/sheep": {"#fff": "#e2d3b4", "#d0cfce": "#b9a680"}}
"""Colors of OpenMoji drawings that we replace: white wool would hardly show on a pale ground."""

TILE_POINTS: Final = {"1": "0 0L64 0L0 64Z", "2": "0 0L64 0L64 64Z", "3": "0 0L0 64L64 64Z", "4": "64 0L64 64L0 64Z"}
"""Corners of each tile's triangle. Its legs are the cell's edges to the pixel, so that neighbors merge without a seam."""

_MARKERS: Final = tuple(str(number + 1) for number in range(len(ROMAN)))
"""Numbers of the position markers."""

_DRAWINGS = Path(__file__).parent / "drawings"


def builtin(name: str) -> str:
    """SVG text of a built-in drawing.

    Raises:
        KeyError: there is no such drawing (quarters and piles are made of other sprites).
        RuntimeError: the package with the OpenMoji drawings is not installed.
    """
    if name in OPENMOJI:
        return _openmoji(OPENMOJI[name], RECOLORED.get(name, {}))
    # The others are drawings of our own, some of them with gaps to be filled.
    family, _, member = name.partition("/")
    match family:
        case "basket" | "key" | "door" if member in COLORS:
            return Template(_own(family)).substitute(COLORS[member])
        case "tile" if member in TILE_POINTS:
            return Template(_own("tile")).substitute(points=TILE_POINTS[member])
        case "roman" if member in _MARKERS:
            return glyphs.marker(int(member))
        case "agent" if member == "left":
            return _mirrored(_own("agent_right"))
    return _own(name.replace("/", "_"))


def _own(stem: str) -> str:
    path = _DRAWINGS / f"{stem}.svg"
    if not path.is_file():
        raise KeyError(stem)
    return path.read_text()


def _mirrored(svg: str) -> str:
    """A drawing 64 units wide, flipped left to right."""
    return re.sub(
        r"(<svg[^>]*>)(.*)(</svg>)", r'\1<g transform="translate(64 0) scale(-1 1)">\2</g>\3', svg, flags=re.S
    )


@cache
def _openmoji_folder() -> Path:
    spec = importlib.util.find_spec("emosvg")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("KidGym's drawings are data files of the package 'emosvg': pip install 'raycade[kidgym]'")
    return Path(spec.submodule_search_locations[0]) / "resources" / "openmoji-svg-color"


def _openmoji(code: str, recolored: dict[str, str]) -> str:
    """An OpenMoji drawing with some of its colors replaced."""
    for stem in (code, f"{code}-FE0F"):
        path = _openmoji_folder() / f"{stem}.svg"
        if path.is_file():
            svg = path.read_text()
            return re.sub('"(#[0-9a-f]+)"', lambda found: f'"{recolored.get(found[1], found[1])}"', svg)
    raise RuntimeError(f"OpenMoji drawing {code} is missing in {_openmoji_folder()}: reinstall the package 'emosvg'")
