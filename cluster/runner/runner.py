"""A runner plays many episodes concurrently, as coroutines, on the replicas that are assigned to it.

The driver sends an ``Assignment`` (episodes, replicas), and the runner answers with a ``Report`` (finished records, room for
more, lost replicas) as soon as there is news. This class does not depend on Ray.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections import defaultdict

from cluster.concurrency import within
from cluster.runner.admission import free_slots, room
from cluster.runner.episode_queue import EpisodeQueue
from cluster.runner.messages import Assignment, Listens, ReplicaUse, Report
from cluster.runner.model_player import EpisodeAbandonedError, ModelPlayer
from envs.printable import printable
from evals.conversation import Conversation, Record
from evals.ledger.sound_rows import sound_rows
from evals.suite import Suite, built_in_players, ledger_columns, play_conversation
from evals.types import CannotPlayNow, Episode, Player, Reply, Turn

logger = logging.getLogger(__name__)

TICK = 0.05
"""Seconds between checks for free slots, and between a first finished episode and its report."""
REPORT_SECONDS = 0.5
"""Seconds after which a runner reports even without news, as a heartbeat."""
BUILT_IN_AT_ONCE = 8
"""Concurrent episodes of built-in players, which are CPU-bound, so more would not be faster."""
LONGEST_TRACE = 10_000
"""Characters of a suite's error that are logged, the last ones."""


class Runner:
    """See the module's docstring."""

    def __init__(self, suite: Suite, model: ModelPlayer | None, listener: Listens | None = None) -> None:
        """Without a model the runner plays for the built-in players only; ``listener`` follows its episodes."""
        self.suite = suite
        self.model = model
        self._listener = listener
        self._built_in = built_in_players(suite)
        self._ready = EpisodeQueue(as_they_come=True)  # ordered by the driver, balanced or longest first
        self._running: dict[str, asyncio.Task[None]] = {}
        self._starting: set[str] = set()
        """Started episodes that have not sent their first turn yet."""
        self._finished: list[Record] = []
        self._cannot_play = ""
        """What the machine lacks for a game, if so; no further episode begins."""
        self._remaining = 0
        self._metered = False
        self._use: defaultdict[str, ReplicaUse] = defaultdict(ReplicaUse)
        self._news = asyncio.Event()
        self._admitting: asyncio.Task[None] | None = None
        self._ended = False

    async def exchange(self, assignment: Assignment) -> Report:
        """Accept an assignment, wait for news (at most ``REPORT_SECONDS`` seconds), and report it."""
        if self._admitting is None:
            self._admitting = asyncio.create_task(self._admit_forever())
        for name in assignment.removed:
            if self.model is not None:
                self.model.remove_replica(name)
        for replica in assignment.replicas:
            assert self.model is not None, "a runner without a model was given a replica"
            self.model.add_replica(replica.name, replica.port, replica.batch)
            self._metered |= replica.metered
        self._ready.put(assignment.episodes)
        self._remaining = assignment.remaining
        self._ready.draining = assignment.draining
        self._admit()
        if not self._has_news():
            try:
                await within(REPORT_SECONDS, self._news.wait())
                await asyncio.sleep(TICK)
            except TimeoutError:
                pass
        self._news.clear()
        return await self._report()

    async def node(self) -> str:
        """The node that it runs on; the actor overrides this."""
        return "driver"

    def end(self) -> None:
        """Cancel all running episodes."""
        self._ended = True
        for task in (*self._running.values(), *([self._admitting] if self._admitting else ())):
            task.cancel()

    # --- admission ---

    def _free(self) -> int:
        if self.model is None:
            return BUILT_IN_AT_ONCE - len(self._running)
        router = self.model.router
        return free_slots(router.capacity, router.sent + router.waiting, len(self._starting))

    def _admit(self) -> None:
        free = self._free()
        for episode in self._ready.take(max(0, free)):
            self._starting.add(episode.id)
            self._running[episode.id] = asyncio.create_task(self._play(episode))

    async def _admit_forever(self) -> None:
        before = time.monotonic()
        while True:
            self._admit()
            if self._room() > 0:
                self._news.set()
            await asyncio.sleep(TICK)
            now = time.monotonic()
            self._account(now - before)
            before = now

    def _account(self, seconds: float) -> None:
        """Record slot utilization, and idle slots while work was queued."""
        if self.model is None:
            return
        left = bool(self._ready or self._remaining)
        # A second copy of a request costs slots, which are free in the tail only, and money at an endpoint.
        self.model.hedging = not (left or self._metered)
        for name, (sent, slots) in self.model.router.loads().items():
            use = self._use[name]
            busy = min(sent, slots)
            idle = slots - busy
            use.slot_seconds += slots * seconds
            use.busy_slot_seconds += busy * seconds
            if left:
                use.idle_slot_seconds += idle * seconds

    def _room(self) -> int:
        capacity = BUILT_IN_AT_ONCE if self.model is None else self.model.router.capacity
        return room(capacity, self._free(), len(self._ready))

    # --- playing ---

    async def _play(self, episode: Episode) -> None:
        player: Player | None = self._built_in.get(episode.player) or self.model
        assert player is not None, f"no player {episode.player!r} in this runner"
        await asyncio.sleep(0)
        record = None
        conversation = Conversation(episode, _StartTracker(player, self._starting))
        if self._listener is not None:
            self._listener.began(conversation)
        try:
            record = await play_conversation(self.suite, conversation, can_wait=True)
        except EpisodeAbandonedError:
            self._ready.draining = True
        except CannotPlayNow as error:
            self._ready.draining = True
            self._cannot_play = str(error)
        except (
            BaseException
        ) as error:  # a bug in a suite fails its episode, never the run, be it sys.exit or a cancellation
            if self._ended:
                raise
            trace = printable("".join(traceback.format_exception(error))[-LONGEST_TRACE:])
            logger.error("episode %s (%s, game %s) raised\n%s", episode.id, episode.suite, episode.index, trace)
            record = Record.of_defect(episode, error)
        self._starting.discard(episode.id)
        del self._running[episode.id]
        if self._listener is not None:
            self._listener.ended(episode.id)
        if record is not None:
            self._finished.append(record)
        self._admit()
        self._news.set()

    # --- reporting ---

    def _has_news(self) -> bool:
        if self._finished or self._cannot_play:
            return True
        if self.model is None:
            return False
        return not self.model.lost.empty() or bool(self.model.engine_closed)

    async def _report(self) -> Report:
        finished, self._finished = self._finished, []
        table = None
        if finished:
            table = await asyncio.to_thread(sound_rows, finished, ledger_columns(self.suite))
        # While the rows were made, further episodes may have finished.
        running = len(self._running) + len(self._finished)  # those that just finished are in the next report
        more = self._room()
        if self.model is None:
            return Report(table, more, running, cannot_play=self._cannot_play)
        lost = []
        while not self.model.lost.empty():
            lost.append(self.model.lost.get_nowait())
        router = self.model.router
        loads = router.loads()
        for name, use in self._use.items():
            use.requests = loads[name][0] if name in loads else 0
        return Report(
            finished=table,
            room=more,
            running=running,
            lost=tuple(lost),
            counts=self.model.counts,
            engine_closed=self.model.engine_closed,
            resumable=self.model.resumable,
            cannot_play=self._cannot_play,
            use=self._use,
            moves=router.moves,
            waiting=router.waiting,
            heard=self._listener.news() if self._listener is not None else (),
        )


class _StartTracker:
    """Forwards turns, and removes an episode from ``starting`` at its first one."""

    def __init__(self, player: Player, starting: set[str]) -> None:
        self._player = player
        self._starting = starting

    async def reply(self, turn: Turn) -> Reply:
        self._starting.discard(turn.episode.id)
        return await self._player.reply(turn)
