"""Decides when a request has been in flight so long that it should be hedged.

Pure functions of time, so that the simulation decides exactly as a runner does.
"""

from __future__ import annotations

import math

LATE = 3.0
"""A request is late after this multiple of the mean latency; replies have heavy tails, so long ones are normal."""
CHECK_SECONDS = 0.5
"""Between checks whether a late request can be hedged."""
LONGEST_CHECK_SECONDS = 10.0
"""The same for requests that are not late yet, since the mean changes."""


class LatencyTracker:
    """Estimates the mean latency from answered requests and those still in flight.

    Without the latter, the first replies, which are the short ones, would make all others look late. The estimate is the
    total time over the number of replies: the maximum-likelihood mean of exponential times with right censoring.
    """

    def __init__(self) -> None:
        self._answers = 0
        self._seconds = 0.0
        self._in_flight = 0
        self._sent = 0.0
        """Sum of the send times of all requests in flight."""

    def sent(self, now: float) -> None:
        """A request was sent to a replica."""
        self._in_flight += 1
        self._sent += now

    def returned(self, sent: float, now: float, answered: bool) -> None:
        """The request that was sent at ``sent`` was answered, or failed."""
        self._in_flight -= 1
        self._sent -= sent
        self._seconds += now - sent
        self._answers += answered

    def late_at(self, sent: float, now: float) -> float:
        """When the request that was sent at ``sent`` becomes late; never, as long as there are no replies."""
        if not self._answers:
            return math.inf
        return sent + LATE * (self._seconds + self._in_flight * now - self._sent) / self._answers

    def next_check(self, sent: float, now: float) -> float:
        """When to check again whether it is late."""
        return now + min(max(self.late_at(sent, now) - now, CHECK_SECONDS), LONGEST_CHECK_SECONDS)
