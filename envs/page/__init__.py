"""A page of print as a picture: headings, paragraphs, lists and figures, one below the other.

Words are set in Pillow's built-in bitmap font, enlarged by whole factors, so that a page has the same pixels on every
machine and with every version of the font libraries.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from envs.picture import Picture, picture_from_description

WIDTH = 960
MARGIN = 60
LINE_SPACE = 8
BLOCK_SPACE = 24
_GLYPH = 6, 11
"""Width and height of every character of the font, in pixels."""
_SCALES = {"title": 4, "heading": 3, "text": 2, "item": 2}

Kind = Literal["title", "heading", "text", "item"]


@dataclass(frozen=True)
class Words:
    """A block of text; an ``item`` is one point of a list."""

    kind: Kind
    text: str

    def __post_init__(self) -> None:
        if not self.text.isascii():
            raise ValueError(f"a page has plain ASCII text only, not {self.text!r}")


@dataclass(frozen=True)
class PagePicture(Picture):
    """A page as wide as ``WIDTH`` and as high as its blocks need; figures are centred."""

    kind: ClassVar[str] = "page"
    version: ClassVar[int] = 1

    blocks: tuple[Words | Picture, ...]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return WIDTH, self._places[-1]

    def render(self) -> NDArray[np.uint8]:
        """The pixels, shape (height, width, 3), RGB.

        Raises:
            ValueError: a figure is wider than the page.
        """
        width, height = self.size
        page = np.full((height, width, 3), 255, np.uint8)
        for block, top in zip(self.blocks, self._places, strict=False):
            if isinstance(block, Picture):
                pixels = block.render()
                left = (WIDTH - pixels.shape[1]) // 2
                if left < 0:
                    raise ValueError(f"a figure of {pixels.shape[1]} pixels on a page of {WIDTH}")
                page[top : top + pixels.shape[0], left : left + pixels.shape[1]] = pixels
                continue
            scale = _SCALES[block.kind]
            for number, line in enumerate(_lines(block)):
                glyphs = _set(line, scale)
                line_top = top + number * _line_height(scale)
                area = page[line_top : line_top + glyphs.shape[0], MARGIN : MARGIN + glyphs.shape[1]]
                np.minimum(area, glyphs[:, :, None], out=area)
        return page

    def to_json(self) -> dict[str, Any]:
        """Blocks as pairs of kind and text, figures as ``figure`` and their description."""
        return {
            "blocks": [
                ["figure", json.loads(block.description)] if isinstance(block, Picture) else [block.kind, block.text]
                for block in self.blocks
            ]
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> PagePicture:
        """The inverse of ``to_json``."""
        return cls(
            tuple(
                picture_from_description(json.dumps(content)) if kind == "figure" else Words(kind, content)
                for kind, content in fields["blocks"]
            )
        )

    @cached_property
    def _places(self) -> tuple[int, ...]:
        """The top of every block, and last the height of the page."""
        return tuple(self._tops())

    def _tops(self) -> Iterator[int]:
        top, before = MARGIN, None
        for block in self.blocks:
            kind = block.kind if isinstance(block, Words) else "figure"
            if before is not None:
                top += LINE_SPACE if kind == before == "item" else BLOCK_SPACE
            yield top
            top += block.size[1] if isinstance(block, Picture) else _height(block)
            before = kind
        yield top + MARGIN


def _line_height(scale: int) -> int:
    return _GLYPH[1] * scale + LINE_SPACE


def _height(block: Words) -> int:
    return len(_lines(block)) * _line_height(_SCALES[block.kind]) - LINE_SPACE


@lru_cache(maxsize=1024)
def _lines(block: Words) -> tuple[str, ...]:
    columns = (WIDTH - 2 * MARGIN) // (_GLYPH[0] * _SCALES[block.kind])
    mark, indent = ("- ", "  ") if block.kind == "item" else ("", "")
    return tuple(textwrap.wrap(block.text, columns, initial_indent=mark, subsequent_indent=indent)) or ("",)


@lru_cache(maxsize=1024)
def _set(line: str, scale: int) -> NDArray[np.uint8]:
    """One line in black on white."""
    image = Image.new("L", (max(1, _GLYPH[0] * len(line)), _GLYPH[1]), 255)
    ImageDraw.Draw(image).text((0, 0), line, fill=0, font=ImageFont.load_default_imagefont())
    return np.kron(np.asarray(image), np.ones((scale, scale), np.uint8))
