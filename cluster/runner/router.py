"""Which replica answers which turn: sticky homes, moved by margin; full replicas, not flooded ones.

The router is plain bookkeeping without clocks, processes or awaiting: whoever drives it (a runner with real replicas, a
simulation with virtual time) tells it what happened and sends what it grants.
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
"""Load, in batches, added to a replica's own for each hedged request that another replica answered first."""
HOMES_KEPT = 200_000
"""Affinities remembered; an older episode simply gets a new home."""


@dataclass(order=True)
class Ticket:
    """One turn that waits for, or has, a slot at a replica."""

    priority: float
    order: int
    affinity: str = field(compare=False)
    granted: Callable[[str], None] = field(compare=False)
    """Called with the replica's name once the turn may be sent there."""
    exclusive: bool = field(compare=False, default=False)
    """Wants a replica for itself: a turn that is suspected of killing engines."""
    replica: _ReplicaState | None = field(compare=False, default=None)
    inside: bool = field(compare=False, default=False)
    """Granted: it has its slot and waits no more."""


@dataclass
class _ReplicaState:
    """A replica as the router sees it."""

    name: str
    batch: int
    number: int
    """In the order of joining; decides between equals."""
    sent: int = 0
    penalty: float = 0.0
    """Load that it is taken to have because it is slow."""
    exclusive: bool = False
    """A turn that wanted the replica for itself is inside: nothing else may enter."""
    waiting: list[Ticket] = field(default_factory=list)
    counted: tuple[int, int] = (0, 0)
    """What the router's totals hold of it: sent and waiting."""

    def __post_init__(self) -> None:
        self.capacity = math.ceil(self.batch * OVERCOMMIT)

    @property
    def load(self) -> float:
        return (self.sent + len(self.waiting)) / self.batch + self.penalty


class _Ranking:
    """The replica that comes first by some measure, kept while thousands of replicas change.

    A heap with one valid entry for each replica; outdated ones are dropped when they surface, or when they are too many.
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
        """The replica of the smallest measure; there must be one."""
        while self._valid.get(self._heap[0][1]) is not self._heap[0]:
            heapq.heappop(self._heap)
        return self._heap[0][2]


class Router:
    """Grants turns a slot at a replica."""

    def __init__(self, policy: Policy = "sticky") -> None:
        """``sticky`` keeps an episode at its home replica; the other policies exist to be compared with."""
        self.policy = policy
        self.moves = 0
        """Episodes that left a living home because it was too busy."""
        self._states: dict[str, _ReplicaState] = {}
        self._homes: OrderedDict[str, str] = OrderedDict()
        self._orders = itertools.count()
        self._stranded: list[Ticket] = []
        self._numbers = itertools.count()
        self._next_robin = 0
        self._idlest = _Ranking(lambda state: state.load)
        self._longest_queue = _Ranking(lambda state: -len(state.waiting))
        self._sent = self._waiting = self._capacity = 0

    # --- replicas come and go ---

    def add(self, replica: str, batch: int) -> None:
        """A replica is ready (again) and runs ``batch`` requests at once."""
        self.remove(replica)
        state = self._states[replica] = _ReplicaState(replica, batch, next(self._numbers))
        self._capacity += state.capacity
        self._note(state)
        stranded, self._stranded = self._stranded, []
        for ticket in sorted(stranded):
            self._queue(ticket)
        self._fill(state)

    def remove(self, replica: str) -> None:
        """A replica is gone: what waits for it goes elsewhere; what was sent there is its sender's to ask again."""
        state = self._states.pop(replica, None)
        if state is None:
            return
        self._capacity -= state.capacity
        self._sent -= state.counted[0]
        self._waiting -= state.counted[1]
        self._idlest.discard(state)
        self._longest_queue.discard(state)
        for ticket in sorted(state.waiting):
            self._queue(ticket)

    def holds(self, state: _ReplicaState) -> bool:
        """Whether this very incarnation of a replica is still in use."""
        return self._states.get(state.name) is state

    @property
    def replicas(self) -> list[str]:
        """Names of the replicas that are up."""
        return list(self._states)

    @property
    def capacity(self) -> int:
        """Requests that may be with replicas at once."""
        return self._capacity

    @property
    def sent(self) -> int:
        """Requests that are with replicas now."""
        return self._sent

    @property
    def waiting(self) -> int:
        """Requests that wait for a slot."""
        return len(self._stranded) + self._waiting

    def loads(self) -> dict[str, tuple[int, int]]:
        """Requests with each replica, and the slots in its batch."""
        return {name: (state.sent, state.batch) for name, state in self._states.items()}

    # --- turns come and go ---

    def request(
        self, affinity: str, granted: Callable[[str], None], priority: float = 0.0, exclusive: bool = False
    ) -> Ticket:
        """Ask for a slot; ``granted`` is called, now or later, with the name of the replica to send the turn to."""
        ticket = Ticket(priority, next(self._orders), affinity, granted, exclusive)
        self._queue(ticket)
        return ticket

    def hedge(self, late: Ticket) -> Ticket | None:
        """A second slot for a turn that is late where it is: an idle one elsewhere, at once or not at all.

        Both tickets are to be released; if the second replica answers first, call ``hedge_won``.
        """
        idle = (
            state
            for state in self._states.values()
            if state is not late.replica and not (state.exclusive or state.waiting) and state.sent < state.batch
        )
        state = min(idle, key=lambda each: (each.load, each.number), default=None)
        if state is None:
            return None
        ticket = Ticket(late.priority, next(self._orders), late.affinity, late.granted, replica=state, inside=True)
        state.sent += 1
        self._note(state)
        return ticket

    def hedge_won(self, late: Ticket, winner: Ticket) -> None:
        """The second replica answered first: the episode stays there, and the late replica is asked less from now on."""
        if winner.replica is not None and self.holds(winner.replica):
            self._settle(winner.affinity, winner.replica)
        if late.replica is not None and self.holds(late.replica):
            late.replica.penalty += SLOW_PENALTY
            self._note(late.replica)

    def release(self, ticket: Ticket) -> None:
        """The turn was answered, failed, or is no longer wanted; its slot is free."""
        state = ticket.replica
        if state is None:
            self._stranded.remove(ticket)
        elif ticket.inside:
            state.sent -= 1
            state.exclusive = False
        else:
            state.waiting.remove(ticket)
            heapq.heapify(state.waiting)
        if state is not None and self.holds(state):
            self._note(state)
            self._fill(state)

    def _queue(self, ticket: Ticket) -> None:
        ticket.replica = self._choose(ticket)
        if ticket.replica is None:
            self._stranded.append(ticket)
            return
        heapq.heappush(ticket.replica.waiting, ticket)
        self._note(ticket.replica)
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
        self._settle(ticket.affinity, idlest)
        return idlest

    def _settle(self, affinity: str, state: _ReplicaState) -> None:
        self._homes[affinity] = state.name
        self._homes.move_to_end(affinity)
        while len(self._homes) > HOMES_KEPT:
            self._homes.popitem(last=False)

    def _fill(self, state: _ReplicaState) -> None:
        """Grant what fits; a replica with nothing left to grant takes over from the longest queue."""
        while state.sent < state.capacity and not state.exclusive:
            if not state.waiting and not self._steal(state):
                return
            if state.waiting[0].exclusive and state.sent:
                return  # the replica drains first
            ticket = heapq.heappop(state.waiting)
            ticket.inside = True
            state.sent += 1
            state.exclusive = ticket.exclusive
            self._note(state)
            ticket.granted(state.name)

    def _steal(self, state: _ReplicaState) -> bool:
        if self.policy == "round_robin":
            return False
        longest = self._longest_queue.first()
        if longest is state or not longest.waiting:
            return False
        if self.policy == "sticky" and longest.load <= state.load + max(MARGIN, 1 / state.batch):
            return False  # the episode that just left is likely to be back in a moment
        ticket = heapq.heappop(longest.waiting)
        ticket.replica = state
        self.moves += 1
        self._settle(ticket.affinity, state)
        heapq.heappush(state.waiting, ticket)
        self._note(longest)
        self._note(state)
        return True

    def _note(self, state: _ReplicaState) -> None:
        """Keep the rankings and totals up to date with a replica that changed."""
        sent, waiting = state.counted
        state.counted = (state.sent, len(state.waiting))
        self._sent += state.sent - sent
        self._waiting += len(state.waiting) - waiting
        self._idlest.update(state)
        self._longest_queue.update(state)
