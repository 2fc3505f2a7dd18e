"""Waiting for coroutines: with a timeout, for the first of several, for all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def within(seconds: float | None, work: Awaitable[T]) -> T:
    """The result of an awaitable; instead of ``asyncio.wait_for``, which loses cancellations before Python 3.12.

    There, a cancellation that arrives together with the result is swallowed, and a loop around the call goes on for ever.

    Raises:
        TimeoutError: it takes longer than ``seconds``; None is no limit.
    """
    async with asyncio.timeout(seconds):
        return await work


async def first_of(*work: Coroutine[Any, Any, T]) -> T:
    """The result (or error) of the first to finish; the others are canceled."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task.result() for task in tasks if task in done)
    finally:
        await all_of(tasks, cancel=True)


async def all_of(work: Iterable[Coroutine[Any, Any, Any] | asyncio.Future[Any]], *, cancel: bool = False) -> None:
    """Wait for all, or cancel all and wait; if one fails, the others are canceled and its error is raised."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        if not cancel:
            await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
