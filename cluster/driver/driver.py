"""The driver: assigns episodes to runners, keeps replicas and runners alive, and commits finished episodes.

All its state is in the plan and the ledger, so it may die at any moment: the same command resumes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa
from ray.exceptions import RayError

from cluster import stop_signals
from cluster.concurrency import all_of, first_of, within
from cluster.config.settings import Settings
from cluster.console import warn
from cluster.driver.replica_pool import ReplicaPool
from cluster.errors import ResumableError, RunFailedError
from cluster.live import LiveWriter
from cluster.observe.progress import Progress
from cluster.observe.run_statistics import RunStatistics
from cluster.observe.tracker import Watcher
from cluster.ray_backend import actors, capacity
from cluster.runner.admission import fair_share
from cluster.runner.episode_queue import EpisodeQueue
from cluster.runner.messages import Assignment, NewReplica, Report, RunnerPort
from cluster.runner.model_player import ModelPlayer
from cluster.runner.router import Router
from cluster.runner.runner import Runner
from cluster.stopping.watch import StopWatch
from cluster.storage.lock import LeaseLostError
from cluster.storage.run_directory import LOGS, RunDirectory
from cluster.storage.spending import SpendingJournal
from evals.ledger.parts import LedgerDamagedError
from evals.suite import built_in_players
from evals.types import Episode

RUNNER_DEATHS = 5
"""The run fails when a runner dies this often in a row without finishing an episode in between."""
EXCHANGE_SECONDS = 60.0
"""A runner that is unresponsive for this long is replaced."""
COMMIT_TRIES = 30
"""The run fails after this many failed commits in a row (a full disk, for example)."""
PENDING_BYTES = 256 * 2**20
"""Most rows in memory, in bytes, that wait for a commit; above this no episodes are assigned until they are written."""
ROWS_PER_INTERVAL = 100_000
LONGEST_INTERVAL = 5
"""From 100,000 finished episodes on, the commit interval grows with their number, up to five times its setting."""
SIGNAL_SECONDS = 0.1
"""Between looks whether a stop signal has arrived."""


def plays_locally(settings: Settings) -> bool:
    """Whether a run needs no Ray: only built-in players play, and no cluster was named."""
    return settings.model.engine is None and settings.cluster.address is None and settings.cluster.runners == "auto"


@dataclass(frozen=True)
class _Lane:
    """One queue and the runners that serve it."""

    name: str
    queue: EpisodeQueue
    pool: ReplicaPool | None
    """None for the lane of the built-in players."""
    runners: int


class Driver:
    """Plays the episodes that a ledger lacks."""

    def __init__(
        self,
        settings: Settings,
        todo: list[Episode],
        directory: RunDirectory,
        stats: RunStatistics,
        progress: Progress,
        watcher: Watcher,
        hosted: Callable[..., ReplicaPool] | None = None,
        stopping: StopWatch | None = None,
    ) -> None:
        """Nothing is started.

        Args:
            settings: Of the run.
            todo: What the ledger lacks.
            directory: Claimed.
            stats: Are kept current.
            progress: Is kept current.
            watcher: Gets the numbers.
            hosted: Makes a pool of this process, without Ray.
            stopping: Of the session, where others play in it too.
        """
        self.settings = settings
        self.directory = directory
        self.stats = stats
        self.progress = progress
        self.watcher = watcher
        self._pending: list[pa.Table] = []
        self._committing: asyncio.Task[None] | None = None
        self._compacting: asyncio.Task[None] | None = None
        self._journal = SpendingJournal(directory.path, directory.check_claim)
        self._local = hosted is not None or plays_locally(settings)
        runners = 1 if self._local else capacity.count_runners(settings.cluster, settings.model)
        names = built_in_players(settings.suite)
        built_in = [episode for episode in todo if episode.player in names]
        modeled = [episode for episode in todo if episode.player not in names]
        pool = (hosted or ReplicaPool)(settings, stats, progress, self._journal, directory.path / LOGS)
        self._watch = stopping or StopWatch.of(directory, settings.balanced)
        self._live = LiveWriter.of(directory, settings.cluster.live)
        ranks = self._watch.ranks
        processes = min(runners, os.cpu_count() or 1)
        self._lanes = [
            _Lane(settings.model.name, EpisodeQueue(modeled, ranks), pool, runners),
            _Lane("built-in", EpisodeQueue(built_in, ranks), None, processes),
        ]

    async def run(self) -> None:
        """Play all episodes; after a stop signal, running episodes may finish within the grace period.

        Raises:
            UserError: the model cannot be loaded as configured.
            RunFailedError: replicas or runners keep dying, or the ledger cannot be written.
        """
        try:
            with stop_signals.looking():
                await first_of(self._run_lanes(), self._commit_forever(), self._end_after_grace())
            await self._commit_all(COMMIT_TRIES)
            # The last line says what came of all episodes, not of those at the last interval.
            await self._look()
        except BaseException:
            with contextlib.suppress(RunFailedError):  # report the first error
                await self._commit_all(1)
            raise
        finally:
            with contextlib.suppress(OSError, LeaseLostError):
                self._journal.write()
                self.directory.note_engines(self.stats.engines)
            self._live.close()

    async def _end_after_grace(self) -> None:
        """Return when a stop signal has arrived and the grace period is over, or a second signal has arrived."""
        while not stop_signals.seen():
            await asyncio.sleep(SIGNAL_SECONDS)
        for lane in self._lanes:
            lane.queue.draining = True
        grace = self.settings.cluster.grace_seconds
        self.progress.say(f"stopping: running episodes have {grace:g} s to finish; send a second signal to stop now")
        end = time.monotonic() + grace
        while stop_signals.seen() < 2 and time.monotonic() < end:
            await asyncio.sleep(SIGNAL_SECONDS)
        running = sum(lane.queue.unfinished - len(lane.queue) for lane in self._lanes)
        self.progress.say(f"stopping: {running} running episodes were not finished; they will be played again")

    # --- lanes and runners ---

    async def _run_lanes(self) -> None:
        await all_of(self._run_lane(lane) for lane in self._lanes if lane.queue.unfinished)

    async def _run_lane(self, lane: _Lane) -> None:
        runners = all_of(self._keep_runner(lane, number) for number in range(lane.runners))
        await (first_of(runners, lane.pool.keep()) if lane.pool else runners)

    async def _keep_runner(self, lane: _Lane, number: int) -> None:
        """Exchange assignments for reports until the lane is done; a dead runner's episodes are requeued."""
        name = f"{lane.name}/runner-{number}"
        deaths = 0
        while lane.queue.unfinished and not lane.queue.draining:
            held: dict[str, Episode] = {}
            handle = self._create_runner(lane, name, number + deaths)
            try:
                if lane.pool:
                    lane.pool.add_runner(name, await handle.node())
                async for report in self._exchange(lane, name, handle, held):
                    if report.finished is not None:
                        deaths = 0
            except (RayError, TimeoutError) as error:
                deaths += 1
                warn(f"{name} died; requeued its {len(held)} episodes: {actors.first_line(error)}")
                if deaths >= RUNNER_DEATHS:
                    raise RunFailedError(f"{name} died {deaths} times in a row") from error
            finally:
                lane.queue.put(held.values())
                self._live.gone(held)
                if lane.pool:
                    lane.pool.remove_runner(name)
                self.stats.runner_ended(name)
                handle.end()

    def _create_runner(self, lane: _Lane, name: str, turn: int) -> RunnerPort:
        decoding, policy = self.settings.decoding if lane.pool else None, self.settings.cluster.policy
        listener = self._live.listener(lane.runners) if lane.pool else None
        if self._local:
            return Runner(self.settings.suite, ModelPlayer(Router(policy), decoding) if decoding else None, listener)
        return actors.create_runner(name, self.settings.suite, decoding, policy, turn, listener)

    async def _exchange(
        self, lane: _Lane, name: str, handle: RunnerPort, held: dict[str, Episode]
    ) -> AsyncIterator[Report]:
        """Exchange messages with one runner; ``held`` is kept current, so that its episodes can be requeued."""
        room = 0
        delivered: dict[str, NewReplica] = {}
        running = 1
        while lane.queue.unfinished and (running or not lane.queue.draining):
            if lane.pool and held and lane.pool.is_starved(name):
                self.progress.say(f"{name} has no replica left; requeued its {len(held)} episodes")
                return
            assigned: dict[str, NewReplica] = {}
            own, total = 1, lane.runners
            if lane.pool:
                assigned = lane.pool.replicas_of(name)
                own, total = len(assigned), self.stats.replicas_up
            # Without this bound the first runner that asks would take all of a small plan.
            share = fair_share(lane.queue.unfinished, len(held), own, total)
            episodes = lane.queue.take(min(self._bounded(room), share))
            held.update({episode.id: episode for episode in episodes})
            new = [replica for replica in assigned.values() if replica.name not in delivered]
            gone = [replica for replica in delivered if replica not in assigned]
            assignment = Assignment(
                episodes=episodes,
                replicas=tuple(new),
                removed=tuple(gone),
                remaining=len(lane.queue),
                draining=lane.queue.draining,
            )
            report = await within(EXCHANGE_SECONDS, handle.exchange(assignment))
            delivered, room, running = assigned, report.room, report.running
            self._live.add(report.heard)
            # From here on the episodes are the driver's to commit, and no longer to requeue.
            if report.finished is not None:
                for episode_id in report.finished["episode_id"].to_pylist():
                    held.pop(episode_id)
                lane.queue.finished(report.finished.num_rows)
                self._pending.append(report.finished)
                self.stats.finished(report.finished, by_model=lane.pool is not None)
                self._watch.add(report.finished)
            if lane.pool:
                lane.pool.lost(report.lost)
            self.stats.report(name, report)
            self.progress.update()
            if report.cannot_play:
                raise ResumableError(f"a game cannot be played now: {report.cannot_play}")
            if report.resumable:
                raise ResumableError(report.engine_closed)
            if report.engine_closed:
                raise RunFailedError(f"the engine stopped answering: {report.engine_closed}")
            yield report

    # --- the ledger ---

    def _bounded(self, room: int) -> int:
        """A runner's room, or none while too many rows wait for a commit; running episodes still finish."""
        return 0 if sum(rows.nbytes for rows in self._pending) > PENDING_BYTES else room

    async def _commit_forever(self) -> NoReturn:
        while True:
            await asyncio.sleep(self._commit_interval())
            await self._commit_all(COMMIT_TRIES)
            await self._look()
            with contextlib.suppress(OSError):  # the disk is full: it is noted at a later commit
                self.directory.note_engines(self.stats.engines)
            numbers = self.stats.to_json()
            self.watcher.log(numbers)
            left = self.stats.seconds_left()
            pace = {"seconds": self.stats.seconds}
            if left is not None:
                pace["seconds_left"] = left
            self._live.numbers(time.time(), numbers | pace)
            if self._compacting is None or self._compacting.done():
                self._compacting = asyncio.create_task(self._compact())

    async def _look(self) -> None:
        """Ask the stopping rule, if there is one, and drop the episodes that its decisions no longer need."""
        state = await asyncio.to_thread(self._watch.look)
        if state is None:
            return
        before, self.stats.stopping = self.stats.stopping, state
        if before is None or before.needed is not state.needed:
            for lane in self._lanes:
                lane.queue.keep(state.needed)

    def _commit_interval(self) -> float:
        finished = self.stats.done + self.stats.failed
        return self.settings.cluster.commit_seconds * min(max(1.0, finished / ROWS_PER_INTERVAL), LONGEST_INTERVAL)

    async def _compact(self) -> None:
        """Merge small parts of the ledger once there are many; commits continue in the meantime."""
        try:
            await asyncio.to_thread(self.directory.compact)
        except (OSError, LedgerDamagedError, RunFailedError) as error:
            warn(f"cannot merge the ledger's small parts, which are kept: {error}")

    async def _commit_all(self, tries: int) -> None:
        """Write finished episodes; those that cannot be written stay in memory until the next try."""
        failures = 0
        while self._pending or self._committing:
            try:
                await self._commit()
                failures = 0
            except OSError as error:
                failures += 1
                if failures == 1:
                    warn(f"cannot write the ledger; keeping finished episodes in memory: {error}")
                if failures >= tries:
                    unwritten = sum(map(len, self._pending))
                    raise RunFailedError(
                        f"cannot write the ledger; {unwritten} finished episodes are in memory only: {error}"
                    ) from error
                await asyncio.sleep(self.settings.cluster.commit_seconds)

    async def _commit(self) -> None:
        """Commit, or join the commit in progress, which completes even if its waiter is canceled.

        An interrupted commit would leave its rows pending, and they would be written twice.
        """
        if self._committing is None:
            self._committing = asyncio.create_task(self._write(len(self._pending)))
        await asyncio.shield(self._committing)

    async def _write(self, count: int) -> None:
        try:
            rows = pa.concat_tables(self._pending[:count])
            await asyncio.to_thread(self.directory.commit, rows)
            del self._pending[:count]
            self._live.gone(rows["episode_id"].to_pylist())
        finally:
            self._committing = None
