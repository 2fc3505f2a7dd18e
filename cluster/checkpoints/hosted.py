"""One engine in this process that plays one checkpoint after the other: each gets its weights without a restart."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from cluster import stop_signals
from cluster.checkpoints.folder import likeness
from cluster.concurrency import within
from cluster.config.settings import ModelSettings, Settings
from cluster.console import warn
from cluster.driver.driver import Driver
from cluster.driver.replica_pool import ReplicaPool
from cluster.engines.base import Engine, EngineError, Request
from cluster.errors import RunFailedError
from cluster.observe.performance import note_session
from cluster.observe.progress import Progress
from cluster.observe.run_statistics import RunStatistics
from cluster.observe.tracker import Watcher
from cluster.runner.messages import NewReplica
from cluster.storage.run_directory import RunDirectory
from evals.types import Episode, PlayerError, Reply, stable_hash


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
        self._engine: Engine | None = None
        self._kind = ""
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
                driver = Driver(settings, todo, directory, stats, progress, watcher, partial(_HostedPool, self))
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

    async def ready(self, model: ModelSettings) -> Engine:
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
        engine = model.make_engine()
        await engine.start()
        self._engine, self._kind = engine, kind
        self.started += 1
        return engine

    async def _end(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            with contextlib.suppress(Exception):  # it may be dead
                await engine.close()


def _kind(model: ModelSettings, folder: Path) -> str:
    """Equal for models between which only the values of weights differ."""
    settings: dict[str, Any] = {name: value for name, value in (model.engine or {}).items() if name != "model"}
    return stable_hash(settings, dataclasses.asdict(model.sampling), likeness(folder))


class _HostedPool(ReplicaPool):
    """A pool of the one replica that is there already."""

    def __init__(self, host: HostedEngine, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._host = host

    async def keep(self) -> NoReturn:
        """Load the checkpoint, and have the engine used until canceled.

        Raises:
            RunFailedError: it cannot be started, died, or is unresponsive.
        """
        self.stats.replicas_wanted = 1
        self.progress.at("loading the checkpoint")
        try:
            engine = await self._host.ready(self.settings.model)
        except (EngineError, ValueError) as error:
            raise RunFailedError(f"model={self.settings.model.name}: the engine cannot start: {error}") from error
        self.progress.at("")
        replica = NewReplica(self.settings.model.name, _Port(engine), engine.max_num_seqs)
        lost = self._lost[replica.name] = asyncio.Event()
        self._assign(replica, "driver")
        self.stats.replica_up()
        cluster = self.settings.cluster
        try:
            while not lost.is_set():
                with contextlib.suppress(TimeoutError):
                    await within(cluster.health_seconds, lost.wait())
                await within(cluster.health_timeout, engine.check_health())
        except (EngineError, TimeoutError) as error:
            raise RunFailedError(f"the engine died or is unresponsive: {error}") from error
        finally:
            self.stats.replicas_up -= 1
            self._unassign(replica.name)
            del self._lost[replica.name]
        raise RunFailedError("the engine died")


class _Port:
    """The engine as runners see a replica."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def complete(self, request: Request) -> Reply:
        try:
            return await self._engine.complete(request)
        except (PlayerError, EngineError):
            raise
        except Exception as error:
            raise EngineError(f"{type(error).__name__}: {error}") from error
