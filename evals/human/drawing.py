"""Pictures in a terminal: two pixels in every character, its upper half block and what is behind it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

UPPER_HALF = "▀"
MOST_COLUMNS = 160


def can_draw(console: Console) -> bool:
    """Whether a console shows enough colors, and the half block."""
    encoded = console.encoding.lower().replace("-", "").startswith("utf")
    return console.is_terminal and encoded and not console.no_color and console.color_system in ("256", "truecolor")


def half_blocks(pixels: NDArray[np.uint8], columns: int) -> Text:
    """A picture as lines of colored half blocks.

    Args:
        pixels: Shape (height, width, 3), RGB.
        columns: Width in characters; smaller pictures stay as they are.
    """
    height, width, _ = pixels.shape
    columns = min(columns, width, MOST_COLUMNS)
    rows = max(1, round(height * columns / width / 2))
    small = np.asarray(Image.fromarray(pixels).resize((columns, 2 * rows), Image.Resampling.BOX))
    drawn = Text(no_wrap=True)
    for upper, lower in zip(small[::2], small[1::2], strict=True):
        for above, below in zip(upper, lower, strict=True):
            drawn.append(UPPER_HALF, Style(color=_color(above), bgcolor=_color(below)))
        drawn.append("\n")
    return drawn


def _color(pixel: NDArray[np.uint8]) -> Color:
    return Color.from_rgb(*map(int, pixel))
