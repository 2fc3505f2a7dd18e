"""Pictures of episodes as data URIs: rendered again from their descriptions, small, each kept once."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field

from PIL import Image

from envs.picture import render_description

_WIDEST = 360
"""Pixels; larger pictures are shown smaller."""
_COLORS = 64


@dataclass(frozen=True)
class Shown:
    """A picture for a page, or why there is none."""

    source: str
    width: int = 0
    height: int = 0
    obstacle: str = ""


@dataclass
class Album:
    """Renders pictures and knows how much they take."""

    found: dict[str, Shown] = field(default_factory=dict)

    def show(self, description: str) -> Shown:
        """The picture of a stored description."""
        if description not in self.found:
            self.found[description] = _shown(description)
        return self.found[description]


def _shown(description: str) -> Shown:
    try:
        _, pixels = render_description(description)
    except ValueError as error:
        return Shown("", obstacle=str(error))
    image = Image.fromarray(pixels)
    if image.width > _WIDEST:
        height = max(1, round(image.height * _WIDEST / image.width))
        image = image.resize((_WIDEST, height), Image.Resampling.LANCZOS)
    content = io.BytesIO()
    image.quantize(_COLORS, dither=Image.Dither.NONE).save(content, "PNG", optimize=True)
    source = "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()
    return Shown(source, image.width, image.height)
