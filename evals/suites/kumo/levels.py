"""How large the tasks of a level are: of one of the paper's two difficulties, or of a chosen size such as ``8x12``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from envs.kumo import DIFFICULTIES

_CALLS = {"easy": 4.2, "hard": 8.1}
"""Mean calls per run of the most successful published model on easy tasks (DeepSeek-V3)."""

_TOGETHER = 64
"""Games that are drawn together at least."""


def level_of(truths: int, actions: int) -> str:
    """The level of tasks of a chosen size."""
    return f"{truths}x{actions}"


def is_level(text: str) -> bool:
    """Whether a text is a difficulty or a size such as ``6x8``."""
    return text in DIFFICULTIES or re.fullmatch(r"[1-9]\d*x[1-9]\d*", text) is not None


def check_sizes(levels: Iterable[str]) -> None:
    """Refuse two levels that are the same games under two names, such as ``easy`` and ``4x6``.

    Raises:
        ValueError: both are named.
    """
    names: dict[tuple[int, int], str] = {}
    for level in levels:
        other = names.setdefault(size_of(level), level)
        if other != level:
            raise ValueError(f"suite.difficulties: {other} and {level} are the same games; name one of them")


def most_drawn(index: int, count: int) -> int:
    """How many of ``count`` games are drawn to have the one at a place: few for a small place, whatever count is claimed.

    Raises:
        ValueError: it is not among them.
    """
    if not 0 <= index < count:
        raise ValueError(f"there is no game number {index} of {count}")
    return min(count, max(_TOGETHER, 1 << index.bit_length()))


def size_of(level: str) -> tuple[int, int]:
    """Truths and actions of a level's tasks."""
    if level in DIFFICULTIES:
        return DIFFICULTIES[level]
    truths, actions = level.split("x")
    return int(truths), int(actions)


def one_name(level: str) -> str:
    """The level's name, or the difficulty's where a size is one of the paper's two: ``easy`` for ``4x6``."""
    size = size_of(level)
    names = [name for name, known in DIFFICULTIES.items() if known == size]
    return names[0] if names else level


def expected_calls(level: str) -> float:
    """Calls that a run takes on average: as published, and on a line through these by the number of truths."""
    (easy, _), (hard, _) = DIFFICULTIES["easy"], DIFFICULTIES["hard"]
    slope = (_CALLS["hard"] - _CALLS["easy"]) / (hard - easy)
    return _CALLS["easy"] + slope * (size_of(level)[0] - easy)
