"""The replica pool of a run whose only engine lives in the driver's process."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, NoReturn, Protocol

from cluster import stop_signals
from cluster.concurrency import within
from cluster.config.model import ModelSettings
from cluster.driver.replica_pool import ReplicaPool
from cluster.engines.base import EngineError
from cluster.engines.checked import CheckedEngine
from cluster.errors import SEE_DOCTOR, RunFailedError
from cluster.runner.messages import NewReplica


class Host(Protocol):
    """Who starts the engine, and keeps it where it outlives a run."""

    async def ready(self, model: ModelSettings) -> CheckedEngine:
        """An engine that answers.

        Raises:
            EngineError: it cannot be started.
            ValueError: it refuses its settings.
        """
        ...


class HostedPool(ReplicaPool):
    """A pool of one replica, which is an engine of this process."""

    def __init__(self, host: Host, *arguments: Any) -> None:
        """``host`` starts the engine; the other arguments are those of ``ReplicaPool``."""
        super().__init__(*arguments)
        self._host = host
        self.engines = 0
        """Those that were started."""

    async def keep(self) -> NoReturn:
        """Have the engine started, and used until canceled.

        Raises:
            RunFailedError: it cannot be started, died, or is unresponsive.
            StoppedError: it ended after a stop signal, which a terminal sends to the engine's processes, too.
        """
        self.stats.replicas_wanted = 1
        self.progress.at("loading the model")
        try:
            engine = await self._host.ready(self.settings.model)
            facts, slots = engine.facts, engine.max_num_seqs
        except (EngineError, ValueError) as error:
            raise RunFailedError(
                f"model={self.settings.model.name}: the engine cannot start: {error}. {SEE_DOCTOR}"
            ) from error
        self.progress.at("")
        self.engines += 1
        if facts:
            self.stats.engines[self.settings.model.name] = facts
        # A name of its own: runners that know a name take the replica for the one that died.
        replica = NewReplica(f"{self.settings.model.name}-{self.engines}", engine, slots)
        lost = self._lost[replica.name] = asyncio.Event()
        self._assign(replica, "driver")
        self.stats.replica_up()
        try:
            cause = await self._until_dead(engine, lost)
        finally:
            self.stats.replicas_up -= 1
            self._unassign(replica.name)
            del self._lost[replica.name]
        stop_signals.check()  # Ctrl-C ends the engine's processes, too: the run was stopped and did not fail
        raise RunFailedError(cause)

    async def _until_dead(self, engine: CheckedEngine, lost: asyncio.Event) -> str:
        """Check the engine's health until it fails or a runner reports that it died; says which."""
        cluster = self.settings.cluster
        try:
            while not lost.is_set():
                with contextlib.suppress(TimeoutError):
                    await within(cluster.health_seconds, lost.wait())
                await within(cluster.health_timeout, engine.check_health())
        except (EngineError, TimeoutError) as error:
            return f"the engine died or is unresponsive: {error}"
        return "the engine died"
