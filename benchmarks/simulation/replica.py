"""A simulated engine in virtual time: the batching, steps and prefix cache of ``SimulatedEngine``, event-driven."""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.simulation.workload import Workload
from cluster.engines.simulated import Speed
from cluster.runner.router import Ticket

CACHE_TOKENS = 1_000_000


class Clock:
    """Virtual time: an event queue, ordered by time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._sequence = itertools.count()

    def at(self, time: float, what: Callable[[Any], None], argument: Any = None) -> None:
        """Call ``what(argument)`` at ``time``."""
        heapq.heappush(self._events, (time, next(self._sequence), what, argument))

    def run(self) -> None:
        """Run until no events are left."""
        events = self._events
        while events:
            self.now, _, what, argument = heapq.heappop(events)
            what(argument)


@dataclass(slots=True)
class Play:
    """An episode being played."""

    number: int
    """Index in the workload."""
    affinity: str
    """The router's affinity key."""
    beginning: int | str
    """Id of the first prompt, which the episodes of a group share."""
    kind: str
    turn: int
    """The current turn, as an index into the workload's token arrays."""
    first: int
    end: int
    ticket: Ticket | None = None
    sent: float = 0.0
    """When the current turn was sent to its replica."""
    counterpart: Play | None = None
    """The other copy of a hedged turn."""
    is_hedge: bool = False
    """Whether this copy was sent later, to a second replica."""


class VirtualReplica:
    """One engine; follows ``SimulatedEngine`` line by line."""

    def __init__(
        self, clock: Clock, workload: Workload, speed: Speed, batch: int, answered: Callable[[Play], None]
    ) -> None:
        """``answered`` is called with a play when its current turn has a reply."""
        self.batch = batch
        self.answered = answered
        self.prompt_tokens = self.cached_tokens = 0
        self._clock, self._work, self._speed = clock, workload, speed
        self._cache = Cache(CACHE_TOKENS)
        self._waiting: deque[Play] = deque()
        self._running: list[tuple[float, int, Play]] = []
        self._sequence = itertools.count()
        self._steps = self._debt = self._seen = 0.0
        self._wake_at = float("inf")

    def send(self, play: Play) -> None:
        """Run the play's current turn, or queue it until a slot is free."""
        if len(self._running) >= self.batch:
            self._waiting.append(play)
            return
        self._advance()
        self._begin(play)
        self._set_alarm()

    def cancel(self, play: Play) -> None:
        """Cancel the play's current turn."""
        self._advance()
        self._waiting = deque(each for each in self._waiting if each is not play)
        self._running = [each for each in self._running if each[2] is not play]
        heapq.heapify(self._running)
        while self._waiting and len(self._running) < self.batch:
            self._begin(self._waiting.popleft())
        self._set_alarm()

    def _begin(self, play: Play) -> None:
        prompt = self._work.prompts[play.turn]
        cached = self._cache.admit(play, prompt, self._work.kept[play.turn], self._work.common[play.turn])
        self.prompt_tokens += prompt
        self.cached_tokens += cached
        self._debt += (prompt - cached) / self._speed.prefill_tokens_per_second
        heapq.heappush(self._running, (self._steps + self._work.replies[play.turn], next(self._sequence), play))

    def _advance(self) -> None:
        elapsed, self._seen = self._clock.now - self._seen, self._clock.now
        if not self._running:
            self._debt = 0.0
            return
        paid = min(elapsed, self._debt)
        self._debt -= paid
        self._steps += (elapsed - paid) / self._speed.step(len(self._running))

    def _set_alarm(self) -> None:
        """Schedule the next finish; if later arrivals slow the batch, it fires too early and is scheduled again."""
        if not self._running:
            return
        left = (self._running[0][0] - self._steps) * self._speed.step(len(self._running))
        when = self._clock.now + self._debt + left
        if when < self._wake_at:
            self._wake_at = when
            self._clock.at(when, self._ring, when)

    def _ring(self, when: float) -> None:
        if when != self._wake_at:
            return  # superseded by an earlier alarm
        self._wake_at = float("inf")
        self._advance()
        finished = []
        while self._running and self._running[0][0] <= self._steps + 1e-6:
            finished.append(heapq.heappop(self._running)[2])
        while self._waiting and len(self._running) < self.batch:
            self._begin(self._waiting.popleft())
        self._set_alarm()
        for play in finished:
            self.answered(play)


class Cache:
    """Prefix cache by chat, with LRU eviction."""

    def __init__(self, capacity: int) -> None:
        """``capacity`` is in tokens."""
        self._room = capacity
        self._chats: OrderedDict[int | str, int] = OrderedDict()
        self._kinds: set[str] = set()

    def admit(self, play: Play, prompt: int, kept: int, common: int) -> int:
        """Cache the prompt of the play's current turn; returns how many of its tokens were cached before.

        Args:
            play: The episode with its current turn.
            prompt: Tokens of the prompt.
            kept: Tokens cached if this replica served the last turn of the episode (or, for a first turn, its group).
            common: Tokens cached if this replica served any episode of the kind.
        """
        key: int | str = play.number if play.turn > play.first else play.beginning
        known = kept if key in self._chats else common if play.kind in self._kinds else 0
        self._kinds.add(play.kind)
        for name in {play.number: None, key: None}:
            self._room -= prompt - self._chats.get(name, 0)
            self._chats[name] = prompt
            self._chats.move_to_end(name)
        while self._room < 0:
            self._room += self._chats.popitem(last=False)[1]
        return min(known, prompt)
