"""Words as pixels, the same on every machine: glyphs from an atlas, reduced to size in whole numbers.

The glyphs are DejaVu Sans, drawn once and large (``draw_glyphs``). A line is put together at that size, where advances
are whole pixels, and then reduced by averaging areas. No font library is asked, so that neither its version
nor its hinting can change a picture that a ledger describes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

FOLDER = Path(__file__).with_name("glyphs")
CHARACTERS = "".join(map(chr, range(32, 127)))
"""Printable ASCII."""
EM = 96
"""Pixels of the atlas to one em."""
HEIGHT, BASELINE, PADDING = 120, 92, 12
"""Of the atlas: a line's height, its baseline, and the room beside a glyph that reaches beyond its width."""


@dataclass(frozen=True)
class Typeface:
    """One weight of the atlas."""

    glyphs: Mapping[str, NDArray[np.uint8]]
    """Ink (0 to 255) of each character, ``PADDING`` wider on both sides than its advance."""
    widths: Mapping[str, int]
    """Advances, in pixels of the atlas."""

    def offsets(self, text: str) -> list[int]:
        """Where each character begins, and last where the text ends, in pixels of the atlas."""
        return [0, *accumulate(self.widths[character] for character in text)]


@cache
def typeface(*, bold: bool) -> Typeface:
    """The regular or the bold weight."""
    name = "bold" if bold else "regular"
    widths = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    with Image.open(FOLDER / f"{name}.png") as image:
        ink = np.asarray(image)
    glyphs, left = {}, 0
    for character, width in widths.items():
        glyphs[character] = ink[:, left : left + width + 2 * PADDING]
        left += width + 2 * PADDING
    return Typeface(glyphs, widths)


def line_height(size: int) -> int:
    """Pixels from the top of the tallest glyph to the bottom of the lowest, at a size in pixels to the em."""
    return -(-HEIGHT * size // EM)


def text_width(text: str, size: int, *, bold: bool = False) -> int:
    """Pixels that a line of text takes."""
    return -(-typeface(bold=bold).offsets(text)[-1] * size // EM)


@lru_cache(maxsize=2048)
def set_line(text: str, size: int, *, bold: bool = False) -> NDArray[np.uint8]:
    """A line of text, black on white.

    Args:
        text: Printable ASCII.
        size: Pixels to the em.
        bold: The weight.

    Returns:
        Shape (``line_height``, ``text_width``).
    """
    face = typeface(bold=bold)
    *starts, end = face.offsets(text)
    shape = line_height(size), max(1, text_width(text, size, bold=bold))
    room = [-(-extent * EM // size) + 1 for extent in shape]
    ink = np.zeros((room[0], max(room[1], end) + 2 * PADDING), np.uint8)
    for character, start in zip(text, starts, strict=True):
        glyph = face.glyphs[character]
        area = ink[:HEIGHT, start : start + glyph.shape[1]]
        np.maximum(area, glyph, out=area)
    reduced = _reduced(_reduced(ink[:, PADDING:], shape[1], size).T, shape[0], size).T
    return (255 - (reduced + EM * EM // 2) // (EM * EM)).astype(np.uint8)


def _reduced(ink: NDArray[np.generic], count: int, size: int) -> NDArray[np.int64]:
    """Sums over ``count`` stretches of EM / ``size`` columns each, times ``size``: whole numbers, so exact anywhere."""
    values = ink.astype(np.int64)
    before = np.pad(np.cumsum(values, axis=1), ((0, 0), (1, 0)))
    column, rest = np.divmod(np.arange(count + 1) * EM, size)
    upto = before[:, column] * size + values[:, column] * rest
    return np.diff(upto, axis=1)
