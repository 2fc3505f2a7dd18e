"""What a ledger can hold in a field, to be asked of values that somebody else's code gives."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple, get_args

from envs.files import is_unicode
from evals.ledger.check import MOST as MOST_MEASURED
from evals.types import Finish


class Storable(NamedTuple):
    """One kind of value."""

    holds: Callable[[Any], bool]
    """Whether a value is of this kind."""
    wanted: str
    """What it must be, for people."""


def _is_text(value: object) -> bool:
    return isinstance(value, str) and (value.isascii() or is_unicode(value))


def _is_whole(value: object, least: int, most: int) -> bool:
    """Whether a value is a whole number within bounds; true and false are numbers, too, but none that anybody means."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < math.inf


def _is_measured(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= MOST_MEASURED


def whole(least: int, most: int) -> Storable:
    """Whole numbers within bounds."""
    return Storable(functools.partial(_is_whole, least=least, most=most), f"a whole number from {least} to {most}")


MOST: Final = 2**31 - 1
"""What the ledger can hold of whole numbers, but for seeds."""
TEXT: Final = Storable(_is_text, "a text of whole characters")
COUNT: Final = whole(0, MOST)
SEED: Final = whole(-(2**63), 2**63 - 1)
AMOUNT: Final = Storable(_is_amount, "a number from 0 up")
MEASURED: Final = Storable(_is_measured, "a number from 0 to 2**53")
FINISH: Final = Storable(get_args(Finish).__contains__, f"one of {', '.join(get_args(Finish))}")
