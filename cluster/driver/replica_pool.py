"""The replica pool of a run: starts replicas, assigns each to a runner, checks their health, replaces dead ones."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import ray
from ray.exceptions import RayError, RayTaskError

from cluster.concurrency import all_of, first_of, within
from cluster.config.settings import Settings
from cluster.console import warn
from cluster.driver.start_failures import START_FAILURES, StartFailures
from cluster.engines.base import Account
from cluster.errors import SEE_DOCTOR, RunFailedError, UserError
from cluster.observe.progress import Progress
from cluster.observe.run_statistics import RunStatistics
from cluster.ray_backend import actors, capacity
from cluster.runner.messages import NewReplica
from cluster.storage.kept_output import keep_output
from cluster.storage.spending import Spending, SpendingJournal

START_SECONDS = 3600.0
"""Timeout for a replica to load its model."""
REPLY_SECONDS = 5.0
"""How much longer than the engine's own timeout the driver waits for a health check."""
CLOSE_SECONDS = 5.0
"""How long an engine may take to release its resources before its process is killed."""
LOG_SECONDS = 60.0
"""For the end of a failed replica's output, which may be on another node."""
NODE_CHECK_SECONDS = 5.0
"""How often a run with ``cluster.replicas=fit`` checks for new nodes."""
SETTLE_SECONDS = 1.0
"""A metered engine's account is written this often, and whenever it wants to send a request."""
JOURNAL_TRIES = 60
"""The run fails after this many failed writes of the spending journal in a row."""
LOCALITY = 0.5
"""Bonus, in replicas, of a runner on the replica's own node: it is preferred among runners with equally many."""


@dataclass
class _Runner:
    node: str
    replicas: dict[str, tuple[str, NewReplica]] = field(default_factory=dict)
    """Assigned to it, with the node of each."""


class ReplicaPool:
    """Keeps the configured number of replicas alive, or as many as fit."""

    def __init__(
        self, settings: Settings, stats: RunStatistics, progress: Progress, journal: SpendingJournal, logs: Path
    ) -> None:
        """Nothing starts before ``keep``; the output of failed replicas is kept in the folder ``logs``."""
        self.settings = settings
        self.stats = stats
        self.progress = progress
        self.journal = journal
        self.logs = logs
        self._runners: dict[str, _Runner] = {}
        self._unassigned: dict[str, tuple[str, NewReplica]] = {}
        """Replicas that no runner has, with the node of each."""
        self._lost: dict[str, asyncio.Event] = {}
        self._failures = StartFailures()
        self._wanted = 0
        self._held: list[ray.actor.ActorHandle] = []
        """Actors that keep a GPU which was given up, so that Ray assigns it to no other replica."""
        self._loading: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Held while a replica loads, by GPU, and by node until the first one has started there."""
        self._warm: set[str] = set()
        """Nodes where a replica has started."""

    # --- assignment to runners ---

    def add_runner(self, name: str, node: str) -> None:
        """A runner is ready to be assigned replicas."""
        self._runners[name] = _Runner(node)
        unassigned, self._unassigned = self._unassigned, {}
        for replica_node, replica in unassigned.values():
            self._assign(replica, replica_node)
        self._balance()

    def remove_runner(self, name: str) -> None:
        """A runner is gone; its replicas are reassigned, now or when the next runner is ready."""
        runner = self._runners.pop(name, None)
        for node, replica in runner.replicas.values() if runner else ():
            self._assign(replica, node)

    def replicas_of(self, runner: str) -> dict[str, NewReplica]:
        """The replicas that are assigned to a runner."""
        return {name: replica for name, (_, replica) in self._runners[runner].replicas.items()}

    def is_starved(self, runner: str) -> bool:
        """Whether a runner has no replica while others do: there are fewer replicas than runners."""
        return not self._runners[runner].replicas and any(each.replicas for each in self._runners.values())

    def lost(self, replicas: Iterable[str]) -> None:
        """A runner reported these replicas dead."""
        for name in replicas:
            if name in self._lost:
                self._lost[name].set()

    def _assign(self, replica: NewReplica, node: str) -> None:
        if not self._runners:
            self._unassigned[replica.name] = (node, replica)
            return
        runner = min(self._runners.values(), key=lambda each: len(each.replicas) - LOCALITY * (each.node == node))
        runner.replicas[replica.name] = node, replica

    def _unassign(self, name: str) -> None:
        self._unassigned.pop(name, None)
        for runner in self._runners.values():
            runner.replicas.pop(name, None)
        self._balance()

    def _balance(self) -> None:
        """Move replicas from the runner with most to the one with fewest, until these differ by one at most.

        Requests that a replica is serving while it moves are still answered to the runner that sent them.
        """
        while self._runners:
            # One replica at a time, preferring those on the receiver's own node.
            ranked = sorted(self._runners.values(), key=lambda each: len(each.replicas))
            least, most = ranked[0], ranked[-1]
            if len(most.replicas) - len(least.replicas) < 2:
                return
            names = sorted(most.replicas, key=lambda name: most.replicas[name][0] != least.node)
            least.replicas[names[0]] = most.replicas.pop(names[0])

    # --- lifecycle ---

    async def keep(self) -> NoReturn:
        """Keep the pool up until canceled.

        Raises:
            UserError: the model cannot be loaded as configured.
            RunFailedError: no replica can be kept alive.
        """
        slots: set[asyncio.Task[None]] = set()
        fit = self.settings.cluster.replicas == "fit"
        while True:
            wanted = capacity.replicas_that_fit(self.settings.model) if fit else int(self.settings.cluster.replicas)
            self._wanted = max(wanted, self._wanted)
            for number in range(len(slots), wanted):
                slots.add(asyncio.create_task(self._keep_slot(f"replica-{number}")))
            pending = [slot for slot in slots if not slot.done()]
            self.stats.replicas_wanted = len(pending)
            try:
                if not pending:
                    raise RunFailedError("the cluster has no room for a replica anymore")
                # With ``fit``, nodes that join are noticed at the next round; else only the end of a slot matters.
                timeout = NODE_CHECK_SECONDS if fit else None
                done, _ = await asyncio.wait(pending, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                for slot in done:
                    slot.result()
            except BaseException:
                await all_of(slots, cancel=True)
                for handle in self._held:
                    actors.end_actor(handle)
                raise

    async def _keep_slot(self, slot: str) -> None:
        """Start a replica, have it used, and replace it whenever it dies; returns when its GPU was given up.

        Raises:
            UserError: no replica can start with these settings.
            RunFailedError: no replica is up, and every slot has failed to start several times.
        """
        self._failures.counted[slot] = 0
        for incarnation in itertools.count():
            name, given_up, died = f"{slot}.{incarnation}", False, False
            place: actors.Place | None = None
            handle = actors.create_replica(name, self.settings.model)
            try:
                place = await handle.place.remote()
                async with self._turn_to_start(place):
                    self.progress.at(f"starting {slot}" + (f" (restart {incarnation})" if incarnation else ""))
                    replica = await self._start(name, handle)
                self.progress.at("")
                self._failures.started(slot, place)
                cause = await self._serve(replica, handle, place.node)
                died = True
                self.stats.replicas_lost += 1
                await self._keep_log(name, handle, place, cause)
                warn(f"{slot} {cause}; replacing it")
            except (RayError, TimeoutError) as error:
                await self._keep_log(name, handle, place, str(_reason(error)))
                given_up = self._note_failure(name, place, error)
            finally:
                try:
                    if not died:  # it may still be alive: let the engine release its resources
                        with contextlib.suppress(Exception):
                            account = await within(CLOSE_SECONDS, handle.close.remote())
                            if account is not None:
                                await self._note(name, account)
                finally:  # also where the run ends meanwhile
                    if given_up:
                        self._held.append(handle)
                    else:
                        actors.end_actor(handle)
            if given_up and capacity.replicas_that_fit(self.settings.model) - len(self._held) < self._wanted:
                return
            if not died:
                await asyncio.sleep(self._failures.backoff(slot))

    async def _start(self, name: str, handle: ray.actor.ActorHandle) -> NewReplica:
        spending = self.journal.now
        info = await within(
            START_SECONDS, handle.start.remote(spending.total, spending.highest, self.logs.parent.resolve())
        )
        facts = info.pop("facts", None)
        if facts:
            self.stats.engines[name.partition(".")[0]] = facts
        if info["metered"]:
            await self._settle(name, handle, 0, 0.0)  # from now on nothing is spent that is not written first
        return NewReplica(name, actors.RayReplica(handle), **info)

    @contextlib.asynccontextmanager
    async def _turn_to_start(self, place: actors.Place) -> AsyncIterator[None]:
        """Wait until a replica may load its model.

        The first one of a node loads alone, so that the others find its files and compiled kernels in the caches. On one
        GPU they always load one after the other, since engines measure the memory that is free while they load.
        """
        async with self._loading[place.device]:
            first = self._loading[place.node]
            await first.acquire()
            alone = place.node not in self._warm
            if not alone:
                first.release()
            try:
                yield
                self._warm.add(place.node)
            finally:
                if alone:
                    first.release()

    def _note_failure(self, name: str, place: actors.Place | None, error: Exception) -> bool:
        """Decide what a replica's failed start means; returns whether its GPU is used no more."""
        slot, log = name.partition(".")[0], f"the end of its output: {self.logs / name}.log"
        reason = _reason(error)
        verdict = self._failures.failed(slot, place, reason)
        if verdict == "fatal":
            raise UserError(
                f"model={self.settings.model.name}: {slot} cannot start: {reason}; {log}. {SEE_DOCTOR}"
            ) from error
        where = f" on {place}" if place else ""
        warn(f"{slot} failed to start{where}: {actors.first_line(reason)}")
        if verdict == "give up the GPU" and self.stats.replicas_up:
            warn(f"{place} is not used anymore: {START_FAILURES} starts in a row have failed there")
            return True
        if not self.stats.replicas_up and min(self._failures.counted.values()) >= START_FAILURES:
            raise RunFailedError(
                f"none of the {len(self._failures.counted)} replicas can be started; "
                f"the last one failed{where}: {actors.first_line(reason)}; {log}. {SEE_DOCTOR}"
            ) from error
        return False

    async def _keep_log(self, name: str, handle: ray.actor.ActorHandle, place: actors.Place | None, cause: str) -> None:
        """Keep what befell a replica and the end of its output in the run directory; Ray's own files may go with the job."""
        text = f"{name} on {place or 'an unknown machine'}: {cause}\n"
        if place is not None and place.logs:
            with contextlib.suppress(Exception):  # the node may be gone
                text += "\n" + await within(LOG_SECONDS, actors.read_log(handle, place))
        with contextlib.suppress(OSError):  # the disk may be full
            await asyncio.to_thread(keep_output, self.logs / f"{name}.log", text)

    async def _serve(self, replica: NewReplica, handle: ray.actor.ActorHandle, node: str) -> str:
        """Assign the replica to a runner until it is lost; returns what happened to it."""
        lost = self._lost[replica.name] = asyncio.Event()
        self._assign(replica, node)
        self.stats.replica_up()
        try:
            work = [self._until_lost(lost), self._until_unhealthy(handle)]
            if replica.metered:
                work.append(self._keep_account(replica.name, handle))
            return await first_of(*work)
        finally:
            self.stats.replicas_up -= 1
            self._unassign(replica.name)
            del self._lost[replica.name]

    async def _until_lost(self, lost: asyncio.Event) -> str:
        await lost.wait()
        return "died"

    async def _keep_account(self, name: str, handle: ray.actor.ActorHandle) -> str:
        """Write down what an engine may spend before it does, and what it did; returns when it is gone."""
        covered = 0
        while True:
            try:
                covered = await self._settle(name, handle, covered, SETTLE_SECONDS)
            except RayError:
                return "died"

    async def _settle(self, name: str, handle: ray.actor.ActorHandle, covered: int, seconds: float) -> int:
        account: Account = await handle.settle.remote(covered, seconds)
        await self._note(name, account)
        return account.number

    async def _note(self, name: str, account: Account) -> None:
        """Write an engine's account; while the disk is full, it may send no request."""
        self.journal.note(name, Spending(account.spent, account.in_flight, account.highest))
        self.stats.replica_spent(name, account.spent, account.counted_before)
        for tries in itertools.count(1):
            try:
                await asyncio.to_thread(self.journal.write)
                return
            except OSError as error:
                if tries == 1:
                    warn(f"cannot write the spending journal; no request is sent until then: {error}")
                if tries >= JOURNAL_TRIES:
                    raise RunFailedError(f"cannot write the spending journal: {error}") from error
                await asyncio.sleep(SETTLE_SECONDS)

    async def _until_unhealthy(self, handle: ray.actor.ActorHandle) -> str:
        cluster = self.settings.cluster
        while True:
            await asyncio.sleep(cluster.health_seconds)
            try:
                await within(cluster.health_timeout + REPLY_SECONDS, handle.check_health.remote(cluster.health_timeout))
            except TimeoutError:
                return f"was unresponsive for {cluster.health_timeout:g} s"
            except RayTaskError as error:
                return f"failed its health check ({actors.first_line(error.cause)})"
            except RayError:
                return "died"


def _reason(error: Exception) -> BaseException:
    """The error of an actor's method, else the one of calling it."""
    return error.cause if isinstance(error, RayTaskError) else error
