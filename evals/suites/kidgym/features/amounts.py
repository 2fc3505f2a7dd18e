"""How many things are carried, beside what is asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envs.kidgym import World
from envs.kidgym.scene import Item
from envs.kidgym.tasks.counting import Counting
from evals.shortcut_search.classes import COARSE
from evals.suites.kidgym.features.senses import Values, traits


def amounts(world: World, target: Item | None) -> Values:
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
