"""How long games wait for their clients, and who may reach the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LOOPBACK: Final = "127.0.0.1"
"""The address that this machine alone reaches."""


@dataclass(frozen=True)
class Limits:
    """When a game goes back into the queue."""

    turn_seconds: float = 600.0
    """Without a word from the client."""
    episode_seconds: float = 6 * 3600.0
    """Since the game was opened."""
    attempts: int = 3
    """A game that was left so often fails."""


LIMITS: Final = Limits()
