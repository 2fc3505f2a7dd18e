"""What can be seen of a KidGym world, as a value without pixels: background, items, agent, backpack and hint block.

A picture is 9x9 square cells. The two columns on the left are the hint block (blank when unused, so that all pictures have
one size); the remaining seven columns are the background, eight rows high, above the backpack's strip. The 5x5 playfield
lies where the background has room for it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from envs.files import read_bytes, shown_files

RESOLUTIONS = (32, 64, 96)
"""Cell sizes in pixels of the paper's resolution study; 64 is the benchmark's own."""
GRID_CELLS = 9
"""Columns and rows of a picture."""
HINT_COLUMNS = 2
FIELD_CELLS = 5
"""Columns and rows of the playfield."""


class Item(NamedTuple):
    """Something drawn in a cell, in the backpack or in the hint block."""

    sprite: str
    """Name within the skin, such as ``animal/cat`` (``envs.kidgym.catalog.SPRITES`` lists them)."""
    label: str = ""
    """Number drawn at the bottom of the cell; empty for none."""


class Hint(NamedTuple):
    """What the hint block shows."""

    style: Literal["column", "pairs", "box"]
    """``column``: one item a row, stacked. ``pairs``: two items a row with an arrow from left to right between them.
    ``box``: all rows as one closed figure within a box (a single item, or the 2x2 tiles of a pattern, edge to edge)."""
    rows: tuple[tuple[Item, ...], ...]
    place: Literal["top", "middle"] = "middle"
    """Where in the hint block the layout stands: at its upper end, or centered."""


@dataclass(frozen=True)
class Scene:
    """Everything that a picture of a KidGym world shows, and how large it is drawn.

    Attributes:
        background: One of ``envs.kidgym.catalog.BACKGROUNDS``.
        cells: ``(x, y, item)`` sorted by x, then y; x to the right and y downwards, both 0 to 4 within the playfield.
        agent: x, y and direction (0 down, 1 right, 2 up, 3 left).
        backpack: The four slots A to D, None where empty.
        hint: What the hint block shows; None leaves it blank.
        cell_pixels: Edge of a cell in pixels: 32, 64 or 96.
        skin: Folder of user sprites; empty for the built-in drawings.
        skin_hash: ``skin_digest`` of that folder, which is filled in if not given. Where the folder holds other drawings by
            now, the scene refuses to be rendered.
    """

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


@lru_cache(maxsize=64)
def skin_digest(skin: str) -> str:
    """Hash of the names and contents of a skin's drawings, as this process first found them; empty for no skin."""
    digest = hashlib.blake2b(digest_size=8)
    for path in shown_files(Path(skin), "**/*") if skin else ():
        if path.suffix in (".png", ".svg"):
            content = hashlib.blake2b(read_bytes(path), digest_size=16).hexdigest()
            digest.update(f"{path.relative_to(skin).as_posix()}\n{content}\n".encode())
    return digest.hexdigest() if skin else ""
