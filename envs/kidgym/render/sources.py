"""Where each built-in drawing comes from: OpenMoji's colour drawings, or our own.

The OpenMoji drawings (openmoji.org, licence CC BY-SA 4.0) are data files of the package ``emosvg``; we only read its
files, because importing it would need the cairo library.
"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from string import Template
from typing import Final

from envs.kidgym.render import glyphs

OPENMOJI: Final[dict[str, str]] = {
    "animal/cat": "1F431", "animal/chick": "1F425", "animal/cow": "1F42E", "animal/dog": "1F436",
    "animal/elephant": "1F418", "animal/fish": "1F420", "animal/giraffe": "1F992", "animal/horse": "1F434",
    "animal/monkey": "1F435", "animal/mouse": "1F42D", "animal/pig": "1F437", "animal/rabbit": "1F430",
    "animal/sheep": "1F411", "animal/snail": "1F40C", "animal/tortoise": "1F422",
    "fruit/apple": "1F34E", "fruit/banana": "1F34C", "fruit/cherry": "1F352", "fruit/grape": "1F347",
    "fruit/kiwifruit": "1F95D", "fruit/lemon": "1F34B", "fruit/orange": "1F34A", "fruit/peach": "1F351",
    "fruit/pineapple": "1F34D", "fruit/strawberry": "1F353", "fruit/watermelon": "1F349",
    "food/cake": "1F370", "food/chicken_leg": "1F357", "food/egg": "1F95A", "food/hamburger": "1F354",
    "food/hotdog": "1F32D", "food/pizza": "1F355", "food/sandwich": "1F96A", "food/sushi": "1F363",
    "toy/badminton": "1F3F8", "toy/balloon": "1F388", "toy/basketball": "1F3C0",
    "toy/football": "26BD", "toy/kite": "1FA81", "toy/toy_bear": "1F9F8", "toy/toy_car": "1F697",
    "toy/toy_plane": "1F6E9", "toy/toy_train": "1F682", "toy/yo_yo": "1FA80",
    "diamond": "1F48E",
}  # fmt: skip
"""Sprites that are OpenMoji drawings, by code point; add a line here to give the built-in skin another item."""

COLOURS: Final[dict[str, dict[str, str]]] = {
    "blue": {"main": "#2b62cf", "shade": "#163a86", "light": "#7fa6f0"},
    "green": {"main": "#5cc04c", "shade": "#2c7a24", "light": "#b4e6a4"},
    "red": {"main": "#d8262c", "shade": "#8c1117", "light": "#f08a84"},
    "yellow": {"main": "#ffd21f", "shade": "#b98600", "light": "#fff0a0"},
}
"""Hues of baskets, keys and doors. Their lightness differs too (blue < red < green < yellow), for colour-blind readers."""

TILE_TURNS: Final = {"1": "0", "2": "90", "3": "270", "4": "180"}
"""Degrees clockwise that bring the tile's right angle from the upper left into each corner."""

_DRAWINGS = Path(__file__).parent / "drawings"


def builtin(name: str) -> str:
    """SVG text of a built-in drawing.

    Raises:
        KeyError: there is no such drawing (quarters and piles are made of other sprites).
        RuntimeError: the package with the OpenMoji drawings is not installed.
    """
    family, _, member = name.partition("/")
    if name in OPENMOJI:
        return _openmoji(OPENMOJI[name])
    if family in ("basket", "key", "door") and member in COLOURS:
        return Template(_own(family)).substitute(COLOURS[member])
    if family == "tile" and member in TILE_TURNS:
        return Template(_own("tile")).substitute(turn=TILE_TURNS[member])
    if family == "roman" and member in "12345678":
        return glyphs.marker(int(member))
    if name == "agent/left":
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
        raise RuntimeError("KidGym's drawings are data files of the package 'emosvg': pip install emosvg")
    return Path(spec.submodule_search_locations[0]) / "resources" / "openmoji-svg-color"


def _openmoji(code: str) -> str:
    for stem in (code, f"{code}-FE0F"):
        path = _openmoji_folder() / f"{stem}.svg"
        if path.is_file():
            return path.read_text()
    raise RuntimeError(f"OpenMoji drawing {code} is missing in {_openmoji_folder()}: reinstall the package 'emosvg'")
