"""A replica: one engine in an actor. The plain class knows no Ray; ``cluster.ray_backend.actors`` wraps it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable
from typing import Any

import psutil

from cluster.engines.base import Engine, EngineDiedError, EngineError, Request
from evals.types import PlayerError, Reply

logger = logging.getLogger(__name__)

EngineFactory = Callable[[], Engine]


class Replica:
    """Hosts one engine and ends its process when the engine dies, so that it is replaced."""

    def __init__(self, name: str, make_engine: EngineFactory) -> None:
        """``make_engine`` is called here, in the replica's own process."""
        self.name = name
        self._make_engine = make_engine
        self._engine: Engine | None = None

    async def start(self, spent_elsewhere: float = 0.0) -> dict[str, Any]:
        """Load the engine; returns what the router and the display need to know.

        Args:
            spent_elsewhere: What the run has spent before, for engines with a spend cap.
        """
        self._engine = self._make_engine()
        self._engine.add_spent_elsewhere(spent_elsewhere)
        await self._engine.start()
        return {"batch": self._engine.max_num_seqs, "metered": self._engine.metered}

    async def complete(self, request: Request) -> Reply:
        """As ``Engine.complete``; a dead engine takes the process with it.

        Raises:
            PlayerError: the request can never be answered.
            EngineError: the engine failed; whatever else it raises is read as that, with its name.
        """
        assert self._engine is not None, "start() comes first"
        try:
            return await self._engine.complete(request)
        except EngineDiedError:
            logger.exception("replica %s: the engine died", self.name)
            self._exit()
            raise
        except (PlayerError, EngineError):
            raise
        except Exception as error:
            logger.exception("replica %s: the engine raised", self.name)
            raise EngineError(f"{type(error).__name__}: {error}") from error

    async def close(self) -> float:
        """End what the engine holds and return what it spent; the process itself is ended by whoever started it."""
        if self._engine is None:
            return 0.0
        await self._engine.close()
        return self._engine.spent

    async def check_health(self, seconds: float) -> float:
        """Return what the engine has spent if it answers within so many seconds; end the process if it is dead or hangs."""
        assert self._engine is not None, "start() comes first"
        try:
            await asyncio.wait_for(self._engine.check_health(), seconds)
        except EngineDiedError:
            self._exit()
            raise
        except TimeoutError:
            self._exit()
            raise EngineDiedError(f"unresponsive for {seconds:g} s") from None
        return self._engine.spent

    def _exit(self) -> None:
        """An engine that died leaves its actor alive: end the process a moment later, after the caller was told."""
        asyncio.get_running_loop().call_later(0.2, _end_all)


def _end_all() -> None:
    """SIGKILL for this process and all below it: a hung engine process would not notice that its parent is gone."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    os.kill(os.getpid(), signal.SIGKILL)
