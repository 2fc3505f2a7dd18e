"""Where things stand in a frame, in drawing units of 1/64 cell, so that one layout serves every resolution.

All positions are even numbers, hence whole pixels at 32, 64 and 96 pixels a cell.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from envs.kidgym.catalog import BACKGROUNDS
from envs.kidgym.scene import GRID_CELLS, HINT_COLUMNS, Hint, Item

CELL: Final = 64
HINT_WIDTH: Final = HINT_COLUMNS * CELL
SCENE_COLUMNS: Final = GRID_CELLS - HINT_COLUMNS
SCENE_ROWS: Final = GRID_CELLS - 1
STRIP_TOP: Final = SCENE_ROWS * CELL
SLOT_WIDTH: Final = SCENE_COLUMNS * CELL // 4

FIELD: Final[dict[str, tuple[int, int]]] = {
    **dict.fromkeys(BACKGROUNDS, (CELL, 3 * CELL)),
    "maze": (CELL, 2 * CELL),
    # The picture frame is drawn in the middle of the wall, around the playfield's cells (1..2, 1..2).
    "gallery": (CELL * 3 // 2, CELL * 3 // 2),
}
"""Left and upper edge of the playfield within the scene."""


Color = tuple[int, int, int]
HINT_GROUND: Final[Color] = (255, 255, 255)
BOX_GROUND: Final[Color] = (253, 249, 238)
BOX_LINE: Final[Color] = (107, 74, 47)
SLOT_GROUND: Final[Color] = (233, 222, 203)


class Placed(NamedTuple):
    """A sprite in the hint block or the backpack: its upper left corner and edge in drawing units."""

    item: Item
    x: int
    y: int
    edge: int


ARROW: Final = Item("arrow")
BOX: Final = Item("box")
"""Stands for the outline that a ``box`` hint draws; it is no sprite."""

_BOX_INSIDE: Final = 96


def slot_inside(slot: int) -> tuple[int, int, int]:
    """Where a slot's item is drawn, right of the slot's letter: upper left corner and edge in drawing units."""
    return HINT_WIDTH + slot * SLOT_WIDTH + 48, STRIP_TOP + 6, 52


@lru_cache(maxsize=1024)
def hint_layout(hint: Hint) -> list[Placed]:
    """Places everything that a hint block shows, in drawing order.

    Raises:
        ValueError: the style or place is unknown, a row has the wrong length, or the block has no room for all rows.
    """
    if hint.style not in ("column", "pairs", "box") or hint.place not in ("top", "middle"):
        raise ValueError(f"a hint is a column, pairs or box, placed top or middle; not {hint.style!r}, {hint.place!r}")
    if hint.style == "box":
        return _box(hint)
    if hint.style == "column":
        length, gap = 1, 16
        edge = 96 if len(hint.rows) <= 5 else 56  # smaller pictures where many must fit
    else:  # a picture, an arrow, and another picture
        length, gap = 2, 22
        edge = 46
    for row in hint.rows:
        if len(row) != length:
            raise ValueError(f"a hint of style {hint.style!r} has {length} item(s) in each row: {hint.rows}")
    pitch = edge + gap
    top = _top(hint, len(hint.rows) * pitch)
    placed: list[Placed] = []
    for number, row in enumerate(hint.rows):
        y = top + number * pitch + gap // 4 * 2
        if hint.style == "column":
            placed.append(Placed(row[0], (HINT_WIDTH - edge) // 2, y, edge))
            continue
        placed.append(Placed(row[0], 4, y, edge))
        placed.append(Placed(ARROW, 52, y + 12, 24))
        placed.append(Placed(row[1], 78, y, edge))
    return placed


def _box(hint: Hint) -> list[Placed]:
    """Rows edge to edge within an outline."""
    across = max(len(hint.rows), *(len(row) for row in hint.rows))
    edge = _BOX_INSIDE // across // 2 * 2
    left = (HINT_WIDTH - edge * max(len(row) for row in hint.rows)) // 4 * 2
    height = edge * len(hint.rows)
    top = _top(hint, height + 16) + 8
    placed = [Placed(BOX, left - 8, top - 8, height + 16)]
    for number, row in enumerate(hint.rows):
        placed += [Placed(item, left + place * edge, top + number * edge, edge) for place, item in enumerate(row)]
    return placed


def _top(hint: Hint, height: int) -> int:
    room = GRID_CELLS * CELL
    if height > room - 16:
        raise ValueError(f"the hint block has no room for {len(hint.rows)} rows of style {hint.style!r}")
    return 8 if hint.place == "top" else (room - height) // 4 * 2
