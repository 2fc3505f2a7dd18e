"""Queues of episodes: the driver's, longest expected first or in a given order, and a runner's, in the driver's order."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence

from evals.types import Episode

CALL_IN_TOKENS = 500.0
"""Weight of one model call, in prompt tokens, when episodes are ordered by expected work."""


def expected_work(episode: Episode) -> float:
    """The queue's sort key, in prompt tokens."""
    return episode.prompt_tokens + CALL_IN_TOKENS * episode.calls


def longest_first(episodes: Sequence[Episode]) -> list[Episode]:
    """The episodes in the order in which they should start; ties in plan order."""
    return sorted(episodes, key=expected_work, reverse=True)


class EpisodeQueue:
    """Episodes to play; each is assigned to one runner at a time, and requeued if that runner dies."""

    def __init__(
        self,
        episodes: Iterable[Episode] = (),
        ranks: Mapping[str, int] | None = None,
        as_they_come: bool = False,
    ) -> None:
        """Accepts the episodes in any order.

        Args:
            episodes: The first ones.
            ranks: Their places by id, where it is not the longest first.
            as_they_come: Take them in the order in which they were put, as a runner does: the driver has ordered them.
        """
        self._ranks = ranks
        self._as_they_come = as_they_come
        self._needed: Collection[str] | None = None
        self._sequence = itertools.count()
        self._heap: list[tuple[float, int, Episode]] = []
        self.draining = False
        """Hand out no more episodes."""
        self.put(episodes)
        self.unfinished = len(self._heap)
        """Unfinished episodes, assigned ones included."""

    def put(self, episodes: Iterable[Episode]) -> None:
        """Add episodes, or requeue those that their runner will not finish; those that are not needed are dropped."""
        for episode in episodes:
            if self._needed is not None and episode.id not in self._needed:
                self.unfinished -= 1
                continue
            heapq.heappush(self._heap, (self._place(episode), next(self._sequence), episode))

    def _place(self, episode: Episode) -> float:
        if self._as_they_come:
            return 0.0
        return -expected_work(episode) if self._ranks is None else self._ranks[episode.id]

    def keep(self, needed: Collection[str]) -> None:
        """Drop all episodes but these (ids), now and when they are requeued; those at a runner may finish."""
        self._needed = needed
        kept = [entry for entry in self._heap if entry[2].id in needed]
        self.unfinished -= len(self._heap) - len(kept)
        heapq.heapify(kept)
        self._heap = kept

    def take(self, count: int) -> tuple[Episode, ...]:
        """Up to ``count`` episodes, which belong to the caller until finished or requeued."""
        if self.draining:
            return ()
        return tuple(heapq.heappop(self._heap)[2] for _ in range(min(count, len(self._heap))))

    def finished(self, count: int) -> None:
        """``count`` assigned episodes are done or failed."""
        self.unfinished -= count

    def __len__(self) -> int:
        """Episodes in the queue."""
        return len(self._heap)
