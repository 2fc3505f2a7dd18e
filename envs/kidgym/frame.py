"""What a KidGym observation shows, as a value: scene, agent, backpack and hint block.

A frame is 9x9 square cells. The two columns on the left are the hint block (blank when unused, so that all frames have
one size); the remaining seven columns are the scene, eight rows high, above the backpack's strip. The 5x5 playfield lies
in the scene where its background wants it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from envs.picture import Picture

RESOLUTIONS = (32, 64, 96)
"""Cell sizes in pixels of the paper's resolution study; 64 is the benchmark's own."""
GRID_CELLS = 9
"""Columns and rows of a frame."""
HINT_COLUMNS = 2
FIELD_CELLS = 5
"""Columns and rows of the playfield."""


class Item(NamedTuple):
    """Something drawn in a cell, in the backpack or in the hint block."""

    sprite: str
    """Name within the skin, such as ``animal/cat`` (``envs.kidgym.catalogue.SPRITES`` lists them)."""
    label: str = ""
    """Digit drawn at the bottom of the cell; empty for none."""


class Hint(NamedTuple):
    """What the hint block shows."""

    style: Literal["column", "pairs", "box"]
    """``column``: one item a row, stacked. ``pairs``: two items a row with an arrow from left to right between them.
    ``box``: all rows as one closed figure within a box (a single item, or the 2x2 tiles of a pattern, edge to edge)."""
    rows: tuple[tuple[Item, ...], ...]
    place: Literal["top", "middle"] = "middle"
    """Where in the hint block the layout stands: at its upper end, or centred."""


@lru_cache(maxsize=64)
def skin_digest(skin: str) -> str:
    """Hash of the names and contents of a skin's drawings, as this process first found them; empty for no skin."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(Path(skin).rglob("*")) if skin else ():
        if path.suffix in (".png", ".svg"):
            content = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
            digest.update(f"{path.relative_to(skin).as_posix()}\n{content}\n".encode())
    return digest.hexdigest() if skin else ""


@dataclass(frozen=True)
class Frame(Picture):
    """One observation of a KidGym world; equal frames are equal pictures.

    Attributes:
        background: One of ``envs.kidgym.catalogue.BACKGROUNDS``.
        cells: ``(x, y, item)`` sorted by x, then y; x to the right and y downwards, both 0 to 4 within the playfield.
        agent: x, y and direction (0 down, 1 right, 2 up, 3 left).
        backpack: The four slots A to D, None where empty.
        hint: What the hint block shows; None leaves it blank.
        cell_pixels: Edge of a cell in pixels: 32, 64 or 96.
        skin: Folder of user sprites; empty for the built-in drawings.
        skin_hash: ``skin_digest`` of that folder, which is filled in if not given. Where the folder holds other drawings by
            now, the frame refuses to be rendered.
    """

    kind: ClassVar[str] = "kidgym"
    version: ClassVar[int] = 1

    background: str
    cells: tuple[tuple[int, int, Item], ...]
    agent: tuple[int, int, int]
    backpack: tuple[Item | None, ...] = (None, None, None, None)
    hint: Hint | None = None
    cell_pixels: int = 64
    skin: str = ""
    skin_hash: str = ""

    def __post_init__(self) -> None:
        if self.skin and not self.skin_hash:
            object.__setattr__(self, "skin_hash", skin_digest(self.skin))

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return GRID_CELLS * self.cell_pixels, GRID_CELLS * self.cell_pixels

    def render(self) -> NDArray[np.uint8]:
        """The pixels, shape (9 cells, 9 cells, 3), RGB.

        Raises:
            ValueError: the skin has no drawing of a sprite, or other drawings than when the frame was made, or the resolution
                is none of ``RESOLUTIONS``.
        """
        from envs.kidgym.render import render  # drawing is loaded only where pixels are needed

        return render(self)

    def to_json(self) -> dict[str, Any]:
        """The description as JSON values; an item is the list ``[sprite, label]``."""
        return {
            "background": self.background,
            "cells": self.cells,
            "agent": self.agent,
            "backpack": self.backpack,
            "hint": self.hint,
            "cell_pixels": self.cell_pixels,
            "skin": self.skin,
            "skin_hash": self.skin_hash,
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Frame:
        """The inverse of ``to_json``, from tuples or from the lists of parsed JSON."""
        hint = fields["hint"]
        return cls(
            background=fields["background"],
            cells=tuple((x, y, Item(*item)) for x, y, item in fields["cells"]),
            agent=(fields["agent"][0], fields["agent"][1], fields["agent"][2]),
            backpack=tuple(None if item is None else Item(*item) for item in fields["backpack"]),
            hint=None
            if hint is None
            else Hint(hint[0], tuple(tuple(Item(*item) for item in row) for row in hint[1]), hint[2]),
            cell_pixels=fields["cell_pixels"],
            skin=fields["skin"],
            skin_hash=fields.get("skin_hash", ""),
        )
