"""The protocol between the driver and a runner.

The driver calls ``Runner.exchange(Assignment)`` in a loop. Each call returns a ``Report`` as soon as there is news, and after
half a second at the latest, so it serves as work queue, heartbeat and back-pressure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from cluster.engines.base import Request
from evals.conversation import Conversation
from evals.live import Line
from evals.types import Episode, Reply


class ReplicaPort(Protocol):
    """A replica as seen by its users, wherever it runs."""

    async def complete(self, request: Request) -> Reply:
        """As ``Engine.complete``; raises EngineDiedError when the replica is gone."""
        ...


@dataclass
class PlayerCounts:
    """Counts over all turns of a model player so far."""

    turns: int = 0
    shared: int = 0
    """Turns answered by an equal request of another turn; not counted in ``turns``."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    """Of the completion tokens, where the engine says so."""
    cached_tokens: int = 0
    retries: int = 0
    preemptions: int = 0
    """How often engines put a request back, since their cache was full."""
    hedges: int = 0
    """Late requests sent to a second replica as well."""
    hedges_won: int = 0
    """Of those, requests that the second replica answered first."""
    engine_deaths: int = 0
    cost: float = 0.0
    """Cost of the replies."""
    queueing_seconds: float = 0.0
    """Seconds that requests queued at the router for a slot."""
    replica_seconds: float = 0.0
    """Time of requests at replicas, transport included."""
    engine_seconds: float = 0.0
    """Time of requests inside engines."""


@dataclass(frozen=True)
class NewReplica:
    """A replica that is ready and newly assigned to a runner."""

    name: str
    port: ReplicaPort
    batch: int
    metered: bool = False
    """Requests cost money, so none is hedged."""


@dataclass(frozen=True)
class Assignment:
    """From the driver to a runner."""

    episodes: tuple[Episode, ...] = ()
    replicas: tuple[NewReplica, ...] = ()
    removed: tuple[str, ...] = ()
    """Replicas that are dead or reassigned to another runner."""
    remaining: int = 0
    """Episodes still in the driver's queue."""
    draining: bool = False
    """Start no further episodes; let running ones finish."""


@dataclass
class ReplicaUse:
    """Slot utilization of one replica, in seconds summed over its batch slots."""

    requests: int = 0
    """Being served now."""
    slot_seconds: float = 0.0
    busy_slot_seconds: float = 0.0
    idle_slot_seconds: float = 0.0
    """Idle while episodes were queued: a scheduling loss. (All other idle slots belong to the run's tail.)"""


class RunnerPort(Protocol):
    """A runner as seen by the driver, wherever it runs."""

    async def exchange(self, assignment: Assignment) -> Report:
        """Accept an assignment and return a report."""
        ...

    async def node(self) -> str:
        """The node that it runs on."""
        ...

    def end(self) -> None:
        """End it and all its episodes."""
        ...


class Listens(Protocol):
    """Follows episodes while they are played (``cluster.live``)."""

    def began(self, conversation: Conversation) -> None:
        """An episode begins."""
        ...

    def ended(self, episode_id: str) -> None:
        """It has ended."""
        ...

    def news(self) -> tuple[Line, ...]:
        """What has happened since the last call."""
        ...


@dataclass(frozen=True)
class Report:
    """From a runner to the driver."""

    finished: pa.Table | None
    """Rows for the ledger, in its schema."""
    room: int
    """Further episodes that the runner could accept."""
    running: int
    """Episodes being played."""
    lost: tuple[str, ...] = ()
    """Replicas whose engine died."""
    counts: PlayerCounts = field(default_factory=PlayerCounts)
    engine_closed: str = ""
    """Why no engine will answer further requests, if so."""
    resumable: bool = False
    """Whether that is because the run has spent, or waited, as much as it may."""
    cannot_play: str = ""
    """What the machine lacks for a game, if so: the run stops, and can be resumed."""
    use: Mapping[str, ReplicaUse] = field(default_factory=dict)
    """Slot use of each replica that was ever assigned to it."""
    moves: int = 0
    waiting: int = 0
    """Requests queued at the router."""
    heard: tuple[Line, ...] = ()
    """What was said in the episodes that its listener follows, since the last report."""
