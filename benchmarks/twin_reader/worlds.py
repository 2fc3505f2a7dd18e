"""From a KidGym prompt to a world that plays as the one it tells of, as far as it can be known from the prompt."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.twin_reader.frames import SPRITES, Board, Thing, found, read_twin
from envs.kidgym import TASKS, Item, World, solve
from evals.types import Chat, Reply, Turn

PICTURE = re.compile(r"<picture>\n(.*?)\n</picture>", re.DOTALL)
COMPASS = ("north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest")
AROUND = ((2, 1), (3, 1), (3, 2), (3, 3), (2, 3), (1, 3), (1, 2), (1, 1))
"""Columns and rows around the middle, in the order of ``COMPASS``."""
CORNERS = ((1, 1), (2, 1), (1, 2), (2, 2))
MORE = {"heavier": "heavy", "lighter": "light", "faster": "fast", "slower": "slow"}
ORDERS = {
    "heavier": ("elephant", "pig", "sheep", "cat", "mouse"),
    "lighter": ("mouse", "cat", "sheep", "pig", "elephant"),
    "faster": ("horse", "dog", "chick", "tortoise", "snail"),
    "slower": ("snail", "tortoise", "chick", "dog", "horse"),
}


@dataclass(frozen=True)
class Told:
    """What a prompt tells."""

    goal: str
    now: Board
    first: Board
    """The first picture of the episode that the prompt still shows."""
    step: int
    budget: int
    offers: dict[str, str]
    """Letters by action."""


def told_by(chat: Chat) -> Told:
    """What the chat of a turn tells."""
    said = ["".join(part for part in each.parts if isinstance(part, str)) for each in chat if each.role == "user"]
    pictures = PICTURE.findall("\n".join(said))
    goal = re.findall(r"^Goal: (.*)$", said[-1], re.MULTILINE)[-1]
    step, budget = re.findall(r"This is step (\d+) of at most (\d+)\.", said[-1])[-1]
    offers = {text: letter for letter, text in re.findall(r"^([A-Z])\) (.*)$", said[-1], re.MULTILINE)}
    return Told(goal, read_twin(pictures[-1]), read_twin(pictures[0]), int(step), int(budget), offers)


class TwinReader:
    """Wins by reading: the world that a prompt tells of is built and searched."""

    async def reply(self, turn: Turn) -> Reply:
        """The letter of the first action on the shortest way to win."""
        told = told_by(turn.chat)
        way = solve(world_of(told))
        return Reply(f"<answer>{told.offers[way[0].text]}</answer>" if way else "I see no way.")


def world_of(told: Told) -> World:
    """A world in the state that a prompt tells of."""
    task = next(name for pattern, name in _TASKS if re.search(pattern, told.goal))
    cls, now = TASKS[task], told.now
    balanced = bool(_BALANCED.search(told.goal))
    spare = int(balanced and task == "DMA")  # as published it has a step more than is needed
    world = object.__new__(cls)
    x, y, _ = now.person
    world.__dict__.update(
        level=cls.budgets.index(told.budget + spare) + 1,
        seed=0,
        cell_pixels=64,
        skin="",
        background="park",
        scene={_cell(place): Item(*thing) for place, thing in now.things.items()},
        agent=_cell((x, y)),
        facing=0,
        backpack=[Item(*held) for held in now.backpack if held],
        watching=False,
        steps=told.step - 1,
        success=False,
        terminated=False,
        _order=0,
        _actions=None,
        variant="balanced" if balanced else "published",
    )
    world.__dict__.update(_KNOWN[task](told))
    return world


def _cell(place: tuple[int, int]) -> int:
    return 5 * place[1] + place[0]


def _numbered(board: Board) -> dict[int, int]:
    """Cells of the positions that are still marked, by number."""
    marked = [(thing, place) for place, (thing, _) in board.things.items() if thing.startswith("roman/")]
    return {int(thing.split("/")[1]): _cell(place) for thing, place in marked}


def _classification(told: Told) -> dict[str, Any]:
    pairs = re.findall(r"every (.*?) in the (\w+) basket", told.goal)
    return {"belongs": tuple((SPRITES[item], f"basket/{color}") for item, color in pairs)}


def _selection(told: Told) -> dict[str, Any]:
    targets = tuple(Item(*row[0]) for row in told.first.rows)
    return {"targets": targets, "type": targets[0].sprite.split("/")[0]}


def _sorting(told: Told) -> dict[str, Any]:
    order = _told_order(told.goal)
    placed = {thing: _cell(place) for place, (thing, _) in told.now.things.items() if thing.startswith("animal/")}
    here = {*placed, *(held[0] for held in told.now.backpack if held)}
    answer = tuple(f"animal/{name}" for name in order if f"animal/{name}" in here)
    marked = _numbered(told.now)
    places = tuple(marked.get(number, placed.get(animal, -1)) for number, animal in enumerate(answer, 1))
    return {"answer": answer, "positions": places}


def _told_order(goal: str) -> tuple[str, ...]:
    """The animals in the order asked for, by a rule, or by comparing every two of them."""
    comparisons = re.findall(r"the (\w+) is (\w+) than the (\w+)", goal)
    if comparisons:
        first = found(r" from (\w+) to", goal)[1]
        later = [other if MORE[more] == first else one for one, more, other in comparisons]
        return tuple(sorted({name for one, _, other in comparisons for name in (one, other)}, key=later.count))
    premise, conclusion, first = found(r"the (\w+) the animal is, the (\w+) it is\. .*? from (\w+) to", goal).groups()
    return ORDERS[premise] if MORE[conclusion] == first else ORDERS[premise][::-1]


def _locks(told: Told) -> dict[str, Any]:
    diamonds = [place for place, (thing, _) in told.first.things.items() if thing == "diamond"]
    chests = [_cell(place) for place, (thing, _) in told.now.things.items() if thing == "chest"]
    treasure = _cell(diamonds[0])
    fitting = tuple((color, color) for color in ("blue", "red", "yellow"))
    if told.now.style == "pairs":
        fitting = tuple((key.split("/")[1], door.split("/")[1]) for (key, _), (door, _) in told.now.rows)
    hidden = tuple((cell, Item("chest")) for cell in chests if cell != treasure)
    return {"treasure": treasure, "fitting": fitting, "hidden": hidden}


def _filling(told: Told) -> dict[str, Any]:
    board = told.now if told.now.rows else told.first
    if len(board.rows) == 2:
        return _pieces(told, tuple(piece for row in board.rows for piece, _ in row))
    return _pieces(told, tuple(f"quarter/{board.rows[0][0][0].split('/')[1]}/{number}" for number in range(1, 5)))


def _puzzle(told: Told) -> dict[str, Any]:
    return _pieces(told, tuple(tile for row in told.now.rows for tile, _ in row))


def _pieces(told: Told, whole: tuple[str, ...]) -> dict[str, Any]:
    """What is missing where; places that are filled already count as filled rightly."""
    marked = _numbered(told.now)
    laid = [place for place in CORNERS if place in told.now.things]
    filled = [_cell(place) for place in laid if _cell(place) not in marked.values()]
    count = len(re.findall(r"[IVX]+", found(r"at positions? ([IVX, ]+)", told.goal)[1]))
    blanks = tuple(marked[number] if number in marked else filled.pop() for number in range(1, count + 1))
    needed = dict(zip(map(_cell, CORNERS), whole, strict=True))
    lies = {_cell(place): thing for place, (thing, _) in told.now.things.items()}
    missing = tuple(needed[cell] if cell in marked.values() else lies[cell] for cell in blanks)
    return {"blanks": blanks, "missing": missing, "animal": "", "pattern": whole}


def _placement(told: Told) -> dict[str, Any]:
    direction = found(r"The given direction is (\w+)\.", told.goal)[1]
    turn = -1 if "counterclockwise" in told.goal else 1 if "clockwise" in told.goal else 0
    turn *= 3 if "the third position" in told.goal else 2 if "the second position" in told.goal else 1
    answer = AROUND[(COMPASS.index(direction) + 4 + turn) % 8]
    marked = _numbered(told.now)
    (carried,) = filter(None, told.now.backpack)
    return {
        "answer": _cell(answer),
        "item": carried[0],
        "center": told.now.things[2, 2][0],
        "positions": tuple(marked[number] for number in sorted(marked)),
        "direction": direction,
        "turn": turn,
    }


def _counting(told: Told) -> dict[str, Any]:
    asked = re.findall(r"(\d+) ([a-z_]+)", found(r"Collect exactly (.*?)(?: in all)?, then", told.goal)[1])
    piles = [thing for thing, _ in told.now.things.values()] + [held[0] for held in told.now.backpack if held]
    names = {pile.split("/")[1] for pile in piles}
    wanted = tuple((next(name for name in names if name[:4] == word[:4]), int(number)) for number, word in asked)
    return {"target": sum(number for _, number in wanted), "item": wanted[0][0], "wanted": wanted, "declared": False}


def _decode(told: Told) -> dict[str, Any]:
    table: list[list[Thing]] = told.first.rows
    pairs = tuple((left[0], right[0]) for left, right in table)
    query = told.now.rows[0][0][0]
    return {"table": pairs, "query": query, "answer": dict(pairs)[query]}


_BALANCED = re.compile(r"each position holds the piece|than the|of a thing\.$|every .*, every |is used up")
"""Told by goals of balanced games only."""
_TASKS = (
    (r"shows a pattern of four", "PU"),
    (r"shows a picture made of four", "FI"),
    (r"hint block showed in that place", "MFI"),
    (r"^Put every ", "CL"),
    (r"^The hint block showed ", "SE"),
    (r"^In this world, ", "SO"),
    (r"hint block on the left shows which key", "DMA"),
    (r"hidden in the chest", "MMA"),
    (r"^Obtain the diamond", "MA"),
    (r"^The pattern in the frame", "PU"),
    (r"you recall from the hint block", "MFI"),
    (r"^The picture in the frame", "FI"),
    (r"^The given direction", "PL"),
    (r"^Collect exactly", "CO"),
    (r"^The upper-left corner", "MDE"),
)
_KNOWN: dict[str, Callable[[Told], dict[str, Any]]] = {
    "CL": _classification,
    "SE": _selection,
    "SO": _sorting,
    "MA": _locks,
    "DMA": _locks,
    "MMA": _locks,
    "FI": _filling,
    "MFI": _filling,
    "PU": _puzzle,
    "PL": _placement,
    "CO": _counting,
    "MDE": _decode,
}
