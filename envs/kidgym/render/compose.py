"""From a scene to pixels: copies of ready-made opaque tiles onto a copy of a ready-made background.

Nothing is blended while a scene is drawn. What a cell shows (ground, sprite and label) is composed once, kept, and then
copied: some 3 microseconds a cell. The playfield's cells have one even ground for each background, so that a tile is the
same wherever it lies; only in the gallery, which has no ground of its own, does a tile depend on its place.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from envs.kidgym.catalog import BACKGROUNDS, SLOTS
from envs.kidgym.render import glyphs, layout, skins
from envs.kidgym.render.sprites import FULL_CELL, backdrop, fitted, pile, rasterize, skin_file, sprite
from envs.kidgym.scene import FIELD_CELLS, GRID_CELLS, RESOLUTIONS, Hint, Item, Scene

if TYPE_CHECKING:
    Pixels = NDArray[np.uint8]

DIRECTIONS: Final = ("down", "right", "up", "left")

GROUND: Final[dict[str, tuple[str, str]]] = {
    "farm": ("#f1f7e4", "#dbe8c6"),
    "shop": ("#fbf6ec", "#ebdfc9"),
    "canteen": ("#eef2f1", "#d3dbda"),
    "toy_house": ("#faf5f9", "#e8dcea"),
    "park": ("#f1f7ea", "#d9e8cc"),
    "maze": ("#f6f2e9", "#e3dccd"),
}
"""Fill and outline of the playfield's cells on each background; the gallery has none."""

OPEN: Final = "park"
"""The scene whose playfield and ground a skin's own scenes have."""

LABELED_WIDTH: Final = 60
LABELED_HEIGHTS: Final = (49, 44)
"""Most width and height of a labeled sprite in drawing units. It reaches down behind its label, by the first of the heights
where it is wide enough to be seen on both sides of it."""
LABELED_TOP: Final = 2
LABEL_WIDTH: Final = 22
PILE: Final = (6, 5, 52, 32)
"""Where a labeled pile stands in its cell: upper left corner, width and height in drawing units. The margins are wider than
the gaps within a pile, so that neighboring piles do not run together, and no pile touches a label."""


def render(scene: Scene) -> Pixels:
    """Draws a scene.

    Returns:
        RGB pixels, shape (9 x cell_pixels, 9 x cell_pixels, 3), a fresh array.

    Raises:
        ValueError: the resolution, the background, a sprite, a position or the skin is none that can be drawn; the
            message names it.
    """
    cell, skin, background = scene.cell_pixels, scene.skin, scene.background
    if cell not in RESOLUTIONS:
        raise ValueError(f"cell_pixels is {cell}: a cell has {', '.join(map(str, RESOLUTIONS))} pixels")
    skins.check_scene_skin(scene)
    # A skin may bring scenes of its own.
    if background not in BACKGROUNDS and skin_file(skin, f"background/{background}") is None:
        raise ValueError(f"unknown background {background!r}: there are {', '.join(BACKGROUNDS)}")
    pixels = _canvas(background, cell, skin).copy()
    field_left, field_top = layout.FIELD.get(background, layout.FIELD[OPEN])
    left = layout.HINT_WIDTH * cell // layout.CELL + field_left * cell // layout.CELL
    top = field_top * cell // layout.CELL
    everywhere = background != "gallery"
    for x, y, item in (*scene.cells, _agent(scene)):
        inside = 0 <= x < FIELD_CELLS and 0 <= y < FIELD_CELLS
        if not inside:
            raise ValueError(f"{item.sprite!r} stands at ({x}, {y}), outside of the playfield's 5x5 cells")
        # On an even ground a tile is the same wherever it lies.
        place = (0, 0) if everywhere else (x, y)
        tile = _tile(background, place, item.sprite, item.label, cell, skin)
        pixels[top + y * cell : top + (y + 1) * cell, left + x * cell : left + (x + 1) * cell] = tile
    for slot, held in enumerate(scene.backpack):
        if held is None:
            continue
        placed = layout.Placed(held, *layout.slot_inside(slot))
        _blit(pixels, placed, layout.SLOT_GROUND, cell, skin)
    if scene.hint is not None:
        _draw_hint(pixels, scene.hint, cell, skin)
    return pixels


def _agent(scene: Scene) -> tuple[int, int, Item]:
    x, y, direction = scene.agent
    if not 0 <= direction < len(DIRECTIONS):
        raise ValueError(f"the agent's direction is {direction}: it is 0 down, 1 right, 2 up or 3 left")
    return x, y, Item(f"agent/{DIRECTIONS[direction]}")


def _draw_hint(pixels: Pixels, hint: Hint, cell: int, skin: str) -> None:
    ground: layout.Color = layout.HINT_GROUND
    for placed in layout.hint_layout(hint):
        if placed.item is layout.BOX:
            x, y, edge = (length * cell // layout.CELL for length in placed[1:])
            pixels[y : y + edge, x : x + edge] = _box(edge, max(1, cell // 21))
            ground = layout.BOX_GROUND
        else:
            _blit(pixels, placed, ground, cell, skin)


def _blit(pixels: Pixels, placed: layout.Placed, ground: layout.Color, cell: int, skin: str) -> None:
    x, y, edge = (length * cell // layout.CELL for length in placed[1:])
    pixels[y : y + edge, x : x + edge] = _patch(placed.item, edge, ground, skin)


# --- what is made once and then copied ---------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def _canvas(background: str, cell: int, skin: str) -> Pixels:
    """A frame with nothing in it: blank hint block, scene, and the backpack's strip with its four lettered slots."""
    unit = cell / layout.CELL
    canvas = Image.new("RGB", (GRID_CELLS * cell, GRID_CELLS * cell), "white")
    width, height = layout.SCENE_COLUMNS * cell, layout.SCENE_ROWS * cell
    scene = backdrop(background, width, height, skin)
    strip = rasterize(_strip(), width, cell)
    canvas.paste(scene, (2 * cell, 0), scene)
    canvas.paste(strip, (2 * cell, height), strip)
    draw = ImageDraw.Draw(canvas)
    if background != "gallery":
        fill, outline = GROUND.get(background, GROUND[OPEN])
        left, top = (round(edge * unit) for edge in layout.FIELD.get(background, layout.FIELD[OPEN]))
        for column in range(FIELD_CELLS):
            for row in range(FIELD_CELLS):
                x, y = 2 * cell + left + column * cell, top + row * cell
                draw.rectangle((x, y, x + cell - 1, y + cell - 1), fill, outline)
    draw.line((2 * cell - 1, 0, 2 * cell - 1, GRID_CELLS * cell), "#b8bcc4")
    return np.asarray(canvas)


def _strip() -> str:
    """The backpack's strip as SVG, 7 x 1 cells."""
    slots = "".join(
        f'<rect x="{x + 4}" y="4" width="{layout.SLOT_WIDTH - 8}" height="56" rx="8" fill="rgb{layout.SLOT_GROUND}"'
        f' stroke="#5b3a1e" stroke-width="2"/><path d="M{x + 12} 4H{x + 42}V60H{x + 12}A8 8 0 0 1 {x + 4} 52V12A8 8 0 0 1'
        f' {x + 12} 4Z" fill="#5b3a1e"/>' + glyphs.line(letter, (x + 23, 32), 26, 2.4, "#ffffff")
        for x, letter in zip(range(0, 4 * layout.SLOT_WIDTH, layout.SLOT_WIDTH), SLOTS, strict=True)
    )
    size = f"{layout.SCENE_COLUMNS * layout.CELL} {layout.CELL}"
    return (
        f'<svg viewBox="0 0 {size}" xmlns="http://www.w3.org/2000/svg"><rect width="100%" height="100%" fill="#a9784a"/>'
        f"{slots}</svg>"
    )


@lru_cache(maxsize=4096)
def _tile(background: str, place: tuple[int, int], name: str, label: str, cell: int, skin: str) -> Pixels:
    """A cell of the playfield with what lies in it."""
    left, top = (edge * cell // layout.CELL for edge in layout.FIELD.get(background, layout.FIELD[OPEN]))
    x, y = 2 * cell + left + place[0] * cell, top + place[1] * cell
    ground = _canvas(background, cell, skin)[y : y + cell, x : x + cell]
    return _over(ground, labeled(name, label, cell, skin))


@lru_cache(maxsize=1024)
def _patch(item: Item, edge: int, ground: layout.Color, skin: str) -> Pixels:
    """An item on a plain ground, for the backpack and the hint block."""
    plain = np.asarray(Image.new("RGB", (edge, edge), ground))
    return _over(plain, labeled(item.sprite, item.label, edge, skin))


@lru_cache(maxsize=16)
def _box(edge: int, line: int) -> Pixels:
    """The outline of a boxed hint on its ground."""
    box = Image.new("RGB", (edge, edge), layout.BOX_LINE)
    box.paste(layout.BOX_GROUND, (line, line, edge - line, edge - line))
    return np.asarray(box)


def labeled(name: str, label: str, edge: int, skin: str) -> Image.Image:
    """A sprite on a transparent square, above its label if it has one."""
    if not label:
        return sprite(name, edge, skin)
    square = Image.new("RGBA", (edge, edge))
    family, *rest = name.split("/")
    if family in FULL_CELL:
        square.paste(sprite(name, edge, skin))
    elif family == "pile" and skin_file(skin, name) is None:
        left, top, width, height = (length * edge // layout.CELL for length in PILE)
        square.paste(pile(rest[0], int(rest[1]), width, height, skin), (left, top))
    else:
        width, tall, low = (length * edge // layout.CELL for length in (LABELED_WIDTH, *LABELED_HEIGHTS))
        picture = fitted(name, width, tall, skin)
        # A sprite that is too narrow to be seen on both sides of its label reaches down less far behind it.
        if picture.width < 2 * LABEL_WIDTH * edge // layout.CELL:
            picture = fitted(name, width, low, skin)
        above = glyphs.PLATE_TOP * edge // layout.CELL - picture.height
        square.paste(picture, ((edge - picture.width) // 2, max(LABELED_TOP * edge // layout.CELL, above // 2)))
    square.alpha_composite(label_plate(label, edge))
    return square


@lru_cache(maxsize=64)
def label_plate(text: str, edge: int) -> Image.Image:
    """A label on its plate, on a transparent square that is otherwise empty."""
    return rasterize(glyphs.label(text), 4 * edge, 4 * edge).reduce(4)  # thin strokes come out even


def _over(ground: Pixels, picture: Image.Image) -> Pixels:
    """Opaque, contiguous pixels of a picture on its ground."""
    return np.asarray(Image.alpha_composite(Image.fromarray(ground).convert("RGBA"), picture).convert("RGB"))
