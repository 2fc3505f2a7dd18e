"""What the things of an action are, beside what else is seen now and what the first picture showed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from envs.kidgym import World, grid
from envs.kidgym.catalog import words
from envs.kidgym.frame import Frame
from envs.kidgym.scene import Hint, Item
from envs.kidgym.tasks.filling import BOARD
from evals.shortcut_search.classes import COARSE
from evals.suites.kidgym.features.senses import UPPER, Values, traits
from evals.suites.kidgym.features.words import NAME


def alone(world: World, role: str, item: Item, opening: Frame) -> Values:
    """A thing by itself, beside what is seen now and what the first picture showed."""
    return {**_beside_others(world, role, item), **_remembered(world, role, item, opening)}


def _beside_others(world: World, role: str, item: Item) -> Values:
    """A thing beside everything else that is seen now."""
    values: Values = {}
    in_goal = list(dict.fromkeys(NAME.findall(world.goal)))
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


def _alike(sense: str, value: str, items: Iterable[Item]) -> float:
    return float(sum(traits(item.sprite).get(sense) == value for item in items))


def _in_hint(hint: Hint, sense: str, value: str, role: str, needs: str) -> Values:
    """Whether and where the hint block shows the same."""
    columns = _columns_with(hint, sense, value)
    values: Values = {f"{needs}{sense}: {role}, in the hint block": bool(columns)}
    if hint.style == "pairs":
        where = "+".join(sorted(columns)) or "not"
        values[f"{needs}order {sense}: {role}, in which column of the hint block"] = where
    return values


def _columns_with(hint: Hint, sense: str, value: str) -> set[str]:
    columns = set()
    for row in hint.rows:
        for column, each in enumerate(row):
            if traits(each.sprite).get(sense) == value:
                columns.add(str(column))
    return columns


def together(world: World, cell: int, target: Item, carried: Item, opening: Frame) -> Values:
    """How the thing that is used stands to the thing that it is used on."""
    values: Values = {}
    aimed, used = traits(target.sprite), traits(carried.sprite)
    for sense in aimed:
        if sense in used:
            values[f"{sense}: carried as the target"] = aimed[sense] == used[sense]
    if world.hint is not None and world.hint.style == "pairs":
        values |= _as_partner(world.hint, aimed, used)
    if cell not in BOARD or "side" not in used:
        return values
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
        values[f"kind memory order: {role}, partner of what is asked"] = (asked, item.sprite) in pairs
    return values


def seen_there(cell: int, target: Item, opening: Frame) -> Values:
    """What the first picture showed where the target is, and under its label."""
    there = {grid.at(x, y): item for x, y, item in opening.cells}
    labeled = {item.label: item for item in there.values() if item.label}
    values: Values = {}
    if cell in there:
        values["kind memory position: seen here at first"] = traits(there[cell].sprite)["kind"]
    if target.label in labeled:
        values["kind label memory: seen under this label at first"] = traits(labeled[target.label].sprite)["kind"]
    return values
