"""Whom a stopping rule compares with, however it is spelled."""

from __future__ import annotations

from collections.abc import Collection

from envs.files import real_path


def is_same_side(one: str, other: str, players: Collection[str]) -> bool:
    """Whether two values of ``against`` name the same player of a run, or the same other run, as seen from this folder.

    Args:
        one: A player, or the path of a run.
        other: Likewise.
        players: Of the run.
    """
    if one == other:
        return True
    if not one or not other:
        return False
    if one in players or other in players:
        return False
    return real_path(one) == real_path(other)
