"""How many episodes a runner keeps alive: enough to fill every replica it cares for, no more.

Plain arithmetic, so that a simulation admits exactly as a runner does.
"""

from __future__ import annotations

import math

BACKLOG = 0.25
"""Episodes kept ready beyond the room there is now, as a share of the capacity, so that no place waits for the driver."""

REPLICAS_PER_RUNNER = 8
"""A runner's core is full at about 1,700 turns/s (``python -m benchmarks.scale``); this leaves half of it free where
replicas answer 100 turns/s each, and one runner to a node of eight GPUs."""


def free_slots(capacity: int, turns: int, silent: int) -> int:
    """Episodes that could begin at once; negative where more are alive than there are places.

    Args:
        capacity: Turns that may be with replicas at once, overcommitment included.
        turns: Turns that are with replicas or wait for a place there.
        silent: Episodes begun that have not asked their first turn yet.
    """
    return capacity - turns - silent


def room(capacity: int, free: int, ready: int) -> int:
    """Episodes to ask the driver for: what could begin at once and a backlog, less what is ``ready`` to begin."""
    return max(0, max(0, free) + round(BACKLOG * capacity) - ready)


def fair_share(unfinished: int, held: int, replicas: int, all_replicas: int) -> int:
    """Episodes that a runner may be given beyond those it holds, whatever its room.

    A small plan, and the last of a large one, thus reach every replica instead of filling the runners that ask first.

    Args:
        unfinished: Episodes of the run that are not over, held ones included.
        held: Of those, what this runner holds.
        replicas: In this runner's care.
        all_replicas: In all runners' care.
    """
    return max(0, math.ceil(unfinished * replicas / max(1, all_replicas)) - held)
