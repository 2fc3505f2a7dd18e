"""The published drawing: the pixels of official files, to which those of a file are compared.

It differs from our own (``raster``) in two things. Radii and half sides are cut to whole pixels, so that two sizes of a
small square can look the same; and every shape is turned about its place in the panel, where OpenCV rounds coordinates.

OpenCV draws the unrotated shapes; they are stored as bitmaps (``draw_shapes``). Rotation is its `warpAffine` with linear
interpolation: up to version 4.10 coordinates are rounded to 1/1024 and then to 1/32 of a pixel, as here; later versions do
not round to 1/32, and differ by a few gray levels at the edges of rotated shapes.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from envs.raven.grammar import ANGLE_VALUES, COLOR_VALUES, SIZE_VALUES
from envs.raven.raster import FULL, INK, Raster, unit_of

FOLDER = Path(__file__).with_name("shapes")
EXTENTS = (1.0, 0.5, 0.33, 0.15)
FILL, OUTLINE = 128, 255
_FINE = 1024
"""Steps of a pixel to which a turned coordinate is rounded first,"""
_GRID = 32
"""and those between which gray is interpolated."""


def reach_of(extent: float) -> int:
    """Pixels from the center of a shape of this extent to the edge of its bitmap, beyond the outline of the largest."""
    return int(unit_of(extent) * SIZE_VALUES[-1]) + 3


@cache
def _strip(extent: float) -> NDArray[np.uint8]:
    """The stored bitmaps of an extent side by side, sizes of one type together."""
    with Image.open(FOLDER / f"{round(100 * extent)}.png") as image:
        return np.asarray(image)


def _shape(type_level: int, size_level: int, extent: float) -> NDArray[np.uint8]:
    """One shape, unrotated: 0, ``FILL`` or ``OUTLINE``; the middle pixel is its center."""
    side = 2 * reach_of(extent) + 1
    place = (type_level - 1) * len(SIZE_VALUES) + size_level
    return _strip(extent)[:, place * side : (place + 1) * side]


@lru_cache(maxsize=16384)
def published_raster(
    type_level: int, size_level: int, color_level: int, angle_level: int, extent: float, center: tuple[int, int]
) -> Raster:
    """The raster of one entity.

    Args:
        type_level: As of an `Entity`, like the three that follow.
        size_level: Likewise.
        color_level: Likewise.
        angle_level: Likewise.
        extent: Of its slot.
        center: Row and column of its slot's center pixel in the panel.
    """
    bitmap = _shape(type_level, size_level, extent)
    gray = INK - COLOR_VALUES[color_level]
    ink = np.select([bitmap == OUTLINE, bitmap == FILL], [INK, gray], 0)
    turned, reach = _turned(ink, ANGLE_VALUES[angle_level], center), reach_of(extent)
    rows, columns = (np.flatnonzero(turned.any(axis=axis)) for axis in (1, 0))
    inked = turned[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return Raster(int(rows[0]) - reach, int(columns[0]) - reach, inked)


def _turned(ink: NDArray[np.int64], degrees: float, center: tuple[int, int]) -> NDArray[np.uint8]:
    """A bitmap turned counter-clockwise about its middle pixel, which lies at ``center`` of the panel."""
    reach = len(ink) // 2
    if degrees == 0:
        return ink.astype(np.uint8)
    center_y, center_x = center
    turn = math.radians(degrees)
    cos, sin = math.cos(turn), math.sin(turn)
    # Where the pixel (x, y) of the panel comes from: cos x - sin y + from_x, sin x + cos y + from_y.
    from_x = center_x - cos * center_x + sin * center_y
    from_y = center_y - sin * center_x - cos * center_y
    x = np.arange(center_x - reach, center_x + reach + 1)
    y = np.arange(center_y - reach, center_y + reach + 1)[:, None]
    half_step = _FINE // _GRID // 2
    source_x = np.rint(cos * x * _FINE) + np.rint((from_x - sin * y) * _FINE) + half_step
    source_y = np.rint(sin * x * _FINE) + np.rint((from_y + cos * y) * _FINE) + half_step
    steps_x = source_x.astype(np.int64) // (_FINE // _GRID) - _GRID * (center_x - reach)
    steps_y = source_y.astype(np.int64) // (_FINE // _GRID) - _GRID * (center_y - reach)
    # Whole pixels and the rest; numbers of 32 bits hold all sums of four grays, and take half the time of 64.
    column, right = (steps_x // _GRID).astype(np.int32), (steps_x % _GRID).astype(np.int32)
    row, down = (steps_y // _GRID).astype(np.int32), (steps_y % _GRID).astype(np.int32)
    padded = np.pad(ink.astype(np.int32), reach)  # the corners of the square come from outside it
    width = padded.shape[1]
    pixels = padded.ravel()
    first = (row + reach) * width + column + reach
    above = pixels[first] * (_GRID - right) + pixels[first + 1] * right
    below = pixels[first + width] * (_GRID - right) + pixels[first + width + 1] * right
    total = above * (_GRID - down) + below * down
    turned: NDArray[np.uint8] = ((total + FULL // 2) // FULL).astype(np.uint8)
    return turned
