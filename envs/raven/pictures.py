"""Whether stored pictures are those of the panels that a file describes.

Upstream draws with OpenCV and we with numpy: lines may lie a pixel apart. So a stored pixel agrees with a drawn panel if
its gray lies within what the drawn pixel and its eight neighbors have, give or take a little; and a picture that shows
another shape, size, shade or place disagrees in many pixels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from envs.files import FileError

TOLERANCE = 12
"""Gray levels of 255."""
LIMIT = 8
"""Pixels of a panel that may disagree."""


def check_pictures(path: str, drawn: NDArray[np.uint8], stored: NDArray[np.uint8]) -> None:
    """Compare each stored picture with its panel.

    Args:
        path: Of the file, for the error.
        drawn: The panels as the XML describes them, shape (16, 160, 160).
        stored: The pictures, in the same order and shape.

    Raises:
        FileError: a picture is not that of its panel; the message says whose it is, if it is one of the others.
    """
    least, most = _ranges(drawn)
    pictures = stored.astype(np.int16)

    def apart(picture: int, panel: int) -> int:
        pixels = pictures[picture]
        return int(np.count_nonzero((pixels < least[panel]) | (pixels > most[panel])))

    for picture in range(len(stored)):
        own = apart(picture, picture)
        if own == 0:
            continue
        twins = [panel for panel in range(len(drawn)) if panel != picture and apart(picture, panel) == 0]
        if twins:
            raise FileError(path, f"the picture of panel {picture} shows panel {twins[0]} of the XML")
        if own > LIMIT:
            raise FileError(
                path,
                f"the picture of panel {picture} shows none of the XML's panels ({own} pixels differ from its own)",
            )


def _ranges(drawn: NDArray[np.uint8]) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """Per pixel the least and greatest gray within one pixel, widened by the tolerance."""
    gray = drawn.astype(np.int16)
    padded = np.pad(gray, ((0, 0), (1, 1), (1, 1)), mode="edge")
    height, width = gray.shape[1:]
    near = [padded[:, row : row + height, column : column + width] for row in range(3) for column in range(3)]
    least: NDArray[np.int16] = np.minimum.reduce(near) - TOLERANCE
    most: NDArray[np.int16] = np.maximum.reduce(near) + TOLERANCE
    return least, most
