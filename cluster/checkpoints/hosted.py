"""One engine in this process that plays one checkpoint after the other: each gets its weights without a restart."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

from cluster import stop_signals
from cluster.checkpoints.folder import likeness
from cluster.config.model import ModelSettings
from cluster.config.settings import Settings
from cluster.console import warn
from cluster.driver.driver import Driver
from cluster.engines.base import Engine
from cluster.engines.checked import CheckedEngine
from cluster.engines.guard import guard_of
from cluster.errors import RunFailedError
from cluster.hosted.pool import HostedPool
from cluster.observe.performance import note_session
from cluster.observe.progress import Progress
from cluster.observe.run_statistics import RunStatistics
from cluster.observe.tracker import Watcher
from cluster.storage.run_directory import RunDirectory
from evals.types import Episode, stable_hash


def can_host(settings: Settings) -> bool:
    """Whether one engine in this process can play these checkpoints: one replica, of this machine, that takes new weights."""
    model, cluster = settings.model, settings.cluster
    if model.engine is None or model.metered:
        return False
    one_here = cluster.address is None and cluster.replicas == 1 and model.replica.nodes == 1
    return one_here and model.engine_class.load_weights is not Engine.load_weights


class HostedEngine:
    """Keeps an engine between runs. Its ``play`` stands in for the cluster's (``cluster.commands.run.Play``)."""

    def __init__(self) -> None:
        """Nothing is loaded yet."""
        self._loop = asyncio.Runner()  # the engine belongs to one loop
        self._engine: CheckedEngine | None = None
        self._kind = ""
        self._guard = contextlib.ExitStack()
        self.started = 0
        """Engines that were started; all other checkpoints were loaded into the one that ran."""

    def play(
        self,
        settings: Settings,
        todo: list[Episode],
        directory: RunDirectory,
        stats: RunStatistics,
        progress: Progress,
        watcher: Watcher,
    ) -> bool:
        """Play episodes; returns whether it was stopped early.

        Raises:
            RunFailedError: the engine cannot be started, or died.
        """
        with progress, stop_signals.counted():
            try:
                driver = Driver(settings, todo, directory, stats, progress, watcher, partial(HostedPool, self))
                self._loop.run(driver.run())
            except RunFailedError:
                self._loop.run(self._end())
                raise
            finally:
                note_session(directory, stats)
                progress.at("")
            return bool(stop_signals.received)

    def close(self) -> None:
        """End the engine."""
        self._loop.run(self._end())
        self._loop.close()

    async def ready(self, model: ModelSettings) -> CheckedEngine:
        """The engine with a checkpoint's weights.

        Raises:
            EngineError: it cannot be started.
        """
        folder = Path((model.engine or {})["model"])
        kind = _kind(model, folder)
        if self._engine is not None and kind == self._kind:
            try:
                if await self._engine.load_weights(str(folder)):
                    return self._engine
            except Exception as error:  # whatever an engine raises, a new one does not depend on it
                warn(f"the running engine cannot take the weights of {folder.name}; starting another one: {error}")
        await self._end()
        made = model.make_engine()
        self._engine = engine = CheckedEngine(made)  # one that does not start is ended, too
        self._kind = ""
        self._guard.enter_context(guard_of(type(made)))
        await engine.start()
        self._kind = kind
        self.started += 1
        return engine

    async def _end(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            with contextlib.suppress(Exception):  # it may be dead
                await engine.close()
        self._guard.close()


def _kind(model: ModelSettings, folder: Path) -> str:
    """Equal for models between which only the values of weights differ."""
    settings: dict[str, Any] = {**(model.engine or {})}
    settings.pop("model", None)
    return stable_hash(settings, dataclasses.asdict(model.sampling), likeness(folder))
