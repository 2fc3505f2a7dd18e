"""Admission control: a runner plays as many episodes as fill the batch slots of its replicas, and no more.

Pure functions, so that the simulation admits exactly as a runner does.
"""

from __future__ import annotations

import math

BACKLOG = 0.25
"""Episodes that a runner holds in reserve, as a share of its capacity, so that no slot idles waiting for the driver."""

REPLICAS_PER_RUNNER = 8
"""A runner saturates its core at about 1,700 turns/s (``python -m benchmarks.scale``). With eight replicas of 100 turns/s
each it is half busy, and a node of eight GPUs has one runner."""


def free_slots(capacity: int, turns: int, starting: int) -> int:
    """Episodes that could start now; negative if there are more than slots.

    Args:
        capacity: Requests that replicas accept at once, overcommitment included.
        turns: Turns that are being served or queued.
        starting: Started episodes that have not sent their first turn yet.
    """
    return capacity - turns - starting


def room(capacity: int, free: int, ready: int) -> int:
    """Episodes to request from the driver: free slots plus the backlog, minus episodes that are ``ready`` to start."""
    return max(0, max(0, free) + round(BACKLOG * capacity) - ready)


def fair_share(unfinished: int, held: int, replicas: int, all_replicas: int) -> int:
    """Most further episodes for a runner, whatever its room: its replicas' share of the unfinished ones.

    So a small plan, and the end of a large one, is spread over all replicas, not taken by the runners that ask first.

    Args:
        unfinished: Unfinished episodes of the run, held ones included.
        held: How many of them this runner holds.
        replicas: Replicas of this runner.
        all_replicas: Replicas of all runners.
    """
    return max(0, math.ceil(unfinished * replicas / max(1, all_replicas)) - held)
