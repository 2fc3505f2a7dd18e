"""Measures the cost of scheduling in CPU seconds: microbenchmarks of the real classes, with and without Ray.

CPU time, not wall time, so that a busy machine does not matter much. It includes all threads of a process, since Ray's
threads compete for the interpreter and the core.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import ray

from cluster.config.settings import ClusterSettings, load_settings
from cluster.engines.base import Request, Sampling
from cluster.engines.replica import Replica
from cluster.engines.simulated import SimulatedEngine, random_answer
from cluster.observe.run_statistics import RunStatistics
from cluster.ray_backend.actors import RayReplica, start_ray
from cluster.runner.episode_queue import EpisodeQueue
from cluster.runner.messages import Assignment, NewReplica, ReplicaPort, ReplicaUse, Report
from cluster.runner.model_player import ModelPlayer
from cluster.runner.router import Router
from cluster.runner.runner import Runner
from cluster.storage.run_directory import RunDirectory
from evals.ledger.records import plan_to_table
from evals.suite import Suite
from evals.tables import Table
from evals.types import Episode, Reply

BATCH = 64


class Instant:
    """A replica without an engine, in the runner's process."""

    async def complete(self, request: Request) -> Reply:
        """Reply at once with one of the options."""
        return Reply(random_answer(request), prompt_tokens=1000, completion_tokens=100)


class RunnerActor(Runner):
    """A runner that reports its CPU time."""

    def __init__(self, suite: Suite) -> None:
        super().__init__(suite, ModelPlayer(Router(), "choice"))

    async def cpu_seconds(self) -> float:
        """CPU seconds of all threads of the process so far."""
        return time.process_time()


class StubRunner:
    """A runner that answers every assignment with the same report."""

    def __init__(self, report: Report) -> None:
        self.report = report

    async def exchange(self, assignment: Assignment) -> Report:
        """The report."""
        return self.report


def queueing_seconds(replicas: int, turns: int = 20_000) -> float:
    """Request and release of one turn with all replicas full; a fifth of the turns start a new episode."""
    router, rng = Router(), random.Random(1)
    for number in range(replicas):
        router.add(f"replica-{number}", BATCH)
    tickets = [router.request(f"episode-{number}", lambda _: None) for number in range(router.capacity)]
    start = time.process_time()
    for number in range(turns):
        slot = rng.randrange(len(tickets))
        router.release(tickets[slot])
        affinity = tickets[slot].affinity if number % 5 else f"new-{number}"
        tickets[slot] = router.request(affinity, lambda _: None)
    return (time.process_time() - start) / turns


def queue_seconds(count: int = 100_000) -> float:
    """One episode through the driver's queue."""
    episodes = [_some_episode(number) for number in range(count)]
    start = time.process_time()
    queue = EpisodeQueue(episodes)
    while queue.take(100):
        pass
    return (time.process_time() - start) / count


def plan_seconds(count: int = 20_000) -> float:
    """Id and row in the stored plan of one episode: the driver's cost before it starts anything."""
    start = time.process_time()
    plan_to_table([_some_episode(number) for number in range(count)])
    return (time.process_time() - start) / count


def runner_seconds(overrides: Sequence[str]) -> tuple[float, pa.Table]:
    """A runner without Ray playing a real suite with instant replies: seconds per turn, and the rows."""
    settings = load_settings([*overrides, "model=simulated"])
    episodes = settings.plan
    runner = Runner(settings.suite, ModelPlayer(Router(), "choice"))
    start = time.process_time()
    table = asyncio.run(_play(runner, episodes, [Instant()]))
    seconds = time.process_time() - start
    turns = sum(map(len, table["turns"].to_pylist()))
    return seconds / turns, table


async def _play(runner: Runner, episodes: tuple[Episode, ...], ports: Sequence[ReplicaPort]) -> pa.Table:
    assignment = Assignment(episodes, tuple(NewReplica(f"r{n}", port, BATCH) for n, port in enumerate(ports)))
    tables: list[pa.Table] = []
    while sum(table.num_rows for table in tables) < len(episodes):
        report = await runner.exchange(assignment)
        assignment = Assignment()
        tables += [report.finished] if report.finished is not None else []
    return pa.concat_tables(tables)


def ray_runner_seconds(overrides: Sequence[str], replicas: int = 2) -> float:
    """A runner and its replicas in separate processes: seconds per turn, actor calls included."""
    settings = load_settings([*overrides, "model=simulated"])
    options = {"num_cpus": 0, "max_concurrency": 1000}

    def engine() -> SimulatedEngine:
        return SimulatedEngine(Sampling(), step_seconds=1e-6, prefill_tokens_per_second=1e9)

    handles = [ray.remote(Replica).options(**options).remote(f"r{number}", engine) for number in range(replicas)]
    ray.get([handle.start.remote() for handle in handles])
    runner = ray.remote(RunnerActor).options(**options).remote(settings.suite)
    before = ray.get(runner.cpu_seconds.remote())
    assignment = Assignment(
        settings.plan, tuple(NewReplica(f"r{n}", RayReplica(each), BATCH) for n, each in enumerate(handles))
    )
    finished = turns = 0
    while finished < len(settings.plan):
        report: Report = ray.get(runner.exchange.remote(assignment))
        assignment = Assignment()
        turns = report.counts.turns
        finished += report.finished.num_rows if report.finished is not None else 0
    seconds: float = ray.get(runner.cpu_seconds.remote()) - before
    for handle in (runner, *handles):
        ray.kill(handle)
    return seconds / turns


def driver_seconds(table: pa.Table, runners: int) -> tuple[float, float]:
    """The driver's costs of one exchange with one of ``runners`` runners, and of one finished episode, commit included."""
    few, many = 1, min(200, table.num_rows)
    episodes = [_some_episode(number) for number in range(many)]
    one, more = (asyncio.run(_exchange(table.take(list(range(rows))), episodes, runners)) for rows in (few, many))
    row = (more - one) / (many - few)
    return one - row, row + _commit_seconds(table)


async def _exchange(finished: pa.Table, episodes: Sequence[Episode], runners: int, times: int = 300) -> float:
    rows = finished.num_rows
    report = Report(finished, rows, 1000, use={f"replica-{number}": ReplicaUse(BATCH) for number in range(16)})
    runner = ray.remote(StubRunner).options(num_cpus=0, max_concurrency=4).remote(report)
    stats = RunStatistics()
    stats.plan(episodes)
    assignment = Assignment(tuple(episodes[:rows]))
    for number in range(runners):
        stats.report(f"runner-{number}", await runner.exchange.remote(assignment))
    start = time.process_time()
    for _ in range(times):
        answer: Report = await runner.exchange.remote(assignment)
        assert answer.finished is not None
        answer.finished["episode_id"].to_pylist()
        stats.finished(answer.finished, by_model=True)
        stats.report("runner-0", answer)
    seconds = (time.process_time() - start) / times
    ray.kill(runner)
    return seconds


def report_seconds(table: pa.Table, times: int = 300) -> float:
    """Serialization of a runner's report, without building its rows, which is counted with the turns."""
    report = Report(table.take([0]), 1, 1000)
    start = time.process_time()
    for _ in range(times):
        ray.cloudpickle.dumps(report)
    return (time.process_time() - start) / times


def _commit_seconds(table: pa.Table) -> float:
    with tempfile.TemporaryDirectory() as folder:
        directory = RunDirectory(Path(folder))
        directory.claim()
        start = time.process_time()
        for _ in range(5):
            directory.commit(table)
        seconds = time.process_time() - start
        directory.release()
    each: float = seconds / 5 / table.num_rows
    return each


def _some_episode(number: int) -> Episode:
    return Episode("suite", "task", "level", "mode", number, 0, number, "fingerprint", 50, 5.0, float(number % 1000))


SUITES = {
    "kumo": ("suite=kumo", "suite.domains=[medical]", "suite.tasks_per_domain=10", "suite.repeats=20"),
    "kidgym": ("suite=kidgym", "suite.tasks=[CL,SE,PU,DMA]", "suite.episodes=10"),
}


def table() -> Table:
    """All of the above, measured on this machine."""
    rows: list[tuple[str, float]] = []
    for replicas in (1, 8, 16, 64, 1000):
        rows.append((f"router: turn, {replicas} replicas", queueing_seconds(replicas)))
    rows.append(("driver: queue, per episode", queue_seconds()))
    rows.append(("driver: plan, per episode", plan_seconds()))
    played: dict[str, pa.Table] = {}
    for name, overrides in SUITES.items():
        seconds, played[name] = runner_seconds(overrides)
        rows.append((f"runner without Ray: turn of {name}", seconds))
    start_ray(ClusterSettings())
    for name, overrides in SUITES.items():
        ray_runner_seconds(overrides)  # warm-up: the first calls open connections
        rows.append((f"runner: turn of {name}", ray_runner_seconds(overrides)))
    rows.append(("runner: report", report_seconds(played["kidgym"])))
    for runners in (1, 125):
        exchange, row = driver_seconds(played["kidgym"], runners)
        rows.append((f"driver: exchange, {runners} runners", exchange))
        rows.append((f"driver: row of an episode, {runners} runners", row))
    ray.shutdown()
    turn = dict(rows)["runner: turn of kidgym"]
    return Table(
        "costs",
        "Cost of scheduling",
        ("operation", "µs of CPU time", "relative to a runner's turn"),
        tuple((name, seconds * 1e6, seconds / turn) for name, seconds in rows),
    )
