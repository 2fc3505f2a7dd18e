"""Draws the shapes of the published drawing with OpenCV, once: how the files in ``shapes`` were made.

Run: python -m envs.raven.draw_shapes (needs opencv-python-headless; versions 3.4, 4.5 and 5.0 draw the same)

The pixels that OpenCV draws are part of the official format: a shape is polygons and circles with corners at whole pixels,
outlines two pixels thick. Stored bitmaps depend on no version, and the game needs no OpenCV.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from envs.raven.grammar import SIZE_VALUES, TYPE_VALUES
from envs.raven.published_drawing import EXTENTS, FILL, FOLDER, OUTLINE, reach_of
from envs.raven.raster import CIRCLE, vertices

THICKNESS = 2


def draw(cv2: Any, type_level: int, size_level: int, extent: float) -> NDArray[np.uint8]:
    """One shape, unrotated, in a square whose middle pixel is its center: 0, ``FILL`` or ``OUTLINE``."""
    reach = reach_of(extent)
    image = np.zeros((2 * reach + 1, 2 * reach + 1), np.uint8)
    points = vertices(type_level, size_level, extent, published=True)
    if type_level == CIRCLE:
        cv2.circle(image, (reach, reach), points[0][0], FILL, -1)
        cv2.circle(image, (reach, reach), points[0][0], OUTLINE, THICKNESS)
    elif TYPE_VALUES[type_level] == "square":
        half = points[2][0]
        corners = (reach - half, reach - half), (reach + half, reach + half)
        cv2.rectangle(image, *corners, FILL, -1)
        cv2.rectangle(image, *corners, OUTLINE, THICKNESS)
    else:
        polygon = np.array(points, np.int32).reshape(-1, 1, 2) + reach
        cv2.fillConvexPoly(image, polygon, FILL)
        cv2.polylines(image, [polygon], True, OUTLINE, THICKNESS)
    return image


def main() -> None:
    """Write one strip of all types and sizes for each extent of a slot."""
    import cv2

    for extent in EXTENTS:
        shapes = [
            draw(cv2, type_level, size_level, extent)
            for type_level in range(1, len(TYPE_VALUES))
            for size_level in range(len(SIZE_VALUES))
        ]
        Image.fromarray(np.concatenate(shapes, axis=1)).save(FOLDER / f"{round(100 * extent)}.png", optimize=True)


if __name__ == "__main__":
    main()
