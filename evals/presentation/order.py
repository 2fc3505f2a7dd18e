"""The order in which options stand."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import TypeVar

from evals.types import stable_seed

T = TypeVar("T")


def shuffled(items: Sequence[T], *seed: object) -> tuple[T, ...]:
    """The items in an order that is drawn from a seed."""
    order = list(items)
    random.Random(stable_seed("option order", *seed)).shuffle(order)
    return tuple(order)


def by_text(texts: Sequence[str]) -> list[int]:
    """The places of texts in alphabetical order, numbers in them by their value.

    >>> by_text(["label 10", "label 9", "door"])
    [2, 1, 0]
    """

    def key(place: int) -> list[tuple[int, int, str]]:
        pieces = re.split(r"(\d+)", texts[place])
        return [(1, int(piece), "") if piece.isdecimal() else (0, 0, piece) for piece in pieces]

    return sorted(range(len(texts)), key=key)
