"""Entity rasters: one shape of one size, fill and angle on a small square of ink.

The geometry is RAVEN's: integer vertices around the slot's center, an outline two pixels thick, then a counter-clockwise
rotation of the finished bitmap with bilinear interpolation. Upstream draws with OpenCV; this is numpy only, and differs
from it by a few gray edge pixels. One thing differs on purpose: squares of the small inner grid round their half side to
the nearest pixel instead of truncating it, because two of their sizes would otherwise be the same bitmap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from envs.raven.grammar import ANGLE_VALUES, COLOR_VALUES, PANEL, SIZE_VALUES

INK = 255
FULL = 1024
"""A pixel's whole area in the units of bilinear interpolation on a grid of 1/32 pixel."""
CIRCLE = 5


def unit_of(extent: float) -> float:
    """Half the extent of a slot in pixels, to which sizes are relative (80, 40, 26.4 or 12)."""
    return extent * PANEL / 2


def vertices(type_level: int, size_level: int, extent: float, published: bool = False) -> tuple[tuple[int, int], ...]:
    """Polygon vertices before rotation as (x, y) offsets from the center in pixels, y downwards.

    A circle gives its radius as the single vertex (radius, 0). ``published`` cuts the half sides of all squares to whole
    pixels.
    """
    unit, size = unit_of(extent), SIZE_VALUES[size_level]
    radius = int(unit * size)
    if type_level == 1:
        side = int(radius * math.sqrt(3) / 2)
        return (0, -radius), (side, int(radius / 2)), (-side, int(radius / 2))
    if type_level == 2:
        exact = unit / 2 * math.sqrt(2) * size
        half = int(exact)
        if extent == 0.15 and not published:
            half = round(exact)
        return (-half, -half), (half, -half), (half, half), (-half, half)
    if type_level in (3, 4):
        corners = 5 if type_level == 3 else 6
        points = []
        for k in range(corners):
            turn = math.radians(90 + 360 / corners * k)
            x, y = radius * math.cos(turn), radius * math.sin(turn)
            points.append((_whole(x), -_whole(y)))
        return tuple(points)
    if type_level == CIRCLE:
        return ((radius, 0),)
    raise ValueError(f"unknown entity type level {type_level}: known are 1 (triangle) to 5 (circle)")


@dataclass(frozen=True, eq=False)
class Raster:
    """Ink (255 is black, 0 is none) of one entity, cropped to what is inked, relative to its slot's center pixel."""

    top: int
    left: int
    ink: NDArray[np.uint8]


def _whole(offset: float) -> int:
    """Towards zero, but not past a whole number that floating point just misses (half of 20, say)."""
    return int(offset + math.copysign(1e-9, offset))


@cache
def entity_raster(
    type_level: int, size_level: int, color_level: int, angle_level: int, extent: float, scale: int = 1
) -> Raster:
    """The raster of one entity, ``scale`` times as large; there are under ten thousand in all, made when first asked for."""
    top, left, inside, outline = _cover(type_level, size_level, angle_level, extent, scale)
    total = inside.astype(np.int32) * (INK - COLOR_VALUES[color_level]) + outline.astype(np.int32) * INK
    ink = ((total + FULL // 2) // FULL).astype(np.uint8)
    ink.setflags(write=False)
    return Raster(top, left, ink)


@lru_cache(maxsize=1024)
def _cover(
    type_level: int, size_level: int, angle_level: int, extent: float, scale: int
) -> tuple[int, int, NDArray[np.int16], NDArray[np.int16]]:
    """Top, left, and how much of every pixel the rotated fill and the rotated outline cover (0..FULL)."""
    inside, outline = _shape(type_level, size_level, extent, scale)
    degrees = ANGLE_VALUES[angle_level]
    fill, line = _rotated(inside & ~outline, degrees), _rotated(outline, degrees)
    middle = fill.shape[0] // 2
    rows, columns = (np.flatnonzero((line + fill).any(axis=axis)) for axis in (1, 0))
    box = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
    return int(rows[0]) - middle, int(columns[0]) - middle, fill[box].astype(np.int16), line[box].astype(np.int16)


@lru_cache(maxsize=4096)
def silhouette(type_level: int, size_level: int, angle_level: int, extent: float) -> NDArray[np.bool_]:
    """Where the rotated shape, outline included, covers a pixel entirely: an entity's mask in the official files.

    An odd square whose middle pixel is the slot's center.
    """
    inside, outline = _shape(type_level, size_level, extent, 1)
    covered: NDArray[np.bool_] = _rotated(inside | outline, ANGLE_VALUES[angle_level]) == FULL
    return covered


@lru_cache(maxsize=256)
def _shape(type_level: int, size_level: int, extent: float, scale: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Inside and outline of a shape before rotation."""
    points = tuple((scale * x, scale * y) for x, y in vertices(type_level, size_level, extent))
    reach = math.ceil(max(math.hypot(*point) for point in points)) + 3 + scale
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1].astype(float)
    if type_level == CIRCLE:
        distance = np.hypot(x, y) - points[0][0]
        return distance <= 0, np.abs(distance) <= 1.5 * scale
    inside = np.ones(x.shape, bool)
    outline = np.zeros(x.shape, bool)
    orientation = _area(points)
    for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1], strict=True):
        length = math.hypot(x1 - x0, y1 - y0)
        ux, uy = (x1 - x0) / length, (y1 - y0) / length
        across = (x - x0) * -uy + (y - y0) * ux
        along = (x - x0) * ux + (y - y0) * uy
        inside &= across * orientation >= 0
        # A line covers the pixels whose centers are within half a pixel of it along the axis it is steep to.
        half_pixel = 0.5 * max(abs(ux), abs(uy))
        beside = (along >= -0.4) & (along <= length + 0.4)
        outline |= beside & (np.abs(across) <= 1.05 * scale + half_pixel)
        outline |= np.hypot(x - x0, y - y0) <= scale
    return inside, outline


def _area(points: tuple[tuple[int, int], ...]) -> float:
    pairs = zip(points, points[1:] + points[:1], strict=True)
    return math.copysign(1.0, sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in pairs))


def _rotated(bitmap: NDArray[np.bool_], degrees: float) -> NDArray[np.int32]:
    """Cover (0..FULL) of the bitmap turned counter-clockwise about its middle pixel, on upstream's grid of 1/32 pixel."""
    area = bitmap.astype(np.int32)
    reach = bitmap.shape[0] // 2
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1].astype(float)
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    source_x = np.round((cos * x - sin * y) * 32).astype(np.int32)
    source_y = np.round((sin * x + cos * y) * 32).astype(np.int32)
    padded = np.pad(area, reach)  # the corners of the square come from outside it
    column, row = (source_x >> 5) + 2 * reach, (source_y >> 5) + 2 * reach
    right, down = source_x & 31, source_y & 31
    above = padded[row, column] * (32 - right) + padded[row, column + 1] * right
    below = padded[row + 1, column] * (32 - right) + padded[row + 1, column + 1] * right
    cover: NDArray[np.int32] = above * (32 - down) + below * down
    return cover
