"""Sprites as pixels: each name of the catalogue drawn at any size, from the built-in drawings or from a skin."""

from __future__ import annotations

import io
import re
from functools import lru_cache
from pathlib import Path
from typing import Final

import resvg_py
from PIL import Image

from envs.kidgym.catalogue import PILED, SPRITES
from envs.kidgym.render import sources

FULL_CELL: Final = ("quarter", "tile", "wall", "door")
"""Families that fill their cell to its edges; all others keep a small margin."""

CANVAS_TINT: Final = (255, 249, 232, 255)
"""Ground of a cut picture. Each quarter is a full square of it, so that it shows which corner of the animal it is."""

QUARTER_EDGE: Final = (178, 158, 116, 255)
_MARGIN = 0.03
_PILE_PLACES: Final[dict[int, tuple[tuple[float, float], ...]]] = {
    1: ((0.5, 0.5),),
    2: ((0.26, 0.5), (0.74, 0.5)),
    3: ((0.5, 0.24), (0.22, 0.76), (0.78, 0.76)),
}
"""Middles of the things in a pile, as shares of its width and height."""
_PILE_SIZE: Final = {1: (0.62, 0.84), 2: (0.44, 0.64), 3: (0.45, 0.48)}
"""Size of each thing: the smaller of these shares of the pile's width and height."""


def sprite(name: str, pixels: int, skin: str = "") -> Image.Image:
    """A sprite on a transparent square.

    Args:
        name: One of ``envs.kidgym.catalogue.SPRITES``, ``agent/DIRECTION``, ``arrow``, or any name that the skin draws.
        pixels: Edge of the square.
        skin: Folder of user drawings; empty for the built-in ones.

    Raises:
        ValueError: neither the built-in drawings nor the skin have the name, or the skin's file cannot be read.
    """
    family, *rest = name.split("/")
    given = skin_file(skin, name)
    if given is None and family == "quarter" and name in SPRITES:
        return _quarter(rest[0], int(rest[1]), pixels, skin)
    if given is None and family == "pile" and name in SPRITES:
        return pile(rest[0], int(rest[1]), pixels, pixels, skin)
    margin = 0 if family in FULL_CELL else round(_MARGIN * pixels)
    square = Image.new("RGBA", (pixels, pixels))
    square.paste(_drawing(name, pixels - 2 * margin, skin), (margin, margin))
    return square


def skin_file(skin: str, name: str) -> Path | None:
    """The file that draws a sprite in a skin, ``SKIN/NAME.svg`` or ``SKIN/NAME.png``; None if there is none."""
    if not skin:
        return None
    return next((path for end in ("svg", "png") if (path := Path(skin) / f"{name}.{end}").is_file()), None)


def rasterise(svg: str, width: int, height: int) -> Image.Image:
    """An SVG drawing at a size in pixels, RGBA; system fonts are never looked at."""
    data = resvg_py.svg_to_bytes(svg_string=svg, width=width, height=height, skip_system_fonts=True)
    return Image.open(io.BytesIO(bytes(data))).convert("RGBA")


@lru_cache(maxsize=1024)
def _drawing(name: str, pixels: int, skin: str) -> Image.Image:
    """A drawing that is a file of its own, fitted into a square."""
    return _from_skin(name, pixels, skin) if skin else builtin_drawing(name, pixels)


def builtin_drawing(name: str, pixels: int) -> Image.Image:
    """A built-in drawing without margin, RGBA.

    Raises:
        ValueError: there is no such drawing.
    """
    try:
        svg = sources.builtin(name)
    except KeyError:
        raise ValueError(
            f"there is no sprite {name!r}: see envs/kidgym/catalogue.py, or name a skin that has it"
        ) from None
    return rasterise(_cropped(svg) if name in sources.OPENMOJI else svg, pixels, pixels)


def _from_skin(name: str, pixels: int, skin: str) -> Image.Image:
    drawing = skin_drawing(name, pixels, pixels, skin)
    if drawing is None:
        raise ValueError(f"skin {skin!r} has no sprite {name!r}: expected {name}.svg or {name}.png in that folder")
    return drawing


def skin_drawing(name: str, width: int, height: int, skin: str, fill: bool = False) -> Image.Image | None:
    """A skin's drawing, centred in a box of pixels, RGBA; None where it has none.

    It is as large as fits into the box, or, with ``fill``, as small as fills it, what stands out being cut off.

    Raises:
        ValueError: the file cannot be read as a picture.
    """
    path = skin_file(skin, name)
    if path is None:
        return None
    try:
        if path.suffix == ".svg":
            svg = path.read_text(encoding="utf-8")
            picture = rasterise(svg, width, height)  # in its own proportions
            if fill:
                across, down = _scaled(picture.size, (width, height), fill)
                picture = rasterise(svg, across + 4, down + 4)  # the proportions are known to a pixel only
        else:
            with Image.open(path) as image:
                picture = image.convert("RGBA")
            picture = picture.resize(_scaled(picture.size, (width, height), fill), Image.Resampling.LANCZOS)
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"skin {skin!r}: sprite {name!r} cannot be read from {path.name}: {error}") from error
    box = Image.new("RGBA", (width, height))
    box.paste(picture, ((width - picture.width) // 2, (height - picture.height) // 2))
    return box


def _scaled(size: tuple[int, int], box: tuple[int, int], fill: bool) -> tuple[int, int]:
    """A size in the same proportions that fits into a box, or fills it."""
    scale = (max if fill else min)(box[0] / size[0], box[1] / size[1])
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


@lru_cache(maxsize=256)
def _cropped(svg: str) -> str:
    """An OpenMoji drawing without its empty border, so that all items are equally large: viewBox cut to the content."""
    fine = 576
    box = rasterise(svg, fine, fine).getchannel("A").getbbox()
    assert box is not None, "an OpenMoji drawing is never empty"
    left, top, right, bottom = (edge * 72 / fine for edge in box)
    side = max(right - left, bottom - top)
    view = f"{(left + right - side) / 2:.3f} {(top + bottom - side) / 2:.3f} {side:.3f} {side:.3f}"
    return re.sub(r'viewBox="[^"]*"', f'viewBox="{view}"', svg, count=1)


def _quarter(animal: str, corner: int, pixels: int, skin: str) -> Image.Image:
    """One of the four squares of an animal's picture: 1 upper left, 2 upper right, 3 lower left, 4 lower right."""
    margin = max(1, round(pixels * 0.06))
    whole = Image.new("RGBA", (2 * pixels, 2 * pixels), CANVAS_TINT)
    whole.alpha_composite(_drawing(f"animal/{animal}", 2 * (pixels - margin), skin), (margin, margin))
    x, y = (corner - 1) % 2 * pixels, (corner - 1) // 2 * pixels
    piece = whole.crop((x, y, x + pixels, y + pixels))
    edge = Image.new("RGBA", (pixels, pixels), QUARTER_EDGE)
    edge.paste(piece.crop((1, 1, pixels - 1, pixels - 1)), (1, 1))
    return edge


def pile(item: str, count: int, width: int, height: int, skin: str = "") -> Image.Image:
    """One to three of an item, side by side without touching so that they can be counted, on a transparent rectangle."""
    kind = next(kind for kind, names in PILED.items() if item in names)
    across, down = _PILE_SIZE[count]
    size = round(min(across * width, down * height))
    heap = Image.new("RGBA", (width, height))
    for x, y in _PILE_PLACES[count]:
        corner = (round(x * width - size / 2), round(y * height - size / 2))
        heap.alpha_composite(_drawing(f"{kind}/{item}", size, skin), corner)
    return heap
