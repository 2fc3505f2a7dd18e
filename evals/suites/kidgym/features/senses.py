"""What a player may perceive, and what a drawing shows to each sense."""

from __future__ import annotations

from typing import Final

from evals.shortcut_search.classes import COARSE

SENSES: Final = ("text", "label", "position", "kind", "color", "count", "side", "direction", "order", "memory")
"""What values need: the prompt's words; the digits on things; where things are; what they are; their color; how many a pile
holds; which quarter of a picture a piece is; compass directions and ways to turn, in words too; what stands before what
(arrows of the hint block, ranks of animals); what an earlier picture showed."""
COARSE_SENSES: Final = tuple(COARSE + sense for sense in ("count", "side", "direction"))
"""Several things are told from one, but not two from three; upper quarters from lower ones, but not left from right; how
far to turn, but not which way."""
Value = str | float | bool
Values = dict[str, Value]
UPPER: Final = ("1", "2")
"""The quarters of a picture that are above the others."""


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
