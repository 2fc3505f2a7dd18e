"""The driver's queue of episodes that are assigned to no runner: longest expected first, or in a given order."""

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

    def __init__(self, episodes: Iterable[Episode] = (), ranks: Mapping[str, int] | None = None) -> None:
        """Accepts the episodes in any order; ``ranks`` gives their places by id, where it is not the longest first."""
        self._ranks = ranks
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
            place = -expected_work(episode) if self._ranks is None else self._ranks[episode.id]
            heapq.heappush(self._heap, (place, next(self._sequence), episode))

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
