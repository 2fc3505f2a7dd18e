"""A page of print as a picture: headings, paragraphs, lists and figures, one below the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from envs.page.typeface import CHARACTERS, line_height, set_line, text_width
from envs.picture import Detail, Picture, picture_from_description

WIDTH = 960
MARGIN = 60
LINE_SPACE = 4
BLOCK_SPACE = 22
ITEM_SPACE = 8
_INDENT = 24
"""Of list items, in which their mark stands."""
_SIZES = {"title": 36, "heading": 26, "text": 22, "item": 22}
"""Pixels to the em."""
_BOLD = ("title", "heading")

Kind = Literal["title", "heading", "text", "item"]


@dataclass(frozen=True)
class Words:
    """A block of text; an ``item`` is one point of a list."""

    kind: Kind
    text: str

    def __post_init__(self) -> None:
        if strange := set(self.text) - set(CHARACTERS):
            raise ValueError(f"a page has printable ASCII only, not {''.join(sorted(strange))!r} in {self.text!r}")


@dataclass(frozen=True)
class PagePicture(Picture):
    """A page as wide as ``WIDTH`` and as high as its blocks need, enlarged by ``scale``; figures are centered.

    Figures are put in as they are: they have been enlarged by whoever made them.
    """

    kind: ClassVar[str] = "page"
    version: ClassVar[int] = 2

    blocks: tuple[Words | Picture, ...]
    scale: int = 1

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return WIDTH * self.scale, self._places[-1]

    def render(self) -> NDArray[np.uint8]:
        """The pixels, shape (height, width, 3), RGB.

        Raises:
            ValueError: a figure is wider than the page.
        """
        width, height = self.size
        page = np.full((height, width, 3), 255, np.uint8)
        for block, top in zip(self.blocks, self._places, strict=False):
            if isinstance(block, Words):
                self._print(page, block, top)
                continue
            pixels = block.render()
            left = (width - pixels.shape[1]) // 2
            if left < 0:
                raise ValueError(f"a figure of {pixels.shape[1]} pixels on a page of {width}")
            page[top : top + pixels.shape[0], left : left + pixels.shape[1]] = pixels
        return page

    def _print(self, page: NDArray[np.uint8], block: Words, top: int) -> None:
        bold, size = block.kind in _BOLD, _SIZES[block.kind] * self.scale
        left = MARGIN * self.scale
        if block.kind == "item":
            _put(page, set_line("-", size), top, left)
            left += _INDENT * self.scale
        for number, line in enumerate(_lines(block, self.scale)):
            _put(page, set_line(line, size, bold=bold), top + number * self._line_pitch(block), left)

    def twin(self, detail: Detail) -> str:
        """The page's words, with its figures told in words where they stand.

        Raises:
            ValueError: a figure cannot be told in words.
        """
        told = []
        for block in self.blocks:
            if isinstance(block, Picture):
                told.append(block.twin(detail))
            else:
                told.append(f"- {block.text}" if block.kind == "item" else block.text)
        return "\n".join(told)

    def to_json(self) -> dict[str, Any]:
        """Blocks as pairs of kind and text, figures as ``figure`` and their description; and the scale."""
        return {
            "blocks": [
                ["figure", json.loads(block.description)] if isinstance(block, Picture) else [block.kind, block.text]
                for block in self.blocks
            ],
            "scale": self.scale,
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> PagePicture:
        """The inverse of ``to_json``."""
        blocks = tuple(
            picture_from_description(json.dumps(content)) if kind == "figure" else Words(kind, content)
            for kind, content in fields["blocks"]
        )
        return cls(blocks, fields["scale"])

    @cached_property
    def _places(self) -> tuple[int, ...]:
        """The top of every block, and last the height of the page."""
        return tuple(self._tops())

    def _tops(self) -> Iterator[int]:
        top, before = MARGIN * self.scale, None
        for block in self.blocks:
            kind = block.kind if isinstance(block, Words) else "figure"
            if before is not None:
                top += self.scale * (ITEM_SPACE if kind == before == "item" else BLOCK_SPACE)
            yield top
            top += block.size[1] if isinstance(block, Picture) else self._height(block)
            before = kind
        yield top + MARGIN * self.scale

    def _line_pitch(self, block: Words) -> int:
        return line_height(_SIZES[block.kind] * self.scale) + LINE_SPACE * self.scale

    def _height(self, block: Words) -> int:
        return len(_lines(block, self.scale)) * self._line_pitch(block) - LINE_SPACE * self.scale


def _put(page: NDArray[np.uint8], glyphs: NDArray[np.uint8], top: int, left: int) -> None:
    area = page[top : top + glyphs.shape[0], left : left + glyphs.shape[1]]
    np.minimum(area, glyphs[:, : area.shape[1], None], out=area)


@lru_cache(maxsize=1024)
def _lines(block: Words, scale: int) -> tuple[str, ...]:
    """The text in lines that fit between the margins; a word that alone is too long stands on a line of its own."""
    room = (WIDTH - 2 * MARGIN - (_INDENT if block.kind == "item" else 0)) * scale
    lines: list[str] = []
    for word in block.text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, _SIZES[block.kind] * scale, bold=block.kind in _BOLD) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return tuple(lines) or ("",)
