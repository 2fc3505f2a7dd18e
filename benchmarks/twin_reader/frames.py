"""Reads KidGym's text twins back, in all three details."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from envs.kidgym.catalog import BASKET_COLORS, ITEMS, LOCK_COLORS, PILED, QUARTERED, ROMAN, words

Thing = tuple[str, str]
"""Sprite and label."""

_CORNER = ("upper left", "upper right", "lower left", "lower right")


def found(pattern: str, text: str) -> re.Match[str]:
    """The first match in a text.

    Raises:
        ValueError: there is none.
    """
    match = re.search(pattern, text, re.MULTILINE | re.DOTALL)
    if match is None:
        raise ValueError(f"no {pattern!r} in {text!r}")
    return match


def whole(pattern: str, text: str) -> re.Match[str]:
    """The match of a whole text.

    Raises:
        ValueError: it is another text.
    """
    return found(rf"\A(?:{pattern})\Z", text)


def _sprites() -> dict[str, str]:
    """Sprites by the names that a person would give them."""
    sprites = {words(name): f"{kind}/{name}" for kind, names in ITEMS.items() for name in names}
    sprites |= {"wall": "wall", "chest": "chest", "diamond": "diamond", "fish": "animal/fish"}
    sprites |= {f"{color} basket": f"basket/{color}" for color in BASKET_COLORS}
    sprites |= {f"{color} {thing}": f"{thing}/{color}" for color in LOCK_COLORS for thing in ("key", "door")}
    sprites |= {f"position {numeral}": f"roman/{number}" for number, numeral in enumerate(ROMAN, 1)}
    for number, corner in enumerate(_CORNER, 1):
        sprites[f"triangle with its right angle at the {corner}"] = f"tile/{number}"
        sprites |= {f"{corner} quarter of a {name}": f"quarter/{name}/{number}" for name in QUARTERED}
        sprites |= {f"{corner} quarter of an {name}": f"quarter/{name}/{number}" for name in QUARTERED}
    for names in PILED.values():
        for name in names:
            plural = {"strawberry": "strawberries", "sushi": "sushi"}.get(name, f"{name}s")
            sprites |= {
                f"pile of {count} {name if count == 1 else plural}": f"pile/{name}/{count}" for count in (1, 2, 3)
            }
    return sprites


SPRITES = _sprites()


@dataclass
class Board:
    """What a twin says."""

    person: tuple[int, int, str] = (0, 0, "")
    """Column and row from 0, and where he looks."""
    things: dict[tuple[int, int], Thing] = field(default_factory=dict)
    """By column and row from 0."""
    backpack: list[Thing | None] = field(default_factory=list)
    style: str = ""
    rows: list[list[Thing]] = field(default_factory=list)
    """Of the hint block."""


def read_twin(text: str) -> Board:
    """The board of a twin."""
    if text.startswith("{"):
        return _from_json(json.loads(text))
    return _from_grid(text) if "\n" in text else _from_prose(text)


def _from_json(told: dict[str, Any]) -> Board:
    def thing(fields: dict[str, str]) -> Thing:
        return SPRITES[fields["name"]], fields.get("label", "")

    person = told["person"]
    board = Board((person["column"] - 1, person["row"] - 1, person["looks"]))
    board.things = {(each["column"] - 1, each["row"] - 1): thing(each) for each in told["things"]}
    board.backpack = [held and thing(held) for held in (told["backpack"][slot] for slot in "ABCD")]
    if told["hint"]:
        board.style = told["hint"]["style"]
        board.rows = [[thing(item) for item in row] for row in told["hint"]["rows"]]
    return board


def _short(text: str) -> Thing:
    name, label = whole(r"(.*?)(?: \[(\d+)\])?", text).groups()
    return SPRITES[name], label or ""


def _from_grid(text: str) -> Board:
    board = Board()
    for number, row in re.findall(r"^(\d): (.*)$", text, re.MULTILINE):
        for x, cell in enumerate(row.split(" | ")):
            y = int(number) - 1
            if cell.startswith("person looking "):
                board.person = (x, y, cell.split()[-1])
            elif cell != "-":
                board.things[x, y] = _short(cell)
    slots = found(r"^Backpack: A: (.*?) \| B: (.*?) \| C: (.*?) \| D: ([^\n]*)", text).groups()
    board.backpack = [None if slot == "-" else _short(slot) for slot in slots]
    hint = re.search(r"^Hint block: (\w+) at the \w+: (.*)$", text, re.MULTILINE)
    if hint:
        board.style = hint[1]
        board.rows = [[_short(item) for item in re.split(r" -> | \| ", row)] for row in hint[2].split(" / ")]
    return board


def _long(text: str) -> Thing:
    name, label = whole(r"(.*?)(?: with the label (\d+))?", re.sub(r"^an? ", "", text)).groups()
    return SPRITES[name], label or ""


def _from_prose(text: str) -> Board:
    board = Board(backpack=[None] * 4)
    row, column, looks = found(r"The person stands in row (\d), column (\d) and looks (\w+)\.", text).groups()
    board.person = (int(column) - 1, int(row) - 1, looks)
    for row, column, what in re.findall(r"In row (\d), column (\d) there is (.*?)\.", text):
        board.things[int(column) - 1, int(row) - 1] = _long(what)
    for slot, what in re.findall(r"Slot ([A-D]) of the backpack holds (.*?)\.", text):
        board.backpack["ABCD".index(slot)] = _long(what)
    if hint := re.search(r"Arrows at the \w+ of the hint block, .*?, point (.*)\.", text):
        board.style = "pairs"
        pairs = [whole(r"from (.*) to (.*)", pair).groups() for pair in hint[1].split("; ")]
        board.rows = [[_long(left), _long(right)] for left, right in pairs]
    if hint := re.search(r"One below the other at the \w+ of the hint block there are: (.*)\.", text):
        board.style, board.rows = "column", [[_long(item)] for item in hint[1].split("; ")]
    if hint := re.search(r"A box at the \w+ of the hint block shows, .*?: (.*)\.", text):
        board.style = "box"
        board.rows = [[_long(item) for item in row.split(", then ")] for row in hint[1].split("; below it ")]
    return board
