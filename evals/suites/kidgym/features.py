"""What can be told of each action of a KidGym game, as plain data: what the search for shortcuts learns from.

Nothing here knows the answer. A value is of the action's words, of the thing that it aims at, of the thing that it uses, or
of how these two stand to what else is seen: goal, hint block, board, backpack, and what the first picture showed. Each name
begins with what a player must perceive for it (``SENSES``), so that a player without one of these senses can be
searched for by leaving values out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from envs.kidgym import Action, World, grid
from envs.kidgym.catalog import LOCK_COLORS, ROMAN, SPRITES, words
from envs.kidgym.frame import Frame
from envs.kidgym.scene import Hint, Item
from envs.kidgym.tasks.counting import Counting
from envs.kidgym.tasks.filling import BOARD
from envs.kidgym.tasks.placement import RING
from envs.kidgym.tasks.sorting import COMPARATIVES, ENDS, SCALES, Sorting
from evals.shortcut_search.classes import COARSE
from evals.suites.kidgym.mistakes import Step
from evals.types import OptionFeatures

SENSES: Final = ("text", "label", "position", "kind", "color", "count", "side", "direction", "order", "memory")
"""What values need: the prompt's words; the digits on things; where things are; what they are; their color; how many a pile
holds; which quarter of a picture a piece is; compass directions and ways to turn, in words too; what stands before what
(arrows of the hint block, ranks of animals); what an earlier picture showed."""

COARSE_SENSES: Final = tuple(COARSE + sense for sense in ("count", "side", "direction"))
"""Several things are told from one, but not two from three; upper quarters from lower ones, but not left from right; how
far to turn, but not which way."""

Value = str | float | bool
Values = dict[str, Value]

_DIRECTIONS: Final = tuple(RING)
_NAME: Final = re.compile(
    rf"\b(?:{'|'.join(sorted(map(re.escape, {words(name) for name in SPRITES}), key=len, reverse=True))})\b"
)
_DIRECTION: Final = re.compile(rf"\b(?:{'|'.join(sorted(_DIRECTIONS, key=len, reverse=True))})\b")
_WAY: Final = re.compile(r"\b(?:counter)?clockwise\b")
UPPER: Final = ("1", "2")
"""The quarters of a picture that are above the others."""
_FAR: Final = 99.0
"""Steps to what no way leads to."""


def option_features(
    world: World, offered: Sequence[Action], opening: Frame, steps: Sequence[Step]
) -> list[OptionFeatures]:
    """The values of each action offered, in the order in which they are shown.

    Args:
        world: The game at this step.
        offered: The actions in that order.
        opening: Its first picture.
        steps: What was done so far.
    """
    shared = _said(world, steps)
    found = []
    for place, action in enumerate(offered):
        values: Values = {**shared, **_wording(world, action, place, steps)}
        values |= _place(world, action)
        values |= _things(world, action, opening)
        found.append(OptionFeatures(action.text, values))
    return found


def _things(world: World, action: Action, opening: Frame) -> Values:
    """What the thing that is aimed at and the thing that is used tell, each for itself and both together."""
    target = world.scene.get(action.cell)
    carried = world.backpack[action.slot] if action.slot >= 0 else None
    values = _amounts(world, target)
    for role, item in (("target", target), ("carried", carried)):
        if item is not None:
            values |= _alone(world, role, item)
            values |= _remembered(world, role, item, opening)
    # What the first picture showed in the target's place.
    if target is not None and world.memory:
        values |= _seen_there(action.cell, target, opening)
    # What is used, where it would stand.
    if carried is not None and isinstance(world, Sorting):
        values |= _ranks(world, action, carried)
    if target is not None and carried is not None:
        values |= _together(world, action.cell, target, carried, opening)
    return values


def traits(sprite: str) -> dict[str, str]:
    """What a drawing shows, by sense: ``pile/egg/2`` is of kind ``egg`` and count ``2``.

    >>> traits("quarter/cat/3"), traits("door/red")
    ({'kind': 'cat', 'side': '3', 'coarse-side': 'lower'}, {'kind': 'door', 'color': 'red'})
    """
    family, *rest = sprite.split("/")
    match family, rest:
        case "key" | "door" | "basket", [color]:
            return {"kind": family, "color": color}
        case "pile", [name, number]:
            return {"kind": name, "count": number, COARSE + "count": "one" if number == "1" else "several"}
        case "quarter", [name, side]:
            return {"kind": name, "side": side, COARSE + "side": "upper" if side in UPPER else "lower"}
        case "tile", [side]:
            return {"kind": "tile", "side": side, COARSE + "side": "upper" if side in UPPER else "lower"}
        case "roman", _:  # its number stands in the action's text
            return {"kind": "roman"}
        case _, [name]:
            return {"kind": name}
        case _:
            return {"kind": family}


# --- words -----------------------------------------------------------------------------------------------------------


def _said(world: World, steps: Sequence[Step]) -> Values:
    """What the prompt and the player's own actions tell, the same for all actions."""
    numbers = re.findall(r"\d+", world.goal)
    given = _DIRECTION.findall(world.goal)
    values: Values = {
        "text: step": float(world.steps),
        "text: actions": float(len(world.ordered)),
        "text: goal": _without_names(world.goal),
        "text: number in the goal": float(numbers[0]) if numbers else 0.0,
        "text: last action refused": bool(steps) and not steps[-1].accepted,
    }
    if given:
        values["direction: given in the goal"] = given[0]
        values["direction: way to turn"] = "".join(_WAY.findall(world.goal))
    for verb in dict.fromkeys(step.action.verb for step in steps):
        values[f"text: done before: {verb}"] = float(sum(step.action.verb == verb for step in steps))
    return values


def _without_names(goal: str) -> str:
    """The goal without names of things and colors, numbers, directions and ways to turn, which have values of their own."""
    return re.sub(r"\d+", "0", _WAY.sub("_", _DIRECTION.sub("_", _NAME.sub("_", goal))))


def _wording(world: World, action: Action, place: int, steps: Sequence[Step]) -> Values:
    """What the action's own words tell."""
    roman = re.search(r"\b(?:grid|position) ([IVX]+)\b", action.text)
    digit = re.search(r"label (\d+)", action.text)
    aim = _target_words(action)
    refused = {step.action.text for step in steps if not step.accepted}
    done = sum(step.accepted and _target_words(step.action) == aim for step in steps)
    return {
        "text: verb": action.verb,
        "text: place in the list": float(place),
        "text: slot": float(action.slot),
        "text: label": float(digit[1]) if digit else -1.0,
        "text: roman number": float(ROMAN.index(roman[1]) + 1) if roman else 0.0,
        "text: refused before": action.text in refused,
        "text: done before with this target": float(done),
    }


def _target_words(action: Action) -> str:
    """An action's words without the slot that it uses."""
    return re.sub(r"\bbackpack [A-D]\b", "backpack", action.text)


# --- sights ----------------------------------------------------------------------------------------------------------


def _place(world: World, action: Action) -> Values:
    """Where the target is, and what it would open."""
    if action.cell < 0:
        return {}
    x, y = action.cell % grid.SIDE, action.cell // grid.SIDE
    agent_x, agent_y = world.agent % grid.SIDE, world.agent // grid.SIDE
    free = grid.ALL & ~grid.mask(world.scene)
    here = grid.region(free, world.agent)
    opened = grid.region(free | 1 << action.cell, world.agent) if grid.NEIGHBORS[action.cell] & here else here
    values: Values = {
        "position: column": float(x),
        "position: row": float(y),
        "position: straight distance": float(abs(x - agent_x) + abs(y - agent_y)),
        "position: steps to it": _steps_to(free, world.agent, action.cell),
        "position: cells that it opens": float((opened & ~here).bit_count()),
        "position: things that it opens": float(_within(world, opened) - _within(world, here)),
    }
    prizes = grid.mask(cell for cell, item in world.scene.items() if item.sprite in ("diamond", "chest"))
    if prizes:
        values |= _on_the_way(world, action, prizes)
    values["kind position: opens the way to a diamond or chest"] = bool(
        grid.spread(opened) & prizes & ~grid.spread(here) & ~(1 << action.cell)
    )
    compass = [name for name, cell in RING.items() if cell == action.cell]
    given = _DIRECTION.findall(world.goal)
    if compass and given:
        turn = (_DIRECTIONS.index(compass[0]) - _DIRECTIONS.index(given[0])) % len(_DIRECTIONS)
        either_way = min(turn, len(_DIRECTIONS) - turn)
        values["direction position: eighths of a turn from the given direction"] = str(turn)
        values[f"{COARSE}direction position: eighths of a turn from the given direction, either way"] = str(either_way)
    return values


def _on_the_way(world: World, action: Action, prizes: int) -> Values:
    """Whether a door is on every way to what is sought, and whether a key opens such a door."""
    needed = _doors_needed(world, prizes)
    if action.cell in needed:
        return {"kind position: no way but through it": True}
    target = world.scene.get(action.cell)
    if target is None or not target.sprite.startswith("key/"):
        return {}
    color = target.sprite.removeprefix("key/")
    if world.hint is not None and world.hint.style == "pairs":
        # The game tells which key goes with which door.
        senses = "kind color position order"
        opened_by = {row[0].sprite.removeprefix("key/"): row[1].sprite.removeprefix("door/") for row in world.hint.rows}
        opened = opened_by.get(color)
    else:
        # A key opens the doors of its own color.
        senses = "kind color position"
        opened = color if color in LOCK_COLORS else None
    doors = sum(world.scene[door].sprite.removeprefix("door/") == opened for door in needed)
    held = sum(item.sprite == target.sprite for item in world.backpack)
    return {f"{senses}: doors on the way that it opens, less keys held": float(doors - held)}


def _doors_needed(world: World, prizes: int) -> list[int]:
    """The doors without which no prize can be reached."""
    doors = [cell for cell, item in world.scene.items() if item.sprite.startswith("door/")]
    solid = grid.mask(cell for cell, item in world.scene.items() if item.sprite in ("wall", "chest", "diamond"))
    needed = []
    for door in doors:
        without = grid.region(grid.ALL & ~solid & ~(1 << door), world.agent)
        if not grid.spread(without) & prizes:
            needed.append(door)
    return needed


def _steps_to(free: int, agent: int, cell: int) -> float:
    """Steps to a cell beside ``cell``."""
    reached = 1 << agent
    for steps in range(grid.SIDE**2):
        if reached & grid.NEIGHBORS[cell]:
            return float(steps)
        reached |= grid.spread(reached) & free
    return _FAR


def _within(world: World, walkable: int) -> int:
    """Labeled things that can be reached from a set of cells."""
    return sum(bool(item.label and grid.NEIGHBORS[cell] & walkable) for cell, item in world.scene.items())


def _amounts(world: World, target: Item | None) -> Values:
    """What the piles in the backpack come to, with the target's and without it, beside the number asked for."""
    if isinstance(world, Counting) and world.balanced:
        return _amounts_of_each(world, target)
    asked = re.findall(r"\d+", world.goal)
    piles = [item for item in (*world.scene.values(), *world.backpack) if "count" in traits(item.sprite)]
    if not asked or not piles:
        return {}
    wanted = float(asked[0])
    carried = fewest = most = 0
    for item in world.backpack:
        least, largest = _coarse_count(item)
        carried += _count(item)
        fewest += least
        most += largest
    this = _count(target)
    this_fewest, this_most = _coarse_count(target)
    return {
        "count: carried, less what is asked for": carried - wanted,
        "count: carried and this, less what is asked for": carried + this - wanted,
        "count: in this pile": float(this),
        f"{COARSE}count: carried at least, less what is asked for": fewest - wanted,
        f"{COARSE}count: carried at most, less what is asked for": most - wanted,
        f"{COARSE}count: carried and this at least, less what is asked for": fewest + this_fewest - wanted,
        f"{COARSE}count: carried and this at most, less what is asked for": most + this_most - wanted,
    }


def _count(item: Item | None) -> int:
    """How many a pile holds; 0 for anything else."""
    return int(traits(item.sprite).get("count", 0)) if item else 0


def _coarse_count(item: Item | None) -> tuple[int, int]:
    """The fewest and the most that a pile may hold, to who tells one from several only."""
    count = _count(item)
    return (2, 3) if count > 1 else (count, count)


def _amounts_of_each(world: Counting, target: Item | None) -> Values:
    """The same where several things are asked for: of the target's thing, or, to declare, of all of them."""
    wanted = dict(world.wanted)
    surely_wrong = 0
    for name, number in world.wanted:
        fewest, most = _coarse_total(world.backpack, name)
        surely_wrong += not fewest <= number <= most
    values: Values = {
        "count kind: things whose number is not right": float(sum(world.lacking(name) != 0 for name in wanted)),
        f"{COARSE}count kind: things whose number cannot be right": float(surely_wrong),
    }
    if target is not None:
        name = traits(target.sprite)["kind"]
        fewest, most = _coarse_total([*world.backpack, target], name)
        values["kind: number of it in the goal"] = float(wanted[name])
        values["count kind: missing of it"] = float(world.lacking(name))
        values["count kind: missing of it after this"] = float(world.lacking(name) - _count(target))
        values["count: in this pile"] = float(_count(target))
        values[f"{COARSE}count kind: with this at least, less what is asked for"] = float(fewest - wanted[name])
        values[f"{COARSE}count kind: with this at most, less what is asked for"] = float(most - wanted[name])
    return values


def _coarse_total(piles: Sequence[Item], name: str) -> tuple[int, int]:
    """The fewest and the most of a thing that piles may hold, to who tells one from several only."""
    ranges = [_coarse_count(pile) for pile in piles if traits(pile.sprite)["kind"] == name]
    return sum(fewest for fewest, _ in ranges), sum(most for _, most in ranges)


def _alone(world: World, role: str, item: Item) -> Values:
    """A thing beside everything else that is seen now."""
    values: Values = {}
    in_goal = list(dict.fromkeys(_NAME.findall(world.goal)))
    for sense, value in traits(item.sprite).items():
        values[f"{sense}: {role}"] = value
        values[f"{sense}: {role}, alike on the board"] = _alike(sense, value, world.scene.values())
        values[f"{sense}: {role}, alike in the backpack"] = _alike(sense, value, world.backpack)
        values[f"{sense}: {role}, which in the goal"] = (
            float(in_goal.index(words(value))) if words(value) in in_goal else -1.0
        )
        if world.hint is not None:
            values |= _in_hint(world.hint, sense, value, role, "")
    everything = (*world.scene.values(), *world.backpack)
    same = [other for other in everything if other.sprite == item.sprite]
    if "side" in traits(item.sprite):
        values[f"kind side: {role}, the very same seen"] = float(len(same))
        values[f"kind {COARSE}side: {role}, the same but for left and right seen"] = float(
            sum(_but_for_left_and_right(other) == _but_for_left_and_right(item) for other in everything)
        )
    return values


def _but_for_left_and_right(item: Item) -> tuple[str, str | None]:
    """What a piece is to who takes left for right."""
    shown = traits(item.sprite)
    return shown["kind"], shown.get(COARSE + "side")


def _ranks(world: Sorting, action: Action, carried: Item) -> Values:
    """SO: where an animal stands by what is known of animals, and what rule and question make of that order."""
    scale = SCALES[world.known]
    things = [words(item.sprite) for item in (*world.scene.values(), *world.backpack)]
    names = [name for name in things if name in scale]
    ranked = sorted(names, key=scale.index)
    if world.balanced:
        # The order that the goal tells by its comparisons.
        more = COMPARATIVES[world.asked][0]
        beaten = [_loser(comparison, more) for comparison in world.comparisons]
        ranked = sorted(names, key=beaten.count)
    rank = ranked.index(words(carried.sprite)) + 1
    roman = re.search(r"\b(?:grid|position) ([IVX]+)\b", action.text)
    place = ROMAN.index(roman[1]) + 1 if roman else 0
    return {
        "text: rule and question turn the known order round": not world.balanced and _turned_round(world),
        "kind order: rank by what is known": float(rank),
        "kind order: its rank is the place's number": rank == place,
        "kind order: its rank from the end is the place's number": len(ranked) + 1 - rank == place,
    }


def _loser(comparison: str, more: str) -> str:
    """Which of two compared animals has less: ``the cat is heavier than the pig`` -> ``pig``."""
    first, word, second = comparison.removeprefix("the ").replace(" than the", "").replace(" is", "").split()
    return second if word == more else first


def _turned_round(world: Sorting) -> bool:
    """Whether rule and question together turn round the order that is known."""
    known_more, then_more = (
        COMPARATIVES[scale].index(word) for scale, word in zip((world.known, world.asked), world.rule, strict=True)
    )
    first = ENDS[world.asked].index(world.ends[0])
    return known_more ^ then_more != first


def _alike(sense: str, value: str, items: Iterable[Item]) -> float:
    return float(sum(traits(item.sprite).get(sense) == value for item in items))


def _in_hint(hint: Hint, sense: str, value: str, role: str, needs: str) -> Values:
    """Whether and where the hint block shows the same."""
    columns = set()
    for row in hint.rows:
        for column, each in enumerate(row):
            if traits(each.sprite).get(sense) == value:
                columns.add(str(column))
    where = "+".join(sorted(columns)) or "not"
    values: Values = {f"{needs}{sense}: {role}, in the hint block": bool(columns)}
    if hint.style == "pairs":
        values[f"{needs}order {sense}: {role}, in which column of the hint block"] = where
    return values


def _together(world: World, cell: int, target: Item, carried: Item, opening: Frame) -> Values:
    """How the thing that is used stands to the thing that it is used on."""
    values: Values = {}
    aimed, used = traits(target.sprite), traits(carried.sprite)
    for sense in aimed:
        if sense in used:
            values[f"{sense}: carried as the target"] = aimed[sense] == used[sense]
    if world.hint is not None and world.hint.style == "pairs":
        values |= _as_partner(world.hint, aimed, used)
    if cell in BOARD and "side" in used:
        values |= _on_board(world, cell, carried)
        # The hint block as it is shown now, and in games of memory as it was shown at first.
        values |= _as_hint_shows(world.hint, cell, carried, "")
        if world.memory:
            values |= _as_hint_shows(opening.hint, cell, carried, "memory ")
    return values


def _as_partner(hint: Hint, aimed: Mapping[str, str], used: Mapping[str, str]) -> Values:
    """A hint block of pairs (a key and the door that it opens, say): is the target the partner of what is carried?"""
    values: Values = {}
    for row in hint.rows:
        given, gets = (traits(each.sprite) for each in row)
        for sense in given.keys() & used.keys() & aimed.keys() - {"kind"}:
            forward = given[sense] == used[sense] and given["kind"] == used["kind"]
            backward = gets.get(sense) == used[sense]
            if forward:
                values[f"order {sense}: target as the hint block's partner"] = gets.get(sense) == aimed[sense]
            if backward:
                values[f"order {sense}: target as the hint block's partner, read backwards"] = (
                    given[sense] == aimed[sense]
                )
    return values


def _on_board(world: World, cell: int, carried: Item) -> Values:
    """A piece of a puzzle on the board of four: does it belong here by its side and its neighbors?"""
    used = traits(carried.sprite)
    belongs = str(BOARD.index(cell) + 1)
    beside = []
    for other in BOARD:
        part = world.scene.get(other)
        if other != cell and part is not None:
            beside.append(traits(part.sprite)["kind"])
    return {
        "position side: carried belongs in this corner": used["side"] == belongs,
        f"position {COARSE}side: carried belongs in this row": (used["side"] in UPPER) == (belongs in UPPER),
        "kind position: carried as its neighbors": used["kind"] in beside,
    }


def _as_hint_shows(hint: Hint | None, cell: int, carried: Item, needs: str) -> Values:
    """Whether a piece of a puzzle belongs on a place of the board by a hint block that shows the whole picture."""
    if hint is None or len(hint.rows) != 2:
        return {}
    corner, used = BOARD.index(cell), traits(carried.sprite)
    row = hint.rows[corner // 2]
    shown = traits(row[corner % 2].sprite)
    in_row = [_but_for_left_and_right(each) for each in row].count(_but_for_left_and_right(carried))
    return {
        f"{needs}position side: hint block shows its side here": shown["side"] == used["side"],
        f"{needs}position kind: hint block shows its kind here": shown["kind"] == used["kind"],
        f"{needs}position kind side: hint block shows the carried piece here": shown == used,
        f"{needs}position kind {COARSE}side: hint block shows the carried piece in this row": float(in_row),
    }


# --- memory ----------------------------------------------------------------------------------------------------------


def _remembered(world: World, role: str, item: Item, opening: Frame) -> Values:
    """A thing beside what the first picture showed in its hint block."""
    at_first, now = opening.hint, world.hint
    if not world.memory or at_first is None:
        return {}
    values: Values = {}
    for sense, value in traits(item.sprite).items():
        values |= _in_hint(at_first, sense, value, f"{role} at first", "memory ")
    if at_first.style == "pairs" and now is not None:
        asked = now.rows[0][0].sprite
        pairs = [(left.sprite, right.sprite) for left, right in at_first.rows]
        is_partner = (asked, item.sprite) in pairs
        values[f"kind memory order: {role}, partner of what is asked"] = is_partner
    return values


def _seen_there(cell: int, target: Item, opening: Frame) -> Values:
    """What the first picture showed where the target is, and under its label."""
    there = {grid.at(x, y): item for x, y, item in opening.cells}
    labeled = {item.label: item for item in there.values() if item.label}
    values: Values = {}
    if cell in there:
        values["kind memory position: seen here at first"] = traits(there[cell].sprite)["kind"]
    if target.label in labeled:
        values["kind label memory: seen under this label at first"] = traits(labeled[target.label].sprite)["kind"]
    return values
