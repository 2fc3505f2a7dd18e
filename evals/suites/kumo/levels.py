"""How large the tasks of a level are: of one of the paper's two difficulties, or of a chosen size such as ``8x12``."""

from __future__ import annotations

import re

from envs.kumo import DIFFICULTIES

_CALLS = {"easy": 4.2, "hard": 8.1}
"""Mean calls per run of the most successful published model on easy tasks (DeepSeek-V3)."""


def level_of(truths: int, actions: int) -> str:
    """The level of tasks of a chosen size."""
    return f"{truths}x{actions}"


def is_level(text: str) -> bool:
    """Whether a text is a difficulty or a size such as ``6x8``."""
    return text in DIFFICULTIES or re.fullmatch(r"[1-9]\d*x[1-9]\d*", text) is not None


def size_of(level: str) -> tuple[int, int]:
    """Truths and actions of a level's tasks."""
    if level in DIFFICULTIES:
        return DIFFICULTIES[level]
    truths, actions = level.split("x")
    return int(truths), int(actions)


def expected_calls(level: str) -> float:
    """Calls that a run takes on average: as published, and on a line through these by the number of truths."""
    (easy, _), (hard, _) = DIFFICULTIES["easy"], DIFFICULTIES["hard"]
    slope = (_CALLS["hard"] - _CALLS["easy"]) / (hard - easy)
    return _CALLS["easy"] + slope * (size_of(level)[0] - easy)
