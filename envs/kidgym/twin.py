"""A KidGym frame told in words: what is drawn where, by the names of things, as a careful person would read it off.

Only the frame is known here, not the game: what it does not show (an item beneath the person, a hint that is gone) is not
told. Things that are drawn differently have different names, and rows and columns count from 1 at the upper left.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from envs.kidgym.catalog import ITEMS, ROMAN, SLOTS, SPRITES, words
from envs.kidgym.scene import FIELD_CELLS, Hint, Item, Scene
from envs.picture import Detail

VERSION: Final = 1
"""Raised whenever the same frame would be told in other words."""

LOOKS: Final = ("down", "right", "up", "left")
CORNERS: Final = ("upper left", "upper right", "lower left", "lower right")
"""Of quarters and tiles, in the order of their numbers."""
FRAMED: Final[dict[str, tuple[int, int]]] = {"gallery": (2, 3)}
"""Backgrounds with a picture frame: the first and the last row, and column, that it encloses."""
EMPTY: Final = "-"


@dataclass(frozen=True)
class Seen:
    """What a frame shows, with the names of things; places are (row, column) from 1."""

    background: str
    framed: tuple[int, int] | None
    person: tuple[int, int, str]
    """Row, column, and where he looks."""
    things: dict[tuple[int, int], Item]
    """By place, in reading order; an item's sprite is its name here."""
    backpack: tuple[Item | None, ...]
    hint: Hint | None


def twin(scene: Scene, detail: Detail) -> str:
    """The scene in words, without a line break at its end."""
    tell: dict[Detail, Callable[[Seen], str]] = {"grid": _grid, "prose": _prose, "json": _json}
    return tell[detail](seen(scene))


def seen(scene: Scene) -> Seen:
    """What can be read off the picture of a scene."""
    x, y, direction = scene.agent
    # What is drawn later covers what is in its cell, and the person is drawn last.
    drawn = {(row + 1, column + 1): named(item) for column, row, item in scene.cells}
    drawn.pop((y + 1, x + 1), None)
    backpack = []
    for held in scene.backpack:
        backpack.append(None if held is None else named(held))
    hint = scene.hint
    if hint is not None:
        rows = [tuple(map(named, row)) for row in hint.rows]
        hint = hint._replace(rows=tuple(rows))
    return Seen(
        background=scene.background.replace("_", " "),
        framed=FRAMED.get(scene.background),
        person=(y + 1, x + 1, LOOKS[direction]),
        things=dict(sorted(drawn.items())),
        backpack=tuple(backpack),
        hint=hint,
    )


def named(item: Item) -> Item:
    """The item with a name in words in place of its sprite's."""
    return item._replace(sprite=name_of(item.sprite))


def name_of(sprite: str) -> str:
    """What a person would call a drawing: ``key/blue`` is a blue key."""
    family, *rest = sprite.split("/")
    if not rest or family in ITEMS:
        return words(sprite)
    # A skin may draw others of these families, of which nothing but the name is known.
    if sprite not in SPRITES:
        return _by_parts(sprite)
    match family:
        case "quarter":
            return f"{CORNERS[int(rest[1]) - 1]} quarter of {_a(words(rest[0]))}"
        case "tile":
            return f"triangle with its right angle at the {CORNERS[int(rest[0]) - 1]}"
        case "pile":
            return f"pile of {rest[1]} {_several(int(rest[1]), words(rest[0]))}"
        case "roman":
            return f"position {ROMAN[int(rest[0]) - 1]}"
    return _by_parts(sprite)


def _by_parts(sprite: str) -> str:
    """The parts of a sprite's name as words, the family last."""
    family, *rest = sprite.split("/")
    return " ".join(part.replace("_", " ") for part in (*rest, family))


def _several(number: int, word: str) -> str:
    if number == 1 or word == "sushi":
        return word
    return f"{word.removesuffix('y')}ies" if word.endswith("y") else f"{word}s"


def _a(name: str) -> str:
    """A name with its article; positions are names of their own."""
    if name.startswith("position "):
        return name
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _changes_of_person(one: Seen, other: Seen) -> Iterator[str]:
    (*left, _), (*reached, looks) = one.person, other.person
    if left != reached:
        yield f"the person went from row {left[0]}, column {left[1]} to row {reached[0]}, column {reached[1]}"
    if one.person != other.person:
        yield f"the person looks {looks}"


def _changes_of_things(one: Seen, other: Seen) -> Iterator[str]:
    for (row, column), old in one.things.items():
        if (row, column) not in other.things:
            yield f"{_long(old)} is gone from row {row}, column {column}"
    for (row, column), new in other.things.items():
        if one.things.get((row, column)) != new:
            yield f"in row {row}, column {column} there is now {_long(new)}"


def _changes_of_backpack(one: Seen, other: Seen) -> Iterator[str]:
    for slot, held, holds in zip(SLOTS, one.backpack, other.backpack, strict=True):
        if held != holds:
            now = "is now empty" if holds is None else f"now holds {_long(holds)}"
            yield f"slot {slot} of the backpack {now}"


def changes(before: Scene, after: Scene) -> list[str]:
    """What differs between two pictures, each as a clause; empty where they look the same."""
    one, other = seen(before), seen(after)
    said = [*_changes_of_person(one, other), *_changes_of_things(one, other), *_changes_of_backpack(one, other)]
    if one.hint != other.hint:
        now = "shows something else"
        if other.hint is None:
            now = "is now blank"
        said.append(f"the hint block {now}")
    return said


# --- as a grid -------------------------------------------------------------------------------------------------------


def _grid(what: Seen) -> str:
    lines = [f"Background: {what.background}"]
    if what.framed:
        first, last = what.framed
        lines.append(f"Picture frame around rows {first}-{last}, columns {first}-{last}")
    lines.append(
        "Board, one line for each row from the top, cells from left to right, labels in brackets, - for nothing:"
    )
    for row in range(1, FIELD_CELLS + 1):
        cells = [_cell(what, row, column) for column in range(1, FIELD_CELLS + 1)]
        lines.append(f"{row}: {' | '.join(cells)}")
    slots = zip(SLOTS, what.backpack, strict=True)
    lines.append("Backpack: " + " | ".join(f"{slot}: {_short(held)}" for slot, held in slots))
    lines.append(f"Hint block: {_grid_hint(what.hint)}")
    return "\n".join(lines)


def _cell(what: Seen, row: int, column: int) -> str:
    *place, looks = what.person
    return f"person looking {looks}" if place == [row, column] else _short(what.things.get((row, column)))


def _short(item: Item | None) -> str:
    if item is None:
        return EMPTY
    return f"{item.sprite} [{item.label}]" if item.label else item.sprite


def _grid_hint(hint: Hint | None) -> str:
    if hint is None:
        return "blank"
    joint = " -> " if hint.style == "pairs" else " | "
    rows = " / ".join(joint.join(map(_short, row)) for row in hint.rows)
    return f"{hint.style} at the {hint.place}: {rows}"


# --- in sentences ----------------------------------------------------------------------------------------------------


def _prose(what: Seen) -> str:
    row, column, looks = what.person
    said = [f"The background is {_a(what.background)}.", f"The board has {FIELD_CELLS} rows and {FIELD_CELLS} columns."]
    if what.framed:
        first, last = what.framed
        said.append(f"A picture frame surrounds rows {first} to {last} of columns {first} to {last}.")
    said.append(f"The person stands in row {row}, column {column} and looks {looks}.")
    for (row, column), item in what.things.items():
        said.append(f"In row {row}, column {column} there is {_long(item)}.")
    said.append("All other cells are empty.")
    for slot, held in zip(SLOTS, what.backpack, strict=True):
        holds = "is empty" if held is None else f"holds {_long(held)}"
        said.append(f"Slot {slot} of the backpack {holds}.")
    said += _prose_hint(what.hint)
    return " ".join(said)


def _long(item: Item) -> str:
    return f"{_a(item.sprite)} with the label {item.label}" if item.label else _a(item.sprite)


def _prose_hint(hint: Hint | None) -> Sequence[str]:
    if hint is None:
        return ["The hint block is blank."]
    where = f"at the {hint.place} of the hint block"
    match hint.style:
        case "pairs":
            pairs = [f"from {_long(left)} to {_long(right)}" for left, right in hint.rows]
            return [f"Arrows {where}, from top to bottom, point {'; '.join(pairs)}."]
        case "column":
            items = [_long(item) for (item,) in hint.rows]
            return [f"One below the other {where} there are: {'; '.join(items)}."]
        case _:
            rows = [", then ".join(map(_long, row)) for row in hint.rows]
            return [f"A box {where} shows, from left to right and from top to bottom: {'; below it '.join(rows)}."]


# --- as JSON ---------------------------------------------------------------------------------------------------------


def _hint_fields(hint: Hint) -> dict[str, Any]:
    rows = []
    for row in hint.rows:
        rows.append([_fields(item) for item in row])
    return {"style": hint.style, "place": hint.place, "rows": rows}


def _json(what: Seen) -> str:
    row, column, looks = what.person
    told: dict[str, Any] = {"background": what.background, "board": {"rows": FIELD_CELLS, "columns": FIELD_CELLS}}
    if what.framed:
        told["picture_frame"] = {"rows": [*what.framed], "columns": [*what.framed]}
    told["person"] = {"row": row, "column": column, "looks": looks}
    told["things"] = []
    for (row, column), item in what.things.items():
        told["things"].append({"row": row, "column": column, **_fields(item)})
    told["backpack"] = {}
    for slot, held in zip(SLOTS, what.backpack, strict=True):
        told["backpack"][slot] = None if held is None else _fields(held)
    told["hint"] = None if what.hint is None else _hint_fields(what.hint)
    return json.dumps(told)


def _fields(item: Item) -> dict[str, str]:
    return {"name": item.sprite, "label": item.label} if item.label else {"name": item.sprite}
