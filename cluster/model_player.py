"""A model behind the router, as a player: asks turns again when engines fail, and finds the prompt that kills them."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import time
from dataclasses import dataclass
from typing import Literal, Protocol

from cluster.engine import EngineClosedError, EngineDiedError, EngineError, Request
from cluster.lateness import Lateness
from cluster.router import Router, Ticket
from evals.types import PlayerError, Reply, Turn

Decoding = Literal["free", "choice"]

MAX_TRIES = 8
"""Engine failures (not deaths) that one turn survives."""
DEATHS_TO_SUSPECT = 2
"""Engines that died with a turn inside before the turn is asked with nobody beside it."""
DEATHS_TO_CONVICT = 4
"""Engines that died before a turn fails; the last died with nobody beside it, which chance alone hardly does."""


class EngineKilled(PlayerError):  # noqa: N818 - a cause that is read by people
    """The turn killed an engine that it had for itself."""


class EpisodeAbandonedError(Exception):
    """The turn will not be answered in this session of the run; the episode is not over and leaves no row."""


def request_for(turn: Turn, decoding: Decoding) -> Request:
    """What an engine is asked; constrained to the turn's options if ``decoding=choice``."""
    return Request(
        id=f"{turn.episode.id}-{turn.number}",
        chat=turn.chat,
        options=turn.options if decoding == "choice" else (),
        labels=turn.labels,
        seed=turn.seed,
        priority=-turn.number,  # what has begun goes first, so that the end of a run is short
    )


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
    """Late turns asked a second time on an idle replica."""
    overtaken: int = 0
    """Of those, turns that the second replica answered first."""
    engine_deaths: int = 0
    router_seconds: float = 0.0
    """Time that turns waited for a place."""
    replica_seconds: float = 0.0
    """Time that turns spent with replicas, transport included."""
    engine_seconds: float = 0.0
    """Time that turns spent inside engines."""


class ModelPlayer:
    """Sends turns to replicas through a router."""

    def __init__(self, router: Router, decoding: Decoding) -> None:
        """``decoding=choice`` constrains replies to a turn's options; ``free`` lets the model write what it likes."""
        self.router = router
        self.decoding = decoding
        self.ports: dict[str, ReplicaPort] = {}
        self.counts = PlayerCounts()
        self.hedging = False
        """Ask late turns a second time where a place is idle: worth it when no episode is left to begin there."""
        self._lateness = Lateness()
        self.closed = ""
        """Why no engine will answer anything more, if so; the run stops."""
        self.lost = asyncio.Queue[str]()
        """Names of replicas whose engine died; whoever owns the replicas replaces them."""

    def add_replica(self, name: str, port: ReplicaPort, batch: int) -> None:
        """A replica is ready."""
        self.ports[name] = port
        self.router.add(name, batch)

    def remove_replica(self, name: str) -> None:
        """A replica is gone."""
        self.ports.pop(name, None)
        self.router.remove(name)

    async def reply(self, turn: Turn) -> Reply:
        """Answer one turn, on another replica if one fails.

        Raises:
            PlayerError: the turn cannot be answered, failed too often, or kills engines.
            EpisodeAbandonedError: no engine will answer anything more.
        """
        start = time.monotonic()
        request = request_for(turn, self.decoding)
        failures, deaths = 0, list[EngineDiedError]()
        while True:
            try:
                reply = await self._try(request, turn.episode.affinity, deaths)
            except EngineDiedError as error:
                if len(deaths) >= DEATHS_TO_CONVICT:
                    raise EngineKilled(f"{len(deaths)} engines died with this turn, the last alone with it") from error
            except EngineClosedError as error:
                self.closed = str(error)
                raise EpisodeAbandonedError(self.closed) from error
            except EngineError as error:
                failures += 1
                if failures >= MAX_TRIES:
                    raise PlayerError(f"the engine failed {failures} times, last: {error}") from error
            else:
                return dataclasses.replace(reply, seconds=time.monotonic() - start)
            self.counts.retries += 1

    async def _try(self, request: Request, affinity: str, deaths: list[EngineDiedError]) -> Reply:
        """Ask once; engines that die with the turn inside are noted in ``deaths``."""
        asked = time.monotonic()
        alone = len(deaths) >= DEATHS_TO_SUSPECT
        ticket = await self._place(affinity, -math.inf if alone else request.priority, alone)
        sent = time.monotonic()
        reply = await self._first_answer(request, ticket, sent, deaths)
        counts = self.counts
        counts.turns += 1
        counts.prompt_tokens += reply.prompt_tokens
        counts.completion_tokens += reply.completion_tokens
        counts.cached_tokens += reply.cached_tokens
        counts.router_seconds += sent - asked
        counts.replica_seconds += time.monotonic() - sent
        counts.engine_seconds += reply.seconds
        return reply

    async def _first_answer(self, request: Request, first: Ticket, sent: float, deaths: list[EngineDiedError]) -> Reply:
        """The replica's answer; a late turn is asked again where a place is idle, and the first answer counts.

        Turns are seeded, so that it does not matter to the scores who answers.
        """
        copies = {asyncio.create_task(self._ask(request, first)): first}
        second: Ticket | None = None
        answered = False
        self._lateness.sent(sent)
        try:
            while True:
                now = time.monotonic()
                look = self._lateness.next_look(sent, now) - now
                done, _ = await asyncio.wait(copies, timeout=look, return_when=asyncio.FIRST_COMPLETED)
                for copy in done:
                    ticket = copies.pop(copy)
                    self.router.release(ticket)
                    error = copy.exception()
                    if isinstance(error, EngineDiedError):
                        deaths.append(error)
                    if error is not None and copies:
                        continue  # the other may still answer
                    reply = copy.result()
                    answered = True
                    if ticket is second:
                        self.counts.overtaken += 1
                        self.router.overtaken(first, second)
                    return reply
                if second is None and not (done or first.alone) and self._worth_asking_again(sent):
                    second = self.router.again(first)
                    if second is not None:
                        self.counts.hedges += 1
                        copies[asyncio.create_task(self._ask(request, second))] = second
        finally:
            self._lateness.back(sent, time.monotonic(), answered)
            for copy, ticket in copies.items():
                copy.cancel()
                self.router.release(ticket)

    def _worth_asking_again(self, sent: float) -> bool:
        now = time.monotonic()
        return self.hedging and self._lateness.late_at(sent, now) <= now

    async def _ask(self, request: Request, ticket: Ticket) -> Reply:
        place = ticket.place
        if place is None or not self.router.holds(place):
            raise EngineError("the replica left before it was asked")
        try:
            return await self.ports[place.name].complete(request)
        except EngineDiedError:
            if self.router.holds(place):
                self.counts.engine_deaths += 1
                self.remove_replica(place.name)
                self.lost.put_nowait(place.name)
            raise

    async def _place(self, affinity: str, priority: float, alone: bool) -> Ticket:
        granted = asyncio.get_running_loop().create_future()

        def grant(replica: str) -> None:
            if not granted.done():
                granted.set_result(replica)

        ticket = self.router.request(affinity, grant, priority, alone)
        try:
            await granted
            return ticket
        except asyncio.CancelledError:
            self.router.release(ticket)
            raise
