"""When a turn has been with its replica for so long that it is worth asking it again elsewhere.

Plain arithmetic, so that a simulation decides exactly as a runner does.
"""

from __future__ import annotations

import math

LATE = 3.0
"""A turn is late after so many times the mean: replies have heavy tails, and a long one is no sign of a slow replica."""
LOOK_SECONDS = 0.5
"""Between looks at whether a late turn can be asked again."""
LONGEST_LOOK_SECONDS = 10.0
"""The same for turns that are not late yet: what is usual changes."""


class LatencyTracker:
    """Knows how long turns take from those that were answered and those that still wait.

    Without the latter the first answers, which are the short ones, would make all others look late. The estimate is all
    time spent over all answers: the most likely mean of exponential times of which some are not over.
    """

    def __init__(self) -> None:
        self._answers = 0
        self._seconds = 0.0
        self._out = 0
        self._sent = 0.0
        """Sum of the times at which the turns that are out were sent."""

    def sent(self, now: float) -> None:
        """A turn went to a replica."""
        self._out += 1
        self._sent += now

    def back(self, sent: float, now: float, answered: bool) -> None:
        """A turn that went out at ``sent`` has its answer, or failed."""
        self._out -= 1
        self._sent -= sent
        self._seconds += now - sent
        self._answers += answered

    def late_at(self, sent: float, now: float) -> float:
        """When a turn that went out at ``sent`` is late, as things are now; never, before there is any answer."""
        if not self._answers:
            return math.inf
        return sent + LATE * (self._seconds + self._out * now - self._sent) / self._answers

    def next_look(self, sent: float, now: float) -> float:
        """When to look again whether it is late."""
        return now + min(max(self.late_at(sent, now) - now, LOOK_SECONDS), LONGEST_LOOK_SECONDS)
