"""How many episodes a runner keeps alive: enough to fill every replica it cares for, no more.

Plain arithmetic, so that a simulation admits exactly as a runner does.
"""

from __future__ import annotations

BACKLOG = 0.25
"""Episodes kept ready beyond the room there is now, as a share of the capacity, so that no place waits for the driver."""


def free_places(capacity: int, turns: int, silent: int) -> int:
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
