"""Sends short requests to a replica in groups: one call through Ray costs as much as a label score takes on a GPU."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from cluster.engines.base import Request
from evals.types import Reply

MOST = 16
"""Requests of one group. They come back together, so several groups must fit a batch, or the engine would run empty."""

Answer = Reply | Exception


class Groups:
    """Sends what is asked within one iteration of the event loop together."""

    def __init__(self, send: Callable[[Sequence[Request]], Awaitable[Sequence[Answer]]]) -> None:
        """``send`` answers each request by its reply or its error, in order, and raises what concerns all of them."""
        self._send = send
        self._waiting: list[tuple[Request, asyncio.Future[Reply]]] = []
        self._sending: set[asyncio.Task[None]] = set()

    async def complete(self, request: Request) -> Reply:
        """As ``Engine.complete``. Canceling this cancels neither the request nor its group."""
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._start)
        self._waiting.append((request, answer))
        return await answer

    def _start(self) -> None:
        waiting, self._waiting = self._waiting, []
        for first in range(0, len(waiting), MOST):
            task = asyncio.ensure_future(self._complete(waiting[first : first + MOST]))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _complete(self, group: Sequence[tuple[Request, asyncio.Future[Reply]]]) -> None:
        answers: Sequence[Answer]
        try:
            answers = await self._send([request for request, _ in group])
        except Exception as error:
            answers = [error] * len(group)
        for (_, future), answer in zip(group, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
