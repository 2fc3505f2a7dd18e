"""Digits, slot letters and roman numerals as strokes.

Sixteen signs are all the text that a frame ever shows. Drawing them ourselves keeps every pixel independent of the
fonts of a machine and of the version of a font library, and lets the digits differ where it matters at 32-pixel cells
(a flat-topped 3 beside the 8, an open 6 and 9, a footed 1).
"""

from __future__ import annotations

from typing import Final

from envs.kidgym.catalog import ROMAN

STROKES: Final[dict[str, str]] = {
    "0": "M5 1C8 1 9 4 9 7C9 10 8 13 5 13C2 13 1 10 1 7C1 4 2 1 5 1Z",
    "1": "M1.8 4L5.4 1L5.4 13M2 13L8.6 13",
    "2": "M1.3 4.2C1.6 2 3.2 1 5 1C7.4 1 8.8 2.5 8.8 4.4C8.8 7.4 4.4 9.4 1.3 13L9 13",
    "3": "M1.5 1L8.6 1L4.8 5.6C7.6 5.6 9 7.2 9 9.2C9 11.6 7.3 13 4.9 13C3.2 13 1.8 12.4 1 11",
    "4": "M6.6 13L6.6 1L1 9.6L9.4 9.6",
    "5": "M8.4 1L2.4 1L1.8 6.4C2.8 5.7 3.8 5.4 4.9 5.4C7.4 5.4 9 7 9 9.2C9 11.5 7.3 13 4.9 13C3.2 13 1.8 12.4 1 11.2",
    "6": "M7.8 1C4 2.2 1.2 5.4 1.2 9C1.2 11.4 2.8 13 5.1 13C7.4 13 9 11.4 9 9.2C9 7 7.4 5.5 5.2 5.5C3.4 5.5 1.9 6.6 1.3 8.2",
    "7": "M1 1L9 1L4 13",
    "8": "M5 6.6C2.9 6.6 1.8 5.4 1.8 3.9C1.8 2.2 3.1 1 5 1C6.9 1 8.2 2.2 8.2 3.9C8.2 5.4 7.1 6.6 5 6.6"
    "C2.5 6.6 1 8 1 9.8C1 11.7 2.6 13 5 13C7.4 13 9 11.7 9 9.8C9 8 7.5 6.6 5 6.6Z",
    "9": "M2.2 13C6 11.8 8.8 8.6 8.8 5C8.8 2.6 7.2 1 4.9 1C2.6 1 1 2.6 1 4.8C1 7 2.6 8.5 4.8 8.5C6.6 8.5 8.1 7.4 8.7 5.8",
    "A": "M0.8 13L5 1L9.2 13M2.4 9L7.6 9",
    "B": "M1.6 1L1.6 13L5.4 13C7.6 13 9 11.8 9 9.9C9 8 7.6 6.7 5.4 6.7L1.6 6.7"
    "M1.6 1L5 1C7 1 8.2 2.1 8.2 3.8C8.2 5.6 7 6.7 5 6.7",
    "C": "M8.8 3.6C8 2 6.7 1 5.1 1C2.6 1 1 3.4 1 7C1 10.6 2.6 13 5.1 13C6.7 13 8 12 8.8 10.4",
    "D": "M1.4 1L4.4 1C7.4 1 9 3.4 9 7C9 10.6 7.4 13 4.4 13L1.4 13Z",
    "I": "M2 1L2 13M0 1L4 1M0 13L4 13",
    "V": "M0.5 1L4.5 13L8.5 1",
}
"""Pen strokes of each sign in a box 14 units high; see ``ADVANCE`` for the widths."""

HEIGHT: Final = 14.0
ADVANCE: Final[dict[str, float]] = {"I": 5.0, "V": 9.5}
"""Distance to the next sign where it is not 10.5 units."""


def width(text: str) -> float:
    """Width of a line of signs, in the units of a sign's height."""
    return sum(ADVANCE.get(sign, 10.5) for sign in text) - 0.5


def line(text: str, center: tuple[float, float], height: float, pen: float, color: str) -> str:
    """An SVG group that writes ``text`` centered at a point.

    Args:
        text: Signs of ``STROKES``.
        center: x and y of the text's middle, in the units of the surrounding drawing.
        height: Height of the signs in those units.
        pen: Thickness of the strokes in fourteenths of the height.
        color: Any SVG color.

    Raises:
        ValueError: a sign that we cannot draw.
    """
    unknown = sorted(set(text) - STROKES.keys())
    if unknown:
        raise ValueError(f"label {text!r} contains {', '.join(map(repr, unknown))}; signs are {' '.join(STROKES)}")
    scale, x, paths = height / HEIGHT, 0.0, []
    for sign in text:
        paths.append(f'<path d="{STROKES[sign]}" transform="translate({x} 0)"/>')
        x += ADVANCE.get(sign, 10.5)
    left, top = center[0] - scale * width(text) / 2, center[1] - height / 2
    return (
        f'<g fill="none" stroke="{color}" stroke-width="{pen}" stroke-linecap="round" stroke-linejoin="round"'
        f' transform="translate({left} {top}) scale({scale})">{"".join(paths)}</g>'
    )


PLATE_TOP: Final = 43
"""Upper edge of a label's plate in a cell that is 64 units high."""


def label(text: str) -> str:
    """A drawing of a cell, 64 units wide, that is empty but for the label on its plate at the bottom center."""
    half = max(11.0, width(text) * 0.55 + 5)
    plate = (
        f'<rect x="{32 - half}" y="{PLATE_TOP}" width="{2 * half}" height="19.500" rx="5" fill="#fff" stroke="#1a1a1a"'
        ' stroke-width="1.500"/>'
    )
    return _cell(plate + line(text, (32, PLATE_TOP + 9.75), 14, 2.3, "#101010"))


def marker(number: int) -> str:
    """A drawing of a position marker: a roman numeral, 1 to 8, in a circle."""
    numeral = ROMAN[number - 1]
    height = min(28.0, 44 * 14 / width(numeral))
    circle = '<circle cx="32" cy="32" r="28.500" fill="#fff" stroke="#27408b" stroke-width="3.500"/>'
    return _cell(circle + line(numeral, (32, 32), height, 2.0, "#1b2f6b"))


def _cell(content: str) -> str:
    return f'<svg viewBox="0 0 64 64" xmlns="http://www.w3.org/2000/svg">{content}</svg>'
