"""The driver's queue of episodes that are assigned to no runner, longest expected first."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Sequence

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

    def __init__(self, episodes: Iterable[Episode] = ()) -> None:
        """Accepts the episodes in any order."""
        self._sequence = itertools.count()
        self._heap: list[tuple[float, int, Episode]] = []
        self.draining = False
        """Hand out no more episodes."""
        self.put(episodes)
        self.unfinished = len(self._heap)
        """Unfinished episodes, assigned ones included."""

    def put(self, episodes: Iterable[Episode]) -> None:
        """Add episodes, or requeue those that their runner will not finish."""
        for episode in episodes:
            heapq.heappush(self._heap, (-expected_work(episode), next(self._sequence), episode))

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
