"""Searches of suites, in threads of their own: other episodes are played meanwhile, and a program that stops waits for none."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

AT_ONCE: Final = 32
"""Threads of one event loop at the same time, as many as asyncio has at most."""
_slots: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = weakref.WeakKeyDictionary()


async def found_by(search: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
    """What a suite's search finds. It may take seconds.

    Unlike with ``asyncio.to_thread``, neither the end of the event loop nor that of the program waits for a search under
    way: a search cannot be interrupted, and a batch system kills what does not stop in time.

    Raises:
        RuntimeError: the search raised StopIteration, which no future can hold: the episode would wait forever.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def tell(give: Callable[..., None], value: Any) -> None:
        if not found.done():  # else the episode has been cancelled
            give(value)

    def work() -> None:
        give: Callable[..., None] = found.set_exception
        value: Any
        try:
            value = context.run(search, *arguments, **named)
            give = found.set_result
        except StopIteration:
            value = RuntimeError("a search of the suite raised StopIteration")
        except BaseException as error:  # whatever it is, the episode is told
            value = error
        with contextlib.suppress(RuntimeError):  # the loop has been closed, and nobody waits
            loop.call_soon_threadsafe(tell, give, value)

    slots = _slots.setdefault(loop, asyncio.Semaphore(AT_ONCE))
    async with slots:
        threading.Thread(target=work, daemon=True).start()
        return await found
