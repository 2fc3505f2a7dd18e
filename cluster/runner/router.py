"""Routes turns to replicas: sticky by episode, rebalanced by a margin, with limited overcommitment.

The router is synchronous and has no clock and no I/O. Its caller (a runner with real replicas, or a simulation in virtual
time) tells it what happened, and sends the turns that it grants a slot.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Policy = Literal["sticky", "least_loaded", "round_robin"]

OVERCOMMIT = 1.1
"""Requests granted to a replica per batch slot: enough that a free slot is filled at once, no more."""
MARGIN = 0.15
"""An episode leaves its home when the home is busier than the idlest replica by this share of a batch."""
SLOW_PENALTY = 1.0
"""Load, in batches, added to a replica's own for each hedged request that another replica answered first.

It does not fade: requests are hedged in the tail of a run only, which is over before a slow replica could recover."""
HOMES_KEPT = 200_000
"""Homes that are remembered; an older episode gets a new one."""


@dataclass(order=True)
class Ticket:
    """One turn that is queued for, or has, a slot at a replica."""

    priority: float
    order: int
    affinity: str = field(compare=False)
    granted: Callable[[str], None] = field(compare=False)
    """Called with the replica's name once the turn may be sent there."""
    exclusive: bool = field(compare=False, default=False)
    """Needs a replica to itself: a turn that may crash engines."""
    replica: _ReplicaState | None = field(compare=False, default=None)
    has_slot: bool = field(compare=False, default=False)
    """Whether it has its slot."""


@dataclass
class _ReplicaState:
    """The router's view of a replica."""

    name: str
    batch: int
    number: int
    """In order of joining; breaks ties."""
    sent: int = 0
    penalty: float = 0.0
    """Extra load for being slow."""
    exclusive: bool = False
    """Serving an exclusive turn: no other may be sent."""
    waiting: list[Ticket] = field(default_factory=list)
    counted: tuple[int, int] = (0, 0)
    """Its part of the router's totals: sent and waiting."""

    def __post_init__(self) -> None:
        self.capacity = math.ceil(self.batch * OVERCOMMIT)

    @property
    def load(self) -> float:
        return (self.sent + len(self.waiting)) / self.batch + self.penalty


class _Ranking:
    """The replica with the smallest value of a measure, updated in logarithmic time.

    A heap with one valid entry per replica; stale entries are dropped when they reach the top, or when there are too many.
    """

    def __init__(self, measure: Callable[[_ReplicaState], float]) -> None:
        self._measure = measure
        self._valid: dict[int, tuple[float, int, _ReplicaState]] = {}
        self._heap: list[tuple[float, int, _ReplicaState]] = []

    def update(self, state: _ReplicaState) -> None:
        """The replica is new or has changed."""
        entry = (self._measure(state), state.number, state)
        old = self._valid.get(state.number)
        if old is not None and old[0] == entry[0]:
            return
        self._valid[state.number] = entry
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 16 + 4 * len(self._valid):
            self._heap = list(self._valid.values())
            heapq.heapify(self._heap)

    def discard(self, state: _ReplicaState) -> None:
        """The replica is gone."""
        self._valid.pop(state.number, None)

    def first(self) -> _ReplicaState:
        """The replica with the smallest measure; there must be one."""
        while self._valid.get(self._heap[0][1]) is not self._heap[0]:
            heapq.heappop(self._heap)
        return self._heap[0][2]


class Router:
    """Grants turns a slot at a replica."""

    def __init__(self, policy: Policy = "sticky") -> None:
        """``sticky`` keeps an episode at its home replica; the other policies are baselines."""
        self.policy = policy
        self.moves = 0
        """How often an episode left a live home that was too busy."""
        self._states: dict[str, _ReplicaState] = {}
        self._homes: OrderedDict[str, str] = OrderedDict()
        self._sequence = itertools.count()
        self._unrouted: list[Ticket] = []
        self._numbers = itertools.count()
        self._next_robin = 0
        self._idlest = _Ranking(lambda state: state.load)
        self._longest_queue = _Ranking(lambda state: -len(state.waiting))
        self._sent = self._waiting = self._capacity = 0

    # --- replicas come and go ---

    def add(self, replica: str, batch: int) -> None:
        """A replica is ready (again) and has ``batch`` slots."""
        self.remove(replica)
        state = self._states[replica] = _ReplicaState(replica, batch, next(self._numbers))
        self._capacity += state.capacity
        self._update(state)
        # In their order of priority: the turns that waited for any replica at all.
        unrouted, self._unrouted = self._unrouted, []
        for ticket in sorted(unrouted):
            self._queue(ticket)
        self._fill(state)

    def remove(self, replica: str) -> None:
        """A replica is gone: its queued turns are rerouted; those already sent are the caller's to retry."""
        state = self._states.pop(replica, None)
        if state is None:
            return
        self._capacity -= state.capacity
        self._sent -= state.counted[0]
        self._waiting -= state.counted[1]
        # Tickets that were sent keep their state, so that ``release`` finds it though the replica is gone.
        self._idlest.discard(state)
        self._longest_queue.discard(state)
        for ticket in sorted(state.waiting):
            self._queue(ticket)

    def holds(self, state: _ReplicaState) -> bool:
        """Whether this incarnation of the replica is still in use."""
        return self._states.get(state.name) is state

    @property
    def replicas(self) -> list[str]:
        """Names of the replicas that are up."""
        return list(self._states)

    @property
    def capacity(self) -> int:
        """Requests that replicas accept at once."""
        return self._capacity

    @property
    def sent(self) -> int:
        """Requests being served."""
        return self._sent

    @property
    def waiting(self) -> int:
        """Requests queued for a slot."""
        return len(self._unrouted) + self._waiting

    def loads(self) -> dict[str, tuple[int, int]]:
        """Requests being served by each replica, and its batch slots."""
        return {name: (state.sent, state.batch) for name, state in self._states.items()}

    # --- turns come and go ---

    def request(
        self, affinity: str, granted: Callable[[str], None], priority: float = 0.0, exclusive: bool = False
    ) -> Ticket:
        """Queue for a slot; ``granted`` is called, now or later, with the name of the replica to send the turn to."""
        ticket = Ticket(priority, next(self._sequence), affinity, granted, exclusive)
        self._queue(ticket)
        return ticket

    def hedge(self, late: Ticket) -> Ticket | None:
        """An idle slot at another replica for a late turn, or None; never queues.

        Release both tickets. If the second replica answers first, call ``hedge_won``.
        """
        idle = []
        for state in self._states.values():
            if state is late.replica:
                continue
            # It serves an exclusive turn, or has turns of its own to send.
            if state.exclusive or state.waiting:
                continue
            if state.sent < state.batch:
                idle.append(state)
        if not idle:
            return None
        least = min(idle, key=lambda each: (each.load, each.number))
        ticket = Ticket(late.priority, next(self._sequence), late.affinity, late.granted, replica=least, has_slot=True)
        least.sent += 1
        self._update(least)
        return ticket

    def hedge_won(self, late: Ticket, winner: Ticket) -> None:
        """The second replica answered first: it becomes the episode's home, and the late replica is penalized."""
        if winner.replica is not None and self.holds(winner.replica):
            self._set_home(winner.affinity, winner.replica)
        if late.replica is not None and self.holds(late.replica):
            late.replica.penalty += SLOW_PENALTY
            self._update(late.replica)

    def release(self, ticket: Ticket) -> None:
        """The turn was answered, failed or canceled; its slot is free."""
        state = ticket.replica
        if state is None:
            self._unrouted.remove(ticket)
        elif ticket.has_slot:
            state.sent -= 1
            state.exclusive = False
        else:
            state.waiting.remove(ticket)
            heapq.heapify(state.waiting)
        if state is not None and self.holds(state):
            self._update(state)
            self._fill(state)

    def _queue(self, ticket: Ticket) -> None:
        ticket.replica = self._choose(ticket)
        if ticket.replica is None:
            self._unrouted.append(ticket)
            return
        heapq.heappush(ticket.replica.waiting, ticket)
        self._update(ticket.replica)
        self._fill(ticket.replica)

    def _choose(self, ticket: Ticket) -> _ReplicaState | None:
        if not self._states:
            return None
        if self.policy == "round_robin":
            self._next_robin += 1
            return list(self._states.values())[self._next_robin % len(self._states)]
        idlest = self._idlest.first()
        if self.policy == "least_loaded":
            return idlest
        home = self._states.get(self._homes.get(ticket.affinity, ""))
        if home is not None and home.load <= idlest.load + max(MARGIN, 1 / home.batch):
            self._homes.move_to_end(ticket.affinity)
            return home
        self.moves += home is not None
        self._set_home(ticket.affinity, idlest)
        return idlest

    def _set_home(self, affinity: str, state: _ReplicaState) -> None:
        self._homes[affinity] = state.name
        self._homes.move_to_end(affinity)
        while len(self._homes) > HOMES_KEPT:
            self._homes.popitem(last=False)

    def _fill(self, state: _ReplicaState) -> None:
        """Grant free slots; a replica with an empty queue steals from the longest queue."""
        while state.sent < state.capacity and not state.exclusive:
            has_turn = state.waiting or self._steal(state)
            if not has_turn:
                return
            first = state.waiting[0]
            if first.exclusive and state.sent:
                return  # the replica drains first
            ticket = heapq.heappop(state.waiting)
            ticket.has_slot = True
            state.sent += 1
            state.exclusive = ticket.exclusive
            self._update(state)
            ticket.granted(state.name)

    def _steal(self, state: _ReplicaState) -> bool:
        if self.policy == "round_robin":
            return False
        longest = self._longest_queue.first()
        if longest is state or not longest.waiting:
            return False
        if self.policy == "sticky" and longest.load <= state.load + max(MARGIN, 1 / state.batch):
            return False  # the episode that just left the slot is likely to return soon
        ticket = heapq.heappop(longest.waiting)
        ticket.replica = state
        self.moves += 1
        self._set_home(ticket.affinity, state)
        heapq.heappush(state.waiting, ticket)
        self._update(longest)
        self._update(state)
        return True

    def _update(self, state: _ReplicaState) -> None:
        """Keep the rankings and totals up to date with a replica that changed."""
        sent, waiting = state.counted
        state.counted = (state.sent, len(state.waiting))
        self._sent += state.sent - sent
        self._waiting += len(state.waiting) - waiting
        self._idlest.update(state)
        self._longest_queue.update(state)
