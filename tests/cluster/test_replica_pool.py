"""Assignment of replicas to runners; starting and replacing them is tested with real actors."""

import asyncio
import contextlib
import math
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from ray.exceptions import RayActorError, RayTaskError

from cluster.config.settings import ClusterSettings
from cluster.driver import replica_pool as pool_module
from cluster.driver import start_failures as failures_module
from cluster.driver.replica_pool import ReplicaPool
from cluster.driver.start_failures import StartFailures
from cluster.engines.base import Account, EngineError, EngineSettingsError, HubBusyError
from cluster.errors import RunFailedError, UserError
from cluster.observe.progress import Progress
from cluster.observe.run_statistics import RunStatistics
from cluster.ray_backend.actors import Place
from cluster.runner.messages import NewReplica, PlayerCounts
from cluster.storage.kept_output import last_lines
from cluster.storage.spending import Spending, SpendingJournal, read_spending
from tests.fakes import FakeReplica


def pool(*replicas: tuple[str, str]) -> ReplicaPool:
    """With replicas (name, node) that are up."""
    made = ReplicaPool(
        settings=None, stats=None, progress=None, journal=None, logs=None
    )  # none of them is needed to share out replicas
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


def test_a_replica_goes_to_the_runner_with_fewest_and_of_equals_to_the_one_on_its_node():
    made = pool()
    made.add_runner("a", "n0")
    made.add_runner("b", "n1")
    for number, (node, expected) in enumerate([("n1", "b"), ("n1", "a"), ("n1", "b"), ("n2", "a"), ("n0", "a")]):
        made._assign(NewReplica(f"r{number}", FakeReplica(), 4), node)
        assert f"r{number}" in made.replicas_of(expected), f"r{number}"


def test_a_replica_that_is_gone_before_a_runner_is_ready_is_not_assigned():
    made = pool(("r0", "n0"), ("r1", "n0"))
    made._unassign("r0")
    made._unassign("r0")
    made.lost(["r0"])  # a late report about it
    made.add_runner("a", "n0")
    assert shares(made, "a") == [{"r1"}]
    made.remove_runner("never ready")


def test_replicas_move_only_if_a_runner_has_two_more_than_another():
    made = pool(*((f"r{number}", "n0") for number in range(3)))
    made.add_runner("a", "n0")
    made.add_runner("b", "n0")
    assert [len(each) for each in shares(made, "a", "b")] == [2, 1]
    made.add_runner("c", "n0")
    before = shares(made, "a", "b", "c")
    assert [len(each) for each in before] == [1, 1, 1]
    made._balance()
    assert shares(made, "a", "b", "c") == before


def test_the_replicas_of_a_dead_runner_are_reassigned():
    made = pool(("r0", "n0"), ("r1", "n1"))
    made.add_runner("a", "n0")
    made.add_runner("b", "n0")
    made.remove_runner("a")
    assert shares(made, "b") == [{"r0", "r1"}]
    made.remove_runner("b")
    made.add_runner("c", "n0")
    assert shares(made, "c") == [{"r0", "r1"}]
    made.add_runner("d", "n1")
    assert shares(made, "c", "d") == [{"r0"}, {"r1"}], "each once, and where it runs"


CLOSED: list[str] = []
ENDED: list[str] = []
TOLD: list[tuple[float, float]] = []
"""Spending of the run and its highest price, as passed to each replica at its start."""
COVERED: list[tuple[int, float]] = []
"""Up to which request a replica may send, and what was on disk when it was told."""
FOLDER: list[Path] = []
"""Of the run."""


NODES: dict[str, int] = {}
"""Where replicas are; 0 unless given."""
LOGS: list[str] = []
"""File of their output; none unless given."""
GPUS: dict[str, tuple[str, ...]] = {}
"""Which GPUs they have; none unless given."""


class Handle:
    """A replica's actor with a scripted start, health check and close."""

    def __init__(self, start, name="", health=None, close=None) -> None:
        self.name = name
        place = Place(f"n{NODES.get(name, 0)}", "host", GPUS.get(name, ()), tuple(LOGS))
        self.place = SimpleNamespace(remote=lambda: answer(place))
        self.start = SimpleNamespace(remote=lambda spent, highest, folder: TOLD.append((spent, highest)) or start())
        self.close = SimpleNamespace(remote=close or (lambda: answer(CLOSED.append(name))))
        self.check_health = SimpleNamespace(remote=health or (lambda seconds: answer(None)))
        self.settle = SimpleNamespace(remote=self._settle)
        self.account = Account(0.0, 0.0, 0.0, 0)

    async def _settle(self, covered, seconds):
        COVERED.append((covered, read_spending(FOLDER[0]).total))
        await asyncio.sleep(min(seconds, 0.001))
        return self.account


MODEL = SimpleNamespace(name="m")


async def answer(value):
    return value


async def breaks():
    raise RayTaskError("start", "trace", ValueError("CUDA error"))


async def hangs(*_):
    await asyncio.sleep(60)


async def good():
    return {"batch": 4, "metered": False}


def keeping(monkeypatch, starts, health=None, close=None, **cluster) -> ReplicaPool:
    """A pool of two slots; each start takes the next of ``starts``."""
    queue = iter(starts)
    for each in (CLOSED, ENDED, TOLD, NODES, GPUS, LOGS, COVERED, FOLDER):
        each.clear()
    FOLDER.append(Path(tempfile.mkdtemp()))

    def create(name, of):
        assert of is MODEL
        return Handle(next(queue), name, health, close)

    monkeypatch.setattr(pool_module.actors, "create_replica", create)
    monkeypatch.setattr(pool_module.actors, "end_actor", lambda handle: ENDED.append(handle.name))
    settings = SimpleNamespace(cluster=ClusterSettings(**{"replicas": 2, **cluster}), model=MODEL)
    stats = RunStatistics()
    return ReplicaPool(settings, stats, Progress(stats), SpendingJournal(FOLDER[0]), FOLDER[0] / "logs")


async def until(condition: Callable[[], object]) -> None:
    """Wait for what the pool does in its own time."""
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def kept(made: ReplicaPool):
    """Keep the pool up; it must not end by itself."""
    keep = asyncio.create_task(made.keep())
    try:
        yield
        assert not keep.done()
    finally:
        keep.cancel()
        await asyncio.wait([keep], timeout=5)
        assert keep.done(), "it ends as soon as it is canceled"


def failing(text, kind=ValueError):
    async def start():
        raise RayTaskError("start", "trace", kind(text))

    return start


@pytest.mark.parametrize("cause", [ValueError("x is not a valid model identifier"), EngineSettingsError("seed=x")])
@pytest.mark.parametrize("other", [good, hangs])
async def test_what_no_replica_can_load_ends_the_run_at_once(monkeypatch, cause, other):
    made = keeping(monkeypatch, [failing(str(cause), type(cause)), hangs])
    with pytest.raises(UserError, match=rf"replica-\d cannot start: {cause}"):
        await asyncio.wait_for(made.keep(), 5)


async def test_what_fails_alike_on_two_gpus_ends_the_run(monkeypatch):
    made = keeping(monkeypatch, [failing("bad kernel 0x1"), failing("bad kernel 0x2"), hangs])
    NODES.update({"replica-0.0": 0, "replica-1.0": 1})
    GPUS.update({"replica-0.0": ("0",), "replica-1.0": ("0",)})
    with pytest.raises(UserError, match="cannot start: bad kernel"):
        await asyncio.wait_for(made.keep(), 5)


def test_a_gpu_is_given_up_at_its_third_failure_in_a_row_once_anything_has_started():
    failures = StartFailures()
    good, bad = (Place("n", "host", (gpu,), ()) for gpu in "01")
    failures.started("a", good)
    for _ in range(2):
        found = [failures.failed("b", bad, EngineError("a broken one")) for _ in range(2)]
        assert found == ["retry"] * 2
        failures.started("b", bad)
    found = [failures.failed("b", bad, EngineError("a broken one")) for _ in range(3)]
    assert found == ["retry", "retry", "give up the GPU"]


def test_a_replica_without_gpus_is_tried_again_as_long_as_others_play():
    failures = StartFailures()
    failures.started("a", Place("n", "host", ("0",), ()))
    found = {failures.failed("b", Place("n", "host", (), ()), EngineError("broken")) for _ in range(5)}
    assert found == {"retry"}


def test_what_a_busy_hub_asked_for_ends_with_another_failure():
    failures, pauses = StartFailures(), []
    for reason in (HubBusyError("busy", retry_after=45.0), EngineError("Address already in use")):
        failures.failed("slot", None, reason)
        pauses.append(failures.backoff("slot"))
    assert pauses == [45, 4]


async def test_one_broken_gpu_of_eight_is_given_up_by_name_and_the_others_play(monkeypatch, capsys):
    made = keeping(monkeypatch, [], replicas=8)
    monkeypatch.setattr(pool_module.capacity, "replicas_that_fit", lambda model: 8)

    def create(name, of):
        slot = name.partition(".")[0][-1]
        GPUS[name] = (slot,)
        return Handle(failing("unspecified launch failure") if slot == "0" else good, name)

    monkeypatch.setattr(pool_module.actors, "create_replica", create)
    pauses = without_pauses(monkeypatch, made)
    async with kept(made):
        await until(lambda: made.stats.replicas_up == 7 and made._held)
        await until(lambda: made.stats.replicas_wanted == 7)
        assert "replica-0.2" not in ENDED or len(made._held) == 1, "its actor keeps the GPU from others"
    assert "GPU 0 of host is not used anymore" in capsys.readouterr().err
    assert len(pauses) <= 4 and len(ENDED) == len(set(ENDED))


@pytest.mark.parametrize(
    "cause",
    [
        "429 Client Error: Too Many Requests for url",
        "Free memory on device (3.1/79.2 GiB) on startup is less than desired GPU memory utilization",
        "[Errno 98] Address already in use",
    ],
)
async def test_what_may_pass_is_tried_again_on_every_slot_until_it_has_passed(monkeypatch, capsys, cause):
    made = keeping(monkeypatch, [*[failing(cause)] * 12, *[good] * 2])
    pauses = without_pauses(monkeypatch, made)
    async with kept(made):
        await until(lambda: made.stats.replicas_up == 2)
    assert len(pauses) == 12 and max(pauses) <= 30 and cause[:30] in capsys.readouterr().err


async def test_what_should_have_passed_by_now_ends_the_run(monkeypatch):
    monkeypatch.setattr(failures_module, "PASSING_SECONDS", -1.0)
    made = keeping(monkeypatch, [failing("Address already in use")] * 99)
    without_pauses(monkeypatch, made)
    with pytest.raises(RunFailedError, match=r"none of the 2 replicas.*Address already in use"):
        await asyncio.wait_for(made.keep(), 5)


def test_after_a_good_start_what_may_pass_has_its_time_again(monkeypatch):
    now = 0.0
    monkeypatch.setattr(failures_module, "time", SimpleNamespace(monotonic=lambda: now))
    failures, busy = failures_module.StartFailures(), EngineError("Address already in use")
    for _ in range(3):
        failures.failed("slot", None, busy)
        now += failures_module.PASSING_SECONDS - 1
        failures.failed("slot", None, busy)
        assert not failures.counted.get("slot")
        failures.started("slot", Place("n", "host", ("0",), ()))
    now += 1
    failures.failed("slot", None, busy)
    now += failures_module.PASSING_SECONDS + 1
    failures.failed("slot", None, busy)
    assert failures.counted["slot"] == 1


def tries(monkeypatch, reason: Exception, seconds: float) -> tuple[list[float], int]:
    """Pauses between the starts of a slot that fail for so long, each after 25 s, and how many of them counted."""
    now = 0.0
    monkeypatch.setattr(failures_module, "time", SimpleNamespace(monotonic=lambda: now))
    failures, pauses = failures_module.StartFailures(), []
    while now < seconds and failures.counted.get("slot", 0) < failures_module.START_FAILURES:
        now += 25
        failures.failed("slot", None, reason)
        pauses.append(failures.backoff("slot"))
        now += pauses[-1]
    return pauses, failures.counted.get("slot", 0)


def test_a_busy_hub_is_asked_again_for_minutes_and_as_late_as_it_asks_and_what_the_user_must_mend_thrice(monkeypatch):
    passing = failures_module.PASSING_SECONDS
    pauses, counted = tries(monkeypatch, HubBusyError("in whatever words"), passing)
    assert pauses[:6] == [2, 4, 8, 16, 30, 30] and max(pauses) == 30 and not counted
    assert sum(pauses) + 25 * len(pauses) >= passing
    pauses, counted = tries(monkeypatch, HubBusyError("in whatever words", retry_after=45.0), passing)
    assert set(pauses) == {45} and not counted
    pauses, counted = tries(monkeypatch, HubBusyError("for good"), math.inf)
    assert counted == failures_module.START_FAILURES and sum(pauses) < passing + 4 * 55
    assert tries(monkeypatch, EngineError("no such file: weights"), math.inf) == ([2, 4, 8], 3)


@pytest.mark.slow
async def test_a_replica_that_cannot_start_does_not_end_a_run_that_plays(monkeypatch, capsys):
    made = keeping(monkeypatch, [good, *[breaks] * 6])
    monkeypatch.setattr(pool_module, "START_FAILURES", 1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(made.keep(), 0.5)
    assert "replica-1 failed to start on host: CUDA error" in capsys.readouterr().err
    assert made.stats.playing_since is not None


def without_pauses(monkeypatch, made: ReplicaPool) -> list[float]:
    """Record the pauses between tries to start a replica instead of making them."""
    sleep, pauses = asyncio.sleep, []

    async def paused(seconds):
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(made, "_until_unhealthy", lambda handle: sleep(60))
    monkeypatch.setattr(pool_module, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": paused}))
    return pauses


async def test_a_slot_that_keeps_failing_to_start_is_retried_with_backoff(monkeypatch):
    made = keeping(monkeypatch, [good, *[breaks] * 9, good])
    monkeypatch.setattr(failures_module, "LONGEST_BACKOFF", 100.0)
    pauses = without_pauses(monkeypatch, made)
    async with kept(made):
        await until(lambda: made.stats.replicas_up == 2)
    assert pauses == [2, 4, 8, 16, 32, 64, 100, 100, 100]


async def test_a_replica_is_closed_before_its_process_is_ended_unless_it_died(monkeypatch):
    made = keeping(monkeypatch, [good] * 3)
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


async def test_an_account_is_on_disk_before_its_requests_are_sent_and_outlives_its_replica(monkeypatch):
    handles = []
    made = keeping(monkeypatch, [lambda: answer({"batch": 4, "metered": True})] * 2, replicas=1)
    create = pool_module.actors.create_replica
    monkeypatch.setattr(pool_module.actors, "create_replica", lambda *of: handles.append(create(*of)) or handles[-1])
    monkeypatch.setattr(pool_module, "SETTLE_SECONDS", 0.001)
    async with kept(made):
        await until(lambda: made.stats.replicas_up)
        handles[0].account = Account(2.0, 0.5, 0.25, 7)
        await until(lambda: COVERED[-1][0] == 7)
        assert COVERED[0] == (0, 0.0) and COVERED[-1] == (7, 2.5)
        made.lost(["replica-0.0"])
        await until(lambda: made.stats.replicas_lost and made.stats.replicas_up)
        assert TOLD == [(0.0, 0.0), (2.5, 0.25)], "what was in flight when it died counts"
        handles[1].account = Account(1.0, 0.0, 0.125, 3, counted_before=0.5)
        await until(lambda: COVERED[-1] == (3, 3.5))
    assert read_spending(FOLDER[0]) == Spending(3.0, 0.5, 0.25) and made.stats.spent == 3.0
    made.stats.counts = PlayerCounts(cost=4.0)
    assert made.stats.spent == 3.5, "of what replies cost, an earlier session has counted .5"


async def test_a_replica_that_costs_nothing_keeps_no_account(monkeypatch):
    made = keeping(monkeypatch, [good], replicas=1)
    async with kept(made):
        await until(lambda: made.stats.replicas_up)
        await asyncio.sleep(0.01)
    assert COVERED == [] and not list(FOLDER[0].iterdir())


async def test_without_a_journal_on_disk_no_request_is_sent_and_the_run_ends_at_last(monkeypatch, capsys):
    made = keeping(monkeypatch, [lambda: answer({"batch": 4, "metered": True})], replicas=1)
    monkeypatch.setattr(pool_module, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(pool_module, "JOURNAL_TRIES", 3)

    def full():
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(made.journal, "write", full)
    with pytest.raises(RunFailedError, match="No space left"):
        await asyncio.wait_for(made.keep(), 5)
    assert COVERED == [(0, 0.0)] and capsys.readouterr().err.count("No space left") == 1


async def test_a_start_that_hangs_is_a_failed_start(monkeypatch, capsys):
    monkeypatch.setattr(pool_module, "START_SECONDS", 0.05)
    monkeypatch.setattr(pool_module, "START_FAILURES", 1)
    made = keeping(monkeypatch, [hangs, hangs])
    with pytest.raises(RunFailedError, match="none of the 2 replicas can be started"):
        await asyncio.wait_for(made.keep(), 5)


async def test_a_replica_is_assigned_as_it_described_itself_and_counts_until_it_is_lost(monkeypatch):
    made = keeping(monkeypatch, [lambda: answer({"batch": 7, "metered": True}), *[good] * 4])
    NODES.update({"replica-0.0": 1})
    made.add_runner("a", "n0")
    made.add_runner("b", "n1")
    async with kept(made):
        await until(lambda: made.stats.replicas_up == 2)
        assert shares(made, "a", "b") == [{"replica-1.0"}, {"replica-0.0"}], "each where it runs"
        replica = made.replicas_of("b")["replica-0.0"]
        assert (replica.name, replica.batch, replica.metered) == ("replica-0.0", 7, True)
        assert replica.port._handle.name == "replica-0.0"
        assert (made.stats.replicas_wanted, made.stats.replicas_lost) == (2, 0)
        made.lost(["replica-0.0"])
        await until(lambda: made.stats.replicas_lost and made.stats.replicas_up == 2)
        assert shares(made, "a", "b") == [{"replica-1.0"}, {"replica-0.1"}]
        made.lost(["replica-0.0"])  # said again by another runner: the new one is not meant
        await asyncio.sleep(0.01)
        assert (made.stats.replicas_up, made.stats.replicas_lost, ENDED) == (2, 1, ["replica-0.0"])
        made.lost(["replica-0.1", "replica-1.0"])
        await until(lambda: made.stats.replicas_lost == 3 and made.stats.replicas_up == 2)
        assert made.progress.stage == ""
    assert made.stats.replicas_up == 0 and shares(made, "a", "b") == [set(), set()]
    assert sorted(ENDED) == [f"replica-{name}" for name in ("0.0", "0.1", "0.2", "1.0", "1.1")], "no process is left"


async def fails(seconds):
    raise RayTaskError("check_health", "trace", ValueError("no heartbeat"))


async def is_gone(seconds):
    raise RayActorError


@pytest.mark.parametrize(("health", "said"), [(hangs, "0.01 s"), (fails, "no heartbeat"), (is_gone, "")])
async def test_an_unhealthy_replica_is_replaced(monkeypatch, capsys, health, said):
    monkeypatch.setattr(pool_module, "REPLY_SECONDS", 0.01)
    made = keeping(monkeypatch, [good, *[hangs] * 9], health=health, replicas=1, health_seconds=0, health_timeout=0.01)
    async with kept(made):
        await until(lambda: len(TOLD) == 2)
        assert (made.stats.replicas_lost, CLOSED, ENDED) == (1, [], ["replica-0.0"])
        assert "replica-0.1" not in made._lost and made.stats.replicas_up == 0
        assert re.findall(r"\d+", made.progress.stage) == ["0", "1"], "it is being started again, for the first time"
    line = next(line for line in capsys.readouterr().err.splitlines() if "replacing" in line)
    assert "replica-0" in line and said in line


async def test_health_checks_go_on_until_canceled(monkeypatch):
    asked = []

    async def check(seconds):
        asked.append(seconds)
        await asyncio.sleep(0)
        if len(asked) > 1000:  # it should have been canceled long ago
            await hangs()

    made = keeping(monkeypatch, [good], health=check, close=hangs, replicas=1, health_seconds=0, health_timeout=0.0)
    monkeypatch.setattr(pool_module, "CLOSE_SECONDS", 0.01)
    async with kept(made):
        await until(lambda: len(asked) >= 3)
        assert made.stats.replicas_lost == 0 and set(asked) == {0.0}
    assert ENDED == ["replica-0.0"], "also if it does not close"


async def test_with_as_many_as_fit_replicas_join_with_the_nodes(monkeypatch):
    rooms = iter([1, 1, 3])
    monkeypatch.setattr(pool_module, "NODE_CHECK_SECONDS", 0.001)

    def replicas_that_fit(of):
        assert of is MODEL
        return next(rooms, 2)  # a node may leave again: its replicas are lost by themselves

    monkeypatch.setattr(pool_module.capacity, "replicas_that_fit", replicas_that_fit)
    made = keeping(monkeypatch, [good] * 3, replicas="fit")
    made.add_runner("a", "n0")
    async with kept(made):
        await until(lambda: made.stats.replicas_up == 3)
        assert shares(made, "a") == [{"replica-0.0", "replica-1.0", "replica-2.0"}]
        assert made.stats.replicas_wanted == 3
    assert len(ENDED) == 3


async def test_the_first_replica_of_a_node_loads_alone_and_those_of_one_gpu_one_after_the_other(monkeypatch):
    go, loading = asyncio.Semaphore(0), []

    async def loads():
        loading.append(1)
        await go.acquire()
        return await good()

    made = keeping(monkeypatch, [loads] * 6, replicas=6)
    GPUS.update({f"replica-{number}.0": (str(number // 2),) for number in range(6)})  # three GPUs with two each
    async with kept(made):
        for started, at_once in ((0, 1), (1, 4), (4, 6)):  # one; then one on each GPU; then the rest
            while made.stats.replicas_up < started:
                go.release()
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
            assert len(loading) == at_once, f"{started} are up"
        for _ in range(2):
            go.release()
        await until(lambda: made.stats.replicas_up == 6)


async def test_a_run_fails_once_every_slot_failed_to_start_three_times_in_a_row(monkeypatch):
    made = keeping(monkeypatch, [breaks] * 40)
    made._failures._any_started = True
    pauses = without_pauses(monkeypatch, made)
    with pytest.raises(RunFailedError, match="2 replicas"):
        await asyncio.wait_for(made.keep(), 5)
    starts = Counter(name.partition(".")[0] for name in ENDED)
    assert len(starts) == 2 and min(starts.values()) == 3, "the other slot may have had more meanwhile"
    assert pauses[:2] == [2, 2] or pauses[:2] == [2, 4], "each pause of a slot is twice its last one"
    assert sorted(CLOSED) == sorted(ENDED), "those may still be alive"


@pytest.mark.parametrize("failures", [(9, 0), (2, 9), (9, 9, 2), (2, 2, 2)])
async def test_a_run_goes_on_as_long_as_a_slot_has_failed_less_than_three_times(monkeypatch, failures):
    made = keeping(monkeypatch, [], replicas=len(failures))
    made._failures._any_started = True

    def create(name, of):
        slot, number = map(int, name.removeprefix("replica-").split("."))
        NODES[name] = slot
        return Handle(breaks if number < failures[slot] else hangs, name)

    monkeypatch.setattr(pool_module.actors, "create_replica", create)
    without_pauses(monkeypatch, made)
    async with kept(made):
        await until(lambda: len(ENDED) == sum(failures))


async def test_failed_starts_are_counted_anew_after_a_good_one(monkeypatch):
    made = keeping(monkeypatch, [breaks, good, breaks, breaks, hangs], replicas=1)
    made.stats.playing_since = 0.0
    pauses = without_pauses(monkeypatch, made)
    async with kept(made):
        await until(lambda: made.stats.replicas_up)
        made.lost(["replica-0.1"])
        await until(lambda: len(TOLD) == 5)
    assert pauses == [2, 2, 4] and made.stats.replicas_lost == 1


def test_the_end_of_a_replica_s_output_is_kept_without_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "sk-very-secret")
    (tmp_path / "err").write_text("".join(f"line {number} sk-very-secret\n" for number in range(100_000)))
    lines = last_lines([str(tmp_path / "err")]).splitlines()
    assert lines == [f"line {number} ***" for number in range(99_800, 100_000)]
    (tmp_path / "out").write_text("said\n")
    both = last_lines([str(tmp_path / "out"), str(tmp_path / "err")])
    assert both.splitlines() == ["said", "", *lines]


async def test_the_output_of_a_failed_start_is_in_the_run_directory(monkeypatch):
    made = keeping(monkeypatch, [breaks, good], replicas=1)
    without_pauses(monkeypatch, made)
    monkeypatch.setattr(pool_module.actors, "read_log", lambda handle, place: answer(f"said on {place.node}\n"))
    LOGS.append("worker.err")
    log = FOLDER[0] / "logs" / "replica-0.0.log"
    log.parent.mkdir()
    (FOLDER[0] / "other").write_text("kept")
    log.symlink_to(FOLDER[0] / "other")
    async with kept(made):
        await until(lambda: made.stats.replicas_up)
    assert (
        log.read_text() == "replica-0.0 on host: CUDA error\n\nsaid on n0\n"
        and (FOLDER[0] / "other").read_text() == "kept"
    )
