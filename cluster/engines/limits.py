"""Rate limiting for API engines: adaptive concurrency, and requests and tokens per minute."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class AdaptiveConcurrency:
    """Limits concurrent requests: fewer after rate-limit errors, gradually more after successes.

    Halves on each ``too_many`` (at most once per ``calm_seconds``, as requests sent together fail together) and grows by
    one per ``limit`` successes, like TCP's congestion window (AIMD). ``hold`` pauses all requests, for a server that sends
    ``Retry-After``.
    """

    def __init__(
        self, most: int, calm_seconds: float = 1.0, clock: Callable[[], float] = time.monotonic, least: float = 1.0
    ) -> None:
        """Starts at ``most``, and never falls below ``least``."""
        self.most = most
        self.least = least
        self.limit = float(most)
        self.in_flight = 0
        self._calm_seconds = calm_seconds
        self._clock = clock
        self._halved = -math.inf
        self._held_until = -math.inf
        self._freed = asyncio.Condition()

    @property
    def held(self) -> float:
        """Seconds for which all requests are paused; 0 if they are not."""
        return max(0.0, self._held_until - self._clock())

    def hold(self, seconds: float) -> None:
        """Pause all requests for ``seconds`` from now; a longer pause stays in effect."""
        self._held_until = max(self._held_until, self._clock() + seconds)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot and hold it."""
        while True:
            await asyncio.sleep(self.held)
            async with self._freed:
                await self._freed.wait_for(lambda: self.held or self.in_flight < max(1, int(self.limit)))
                if not self.held:
                    self.in_flight += 1
                    break
        try:
            yield
        finally:
            async with self._freed:
                self.in_flight -= 1
                self._freed.notify_all()

    def success(self) -> None:
        """A request was answered."""
        self.limit = min(self.most, self.limit + 1 / self.limit)

    def too_many(self) -> None:
        """The server returned a rate-limit error."""
        if self._clock() - self._halved >= self._calm_seconds:
            self._halved = self._clock()
            self.limit = max(self.least, self.limit / 2)


class PerMinute:
    """A token bucket that refills evenly; ``None`` means no limit.

    It holds a second's worth of the budget at most, and refills by the rest of it in a minute: so no minute, whenever it
    begins, has more than the budget.
    """

    def __init__(self, budget: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        """Starts full.

        Raises:
            ValueError: the budget is not positive, so nothing could ever be sent.
        """
        if budget is not None and not budget > 0:
            raise ValueError(f"a limit of {budget} per minute: must be above 0; null is no limit")
        self.budget = budget
        self._clock = clock
        amount = budget or 0.0
        self._most = amount / 60
        self._refill_each_second = (amount - self._most) / 60
        self._left = self._most
        self._last = clock()

    def delay(self, amount: float) -> float:
        """Take ``amount``; returns the seconds to wait before using it."""
        if self.budget is None:
            return 0.0
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._last) * self._refill_each_second)
        self._last = now
        self._left -= amount
        return max(0.0, -self._left / self._refill_each_second)

    def correct(self, amount: float) -> None:
        """Take another ``amount`` (or return it, if negative) once the actual use is known."""
        self._left -= amount if self.budget is not None else 0.0
