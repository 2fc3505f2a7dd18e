"""Asks equal calls for label probabilities once: episodes of one puzzle share many, and the answer is always the same."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable

from evals.types import Reply

KEPT = 4096
"""Answers that are remembered; those of one MSEval puzzle with its sweep are a few hundred."""


class SharedCalls:
    """Remembers answers by call; a call that is being asked already is waited for."""

    def __init__(self) -> None:
        """Nothing was asked yet."""
        self._asked: OrderedDict[Hashable, asyncio.Future[Reply]] = OrderedDict()

    async def answer(self, call: Hashable, ask: Callable[[], Awaitable[Reply]]) -> tuple[Reply, bool]:
        """The answer to a call, and whether it was asked before.

        Raises:
            Exception: whatever ``ask`` raises; the call is forgotten, and others that wait for it ask themselves.
        """
        while (known := self._asked.get(call)) is not None:
            self._asked.move_to_end(call)
            await asyncio.wait([known])
            if not known.cancelled():
                return known.result(), True
        asked = self._asked[call] = asyncio.get_running_loop().create_future()
        try:
            reply = await ask()
        except BaseException:
            del self._asked[call]
            asked.cancel()
            raise
        asked.set_result(reply)
        while len(self._asked) > KEPT:
            self._asked.popitem(last=False)
        return reply, False
