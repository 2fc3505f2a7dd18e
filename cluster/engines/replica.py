"""A replica hosts one engine. This class does not depend on Ray; ``cluster.ray_backend.actors`` wraps it as an actor."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from cluster.concurrency import within
from cluster.engines.base import Account, Engine, EngineDefectError, EngineDiedError, EngineSettingsError, Request
from cluster.engines.checked import CheckedEngine
from cluster.engines.guard import guard_of, is_engine
from evals.types import Reply

logger = logging.getLogger(__name__)

EngineFactory = Callable[[], Engine]


class Replica:
    """Hosts one engine, and ends its own process when the engine dies, so that it is replaced."""

    def __init__(self, name: str, make_engine: EngineFactory) -> None:
        """``make_engine`` is called here, in the replica's own process."""
        self.name = name
        self._make_engine = make_engine
        self._engine: CheckedEngine | None = None
        self._guard = contextlib.ExitStack()
        """While the engine's processes run."""

    async def start(
        self, spent_elsewhere: float = 0.0, highest: float = 0.0, run_dir: Path | None = None
    ) -> dict[str, Any]:
        """Load the engine; returns its batch size, whether it is metered, and its facts.

        Args:
            spent_elsewhere: Spending of the run so far, for engines with a spend cap.
            highest: Price of its most expensive request.
            run_dir: Of the run, for engines that remember something over deaths.

        Raises:
            EngineSettingsError: the engine refuses its settings.
            EngineError: it cannot start.
        """
        try:
            made = self._make_engine()
        except ValueError as error:
            raise EngineSettingsError(str(error)) from error
        self._engine = CheckedEngine(made)
        self._guard.enter_context(guard_of(type(made)))
        self._engine.add_spent_elsewhere(spent_elsewhere, highest)
        if run_dir is not None:
            self._engine.keep_in(run_dir)
        await self._engine.start()
        return {
            "batch": self._engine.max_num_seqs,
            "metered": self._engine.metered,
            "facts": self._engine.facts,
        }

    async def complete(self, request: Request) -> Reply:
        """As ``Engine.complete``; ends the process if the engine died.

        Raises:
            PlayerError: the request can never be answered.
            EngineError: the engine failed, or broke its contract.
        """
        assert self._engine is not None, "start() comes first"
        try:
            return await self._engine.complete(request)
        except EngineDiedError:
            logger.exception("replica %s: the engine died", self.name)
            self._exit()
            raise
        except EngineDefectError:
            logger.exception("replica %s: the engine raised", self.name)
            raise

    async def complete_group(self, requests: Sequence[Request]) -> list[Reply | Exception]:
        """Several requests at once, each answered by its reply or its error."""
        answers = await asyncio.gather(*map(self.complete, requests), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, Exception):
                raise answer  # canceled
        return [answer for answer in answers if isinstance(answer, Reply | Exception)]

    async def settle(self, covered: int, seconds: float) -> Account:
        """As ``Engine.settle``."""
        assert self._engine is not None, "start() comes first"
        return await self._engine.settle(covered, seconds)

    async def close(self) -> Account | None:
        """Close the engine; returns the account of a metered one. The caller ends the process."""
        if self._engine is None:
            return None
        await self._engine.close()
        await asyncio.to_thread(self._guard.close)
        return await self._engine.settle(0, 0.0) if self._engine.metered else None

    async def check_health(self, seconds: float) -> None:
        """See whether the engine answers within ``seconds``; end the process if it is dead or unresponsive."""
        assert self._engine is not None, "start() comes first"
        try:
            await within(seconds, self._engine.check_health())
        except EngineDiedError:
            self._exit()
            raise
        except TimeoutError:
            self._exit()
            raise EngineDiedError(f"unresponsive for {seconds:g} s") from None

    def _exit(self) -> None:
        """End the process shortly after the caller has received the error; the actor outlives its engine otherwise."""
        asyncio.get_running_loop().call_later(0.2, _end_all)


def _end_all() -> None:
    """Kill this process and its descendants: a hung engine process would not notice that its parent is gone."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if is_engine(child):
                child.kill()
    os.kill(os.getpid(), signal.SIGKILL)
