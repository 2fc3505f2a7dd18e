"""Question images: one panel, some panels side by side, or the whole puzzle, as pictures that travel as descriptions.

Five layouts (MultiStAR's, sizes in pixels): one panel 220x220, two panels 400x220, a row 580x220, two rows 580x400, and the
whole puzzle with numbered candidates 780x1056; all of them times the scale. Panels stand 20 pixels apart in dashed boxes
on white.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from envs.page.typeface import set_line
from envs.picture import Detail, Picture
from envs.raven.files import read_imported
from envs.raven.generate import VERSION, generate
from envs.raven.grammar import PANEL
from envs.raven.render import render_problem, render_published
from envs.raven.scene import Difficulty, Generated, Imported, Problem

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
        FileError: an imported file is missing, damaged or has other content than when it was imported.
    """
    if isinstance(source, Imported):
        return read_imported(source).problem
    problem = generate(source.configuration, source.seed, source.style, source.difficulty)
    return dataclasses.replace(problem, source=source)


@lru_cache(maxsize=64)
def panel_pixels(source: Generated | Imported, scale: int = 1) -> NDArray[np.uint8]:
    """All sixteen panels, shape (16, 160 scale, 160 scale).

    Generated ones are drawn at that size. Pixels of an imported file, and those of the published drawing, are there in one
    size only: each becomes ``scale`` times as wide and high.
    """
    if source.render == "own":
        pixels = render_problem(load(source), scale)
    else:
        stored = read_imported(source).images if isinstance(source, Imported) else render_published(load(source))
        pixels = stored.repeat(scale, axis=1).repeat(scale, axis=2)
    pixels.setflags(write=False)
    return pixels


@dataclass(frozen=True)
class RavenPicture(Picture):
    """Some panels of one problem in one arrangement.

    ``panels`` counts from 0: 0..7 the context in reading order, 8..15 the candidates. The puzzle shows all and leaves it
    empty.
    """

    kind: ClassVar[str] = "raven"
    version: ClassVar[int] = 100 * VERSION + 2
    """The last two digits count changes of the layout."""

    source: Generated | Imported
    arrangement: Arrangement
    panels: tuple[int, ...] = ()
    scale: int = 1

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        if self.arrangement == "puzzle":
            width, height = 4 * PITCH - GAP + 2 * 40, 1056
        else:
            columns = 3 if self.arrangement == "rows" else len(self.panels)
            rows = len(self.panels) // columns
            width, height = columns * PITCH - GAP + 2 * MARGIN, rows * PITCH - GAP + 2 * MARGIN
        return width * self.scale, height * self.scale

    def render(self) -> NDArray[np.uint8]:
        """The pixels, shape (height, width, 3), RGB of equal parts."""
        page = _Page(*self.size, self.scale)
        pixels = panel_pixels(self.source, self.scale)
        if self.arrangement == "puzzle":
            page.puzzle(pixels)
        else:
            columns = 3 if self.arrangement == "rows" else len(self.panels)
            for place, panel in enumerate(self.panels):
                row, column = divmod(place, columns)
                page.panel(pixels[panel], MARGIN + row * PITCH, MARGIN + column * PITCH)
        return np.repeat(page.gray[:, :, None], 3, axis=2)

    def twin(self, detail: Detail) -> str:
        """The panels told in words (``envs.raven.twin``).

        Raises:
            FileError: as ``load``.
        """
        from envs.raven.twin import twin  # only who reads words needs it

        return twin(load(self.source), self.arrangement, self.panels, detail)

    def to_json(self) -> dict[str, Any]:
        """The source's fields beside the arrangement, panels and scale."""
        source = dataclasses.asdict(self.source)
        if source.get("render") == "own":  # as descriptions were before there was another drawing
            del source["render"]
        if source.get("difficulty", "") is None:  # likewise
            del source["difficulty"]
        return {"arrangement": self.arrangement, "panels": list(self.panels), "scale": self.scale, "source": source}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> RavenPicture:
        """The inverse of ``to_json``."""
        source = dict(fields["source"])
        if "difficulty" in source:
            source["difficulty"] = Difficulty(**source["difficulty"])
        kind = Imported if "path" in source else Generated
        return cls(kind(**source), fields["arrangement"], tuple(fields["panels"]), fields["scale"])


def enlarged(picture: Picture, scale: int) -> Picture:
    """The same panels, ``scale`` times as large as published."""
    assert isinstance(picture, RavenPicture)
    return dataclasses.replace(picture, scale=scale)


class _Page:
    """A white gray-scale page that panels are put on; places are given in unscaled pixels."""

    def __init__(self, width: int, height: int, scale: int) -> None:
        self.gray = np.full((height, width), 255, np.uint8)
        self.scale = scale

    def panel(self, pixels: NDArray[np.uint8], top: int, left: int) -> None:
        """One panel in its dashed box, which lies just outside it."""
        scale, top, left = self.scale, top * self.scale, left * self.scale
        edge = len(pixels)
        self.gray[top : top + edge, left : left + edge] = pixels
        dashes = np.arange(edge + 2 * scale) % (2 * _DASH * scale) < _DASH * scale
        for near in (-scale, edge):
            self.gray[top + near : top + near + scale, left - scale : left + edge + scale][:, dashes] = 0
            self.gray[top - scale : top + edge + scale, left + near : left + near + scale][dashes] = 0

    def matrix(self, pixels: NDArray[np.uint8], top: int, left: int) -> None:
        """The context in three rows, its last place a question mark."""
        for place in range(9):
            row, column = divmod(place, 3)
            above, beside = top + row * PITCH, left + column * PITCH
            if place < 8:
                self.panel(pixels[place], above, beside)
            else:
                self.panel(np.full_like(pixels[0], 255), above, beside)
                self.text("?", above + PANEL // 2, beside + PANEL // 2, size=88)

    def puzzle(self, pixels: NDArray[np.uint8]) -> None:
        """The matrix above the candidates, which are numbered from 1."""
        width = self.gray.shape[1] // self.scale
        self.text("Problem Matrix", 46, width // 2)
        self.matrix(pixels, 68, (width - 3 * PITCH + GAP) // 2)
        self.text("Answer Set", 614, width // 2)
        for place in range(8):
            row, column = divmod(place, 4)
            top, left = 636 + row * (PANEL + 40), 40 + column * PITCH
            self.panel(pixels[8 + place], top, left)
            self.text(str(place + 1), top + PANEL + 19, left + PANEL // 2)

    def text(self, words: str, middle: int, center: int, size: int = 24) -> None:
        """Words centered on a point."""
        glyphs = set_line(words, size * self.scale)
        height, width = glyphs.shape
        top, left = middle * self.scale - height // 2, center * self.scale - width // 2
        area = self.gray[top : top + height, left : left + width]
        np.minimum(area, glyphs, out=area)


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
