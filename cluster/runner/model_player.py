"""A model behind the router, as a player: retries failed requests, hedges late ones, and finds prompts that crash engines."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import time
from typing import Literal

from cluster.engines.base import EngineClosedError, EngineDiedError, EngineError, EngineWaitsError, Request
from cluster.runner.hedging import LatencyTracker
from cluster.runner.messages import PlayerCounts, ReplicaPort
from cluster.runner.router import Router, Ticket
from cluster.runner.shared_calls import SharedCalls
from evals.types import PlayerError, Reply, Turn

Decoding = Literal["free", "choice"]

MAX_TRIES = 8
"""Tries of one turn before it fails; engine deaths are counted apart."""
DEATHS_TO_ISOLATE = 2
"""Engines that died while serving a turn before it is isolated: served with no other request on its replica."""
DEATHS_TO_FAIL = 4
"""Engine deaths before a turn fails; the last engine served nothing else, so its death is hardly a coincidence."""


class EngineKilled(PlayerError):  # noqa: N818 - a cause shown to users
    """The request killed an engine that served nothing else."""

    kind = "engine"


class EpisodeAbandonedError(Exception):
    """The turn will not be answered in this session; the episode stays unfinished and leaves no row."""


def request_for(turn: Turn, decoding: Decoding) -> Request:
    """The engine request of a turn; constrained to the turn's options or schema if ``decoding=choice``."""
    return Request(
        id=f"{turn.episode.id}-{turn.number}",
        chat=turn.chat,
        options=turn.options if decoding == "choice" else (),
        schema=turn.schema if decoding == "choice" else "",
        labels=turn.labels,
        seed=turn.seed,
        priority=-turn.number,  # later turns first, so that the tail of a run is short
    )


class ModelPlayer:
    """Sends turns to replicas through a router."""

    def __init__(self, router: Router, decoding: Decoding) -> None:
        """``decoding=choice`` constrains replies to a turn's options; ``free`` does not."""
        self.router = router
        self.decoding = decoding
        self.ports: dict[str, ReplicaPort] = {}
        self.counts = PlayerCounts()
        self.hedging = False
        """Whether late requests are hedged on replicas with an idle slot: once no episode is left to start."""
        self._latency = LatencyTracker()
        self._shared = SharedCalls()
        self.engine_closed = ""
        """Why no engine will answer further requests, if so; the run stops."""
        self.resumable = False
        """Whether that is because the run has spent, or waited, as much as it may."""
        self.lost = asyncio.Queue[str]()
        """Names of replicas whose engine died; the driver replaces them."""

    def add_replica(self, name: str, port: ReplicaPort, batch: int) -> None:
        """A replica is ready."""
        self.ports[name] = port
        self.router.add(name, batch)

    def remove_replica(self, name: str) -> None:
        """A replica is gone."""
        self.ports.pop(name, None)
        self.router.remove(name)

    async def reply(self, turn: Turn) -> Reply:
        """Answer one turn, with retries on other replicas; a call for label probabilities only if none was equal.

        Raises:
            PlayerError: the turn cannot be answered, failed too often, or crashes engines.
            EpisodeAbandonedError: no engine will answer further requests.
        """
        if not turn.labels:
            return await self._reply(turn)
        start = time.monotonic()
        reply, shared = await self._shared.answer((turn.chat, turn.labels), lambda: self._reply(turn))
        if not shared:
            return reply
        self.counts.shared += 1  # of its prompt, nothing was computed
        return dataclasses.replace(reply, cached_tokens=reply.prompt_tokens, seconds=time.monotonic() - start, cost=0.0)

    async def _reply(self, turn: Turn) -> Reply:
        start = time.monotonic()
        request = request_for(turn, self.decoding)
        failures, deaths = 0, list[EngineDiedError]()
        while True:
            try:
                reply = await self._try(request, turn.episode.affinity, deaths)
            except EngineDiedError as error:
                if len(deaths) >= DEATHS_TO_FAIL:
                    raise EngineKilled(
                        f"{len(deaths)} engines died while serving this request, the last one serving nothing else"
                    ) from error
            except EngineClosedError as error:
                self.engine_closed = str(error)
                self.resumable = isinstance(error, EngineWaitsError)
                raise EpisodeAbandonedError(self.engine_closed) from error
            except EngineError as error:
                failures += 1
                if failures >= MAX_TRIES:
                    raise PlayerError(f"the engine failed {failures} times, last: {error}", kind=error.kind) from error
            else:
                return dataclasses.replace(reply, seconds=time.monotonic() - start)
            self.counts.retries += 1

    async def _try(self, request: Request, affinity: str, deaths: list[EngineDiedError]) -> Reply:
        """One try; engines that die while serving the turn are added to ``deaths``."""
        queued = time.monotonic()
        # A turn that may crash engines goes first and alone: with others beside it, these would be suspected too.
        exclusive = len(deaths) >= DEATHS_TO_ISOLATE
        ticket = await self._slot(affinity, -math.inf if exclusive else request.priority, exclusive)
        sent = time.monotonic()
        reply = await self._first_answer(request, ticket, sent, deaths)
        counts = self.counts
        counts.turns += 1
        counts.prompt_tokens += reply.prompt_tokens
        counts.completion_tokens += reply.completion_tokens
        counts.reasoning_tokens += reply.reasoning_tokens
        counts.cached_tokens += reply.cached_tokens
        counts.cost += reply.cost
        counts.retries += reply.retries
        counts.preemptions += reply.preemptions
        counts.queueing_seconds += sent - queued
        counts.replica_seconds += time.monotonic() - sent
        counts.engine_seconds += reply.seconds
        return reply

    async def _first_answer(self, request: Request, first: Ticket, sent: float, deaths: list[EngineDiedError]) -> Reply:
        """The first reply; a late request is hedged if another replica has an idle slot.

        Turns are seeded, so scores do not depend on which replica answers.
        """
        copies = {asyncio.create_task(self._ask(request, first)): first}
        second: Ticket | None = None
        answered = False
        self._latency.sent(sent)
        try:
            while True:
                now = time.monotonic()
                wait = self._latency.next_check(sent, now) - now
                done, _ = await asyncio.wait(copies, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                for copy in done:
                    ticket = copies.pop(copy)
                    self.router.release(ticket)
                    error = _error_of(copy)
                    if isinstance(error, EngineDiedError):
                        deaths.append(error)
                    # Of two copies one may fail; only the failure of the last one counts.
                    if error is not None and copies:
                        continue  # the other copy may still be answered
                    if error is not None:
                        raise error
                    reply = copy.result()
                    answered = True
                    if ticket is second:
                        self.counts.hedges_won += 1
                        self.router.hedge_won(first, second)
                    return reply
                if second is None and not first.exclusive and self._worth_hedging(sent):
                    second = self.router.hedge(first)
                    if second is not None:
                        self.counts.hedges += 1
                        copies[asyncio.create_task(self._ask(request, second))] = second
        finally:
            self._latency.returned(sent, time.monotonic(), answered)
            for copy, ticket in copies.items():
                copy.cancel()
                self.router.release(ticket)

    def _worth_hedging(self, sent: float) -> bool:
        now = time.monotonic()
        return self.hedging and self._latency.late_at(sent, now) <= now

    async def _ask(self, request: Request, ticket: Ticket) -> Reply:
        replica = ticket.replica
        if replica is None or not self.router.holds(replica):
            raise EngineError("the replica was removed before the request was sent")
        try:
            return await self.ports[replica.name].complete(request)
        except EngineDiedError:
            if self.router.holds(replica):
                self.counts.engine_deaths += 1
                self.remove_replica(replica.name)
                self.lost.put_nowait(replica.name)
            raise

    async def _slot(self, affinity: str, priority: float, exclusive: bool) -> Ticket:
        granted = asyncio.get_running_loop().create_future()

        def grant(replica: str) -> None:
            if not granted.done():
                granted.set_result(replica)

        ticket = self.router.request(affinity, grant, priority, exclusive)
        try:
            await granted
            return ticket
        except asyncio.CancelledError:
            self.router.release(ticket)
            raise


def _error_of(copy: asyncio.Task[Reply]) -> BaseException | None:
    """Why a copy of a request that is done has failed; None where it was answered."""
    if copy.cancelled():  # only copies that nobody waits for any more are canceled here
        return EngineError("the engine canceled the task that asked it")
    return copy.exception()
