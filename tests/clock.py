"""Time for coroutines that wait: it goes on when nobody has anything left to do, and never by itself."""

import asyncio
import heapq
import itertools

SETTLED = 20
"""Turns of the event loop after which what began at a moment is done."""


class Clock:
    """Time that goes on when nobody has anything left to do."""

    def __init__(self, said):
        self._order, self._said, self._sleep = itertools.count(), said, asyncio.sleep
        self.begin()

    def begin(self):
        self.now, self._sleepers = 0.0, []

    async def sleep(self, seconds):
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._order), woken))
        await woken

    async def during(self, work):
        """Play work to its end; an hour is too long."""
        task = asyncio.ensure_future(work)
        while not task.done() and self.now < 3600:
            for _ in range(SETTLED):
                await self._sleep(0)
            if not task.done():
                assert self._sleepers, "nothing happens anymore"
                self.now, _, woken = heapq.heappop(self._sleepers)
                if not woken.done():
                    woken.set_result(None)
        assert task.done()
        return task.result()

    async def within(self, seconds, work):
        """As of ``cluster.concurrency``."""
        work, end = asyncio.ensure_future(work), asyncio.ensure_future(self.sleep(seconds))
        await asyncio.wait([work, end], return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            work.cancel()
            raise TimeoutError(f"not within {seconds:g} s")
        end.cancel()
        return work.result()

    async def wait(self, tasks, timeout=None, **given):
        """As ``asyncio.wait``."""
        if timeout is None:
            return await asyncio.wait(tasks, **given)
        end = asyncio.ensure_future(self.sleep(timeout))
        done, pending = await asyncio.wait([*tasks, end], **given)
        end.cancel()
        return done - {end}, pending - {end}

    def tell(self, *words):
        self._said(f"{self.now:6.2f}", *words)
