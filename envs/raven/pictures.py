"""Whether stored pictures are those of the panels that a file describes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from envs.files import FileError

TOLERANCE = 10
"""Gray levels of 255 by which a pixel may differ: what versions of OpenCV differ in where they interpolate the edges of
rotated shapes (at most 8.5, see ``published_drawing``). Two fills differ by 28, and a shape one pixel away by more."""


def check_pictures(path: str, drawn: NDArray[np.uint8], stored: NDArray[np.uint8]) -> None:
    """Compare each stored picture with its panel.

    Args:
        path: Of the file, for the error.
        drawn: The panels as the XML describes them, in the published drawing, shape (16, 160, 160).
        stored: The pictures, in the same order and shape.

    Raises:
        FileError: a picture is not that of its panel; the message says whose it is, if it is one of the others.
    """
    for picture, pixels in enumerate(stored):
        differing = _differing(pixels, drawn[picture])
        if differing == 0:
            continue
        for panel, other in enumerate(drawn):
            if _differing(pixels, other) == 0:
                raise FileError(path, f"the picture of panel {picture} shows panel {panel} of the XML")
        raise FileError(
            path,
            f"the picture of panel {picture} shows none of the XML's panels ({differing} pixels differ from its own)",
        )


def _differing(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> int:
    return int(np.count_nonzero(np.abs(one.astype(np.int16) - other) > TOLERANCE))
