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
"""Requests granted to a replica per place in its batch: enough that a free place is taken at once, no more."""
MARGIN = 0.15
"""An episode leaves its home when the home is busier than the idlest replica by this share of a batch."""
HANDICAP = 1.0
"""Load, in batches, that a replica is taken to have beyond its own for each turn that another answered sooner, though later
asked."""
HOMES_KEPT = 200_000
"""Affinities remembered; an older episode simply gets a new home."""


@dataclass(order=True)
class Ticket:
    """One turn that waits for, or has, a place at a replica."""

    priority: float
    order: int
    affinity: str = field(compare=False)
    granted: Callable[[str], None] = field(compare=False)
    """Called with the replica's name once the turn may be sent there."""
    alone: bool = field(compare=False, default=False)
    """Wants a replica for itself: a turn that is suspected of killing engines."""
    place: _Place | None = field(compare=False, default=None)
    inside: bool = field(compare=False, default=False)
    """Granted: it has its place and waits no more."""


@dataclass
class _Place:
    """A replica as the router sees it."""

    name: str
    batch: int
    number: int
    """In the order of joining; decides between equals."""
    sent: int = 0
    handicap: float = 0.0
    """Load that it is taken to have because it is slow."""
    closed: bool = False
    """A turn that wanted the replica for itself is inside: nothing else may enter."""
    waiting: list[Ticket] = field(default_factory=list)
    counted: tuple[int, int] = (0, 0)
    """What the router's totals hold of it: sent and waiting."""

    def __post_init__(self) -> None:
        self.capacity = math.ceil(self.batch * OVERCOMMIT)

    @property
    def load(self) -> float:
        return (self.sent + len(self.waiting)) / self.batch + self.handicap


class _Ranking:
    """The place that comes first by some measure, kept while thousands of places change.

    A heap with one valid entry for each place; outdated ones are dropped when they surface, or when they are too many.
    """

    def __init__(self, measure: Callable[[_Place], float]) -> None:
        self._measure = measure
        self._valid: dict[int, tuple[float, int, _Place]] = {}
        self._heap: list[tuple[float, int, _Place]] = []

    def update(self, place: _Place) -> None:
        """The place is new or has changed."""
        entry = (self._measure(place), place.number, place)
        old = self._valid.get(place.number)
        if old is not None and old[0] == entry[0]:
            return
        self._valid[place.number] = entry
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 16 + 4 * len(self._valid):
            self._heap = list(self._valid.values())
            heapq.heapify(self._heap)

    def discard(self, place: _Place) -> None:
        """The place is gone."""
        self._valid.pop(place.number, None)

    def first(self) -> _Place:
        """The place of the smallest measure; there must be one."""
        while self._valid.get(self._heap[0][1]) is not self._heap[0]:
            heapq.heappop(self._heap)
        return self._heap[0][2]


class Router:
    """Grants turns a place at a replica."""

    def __init__(self, policy: Policy = "sticky") -> None:
        """``sticky`` keeps an episode at its home replica; the other policies exist to be compared with."""
        self.policy = policy
        self.moves = 0
        """Episodes that left a living home because it was too busy."""
        self._places: dict[str, _Place] = {}
        self._homes: OrderedDict[str, str] = OrderedDict()
        self._orders = itertools.count()
        self._stranded: list[Ticket] = []
        self._numbers = itertools.count()
        self._next_robin = 0
        self._idlest = _Ranking(lambda place: place.load)
        self._longest_queue = _Ranking(lambda place: -len(place.waiting))
        self._sent = self._waiting = self._capacity = 0

    # --- replicas come and go ---

    def add(self, replica: str, batch: int) -> None:
        """A replica is ready (again) and runs ``batch`` requests at once."""
        self.remove(replica)
        place = self._places[replica] = _Place(replica, batch, next(self._numbers))
        self._capacity += place.capacity
        self._note(place)
        stranded, self._stranded = self._stranded, []
        for ticket in sorted(stranded):
            self._queue(ticket)
        self._fill(place)

    def remove(self, replica: str) -> None:
        """A replica is gone: what waits for it goes elsewhere; what was sent there is its sender's to ask again."""
        place = self._places.pop(replica, None)
        if place is None:
            return
        self._capacity -= place.capacity
        self._sent -= place.counted[0]
        self._waiting -= place.counted[1]
        self._idlest.discard(place)
        self._longest_queue.discard(place)
        for ticket in sorted(place.waiting):
            self._queue(ticket)

    def holds(self, place: _Place) -> bool:
        """Whether this very incarnation of a replica is still in use."""
        return self._places.get(place.name) is place

    @property
    def replicas(self) -> list[str]:
        """Names of the replicas that are up."""
        return list(self._places)

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
        """Requests that wait for a place."""
        return len(self._stranded) + self._waiting

    def loads(self) -> dict[str, tuple[int, int]]:
        """Requests with each replica, and the places in its batch."""
        return {name: (place.sent, place.batch) for name, place in self._places.items()}

    # --- turns come and go ---

    def request(
        self, affinity: str, granted: Callable[[str], None], priority: float = 0.0, alone: bool = False
    ) -> Ticket:
        """Ask for a place; ``granted`` is called, now or later, with the name of the replica to send the turn to."""
        ticket = Ticket(priority, next(self._orders), affinity, granted, alone)
        self._queue(ticket)
        return ticket

    def again(self, late: Ticket) -> Ticket | None:
        """A second place for a turn whose replica lets it wait: an idle one elsewhere, at once or not at all.

        Both tickets are to be released; whichever replica answers first, tell ``overtaken`` if it is the second.
        """
        idle = (
            place
            for place in self._places.values()
            if place is not late.place and not (place.closed or place.waiting) and place.sent < place.batch
        )
        place = min(idle, key=lambda each: (each.load, each.number), default=None)
        if place is None:
            return None
        ticket = Ticket(late.priority, next(self._orders), late.affinity, late.granted, place=place, inside=True)
        place.sent += 1
        self._note(place)
        return ticket

    def overtaken(self, late: Ticket, winner: Ticket) -> None:
        """The second place answered first: the episode stays there, and the late replica is asked less from now on."""
        if winner.place is not None and self.holds(winner.place):
            self._settle(winner.affinity, winner.place)
        if late.place is not None and self.holds(late.place):
            late.place.handicap += HANDICAP
            self._note(late.place)

    def release(self, ticket: Ticket) -> None:
        """The turn was answered, failed, or is no longer wanted; its place is free."""
        place = ticket.place
        if place is None:
            self._stranded.remove(ticket)
        elif ticket.inside:
            place.sent -= 1
            place.closed = False
        else:
            place.waiting.remove(ticket)
            heapq.heapify(place.waiting)
        if place is not None and self.holds(place):
            self._note(place)
            self._fill(place)

    def _queue(self, ticket: Ticket) -> None:
        ticket.place = self._choose(ticket)
        if ticket.place is None:
            self._stranded.append(ticket)
            return
        heapq.heappush(ticket.place.waiting, ticket)
        self._note(ticket.place)
        self._fill(ticket.place)

    def _choose(self, ticket: Ticket) -> _Place | None:
        if not self._places:
            return None
        if self.policy == "round_robin":
            self._next_robin += 1
            return list(self._places.values())[self._next_robin % len(self._places)]
        idlest = self._idlest.first()
        if self.policy == "least_loaded":
            return idlest
        home = self._places.get(self._homes.get(ticket.affinity, ""))
        if home is not None and home.load <= idlest.load + max(MARGIN, 1 / home.batch):
            self._homes.move_to_end(ticket.affinity)
            return home
        self.moves += home is not None
        self._settle(ticket.affinity, idlest)
        return idlest

    def _settle(self, affinity: str, place: _Place) -> None:
        self._homes[affinity] = place.name
        self._homes.move_to_end(affinity)
        while len(self._homes) > HOMES_KEPT:
            self._homes.popitem(last=False)

    def _fill(self, place: _Place) -> None:
        """Grant what fits; a replica with nothing left to grant takes over from the longest queue."""
        while place.sent < place.capacity and not place.closed:
            if not place.waiting and not self._steal(place):
                return
            if place.waiting[0].alone and place.sent:
                return  # the replica drains first
            ticket = heapq.heappop(place.waiting)
            ticket.inside = True
            place.sent += 1
            place.closed = ticket.alone
            self._note(place)
            ticket.granted(place.name)

    def _steal(self, place: _Place) -> bool:
        if self.policy == "round_robin":
            return False
        longest = self._longest_queue.first()
        if longest is place or not longest.waiting:
            return False
        if self.policy == "sticky" and longest.load <= place.load + max(MARGIN, 1 / place.batch):
            return False  # the episode that just left is likely to be back in a moment
        ticket = heapq.heappop(longest.waiting)
        ticket.place = place
        self.moves += 1
        self._settle(ticket.affinity, place)
        heapq.heappush(place.waiting, ticket)
        self._note(longest)
        self._note(place)
        return True

    def _note(self, place: _Place) -> None:
        """Keep the rankings and totals up to date with a place that changed."""
        sent, waiting = place.counted
        place.counted = (place.sent, len(place.waiting))
        self._sent += place.sent - sent
        self._waiting += len(place.waiting) - waiting
        self._idlest.update(place)
        self._longest_queue.update(place)
