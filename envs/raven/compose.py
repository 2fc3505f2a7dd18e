"""Question images: one panel, some panels side by side, or the whole puzzle, as pictures that travel as descriptions.

Five layouts (MultiStAR's, sizes in pixels): one panel 220x220, two panels 400x220, a row 580x220, two rows 580x400, and the
whole puzzle with numbered candidates 780x1056. Panels stand 20 pixels apart in dashed boxes on white.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from envs.picture import Picture
from envs.raven.files import read_imported
from envs.raven.generate import VERSION, generate
from envs.raven.grammar import PANEL
from envs.raven.render import render_problem
from envs.raven.scene import Generated, Imported, Problem

Arrangement = Literal["panels", "rows", "puzzle"]

GAP = 20
PITCH = PANEL + GAP
MARGIN = 30
"""Around one panel, pairs and rows; the whole puzzle has 40."""
_DASH = 3


@lru_cache(maxsize=256)
def load(source: Generated | Imported) -> Problem:
    """The problem of a source: generated again, or read from its files.

    Raises:
        RavenFileError: an imported file is missing, damaged or has other content than when it was imported.
    """
    if isinstance(source, Imported):
        return read_imported(source).problem
    return generate(source.configuration, source.seed, source.style)


@lru_cache(maxsize=64)
def panel_pixels(source: Generated | Imported) -> NDArray[np.uint8]:
    """All sixteen panels, shape (16, 160, 160): drawn, or as an imported file stores them."""
    pixels = read_imported(source).images if isinstance(source, Imported) else render_problem(load(source))
    pixels.setflags(write=False)
    return pixels


@dataclass(frozen=True)
class RavenPicture(Picture):
    """Some panels of one problem in one arrangement.

    ``panels`` counts from 0: 0..7 the context in reading order, 8..15 the candidates. The puzzle shows all and leaves it
    empty.
    """

    kind: ClassVar[str] = "raven"
    version: ClassVar[int] = VERSION

    source: Generated | Imported
    arrangement: Arrangement
    panels: tuple[int, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        if self.arrangement == "puzzle":
            return 4 * PITCH - GAP + 2 * 40, 1056
        columns = 3 if self.arrangement == "rows" else len(self.panels)
        rows = len(self.panels) // columns
        return columns * PITCH - GAP + 2 * MARGIN, rows * PITCH - GAP + 2 * MARGIN

    def render(self) -> NDArray[np.uint8]:
        """The pixels, shape (height, width, 3), RGB of equal parts."""
        page = _Page(*self.size)
        pixels = panel_pixels(self.source)
        if self.arrangement == "puzzle":
            page.puzzle(pixels)
        else:
            columns = 3 if self.arrangement == "rows" else len(self.panels)
            for place, panel in enumerate(self.panels):
                row, column = divmod(place, columns)
                page.panel(pixels[panel], MARGIN + row * PITCH, MARGIN + column * PITCH)
        return np.repeat(page.grey[:, :, None], 3, axis=2)

    def to_json(self) -> dict[str, Any]:
        """The source's fields beside the arrangement and panels."""
        return {
            "arrangement": self.arrangement,
            "panels": list(self.panels),
            "source": dataclasses.asdict(self.source),
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> RavenPicture:
        """The inverse of ``to_json``."""
        kind = Imported if "path" in fields["source"] else Generated
        return cls(kind(**fields["source"]), fields["arrangement"], tuple(fields["panels"]))


class _Page:
    """A white grey-scale page that panels are put on."""

    def __init__(self, width: int, height: int) -> None:
        self.grey = np.full((height, width), 255, np.uint8)

    def panel(self, pixels: NDArray[np.uint8], top: int, left: int) -> None:
        """One panel in its dashed box, which lies just outside it."""
        self.grey[top : top + PANEL, left : left + PANEL] = pixels
        dashes = np.arange(PANEL + 2) % (2 * _DASH) < _DASH
        for edge in (top - 1, top + PANEL):
            self.grey[edge, left - 1 : left + PANEL + 1][dashes] = 0
        for edge in (left - 1, left + PANEL):
            self.grey[top - 1 : top + PANEL + 1, edge][dashes] = 0

    def matrix(self, pixels: NDArray[np.uint8], top: int, left: int) -> None:
        """The context in three rows, its last place a question mark."""
        for place in range(9):
            row, column = divmod(place, 3)
            panel = pixels[place] if place < 8 else _question_mark()
            self.panel(panel, top + row * PITCH, left + column * PITCH)

    def puzzle(self, pixels: NDArray[np.uint8]) -> None:
        """The matrix above the candidates, which are numbered from 1."""
        width = self.grey.shape[1]
        self.text("Problem Matrix", 50, width // 2)
        self.matrix(pixels, 68, (width - 3 * PITCH + GAP) // 2)
        self.text("Answer Set", 618, width // 2)
        for place in range(8):
            row, column = divmod(place, 4)
            top, left = 636 + row * (PANEL + 40), 40 + column * PITCH
            self.panel(pixels[8 + place], top, left)
            self.text(str(place + 1), top + PANEL + 16, left + PANEL // 2)

    def text(self, words: str, middle: int, centre: int) -> None:
        """Words centred on a point."""
        glyphs = _text(words, 2)
        height, width = glyphs.shape
        top, left = middle - height // 2, centre - width // 2
        area = self.grey[top : top + height, left : left + width]
        np.minimum(area, glyphs, out=area)


@lru_cache(maxsize=64)
def _text(words: str, scale: int) -> NDArray[np.uint8]:
    """Black words on white in Pillow's built-in bitmap font, which is the same everywhere, enlarged ``scale`` times."""
    font = ImageFont.load_default_imagefont()
    left, top, right, bottom = font.getbbox(words)
    image = Image.new("L", (int(right - left), int(bottom - top)), 255)
    ImageDraw.Draw(image).text((-left, -top), words, fill=0, font=font)
    return np.kron(np.asarray(image), np.ones((scale, scale), np.uint8))


@lru_cache(maxsize=1)
def _question_mark() -> NDArray[np.uint8]:
    panel = np.full((PANEL, PANEL), 255, np.uint8)
    glyph = _text("?", 6)
    height, width = glyph.shape
    top, left = (PANEL - height) // 2, (PANEL - width) // 2
    panel[top : top + height, left : left + width] = glyph
    return panel


def one_panel(problem: Problem, panel: int) -> RavenPicture:
    """A single panel (0..15), 220x220."""
    return RavenPicture(problem.source, "panels", (panel,))


def two_panels(problem: Problem, left: int, right: int) -> RavenPicture:
    """Two panels side by side, 400x220."""
    return RavenPicture(problem.source, "panels", (left, right))


def one_row(problem: Problem) -> RavenPicture:
    """The first row of the matrix, 580x220."""
    return RavenPicture(problem.source, "rows", (0, 1, 2))


def two_rows(problem: Problem) -> RavenPicture:
    """Rows 0 and 1 of the matrix, 580x400."""
    return RavenPicture(problem.source, "rows", tuple(range(6)))


def puzzle(problem: Problem) -> RavenPicture:
    """The matrix and, below it, the candidates numbered 1 to 8, 780x1056."""
    return RavenPicture(problem.source, "puzzle")
