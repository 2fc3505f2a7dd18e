"""``cluster=inline``: a run's one engine in the driver's process, so that Ray need not start.

Everything else is the cluster's: the same driver, runner, router, ledger and stop signals, so that a run that began inline may
go on with Ray, and the other way round.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from cluster import stop_signals
from cluster.config.model import ModelSettings
from cluster.config.settings import Settings
from cluster.console import warn
from cluster.driver.driver import Driver
from cluster.driver.start_failures import StartFailures
from cluster.engines.base import EngineDefectError, EngineSettingsError, HubBusyError
from cluster.engines.checked import CheckedEngine
from cluster.engines.guard import guard_of
from cluster.errors import RunFailedError, UserError
from cluster.hosted.pool import HostedPool
from cluster.observe.performance import note_session
from cluster.observe.progress import Progress
from cluster.observe.run_statistics import RunStatistics
from cluster.observe.tracker import Watcher
from cluster.storage.kept_output import keep_output, last_lines
from cluster.storage.run_directory import RunDirectory
from evals.types import Episode

ENGINE_DEATHS = 3
"""The run fails when its engine dies this often."""
SLOT = "replica-0"
"""The engine's name in the logs, as in those of a run with Ray."""


def check_inline(settings: Settings) -> None:
    """See that one engine in this process is what the run asks for.

    Raises:
        UserError: it asks for more than one replica, for another machine, or for a model that is paid by the token.
    """
    model, cluster = settings.model, settings.cluster
    if cluster.address is not None:
        raise UserError(f"cluster.ray=false cluster.address={cluster.address}: a Ray cluster needs cluster.ray=true")
    is_one_engine = cluster.replicas == 1 and model.replica.nodes == 1
    if not is_one_engine or cluster.runners not in ("auto", 1):
        raise UserError(
            "cluster.ray=false: one replica of one node and one runner play in this process; use cluster=local"
        )
    if model.metered:
        # The cap must hold when an engine dies: its account is kept by the pool of replicas in processes of their own.
        raise UserError(f"cluster.ray=false model={model.name}: models that are billed by the token need cluster=local")


def play_inline(
    settings: Settings,
    todo: list[Episode],
    directory: RunDirectory,
    stats: RunStatistics,
    progress: Progress,
    watcher: Watcher,
) -> bool:
    """Play with an engine of this process; returns whether the run was stopped early.

    Raises:
        UserError: the engine refuses its settings, or breaks its contract before it has played.
        RunFailedError: the engine cannot be started, or died ``ENGINE_DEATHS`` times.
    """
    with progress, guard_of(settings.model.engine_class), stop_signals.counted():
        try:
            driver = Driver(settings, todo, directory, stats, progress, watcher, _InlinePool)
            asyncio.run(driver.run())
        finally:
            note_session(directory, stats)
            progress.at("")
        return bool(stop_signals.received)


class _Starter:
    """Starts an engine for each call; the one before is dead."""

    def __init__(self) -> None:
        self.engine: CheckedEngine | None = None
        self.output = _Output()
        """Of that engine."""

    async def ready(self, model: ModelSettings) -> CheckedEngine:
        """The new engine; errors as of ``Host.ready``."""
        await self.close()
        self.engine, self.output = CheckedEngine(model.make_engine()), _Output()
        # The engine loads in this thread, so that nobody looks at the count of signals meanwhile.
        with stop_signals.leaving(), self.output.taken():
            await self.engine.start()
        return self.engine

    async def close(self) -> None:
        """End the engine, if there is one."""
        engine, self.engine = self.engine, None
        if engine is not None:
            with contextlib.suppress(Exception):  # it may be dead
                await engine.close()


class _Output:
    """What is printed while an engine starts, and later by its processes: not shown, and kept if the engine fails."""

    def __init__(self) -> None:
        self._files = {stream: tempfile.TemporaryFile() for stream in (1, 2)}  # noqa: SIM115 - they live with the engine

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Take what this process prints, and what the processes print that it starts meanwhile."""
        sys.stdout.flush()
        shown = {stream: os.dup(stream) for stream in self._files}
        for stream, file in self._files.items():
            os.dup2(file.fileno(), stream)
        try:
            with stop_signals.words_go_to(shown[2]):
                yield
        finally:
            sys.stdout.flush()
            for stream, original in shown.items():
                os.dup2(original, stream)
                os.close(original)

    def end(self) -> str:
        """Its last lines."""
        return last_lines([f"/proc/self/fd/{file.fileno()}" for file in self._files.values()])


class _InlinePool(HostedPool):
    """Starts another engine when the one before has died."""

    def __init__(self, *arguments: Any) -> None:
        self._starter = _Starter()
        super().__init__(self._starter, *arguments)
        self._deaths = 0

    async def keep(self) -> NoReturn:
        """As ``HostedPool.keep``, but only the last of ``ENGINE_DEATHS`` deaths fails the run, and a busy hub is waited for."""
        try:
            for starts in itertools.count():
                try:
                    await super().keep()
                except RunFailedError as error:
                    log = self.logs / f"{SLOT}.{starts}.log"
                    with contextlib.suppress(OSError):  # the disk may be full
                        keep_output(log, f"{log.stem} in the driver's process: {error}\n\n{self._starter.output.end()}")
                    await self._wait_for_next(error, log)
        finally:
            await self._starter.close()
        raise AssertionError("the last death is raised")

    async def _wait_for_next(self, error: RunFailedError, log: Path) -> None:
        """Wait until another engine may start.

        Raises:
            UserError: none would with these settings.
            RunFailedError: none would.
        """
        reason = error.__cause__
        if not isinstance(reason, HubBusyError):
            self._failures = StartFailures()  # the hub has answered: if it is busy again, that has its own time to pass
        else:
            self._failures.failed(SLOT, None, reason)
            if not self._failures.counted.get(SLOT):
                pause = self._failures.backoff(SLOT)
                warn(f"{error}; trying again in {pause:g} s")
                await asyncio.sleep(pause)
                return
        self._deaths += 1
        # An engine that has never started would not start the next time either.
        if self._deaths >= ENGINE_DEATHS or not self.engines:
            settings_are_wrong = isinstance(reason, ValueError | EngineSettingsError | EngineDefectError)
            failed = UserError if settings_are_wrong and not self.engines else RunFailedError
            raise failed(f"{error}; the end of the engine's output: {log}") from error
        warn(f"starting another engine: {error}")
        self.stats.replicas_lost += 1
