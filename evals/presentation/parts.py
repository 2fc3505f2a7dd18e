"""Parts of messages."""

from __future__ import annotations

from collections.abc import Sequence

from evals.types import Part


def joined(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The same parts with neighboring texts made one, and without empty ones.

    >>> joined(["a", "", "b"])
    ('ab',)
    """
    merged: list[Part] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif part != "":
            merged.append(part)
    return tuple(merged)
