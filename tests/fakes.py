"""A fake replica with scripted replies, latency and failures, shared by all tests of what stands before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cluster.engines.base import Request
from evals.types import Reply

Script = Callable[[Request], Reply | Exception]


def first_option(request: Request) -> Reply:
    return Reply(request.options[0] if request.options else "text", prompt_tokens=10, completion_tokens=1)


class FakeReplica:
    """Answers as its script says; knows what it was asked and how many requests were inside at once."""

    def __init__(self, script: Script = first_option, seconds: float = 0.0) -> None:
        self.script = script
        self.seconds = seconds
        self.asked: list[Request] = []
        self.inside = 0
        self.most_inside = 0
        self.companions: dict[str, int] = {}

    async def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        self.companions[request.id] = self.inside - 1
        try:
            await asyncio.sleep(self.seconds)
            reply = self.script(request)
        finally:
            self.inside -= 1
        if isinstance(reply, Exception):
            raise reply
        return reply
