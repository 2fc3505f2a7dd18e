"""The whole conversation between the driver and a runner.

The driver calls ``Runner.exchange(Assignment)`` over and over; each call returns a ``Report`` as soon as the runner has
something to say, and within half a second anyway. One call is thus queue, heartbeat and back-pressure at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from cluster.engines.base import Request
from evals.types import Episode, Reply


class ReplicaPort(Protocol):
    """A replica as its users see it, wherever it runs."""

    async def complete(self, request: Request) -> Reply:
        """As ``Engine.complete``; raises EngineDiedError when the replica is gone."""
        ...


@dataclass
class PlayerCounts:
    """What happened to the turns of a model player so far."""

    turns: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    retries: int = 0
    hedges: int = 0
    """Late requests sent to a second replica as well."""
    hedges_won: int = 0
    """Of those, requests that the second replica answered first."""
    engine_deaths: int = 0
    cost: float = 0.0
    """Money that the replies cost."""
    queueing_seconds: float = 0.0
    """Seconds that requests queued at the router for a slot."""
    replica_seconds: float = 0.0
    """Time that turns spent with replicas, transport included."""
    engine_seconds: float = 0.0
    """Time that turns spent inside engines."""


@dataclass(frozen=True)
class NewReplica:
    """A replica that is ready and joins a runner's care."""

    name: str
    port: ReplicaPort
    batch: int
    metered: bool = False
    """Nothing is asked twice to save time."""


@dataclass(frozen=True)
class Assignment:
    """From the driver to a runner."""

    episodes: tuple[Episode, ...] = ()
    replicas: tuple[NewReplica, ...] = ()
    removed: tuple[str, ...] = ()
    """Replicas that are no more, or that another runner takes over."""
    remaining: int = 0
    """Episodes that the driver still has."""
    draining: bool = False
    """Begin no further episode; let those begun end."""


@dataclass
class ReplicaUse:
    """Slot utilization of one replica: how full its batch was kept; seconds are those of one batch slot."""

    requests: int = 0
    """With it now."""
    slot_seconds: float = 0.0
    busy_slot_seconds: float = 0.0
    idle_slot_seconds: float = 0.0
    """Empty although episodes were queued: a scheduling loss. (All other empty slots belong to the run's tail.)"""


class RunnerPort(Protocol):
    """A runner as the driver sees it, wherever it runs."""

    async def exchange(self, assignment: Assignment) -> Report:
        """Take an assignment and report."""
        ...

    async def node(self) -> str:
        """Where it runs."""
        ...

    def end(self) -> None:
        """End it and whatever it plays."""
        ...


@dataclass(frozen=True)
class Report:
    """From a runner to the driver."""

    finished: pa.Table | None
    """Rows for the ledger, in its schema."""
    room: int
    """Episodes that the runner could begin now, beyond those it holds."""
    begun: int
    """Episodes being played."""
    lost: tuple[str, ...] = ()
    """Replicas whose engine died."""
    counts: PlayerCounts = field(default_factory=PlayerCounts)
    engine_closed: str = ""
    """Why no engine will answer anything more, if so."""
    use: Mapping[str, ReplicaUse] = field(default_factory=dict)
    """Of each replica that was in its care."""
    moves: int = 0
    waiting: int = 0
    """Requests queued at the router."""
