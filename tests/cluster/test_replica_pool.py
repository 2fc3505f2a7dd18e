"""Assignment of replicas to runners; starting and replacing them is tested with real actors."""

import asyncio
from types import SimpleNamespace

import pytest
from ray.exceptions import RayTaskError

from cluster.config.settings import ClusterSettings
from cluster.driver import replica_pool as pool_module
from cluster.driver.replica_pool import ReplicaPool
from cluster.errors import RunFailedError, UserError
from cluster.observe.progress import Progress
from cluster.observe.run_statistics import RunStatistics
from cluster.runner.messages import NewReplica
from tests.fakes import FakeReplica


def pool(*replicas: tuple[str, str]) -> ReplicaPool:
    """With replicas (name, node) that are up."""
    made = ReplicaPool(settings=None, stats=None, progress=None)  # none of them is needed to share out replicas
    for name, node in replicas:
        made._assign(NewReplica(name, FakeReplica(), 4), node)
    return made


def shares(made: ReplicaPool, *runners: str) -> list[set[str]]:
    return [set(made.replicas_of(runner)) for runner in runners]


def test_a_late_runner_gets_its_share_and_local_replicas_first():
    made = pool(("r0", "n0"), ("r1", "n0"), ("r2", "n1"), ("r3", "n1"))
    made.add_runner("a", "n0")
    assert shares(made, "a") == [{"r0", "r1", "r2", "r3"}]
    made.add_runner("b", "n1")
    assert shares(made, "a", "b") == [{"r0", "r1"}, {"r2", "r3"}]


def test_a_runner_that_lost_its_replicas_gets_some_of_the_others():
    made = pool()
    made.add_runner("a", "n0")
    made.add_runner("b", "n1")
    for number in range(4):
        made._assign(NewReplica(f"r{number}", FakeReplica(), 4), f"n{number % 2}")
    assert shares(made, "a", "b") == [{"r0", "r2"}, {"r1", "r3"}]
    made._unassign("r0")
    made._unassign("r2")
    assert sorted(map(len, shares(made, "a", "b"))) == [1, 1]
    assert not made.is_starved("a")


def test_a_runner_is_starved_when_there_are_fewer_replicas_than_runners():
    made = pool(("r0", "n0"))
    made.add_runner("a", "n0")
    made.add_runner("b", "n0")
    assert not made.is_starved("a") and made.is_starved("b")
    made._unassign("r0")
    assert not made.is_starved("b"), "no runner has a replica: a new one is starting"


def test_the_replicas_of_a_dead_runner_are_reassigned():
    made = pool(("r0", "n0"), ("r1", "n0"))
    made.add_runner("a", "n0")
    made.add_runner("b", "n0")
    made.remove_runner("a")
    assert shares(made, "b") == [{"r0", "r1"}]
    made.remove_runner("b")
    made.add_runner("c", "n0")
    assert shares(made, "c") == [{"r0", "r1"}]


CLOSED: list[str] = []
TOLD: list[float] = []
"""Spending of the run, as passed to each replica at its start."""


class Handle:
    """A replica's actor with a scripted start."""

    def __init__(self, start, name="") -> None:
        self.node = SimpleNamespace(remote=lambda: answer("n0"))
        self.start = SimpleNamespace(remote=lambda spent_elsewhere: TOLD.append(spent_elsewhere) or start())
        self.close = SimpleNamespace(remote=lambda: answer(CLOSED.append(name) or 0.5))
        self.check_health = SimpleNamespace(remote=lambda seconds: answer(0.0))


async def answer(value):
    return value


async def breaks():
    raise RayTaskError("start", "trace", ValueError("CUDA error"))


def keeping(monkeypatch, starts) -> ReplicaPool:
    """A pool of two slots; each start takes the next of ``starts``."""
    queue = iter(starts)
    CLOSED.clear()
    TOLD.clear()
    monkeypatch.setattr(pool_module.actors, "create_replica", lambda name, model: Handle(next(queue), name))
    monkeypatch.setattr(pool_module.actors, "end_actor", lambda handle: None)
    settings = SimpleNamespace(cluster=ClusterSettings(replicas=2), model=SimpleNamespace(name="m"))
    return ReplicaPool(settings, RunStatistics(), Progress(RunStatistics()))


async def test_a_model_that_no_replica_can_load_ends_the_run(monkeypatch):
    made = keeping(monkeypatch, [breaks, breaks])
    with pytest.raises(UserError, match=r"replica-\d cannot start: CUDA error"):
        await asyncio.wait_for(made.keep(), 5)


async def test_a_replica_that_cannot_start_does_not_end_a_run_that_plays(monkeypatch, capsys):
    made = keeping(monkeypatch, [lambda: answer({"batch": 4, "metered": False}), breaks, *[breaks] * 5])
    monkeypatch.setattr(pool_module, "START_FAILURES", 1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(made.keep(), 0.5)
    assert "replica-1 failed to start: CUDA error" in capsys.readouterr().err
    assert made.stats.playing_since is not None


async def test_a_slot_that_keeps_failing_to_start_is_retried_with_backoff(monkeypatch):
    pauses = []
    sleep = asyncio.sleep

    async def paused(seconds):
        pauses.append(seconds)
        await sleep(0)

    good = lambda: answer({"batch": 4, "metered": False})  # noqa: E731
    made = keeping(monkeypatch, [good, *[breaks] * 9, good])
    monkeypatch.setattr(pool_module, "LONGEST_BACKOFF_SECONDS", 100.0)
    monkeypatch.setattr(made, "_until_unhealthy", lambda name, handle: sleep(60))
    monkeypatch.setattr(pool_module.asyncio, "sleep", paused)
    keep = asyncio.create_task(made.keep())
    while made.stats.replicas_up < 2:
        await sleep(0.001)
    assert pauses == [2, 4, 8, 16, 32, 64, 100, 100, 100]
    keep.cancel()
    await asyncio.gather(keep, return_exceptions=True)


async def test_a_replica_is_closed_before_its_process_is_ended_unless_it_died(monkeypatch):
    made = keeping(monkeypatch, [lambda: answer({"batch": 4, "metered": False})] * 3)
    keep = asyncio.create_task(made.keep())
    while made.stats.replicas_up < 2:
        await asyncio.sleep(0.001)
    made.lost(["replica-0.0"])
    while made.stats.replicas_lost < 1 or made.stats.replicas_up < 2:
        await asyncio.sleep(0.001)
    assert CLOSED == []
    keep.cancel()
    await asyncio.gather(keep, return_exceptions=True)
    assert sorted(CLOSED) == ["replica-0.1", "replica-1.0"]


async def test_what_was_spent_lives_with_the_run_when_a_replica_is_replaced(monkeypatch):
    made = keeping(monkeypatch, [lambda: answer({"batch": 4, "metered": True})] * 2)
    made.settings.cluster = ClusterSettings(replicas=1)
    made.stats.spent_before = 3.0
    keep = asyncio.create_task(made.keep())
    while made.stats.replicas_up < 1:
        await asyncio.sleep(0.001)
    made.stats.replica_spent("replica-0.0", 2.0)
    made.stats.replica_spent("replica-0.0", 1.0)  # an answer that came late lowers nothing
    made.lost(["replica-0.0"])
    while made.stats.replicas_lost < 1 or made.stats.replicas_up < 1:
        await asyncio.sleep(0.001)
    assert TOLD == [3.0, 5.0]
    keep.cancel()
    await asyncio.gather(keep, return_exceptions=True)
    assert made.stats.spent == 5.5, "what the last one said as it was closed"


async def test_a_start_that_hangs_is_a_failed_start(monkeypatch, capsys):
    monkeypatch.setattr(pool_module, "START_SECONDS", 0.05)
    monkeypatch.setattr(pool_module, "START_FAILURES", 1)
    made = keeping(monkeypatch, [lambda: asyncio.sleep(60), lambda: asyncio.sleep(60)])
    with pytest.raises(RunFailedError, match="none of the 2 replicas can be started"):
        await asyncio.wait_for(made.keep(), 5)
