"""Pictures as tiles: each tile of 32 x 32 pixels once, a picture as the numbers of its tiles.

Frames of a game differ in few tiles, and games share backgrounds and items, so this takes far less than a file for each
picture; and it holds for any suite, because only pixels are looked at. Tiles are put side by side on sheets, stored as
lossless WebP; the page copies them from there (frontend/src/archive/pictures.ts), so that its pixels are the stored ones.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

EDGE: Final = 32
"""Pixels of a tile in both directions."""
ACROSS: Final = 32
"""Tiles in a row of a sheet."""
OF_A_SHEET: Final = ACROSS * ACROSS

Pixels = NDArray[np.uint8]
Grid = NDArray[np.uint32]


class Tiles:
    """Numbers the tiles of pictures, and writes a sheet whenever one is full."""

    def __init__(self, write: Callable[[int, bytes], None]) -> None:
        """``write`` gets the number of a sheet, from 0, and the sheet as a WebP file."""
        self._write = write
        self._numbers: dict[bytes, int] = {}
        self._sheet: list[Pixels] = []
        self.lost = set[str]()
        """Content hashes of the pictures that have no tiles, since they can no longer be rendered."""

    def __len__(self) -> int:
        return len(self._numbers)

    def grid(self, pixels: Pixels) -> Grid:
        """The numbers of a picture's tiles, row by row; a picture that no tiles fill is padded with white.

        Args:
            pixels: RGB, shape (height, width, 3).
        """
        height, width, _ = pixels.shape
        if height % EDGE or width % EDGE:
            edges = ((0, -height % EDGE), (0, -width % EDGE), (0, 0))
            pixels = np.pad(pixels, edges, constant_values=255)
        rows, columns = pixels.shape[0] // EDGE, pixels.shape[1] // EDGE
        tiles = pixels.reshape(rows, EDGE, columns, EDGE, 3).swapaxes(1, 2).reshape(-1, EDGE, EDGE, 3)
        return np.array([self._number(tile) for tile in tiles], np.uint32)

    def close(self) -> None:
        """Write what is left."""
        if self._sheet:
            self._flush()

    def _number(self, tile: Pixels) -> int:
        key = hashlib.blake2b(tile.tobytes(), digest_size=16).digest()
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers)
            self._sheet.append(tile)
            if len(self._sheet) == OF_A_SHEET:
                self._flush()
        return self._numbers[key]

    def _flush(self) -> None:
        rows = -(-len(self._sheet) // ACROSS)
        missing = rows * ACROSS - len(self._sheet)
        tiles = np.stack([*self._sheet, *[np.zeros_like(self._sheet[0])] * missing])
        sheet = tiles.reshape(rows, ACROSS, EDGE, EDGE, 3).swapaxes(1, 2).reshape(rows * EDGE, ACROSS * EDGE, 3)
        out = io.BytesIO()
        Image.fromarray(sheet).save(out, "WEBP", lossless=True, quality=50, method=3)
        self._write((len(self._numbers) - 1) // OF_A_SHEET, out.getvalue())
        self._sheet = []


def steps_between(grids: list[Grid]) -> Grid:
    """Grids one after another; 0 where a tile is that of the picture before, else the tile's number plus 1."""
    found = []
    before: Grid = np.zeros(0, np.uint32)
    for grid in grids:
        own = grid + np.uint32(1)
        found.append(np.where(grid == before, np.uint32(0), own) if len(grid) == len(before) else own)
        before = grid
    return np.concatenate(found) if found else before
