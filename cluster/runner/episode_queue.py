"""The driver's queue: episodes that nobody holds, longest expected first."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Sequence

from evals.types import Episode

CALL_IN_TOKENS = 500.0
"""What one model call weighs beside its prompt tokens when episodes are ordered by expected work."""


def expected_work(episode: Episode) -> float:
    """What the queue is ordered by, in prompt tokens."""
    return episode.prompt_tokens + CALL_IN_TOKENS * episode.calls


def longest_first(episodes: Sequence[Episode]) -> list[Episode]:
    """The episodes in the order in which they should begin; ties in plan order."""
    return sorted(episodes, key=expected_work, reverse=True)


class EpisodeQueue:
    """Episodes to play; each is taken by one runner at a time, and put back if that runner dies."""

    def __init__(self, episodes: Iterable[Episode] = ()) -> None:
        """Takes the episodes in any order."""
        self._orders = itertools.count()
        self._heap: list[tuple[float, int, Episode]] = []
        self.draining = False
        """No more episodes are given out."""
        self.put(episodes)
        self.unfinished = len(self._heap)
        """Episodes not finished yet, held ones included."""

    def put(self, episodes: Iterable[Episode]) -> None:
        """Add episodes, or put back what a holder will not finish."""
        for episode in episodes:
            heapq.heappush(self._heap, (-expected_work(episode), next(self._orders), episode))

    def take(self, count: int) -> tuple[Episode, ...]:
        """At most so many episodes; they are the taker's until finished or put back."""
        if self.draining:
            return ()
        return tuple(heapq.heappop(self._heap)[2] for _ in range(min(count, len(self._heap))))

    def finished(self, count: int) -> None:
        """So many held episodes are done or failed."""
        self.unfinished -= count

    def __len__(self) -> int:
        """Episodes that nobody holds."""
        return len(self._heap)
