"""Sprites as pixels: each name of the catalog drawn at any size, from the built-in drawings or from a skin."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import resvg_py
from PIL import Image, UnidentifiedImageError

from envs.file_picture import MOST_BYTES
from envs.files import FileError, read_bytes, read_text
from envs.files.xml import references_in
from envs.kidgym.catalog import PILED, SPRITES
from envs.kidgym.render import sources

FULL_CELL: Final = ("quarter", "tile", "wall", "door")
"""Families that fill their cell to its edges; all others keep a small margin."""

CANVAS_TINT: Final = (255, 249, 232, 255)
"""Ground of a cut picture. Each quarter is a full square of it, so that it shows which corner of the animal it is."""

QUARTER_EDGE: Final = (178, 158, 116, 255)
_MARGIN: Final = 0.03
_FINE: Final = 384
"""Edge in pixels of the drawings from which sprites are made."""
_LARGEST: Final = 2048
"""Edge in pixels of a skin's PNG file: all of a skin's drawings are kept in memory."""
_PILE_GAP: Final = 1 / 14
"""Distance between the things in a pile, as a share of its width; at least two pixels, so that they can be counted."""
_SINGLE: Final = 0.7
"""Largest share of a pile's width that one thing alone takes: it shall not look like a thing of another kind."""


def sprite(name: str, pixels: int, skin: str = "") -> Image.Image:
    """A sprite on a transparent square.

    Args:
        name: One of ``envs.kidgym.catalog.SPRITES``, ``agent/DIRECTION``, ``arrow``, or any name that the skin draws.
        pixels: Edge of the square.
        skin: Folder of user drawings, which come before the built-in ones; empty for none.

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
    return _centered(fitted(name, pixels - 2 * margin, pixels - 2 * margin, skin), pixels)


@lru_cache(maxsize=2048)
def fitted(name: str, width: int, height: int, skin: str = "") -> Image.Image:
    """A drawing without margin, in its own proportions and as large as fits into a box of pixels, RGBA; not to be changed.

    Raises:
        ValueError: neither the built-in drawings nor the skin have the name, or the skin's file cannot be read.
    """
    fine = _fine(name, max(_FINE, 2 * max(width, height)), skin)
    size = _scaled(fine.size, (width, height), min)
    shrunk = size <= fine.size
    return fine.resize(size, Image.Resampling.BOX if shrunk else Image.Resampling.LANCZOS)


@lru_cache(maxsize=512)
def _fine(name: str, edge: int, skin: str) -> Image.Image:
    """A drawing about ``edge`` pixels large, or as large as a skin's PNG file is, from which all smaller ones are averaged.

    To draw each size afresh would take longer, and resvg draws outlines thinner than a pixel with notches.
    """
    path = skin_file(skin, name)
    if path is not None:
        return _read(path, name, edge, edge, skin)
    try:
        drawing = rasterize(sources.builtin(name), edge, edge)
    except KeyError:
        where = f"neither the built-in drawings nor skin {skin!r} have" if skin else "there is no"
        raise ValueError(
            f"{where} sprite {name!r}: see envs/kidgym/catalog.py, or name a skin with a file {name}.svg or {name}.png"
        ) from None
    if name in sources.OPENMOJI:  # it has an empty border
        drawing = drawing.crop(drawing.getbbox())
    return drawing


def backdrop(background: str, width: int, height: int, skin: str = "") -> Image.Image:
    """A background that fills a box of pixels, RGBA; of one with other proportions the middle.

    Raises:
        ValueError: the skin's file cannot be read as a picture.
    """
    name = f"background/{background}"
    path = skin_file(skin, name)
    if path is None:
        return rasterize(sources.builtin(name), width, height)
    picture = _read(path, name, 2 * width, 2 * height, skin)
    picture = picture.resize(_scaled(picture.size, (width, height), max), Image.Resampling.LANCZOS)
    left, top = (picture.width - width) // 2, (picture.height - height) // 2
    return picture.crop((left, top, left + width, top + height))


def skin_file(skin: str, name: str) -> Path | None:
    """The file that draws a sprite in a skin, ``SKIN/NAME.svg`` or ``SKIN/NAME.png``; None if there is none.

    Raises:
        ValueError: there are both.
    """
    if not skin:
        return None
    named = [Path(skin) / f"{name}.svg", Path(skin) / f"{name}.png"]
    files = [path for path in named if path.is_file()]
    if len(files) > 1:
        raise ValueError(f"skin {skin!r}: sprite {name!r} has two drawings, {name}.svg and {name}.png; remove one")
    return files[0] if files else None


def rasterize(svg: str, width: int, height: int) -> Image.Image:
    """An SVG drawing in its own proportions, as large as fits into a box of pixels, RGBA; no system fonts are used."""
    data = resvg_py.svg_to_bytes(svg_string=svg, width=width, height=height, skip_system_fonts=True)
    return Image.open(io.BytesIO(bytes(data))).convert("RGBA")


def _centered(picture: Image.Image, pixels: int) -> Image.Image:
    square = Image.new("RGBA", (pixels, pixels))
    square.paste(picture, ((pixels - picture.width) // 2, (pixels - picture.height) // 2))
    return square


def _read(path: Path, name: str, width: int, height: int, skin: str) -> Image.Image:
    """A skin's drawing: a PNG file as it is, an SVG file as large as fits into a box of pixels."""
    try:
        if path.suffix == ".svg":
            return read_svg(path, width, height)
        # Of other formats than these Pillow would read some with programs of the system, such as Ghostscript.
        with Image.open(io.BytesIO(read_bytes(path, MOST_BYTES)), formats=("PNG",)) as image:
            if max(image.size) > _LARGEST:
                raise ValueError(f"{image.width}x{image.height} pixels; at most {_LARGEST} an edge are read")
            return image.convert("RGBA")
    except UnidentifiedImageError as error:
        raise ValueError(
            f"skin {skin!r}: sprite {name!r} cannot be read: {path.name} is no PNG file, or damaged"
        ) from error
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"skin {skin!r}: sprite {name!r} cannot be read from {path.name}: {error}") from error


def read_svg(path: Path, width: int, height: int) -> Image.Image:
    """A skin's SVG file, as large as fits into a box of pixels.

    Raises:
        OSError, ValueError: it cannot be read or drawn, or refers to other files.
    """
    svg = read_text(path, MOST_BYTES)
    _check_references(svg, path.name)
    return rasterize(svg, width, height)


def _check_references(svg: str, name: str) -> None:
    """See that a drawing needs no other file: one outside the skin has no part in the skin's content hash.

    Raises:
        FileError: it refers to one.
    """
    for reference in references_in(svg, name):
        if not reference.startswith(("#", "data:")):
            raise FileError(
                name, f"refers to {reference[:80]!r}; embed that picture (data:), or save the drawing as PNG"
            )


def _scaled(size: tuple[int, int], box: tuple[int, int], choose: Callable[[float, float], float]) -> tuple[int, int]:
    """A size in the same proportions that fits into a box (``min``) or fills it (``max``)."""
    scale = choose(box[0] / size[0], box[1] / size[1])
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _quarter(animal: str, corner: int, pixels: int, skin: str) -> Image.Image:
    """One of the four squares of an animal's picture: 1 upper left, 2 upper right, 3 lower left, 4 lower right."""
    margin = max(1, round(pixels * 0.06))
    inside = 2 * (pixels - margin)
    whole = Image.new("RGBA", (2 * pixels, 2 * pixels), CANVAS_TINT)
    whole.alpha_composite(_centered(fitted(f"animal/{animal}", inside, inside, skin), 2 * pixels))
    x, y = (corner - 1) % 2 * pixels, (corner - 1) // 2 * pixels
    piece = whole.crop((x, y, x + pixels, y + pixels))
    edge = Image.new("RGBA", (pixels, pixels), QUARTER_EDGE)
    edge.paste(piece.crop((1, 1, pixels - 1, pixels - 1)), (1, 1))
    return edge


def pile(item: str, count: int, width: int, height: int, skin: str = "") -> Image.Image:
    """One to three of an item with gaps between them, so that they can be counted, on a transparent rectangle.

    Three lie in one row or one above two, whichever lets them be larger.
    """
    kind = next(kind for kind, names in PILED.items() if item in names)
    name = f"{kind}/{item}"
    gap = max(2, round(_PILE_GAP * width))
    rows: tuple[int, ...] = (count,)
    if count == 3:
        rows = max(((3,), (1, 2)), key=partial(_largest, name, width, height, skin))
    across = (width - gap * (rows[-1] - 1)) // rows[-1]
    if count == 1:
        across = round(_SINGLE * width)
    thing = fitted(name, across, (height - gap * (len(rows) - 1)) // len(rows), skin)
    heap = Image.new("RGBA", (width, height))
    y = (height - len(rows) * (thing.height + gap) + gap) // 2
    for number in rows:
        x = (width - number * (thing.width + gap) + gap) // 2
        for place in range(number):
            heap.paste(thing, (x + place * (thing.width + gap), y))
        y += thing.height + gap
    return heap


def _largest(name: str, width: int, height: int, skin: str, rows: tuple[int, ...]) -> float:
    """Height of the things in a pile of such rows if pixels were infinitely small: the same choice at every resolution."""
    shape = _fine(name, _FINE, skin)
    gap = _PILE_GAP * width
    across = (width - gap * (rows[-1] - 1)) / rows[-1]
    return min((height - gap * (len(rows) - 1)) / len(rows), across * shape.height / shape.width)
