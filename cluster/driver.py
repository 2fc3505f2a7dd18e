"""The driver: hands the plan to runners, keeps replicas and runners alive, and commits what comes back.

Everything it knows is in the plan and the ledger, so that it may die at any moment: the same command goes on from there.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import signal
from collections.abc import AsyncIterator, Coroutine, Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import ray
from ray.exceptions import RayActorError, RayTaskError

from cluster import placement
from cluster.errors import UserError
from cluster.ledger import RunDirectory
from cluster.progress import Progress, warn
from cluster.runner import NewReplica, Orders, Report, longest_first
from cluster.settings import Settings
from cluster.tally import Tally
from cluster.tracker import Watcher
from evals.contracts import Episode
from evals.players import BUILT_IN_PLAYERS

logger = logging.getLogger(__name__)

START_FAILURES = 3
"""Failed starts in a row after which a replica is given up."""
RUNNER_DEATHS = 5
"""Deaths of runners in a row, with nothing finished between, after which the run gives up."""
EXCHANGE_SECONDS = 300.0
"""A runner that says nothing for so long is replaced."""


class RunFailedError(Exception):
    """The run cannot go on; what was finished is in the ledger."""


class EpisodeQueue:
    """Episodes that nobody holds, longest expected first."""

    def __init__(self, episodes: Iterable[Episode]) -> None:
        """Takes the episodes in any order."""
        self._episodes = longest_first(list(episodes))[::-1]
        self.open = len(self._episodes)
        """Episodes not finished yet, held ones included."""

    def take(self, count: int) -> tuple[Episode, ...]:
        """At most so many episodes; they are the taker's until ``finished`` or put back."""
        taken = self._episodes[max(0, len(self._episodes) - count) :] if count > 0 else []
        del self._episodes[len(self._episodes) - len(taken) :]
        return tuple(reversed(taken))

    def put_back(self, episodes: Iterable[Episode]) -> None:
        """Episodes that their holder will not finish."""
        self._episodes = longest_first([*self._episodes, *episodes])[::-1]

    def finished(self, count: int) -> None:
        """So many held episodes are in the ledger, or on their way there."""
        self.open -= count


@dataclass
class _Lane:
    """The runners of one kind, their queue and the replicas in their care."""

    name: str
    queue: EpisodeQueue
    runners: int
    with_model: bool
    cares: dict[str, dict[str, NewReplica]] = field(default_factory=dict)
    """For each runner the replicas it should have."""


class Driver:
    """Plays the episodes that a ledger lacks."""

    def __init__(
        self,
        settings: Settings,
        todo: list[Episode],
        directory: RunDirectory,
        tally: Tally,
        progress: Progress,
        watcher: Watcher,
    ) -> None:
        """``directory`` is claimed; ``todo`` is what its ledger lacks."""
        self.settings = settings
        self.directory = directory
        self.tally = tally
        self.progress = progress
        self.watcher = watcher
        self._pending: list[pa.Table] = []
        self._stop = asyncio.Event()
        self._lost: dict[str, asyncio.Event] = {}
        self._handles: list[ray.actor.ActorHandle] = []
        model_name = settings.model.name
        modelled = [episode for episode in todo if episode.player not in BUILT_IN_PLAYERS]
        built_in = [episode for episode in todo if episode.player in BUILT_IN_PLAYERS]
        runners = settings.cluster.runners
        self._lanes = [
            _Lane(model_name, EpisodeQueue(modelled), runners, with_model=True),
            _Lane("built-in", EpisodeQueue(built_in), runners, with_model=False),
        ]

    @property
    def stopped(self) -> bool:
        """Whether the run was asked to stop before its end."""
        return self._stop.is_set()

    async def run(self) -> None:
        """Play everything, or until told to stop.

        Raises:
            UserError: the model cannot be loaded as configured.
            RunFailedError: replicas or runners keep dying.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            loop.add_signal_handler(number, self._stop.set)
        work = asyncio.create_task(_all(self._run_lane(lane) for lane in self._lanes if lane.queue.open))
        committer = asyncio.create_task(self._commit_forever())
        stopping = asyncio.create_task(_until(self._stop))
        try:
            await _first(work, committer, stopping)
        finally:
            await _cancel(work, committer, stopping)
            await self._commit()
            for handle in self._handles:
                placement.end_actor(handle)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
                loop.remove_signal_handler(number)

    # --- lanes ---

    async def _run_lane(self, lane: _Lane) -> None:
        names = [f"{lane.name}/runner-{number}" for number in range(lane.runners)]
        lane.cares = {name: {} for name in names}
        runners = asyncio.create_task(_all(self._keep_runner(lane, name) for name in names))
        replicas = asyncio.create_task(self._keep_replicas(lane) if lane.with_model else _never())
        try:
            await _first(runners, replicas)
        finally:
            await _cancel(runners, replicas)

    # --- runners ---

    async def _keep_runner(self, lane: _Lane, name: str) -> None:
        """Exchange orders for reports until the lane's work is done; a dead runner's episodes go back."""
        deaths = 0
        while lane.queue.open:
            held: dict[str, Episode] = {}
            decoding = self.settings.decoding if lane.with_model else None
            handle = placement.create_runner(self.settings.suite, decoding)
            self._handles.append(handle)
            try:
                async for report in self._exchange(lane, name, handle, held):
                    if report.finished is not None:
                        deaths = 0
            except (RayActorError, RayTaskError, TimeoutError) as error:
                deaths += 1
                warn(
                    f"{name} died with {len(held)} episodes, which go back to the queue: {placement.first_line(error)}"
                )
                if deaths >= RUNNER_DEATHS:
                    raise RunFailedError(f"{name} died {deaths} times in a row") from error
            finally:
                lane.queue.put_back(held.values())
                self.tally.runner_ended(name)
                placement.end_actor(handle)
                self._handles.remove(handle)

    async def _exchange(
        self, lane: _Lane, name: str, handle: ray.actor.ActorHandle, held: dict[str, Episode]
    ) -> AsyncIterator[Report]:
        room = 0
        delivered: dict[str, NewReplica] = {}
        while lane.queue.open:
            episodes = lane.queue.take(room)
            held.update({episode.id: episode for episode in episodes})
            care = dict(lane.cares[name])
            orders = Orders(
                episodes,
                tuple(replica for replica in care.values() if replica.name not in delivered),
                tuple(replica for replica in delivered if replica not in care),
            )
            report: Report = await asyncio.wait_for(handle.exchange.remote(orders), EXCHANGE_SECONDS)
            delivered = care
            room = report.room
            if report.finished is not None:
                for episode_id in report.finished["episode_id"].to_pylist():
                    held.pop(episode_id)
                lane.queue.finished(report.finished.num_rows)
                self._pending.append(report.finished)
                self.tally.finished(report.finished)
            for replica in report.lost:
                if replica in self._lost:
                    self._lost[replica].set()
            self.tally.report(name, report)
            self.progress.update()
            yield report

    # --- replicas ---

    async def _keep_replicas(self, lane: _Lane) -> None:
        count = self.tally.replicas_wanted = self.settings.cluster.replicas
        await _all(self._keep_replica(lane, f"replica-{number}") for number in range(count))
        raise RunFailedError(f"none of the {count} replicas can be started")

    async def _keep_replica(self, lane: _Lane, slot: str) -> None:
        """Start a replica, put it in a runner's care, and replace it whenever it dies."""
        failures = 0
        for incarnation in itertools.count():
            name = f"{slot}.{incarnation}"
            handle = placement.create_replica(name, self.settings.model)
            self._handles.append(handle)
            try:
                self.progress.at(f"starting {slot}" + (" again" if incarnation else ""))
                info = await handle.start.remote()
                failures = 0
                self.progress.at("")
                await self._serve(lane, NewReplica(name, placement.RayReplica(handle), info["batch"]))
                self.tally.replicas_lost += 1
                warn(f"{slot} died and is replaced")
            except (RayActorError, RayTaskError) as error:
                failures += 1
                cause = error.cause if isinstance(error, RayTaskError) else error
                if incarnation == 0 and isinstance(error, RayTaskError):
                    raise UserError(f"model={self.settings.model.name}: {slot} cannot start: {cause}") from error
                warn(f"{slot} did not start: {placement.first_line(cause)}")
                if failures >= START_FAILURES:
                    return
                await asyncio.sleep(2.0**failures)
            finally:
                placement.end_actor(handle)
                self._handles.remove(handle)

    async def _serve(self, lane: _Lane, replica: NewReplica) -> None:
        """Keep the replica in the care of the runner that has the fewest, until it is lost."""
        runner = min(lane.cares, key=lambda name: len(lane.cares[name]))
        lane.cares[runner][replica.name] = replica
        lost = self._lost[replica.name] = asyncio.Event()
        self.tally.replica_up()
        try:
            await lost.wait()
        finally:
            self.tally.replicas_up -= 1
            del lane.cares[runner][replica.name]
            del self._lost[replica.name]

    # --- the ledger ---

    async def _commit_forever(self) -> None:
        while True:
            await asyncio.sleep(self.settings.cluster.commit_seconds)
            await self._commit()
            self.watcher.log(self.tally.to_json())

    async def _commit(self) -> None:
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        await asyncio.to_thread(self.directory.commit, pa.concat_tables(pending))


async def _all(work: Iterable[Coroutine[None, None, None]]) -> None:
    """Wait for all; if one fails, end the others first."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        await _cancel(*tasks)


async def _first(*tasks: asyncio.Task[None]) -> None:
    """Wait until one ends, and raise what it raised."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _until(event: asyncio.Event) -> None:
    await event.wait()


async def _never() -> None:
    await asyncio.Event().wait()
