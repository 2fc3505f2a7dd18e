"""A driver in virtual time: whom it asks, what it gives out, writes and says, as on record in ``tests/golden``."""

import asyncio
import contextlib
import itertools
from types import SimpleNamespace

import pyarrow as pa
import pytest
from ray.exceptions import RayActorError, RayTaskError

from cluster.config.model import ReplicaNeeds
from cluster.config.settings import ClusterSettings
from cluster.driver import driver as module
from cluster.driver import replica_pool, start_failures
from cluster.driver.replica_pool import ReplicaPool
from cluster.engines.base import Account, Engine, EngineError, EngineSettingsError, HubBusyError
from cluster.engines.checked import CheckedEngine
from cluster.errors import RunFailedError, UserError
from cluster.hosted import inline
from cluster.hosted import pool as hosted_pool
from cluster.ray_backend.actors import Place
from cluster.runner.messages import NewReplica, Report
from cluster.storage.lock import LeaseLostError
from evals.types import PromptTooLong, Reply
from tests.clock import Clock
from tests.said import Said, Thing
from tests.toy import ToySuite

SUITE = ToySuite(episodes=6)
PLAN = [episode.assigned(player, "") for player in ("m", "oracle") for episode in SUITE.plan()]
NAMES = {episode.id: f"{episode.player}{episode.index}" for episode in PLAN}


def shown(value):
    """Rows and episodes by the names of these, replicas by theirs."""
    if isinstance(value, pa.Table):
        return shown(value["episode_id"].to_pylist())
    if isinstance(value, list | tuple):
        return f"[{' '.join(map(shown, value))}]"
    if isinstance(value, Report):
        return f"report of {shown(value.finished or [])}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return NAMES.get(getattr(value, "id", value if isinstance(value, str) else None)) or str(
        getattr(value, "name", value)
    )


class Scripted:
    """A runner that reports as its script says: each step is seconds, rows, and what else is in the report, or an error."""

    def __init__(self, clock, name, steps):
        self.clock, self.name, self.steps, self.held = clock, name, iter(steps), []

    async def node(self):
        return "n" + self.name[-1]

    async def exchange(self, given):
        said = f"{self.name} is given {shown(given.episodes)}, {given.remaining} remain"
        said += f", new {shown(given.replicas)}" if given.replicas else ""
        said += f", gone {shown(given.removed)}" if given.removed else ""
        self.clock.tell(said + ", drains" * given.draining)
        self.held += given.episodes
        seconds, rows, more = next(self.steps, (1.0, 99, {}))
        await self.clock.sleep(seconds)
        if isinstance(more, Exception):
            raise more
        finished, self.held = self.held[:rows], self.held[rows:]
        table = pa.table({"episode_id": [each.id for each in finished]}) if finished else None
        return Report(table, **{"room": 4, "running": len(self.held), **more})

    def end(self):
        self.clock.tell(f"{self.name} is ended")


class Pool(ReplicaPool):
    """Replicas that come and go by a script: seconds, name, node or None where it is lost."""

    script = ()

    async def keep(self):
        self.progress.clock.tell("the pool is kept")
        for seconds, name, node in self.script:
            await self.progress.clock.sleep(seconds)
            self.stats.replicas_up += 1 if node else -1
            if node:
                self._assign(NewReplica(name, None, 4), node)
            else:
                self._unassign(name)
        await asyncio.Event().wait()

    def lost(self, replicas):
        if replicas:
            self.progress.clock.tell("lost", *replicas)


@pytest.fixture
def world(capsys, monkeypatch, tmp_path):
    """Makes drivers whose surroundings only tell what is asked of them."""
    said = Said(capsys, tmp_path)
    clock = Clock(said)

    async def in_this_thread(function, *given):
        return function(*given)

    def noted(name, result=None):
        def called(*given, **named):
            clock.tell(name, *map(shown, given), *(f"{key}={shown(value)}" for key, value in named.items()))
            answer = result(*given) if callable(result) else result
            if isinstance(answer, Exception):
                raise answer
            return answer

        return called

    def made(todo, scripts, hosted=None, commit=None, looks=(), live=True, engine="simulated", ranks=None, **cluster):
        clock.begin()
        states = iter(looks)
        directory = SimpleNamespace(
            name="the run", path=tmp_path / "run", check_claim=None, commit=noted("commit", commit)
        )
        directory.note_engines, directory.compact = noted("engines"), noted("compact")
        stats = Thing(said, "stats", replicas_up=0, engines={"r": 1}, done=0, failed=0, stopping=None, seconds=7.5)
        stats.finished, stats.report = noted("finished"), noted("reported")
        stats.runner_ended = noted("ended")
        left = iter([None])
        stats.to_json, stats.seconds_left = (lambda: {"n": 1}), lambda: next(left, 2.5)
        progress = SimpleNamespace(say=noted("say"), update=noted("shown"), clock=clock)
        watch = SimpleNamespace(ranks=ranks, add=noted("watch"), look=lambda: next(states, None))
        writer = SimpleNamespace(close=noted("closed"), numbers=noted("numbers"), add=noted("heard"))
        writer.gone = lambda names: names and noted("no longer running")(list(names))
        writer.listener = noted("listener", "a listener" if live else None)
        journal = SimpleNamespace(write=noted("journal", LeaseLostError("taken over") if scripts is None else None))
        monkeypatch.setattr(module, "SpendingJournal", noted("journal of", journal))
        monkeypatch.setattr(module, "StopWatch", SimpleNamespace(of=noted("watch of", watch)))
        monkeypatch.setattr(module, "LiveWriter", SimpleNamespace(of=noted("live log of", writer)))
        played = {name: iter(each) for name, each in (scripts or {}).items()}

        def create(name, suite, decoding, policy, turn, listener):
            clock.tell("create", name, suite is SUITE, decoding, policy, turn, listener)
            return Scripted(clock, name, next(played.get(name, iter(())), ()))

        monkeypatch.setattr(module.actors, "create_runner", create)
        counted = lambda cluster, model: 5 if cluster.runners == "auto" else cluster.runners  # noqa: E731
        monkeypatch.setattr(module.capacity, "count_runners", counted)
        settings = SimpleNamespace(suite=SUITE, decoding="choice", balanced=ranks is not None)
        settings.model = SimpleNamespace(name="m", engine=engine)
        settings.cluster = ClusterSettings(**{"commit_seconds": 2.0, "grace_seconds": 3.0, "runners": 2, **cluster})
        watcher = SimpleNamespace(log=noted("log"))
        return module.Driver(settings, todo, directory, stats, progress, watcher, hosted)

    time = SimpleNamespace(monotonic=lambda: clock.now, time=lambda: clock.now)
    monkeypatch.setattr(module, "time", time)
    virtual = {"sleep": clock.sleep, "to_thread": in_this_thread}
    monkeypatch.setattr(module, "asyncio", SimpleNamespace(**{**vars(asyncio), **virtual}))
    monkeypatch.setattr(module.os, "cpu_count", lambda: 3)
    monkeypatch.setattr(module.stop_signals, "received", [])
    return SimpleNamespace(said=said, clock=clock, made=made, noted=noted)


async def played(world, title, driver):
    """Tell how a run goes and how it ends."""
    world.said(f"--- {title}:", *(f"{lane.name} {len(lane.queue)} x{lane.runners}" for lane in driver._lanes))
    try:
        await world.clock.during(driver.run())
    except (RunFailedError, EngineError, ValueError) as error:
        world.clock.tell(f"{type(error).__name__}: {error}")
    world.said("unwritten", shown([*map(shown, driver._pending)]))


async def test_runs(world, monkeypatch):
    monkeypatch.setattr(module, "ReplicaPool", Pool)
    monkeypatch.setattr(module, "SIGNAL_SECONDS", 0.5)
    m, built_in = PLAN[:6], PLAN[6:]
    one, two = "m/runner-0", "m/runner-1"
    monkeypatch.setattr(Pool, "script", [(0.2, "r0", "n0"), (0.1, "r1", "n1"), (1.4, "r0", None), (0.8, "r2", "n0")])
    first = [(0.5, 0, {}), (0.5, 1, {}), (0.5, 0, {}), (0.5, 1, {"lost": ("r9",)})]
    usual = {one: [first, []], two: [[(0.4, 0, {}), (0.8, 2, {"heard": "lines"}), *[(0.8, 1, {"room": 1})] * 4]]}
    await played(world, "two runners, one of them without a replica for a while", world.made(m, usual))
    built = {f"built-in/runner-{number}": [] for number in range(3)}
    await played(world, "built-in players", world.made(built_in, built, runners=9))
    monkeypatch.setattr(Pool, "script", [(0.0, "r0", "n0"), (9.9, "r0", None), (0.0, "r1", "n0")])
    begins = (0.1, 0, {})
    dead = (1.0, 0, TimeoutError("no answer\nfor long"))
    dies = {one: [[begins, (1.0, 1, {}), dead], [(1.0, 0, {"room": 2}), dead], []]}
    await played(world, "a runner dies", world.made(m[:3], dies, runners=1))
    monkeypatch.setattr(module, "RUNNER_DEATHS", 2)
    for played_between in (0, 1):
        dies = {one: [[begins, dead], [begins, (0.5, played_between, {}), dead], [dead]]}
        await played(world, f"it dies again, {played_between}", world.made(m[:2], dies, runners=1))
    for resumable in (True, False):
        closed = {"engine_closed": "the budget is spent", "resumable": resumable}
        driver = world.made(m[:3], {one: [[begins, (1.0, 1, closed)]]}, runners=1, live=False)
        await played(world, f"the engine closes, {resumable}", driver)
    unplugged = world.made(
        m[:3], {one: [[begins, (1.0, 1, {"cannot_play": "the disk is full"})]]}, runners=1, live=False
    )
    await played(world, "a game cannot be played now", unplugged)
    needed = SimpleNamespace(needed={m[0].id, m[1].id})
    looks = [SimpleNamespace(needed={each.id for each in m}), needed, needed, None]
    slow = {one: [[(0.5, 0, {"room": 1}), *[(1.5, 1, {"room": 1})] * 9]]}
    await played(world, "a rule stops it", world.made(m, slow, runners=1, looks=looks))

    async def signal(*seconds):
        for each in seconds:
            await world.clock.sleep(each)
            module.stop_signals.received.append(15)

    for seconds, step in (((0.8,), 2.0), ((0.8,), 9.0), ((0.8, 1.0), 9.0)):
        module.stop_signals.received.clear()
        driver = world.made([*m, *built_in], {one: [[begins, *[(step, 1, {"room": 1})] * 9]], **built}, runners=1)
        sending = asyncio.ensure_future(signal(*seconds))
        await played(world, f"signals after {seconds}, steps of {step:g} s", driver)
        sending.cancel()
    module.stop_signals.received.clear()
    errors = iter([OSError("full"), OSError("full"), None, None, *[OSError("full for good")] * 99])
    full = {one: [[begins, *[(2.1, 1, {"room": 3})] * 2, (9.0, 1, {}), (3.0, 0, EngineError("broken"))]]}
    driver = world.made(m, full, runners=1, commit=lambda rows: next(errors))
    compacting = driver.directory.compact

    async def slowly():
        compacting()
        await world.clock.sleep(5.0)

    monkeypatch.setattr(driver, "_compact", slowly)
    await played(world, "a full disk, and an error that nobody expects", driver)
    monkeypatch.setattr(module, "COMMIT_TRIES", 2)

    def commits(rows):
        error = next(errors)
        driver._pending += [rows] * (error is None)  # finished meanwhile
        return error

    for said in ([], [OSError("once"), None]):
        errors = itertools.chain(said, itertools.repeat(OSError("full")))
        driver = world.made(m, {one: [[begins, *[(2.1, 1, {"room": 3})] * 9]]}, runners=1, commit=commits)
        await played(world, "a disk that stays full", driver)
    driver = world.made([], None)
    driver.directory.compact = lambda: (_ for _ in ()).throw(OSError("no room"))
    await driver._compact()
    await played(world, "taken over by another driver", driver)
    world.said.check("driver_runs")


def test_drivers(world, monkeypatch):
    def kind(runner):
        if isinstance(runner, Scripted):
            return "Ray's"
        player = runner.model and (runner.model.decoding, runner.model.router.policy)
        return runner.suite is SUITE, player, runner._listener

    pool = lambda title: lambda *given: world.noted(title, "a pool")(*map(sort, given))  # noqa: E731
    sort = lambda each: each if hasattr(each, "parts") else type(each).__name__  # noqa: E731
    monkeypatch.setattr(module, "ReplicaPool", pool("pool of"))
    for hosted, given in itertools.product(
        (None, pool("hosted pool of")),
        ({}, {"engine": None}, {"runners": 4}, {"engine": None, "runners": 4}, {"engine": None, "address": "auto"}),
    ):
        ranks = {each.id: number % 4 for number, each in enumerate(PLAN)} if "runners" in given else None
        driver = world.made(
            PLAN[::-1], {}, hosted, ranks=ranks, **{"runners": "auto", "policy": "round_robin", **given}
        )
        for lane in driver._lanes:
            order = [each.id for each in lane.queue.take(99)]
            runner = driver._create_runner(lane, "name", 3)
            world.said(given, lane.name, shown(order), lane.runners, lane.pool, kind(runner))
    rows = pa.table({"episode_id": ["a"]})
    monkeypatch.setattr(module, "PENDING_BYTES", 2 * rows.nbytes)
    for waiting in range(4):
        driver._pending = [rows] * waiting
        world.said(waiting, "wait for a commit, room", driver._bounded(7))
    for done, failed in ((0, 0), (99_999, 1), (70_000, 80_000), (10**6, 0), (0, 10**9)):
        driver.stats.done, driver.stats.failed = done, failed
        world.said(done, failed, "seconds between commits", driver._commit_interval())
    world.said.check("drivers")


class Actor:
    """A replica's actor by a script: what its start tells or raises, its health after so many checks, its accounts."""

    def __init__(self, clock, name, tell, started=None, health=(), accounts=(), place="n0/0/log"):
        node, gpus, logs = place.split("/")
        self.place = self._method(None, Place(node, f"host of {node}", tuple(gpus), tuple(filter(None, [logs]))))
        self.start = self._method("start", started or {"batch": 4, "metered": bool(accounts)}, 1.0)
        checks = itertools.chain(health, itertools.repeat(None))
        self.check_health = self._method("check" if health else None, lambda: next(checks))
        settled = itertools.chain(accounts, itertools.repeat(accounts[-1] if accounts else None))
        self.settle = self._method("settle", lambda: next(settled), 0.5)
        self.close = self._method("close", lambda: next(settled))
        self.clock, self.name, self.tell = clock, name, tell

    def _method(self, called, answer, seconds=0.0):
        async def remote(*given):
            if called:
                self.tell(called, self.name, *given)
            await self.clock.sleep(max(seconds, given[1] if called == "settle" else 0.0))
            found = answer() if callable(answer) else answer
            if isinstance(found, Exception):
                raise found
            return dict(found) if isinstance(found, dict) else found

        return SimpleNamespace(remote=remote)


async def test_replicas(capsys, monkeypatch, tmp_path):
    said = Said(capsys, tmp_path)
    clock = Clock(said)
    task = lambda error: RayTaskError("start", "trace", error)  # noqa: E731

    async def in_this_thread(function, *given):
        return function(*given)

    async def read_log(handle, place):
        if handle.name == "replica-0.1":
            raise TimeoutError
        return f"output of {handle.name} at {place.logs}"

    virtual = {"sleep": clock.sleep, "to_thread": in_this_thread, "wait": clock.wait}
    monkeypatch.setattr(replica_pool, "asyncio", SimpleNamespace(**{**vars(asyncio), **virtual}))
    monkeypatch.setattr(start_failures, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(replica_pool.actors, "end_actor", lambda handle: clock.tell("end", handle.name))
    monkeypatch.setattr(replica_pool.actors, "read_log", read_log)
    monkeypatch.setattr(replica_pool, "keep_output", lambda path, text: clock.tell("keep", path, repr(text)))
    monkeypatch.setattr(replica_pool, "SETTLE_SECONDS", 2.0)
    model = SimpleNamespace(name="m")

    async def kept(title, seconds, scripts=(), lost=(), fit=2, writes=(), spent=(0.0, 0.0), **cluster):
        clock.begin()
        said(f"--- {title}")
        errors = iter(writes)

        def create(name, of):
            clock.tell("create", name, of is model)
            return Actor(clock, name, clock.tell, **dict(scripts).get(name, {}))

        def write():
            error = next(errors, None)
            clock.tell("written" if error is None else f"not written: {error}")
            if error is not None:
                raise error

        monkeypatch.setattr(replica_pool.actors, "create_replica", create)
        rooms = iter(fit if isinstance(fit, list) else [])
        last = fit if isinstance(fit, int) else fit[-1]
        monkeypatch.setattr(replica_pool.capacity, "replicas_that_fit", lambda of: next(rooms, last))
        given = {"replicas": 2, "health_seconds": 5.0, "health_timeout": 0.5, **cluster}
        stats = Thing(said, "stats", engines={}, replicas_up=0, replicas_lost=0, replicas_wanted=0)
        stats.replica_up = lambda: setattr(stats, "replicas_up", stats.replicas_up + 1)
        stats.replica_spent = lambda *given: clock.tell("spent", *given)
        progress = SimpleNamespace(at=lambda stage: clock.tell("stage", stage))
        note = lambda name, spending: clock.tell("note", name, spending)  # noqa: E731
        now = SimpleNamespace(total=spent[0], highest=spent[1])
        journal = SimpleNamespace(note=note, write=write, now=now)
        settings = SimpleNamespace(model=model, cluster=ClusterSettings(**given))
        pool = ReplicaPool(settings, stats, progress, journal, tmp_path / "run/logs")
        pool.add_runner("runner", "n0")
        count = lambda: f"{stats.replicas_up} of {stats.replicas_wanted} up, {stats.replicas_lost} lost"  # noqa: E731

        async def look():
            for time, name in [*lost, (seconds, "")]:
                await clock.sleep(time - clock.now)
                clock.tell(
                    count(), {name: (each.batch, each.metered) for name, each in pool.replicas_of("runner").items()}
                )
                pool.lost([name])

        looking, keeping = asyncio.ensure_future(look()), asyncio.ensure_future(pool.keep())
        await clock.during(asyncio.wait([looking, keeping], return_when=asyncio.FIRST_COMPLETED))
        before = len(said.lines)
        looking.cancel()
        keeping.cancel()
        try:
            await clock.during(keeping)
        except (RunFailedError, UserError) as error:
            said(f"{type(error).__name__}: {error}")
        except asyncio.CancelledError:
            said("canceled")
        said.lines[before:] = sorted(said.lines[before:])
        said(count(), stats.engines)

    accounts = [Account(0.0, 0.0, 0.0, 0), Account(1.0, 0.5, 0.25, 3), Account(2.0, 0.0, 0.5, 9, counted_before=0.125)]
    facts = {"batch": 7, "metered": True, "facts": {"cache_blocks": 3}}
    scripts = {"replica-0.0": {"started": facts, "accounts": accounts}, "replica-0.1": {"place": "n1//log"}}
    scripts["replica-1.0"] = {"place": "n1/12/", "health": [None, task(ValueError("no heartbeat\nat all"))]}
    scripts["replica-1.1"] = {"place": "n1/12/", "health": [TimeoutError()], "started": {"batch": 1, "metered": False}}
    scripts["replica-1.2"] = {"health": [RayActorError()]}
    await kept("replicas die", 28, scripts, [(7, "replica-0.0"), (12, "none")], spent=(1.5, 0.25))
    full = OSError("full")
    await kept("a full disk", 9, scripts, writes=[full, full, None, full], replicas=1)
    monkeypatch.setattr(replica_pool, "JOURNAL_TRIES", 3)
    await kept("a disk that stays full", 99, scripts, writes=[full] * 9, replicas=1)

    broken = {f"replica-0.{n}": {"started": task(ValueError(f"CUDA error {n}"))} for n in range(9)}
    other = {f"replica-1.{n}": {"place": "n1/1/"} for n in range(9)}
    await kept("a broken GPU beside a good one", 40, broken | other, fit=2)
    await kept("a broken GPU and room for another replica", 40, broken | other, fit=3)
    await kept("as many as fit", 40, {}, [(7, "replica-0.0")], fit=[1, 1, 2, 0, 3, 1], replicas="fit")
    await kept("a broken GPU where as many as fit are wanted", 40, broken | other, fit=[2, 1], replicas="fit")
    await kept("a cluster whose nodes have gone", 40, fit=0, replicas="fit")
    later = {f"replica-0.{n}": {"started": task(ValueError("odd"))} for n in range(1, 9)}
    await kept("the only GPU breaks", 60, later, [(3, "replica-0.0")], fit=1, replicas=1)
    for name, error in (
        ("an unknown model", ValueError("m is not a valid model identifier")),
        ("wrong settings", EngineSettingsError("seed=x: try again with a number")),
        ("a busy hub", HubBusyError("429 of the hub", retry_after=40.0)),
        ("a taken port", EngineError("Address already in use")),
        ("whatever", EngineError("whatever 7")),
        ("an error without words", EngineError("")),
    ):
        each = {"started": task(error), "place": "n0//"}
        script = {f"replica-0.{n}": each for n in range(99)} | {"replica-1.0": {"place": "n1//"}}
        await kept(name, 50, {**script, **{f"replica-1.{n}": each | {"place": "n1//"} for n in range(99)}})
    said.check("replicas")


CAUSES = (
    *(
        "HTTP 429",
        "4290 blocks",
        "error 500",
        "501",
        "502 ",
        "(503)",
        "504.",
        "505",
        "Too Many  Requests",
        "too many requests",
    ),
    *(
        "rate limit",
        "rate-limited",
        "ratelimit",
        "timed out",
        "timeout",
        "TimeOut of 5 s",
        "time is out",
        "temporarily gone",
    ),
    *(
        "try again",
        "Address already in use",
        "EADDRINUSE",
        "connection reset",
        "connection refused",
        "connection aborted",
    ),
    *("connection lost", "couldn't connect", "name resolution failed", "CUDA out of memory", "free memory on cuda:0"),
    *("available memory on device", "memory on", "insufficient memory", "device or resource busy", "busy device"),
    *("stale file handle", "Stale NFS file handle", "input/output error", "m is not a valid model identifier"),
    *("Repository Not Found", "gated repo", "max_model_len 9 is greater than the derived max_model_len 5"),
    *(
        "no chat template",
        "unrecognized model",
        "unrecognized argument",
        "unrecognized arguments",
        "unrecognized token",
    ),
    *("not supported for now", "not supported", "it does not exist", "CUDA error 7", ""),
)


def test_causes_of_failed_starts(capsys, monkeypatch):
    said, time = Said(capsys), SimpleNamespace(now=0.0)
    monkeypatch.setattr(start_failures, "time", SimpleNamespace(monotonic=lambda: time.now))
    kinds = [(start_failures.PASSING, "passes"), (start_failures.PROVEN, "is the same everywhere")]
    for cause in CAUSES:
        said(repr(cause), *(kind for pattern, kind in kinds if pattern.search(cause)))
    odd, port, settings = (
        (lambda n: EngineError(f"CUDA error {n}")),
        EngineError("port 9: timed out"),
        EngineSettingsError,
    )
    hub, unknown = HubBusyError("429 of the hub", retry_after=40.0), EngineError("m does not exist")
    lasting = [(0, "a", "0", port), (899.9, "a", "0", port), (899.9, "b", "1", port), (900, "a", "0", port)]
    up = (1, "b", "9", None)
    runs = {
        "lasting": [*lasting, (901, "b", "2", odd(1)), (902, "a", "0", None), (1801, "a", "0", port)],
        "alike on two GPUs": [(0, "a", "0", odd(1)), (1, "a", "0", odd(2)), (2, "b", "1", odd(3))],
        "without words": [(0, "a", "0", EngineError("")), (1, "b", "1", EngineError(""))],
        "alike on no GPUs": [(0, "a", "", odd(1)), (1, "a", None, odd(2)), (2, "b", None, odd(3))],
        "passing on two GPUs": [
            (0, "a", "0", port),
            (950, "a", "0", port),
            (950, "b", "1", port),
            (1900, "b", "1", port),
        ],
        "settings": [(0, "a", "0", settings("try again"))],
        "unknown model": [(0, "a", None, unknown)],
        "after a start": [
            up,
            *[(n, "a", "0", odd(n)) for n in (2, 3, 4)],
            (5, "a", "1", unknown),
            (6, "a", "1", settings()),
        ],
        "good in between": [up, *[(2, "a", "0", error) for error in (odd(1), odd(2), None, odd(3), odd(4), odd(5))]],
        "a GPU that two slots had": [up, (2, "a", "0", odd(1)), (3, "c", "0", odd(2)), (4, "a", "0", odd(3))],
        "without GPUs": [up, *[(n, "a", "", odd(n)) for n in range(2, 12)]],
        "a busy hub": [(0, "a", "0", hub), (1, "a", "0", port), (2, "a", "0", hub), *[(3, "a", "0", port)] * 5],
    }
    for title, events in runs.items():
        failures = start_failures.StartFailures()
        said(f"--- {title}")
        for time.now, slot, gpus, error in events:
            place = None if gpus is None else Place("n", "host", tuple(gpus), ())
            verdict = failures.failed(slot, place, error) if error is not None else failures.started(slot, place)
            said(
                f"{time.now:g}: {slot} on {place}, {error}: {verdict}, {failures.counted}, {failures.backoff(slot):g} s"
            )
    said.check("start_causes")


class Hosted(Engine):
    """An engine by a script: what its start raises, and after how many good checks what its health raises."""

    facts = max_num_seqs = None

    def __init__(self, number, tell, error=None, good=0, ill=None, facts=()):
        self.number, self.tell, self.error, self.good, self.ill = number, tell, error, good, ill
        self.facts, self.max_num_seqs = dict(facts), 5 + number

    async def start(self):
        self.tell("start", self.number)
        if self.error is not None:
            raise self.error

    async def check_health(self):
        self.tell("check", self.number)
        self.good -= 1
        if self.good < 0 and self.ill == "hangs":
            await asyncio.Event().wait()
        if self.good < 0 and self.ill is not None:
            raise self.ill

    async def complete(self, request):
        if isinstance(request, Exception):
            raise request
        return request

    async def close(self):
        self.tell("close", self.number)
        raise OSError("it is dead")


async def test_the_engine_of_this_process(capsys, monkeypatch, tmp_path):
    said = Said(capsys, tmp_path)
    clock = Clock(said)

    class Output:
        @contextlib.contextmanager
        def taken(self):
            clock.tell("its output is taken")
            yield

        def end(self):
            return f"the end of the output, after {clock.now:g} s"

    monkeypatch.setattr(inline, "_Output", Output)
    monkeypatch.setattr(inline, "keep_output", lambda path, text: clock.tell("keep", path, repr(text)))
    monkeypatch.setattr(inline, "asyncio", SimpleNamespace(sleep=clock.sleep))
    monkeypatch.setattr(hosted_pool, "within", clock.within)
    monkeypatch.setattr(start_failures, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(inline.stop_signals, "received", [])

    async def kept(title, *engines, lost=(), signal=None):
        clock.begin()
        said(f"--- {title}")
        made = (Hosted(number, clock.tell, **each) for number, each in enumerate(engines))
        model = SimpleNamespace(name="m", make_engine=lambda: next(made))
        stats = Thing(said, "stats", engines={}, replicas_up=0, replicas_lost=0, replicas_wanted=0)
        stats.replica_up = lambda: setattr(stats, "replicas_up", stats.replicas_up + 1)
        progress = SimpleNamespace(at=lambda stage: clock.tell("stage", stage))
        settings = SimpleNamespace(model=model, cluster=ClusterSettings(health_seconds=5.0, health_timeout=2.0))
        pool = inline._InlinePool(settings, stats, progress, None, tmp_path / "run/logs")
        pool.add_runner("runner", "driver")
        count = lambda: f"{stats.replicas_up} of {stats.replicas_wanted} up, {stats.replicas_lost} lost"  # noqa: E731

        async def look():
            for time, name in lost:
                await clock.sleep(time - clock.now)
                clock.tell(
                    count(), [(each.name, each.batch, each.metered) for each in pool.replicas_of("runner").values()]
                )
                pool.lost([name])
            if signal is not None:
                await clock.sleep(signal)
                inline.stop_signals.received.append(15)

        looking = asyncio.ensure_future(look())
        try:
            await clock.during(pool.keep())
        except (RunFailedError, inline.stop_signals.StoppedError) as error:
            clock.tell(f"{type(error).__name__}: {error}")
        looking.cancel()
        inline.stop_signals.received.clear()
        said(count(), stats.engines)

    ill, busy = {"ill": EngineError("no heartbeat")}, {"error": HubBusyError("429 of the hub", retry_after=7.0)}
    engines = {"good": 2, "facts": {"cache_blocks": 3}, **ill}, {"ill": "hangs"}, {"good": 9, "facts": {"x": 1}}
    await kept("three deaths", *engines, lost=[(7, "none"), (30, "m-1"), (40, "m-3")])
    await kept("it cannot start", {"error": EngineError("no weights")}, {})
    await kept("it refuses its settings", {"error": ValueError("seed=x")}, {})
    await kept("it cannot start again", ill, {"error": EngineError("no weights")}, {"error": EngineError("no")}, {})
    await kept("a hub is busy between deaths", busy, busy, ill, busy, ill, ill)
    monkeypatch.setattr(start_failures, "PASSING_SECONDS", 20.0)
    await kept("a hub stays busy", *[busy] * 9)
    await kept("it dies after a signal", {"good": 1, **ill}, {}, signal=3.0)
    for answer in (Reply("a reply"), PromptTooLong("by 3"), EngineError("once"), ValueError("odd")):
        try:
            said((await CheckedEngine(Hosted(0, None)).complete(answer)).text)
        except Exception as error:
            said(f"{type(error).__name__}: {error}")
    said.check("hosted")


def test_inline_runs(capsys, monkeypatch):
    said = Said(capsys)

    class Progress:
        at = staticmethod(said.calls("stage"))

        def __enter__(self):
            said("progress begins")

        def __exit__(self, *error):
            said("progress ends")

    @contextlib.contextmanager
    def guard_of(kind):
        said("guard of", kind)
        yield
        said("guard ends")

    monkeypatch.setattr(inline, "guard_of", guard_of)
    monkeypatch.setattr(inline, "note_session", said.calls("note_session"))
    settings = SimpleNamespace(model=SimpleNamespace(engine_class="the engine's class"), name="settings")
    for signals, error in (((), None), ((15,), None), ((), RunFailedError("it died"))):

        async def run(signals=signals, error=error):
            said("plays")
            inline.stop_signals.received.extend(signals)
            if error is not None:
                raise error

        monkeypatch.setattr(
            inline, "Driver", lambda *given, run=run: said("driver", *given[1:]) or SimpleNamespace(run=run)
        )
        progress = Progress()
        try:
            given = ("todo", "directory", "stats", progress, "watcher")
            said(inline.play_inline(settings, *given))
        except RunFailedError as failed:
            said(failed)
    for model, cluster in (
        *(({}, {}), ({"replica": ReplicaNeeds(nodes=2)}, {}), ({"metered": True}, {}), ({}, {"address": "auto"})),
        *(({}, {"replicas": 2}), ({}, {"replicas": "fit"}), ({}, {"runners": 1}), ({}, {"runners": 2})),
    ):
        made = SimpleNamespace(**{"name": "m", "replica": ReplicaNeeds(), "metered": False, **model})
        asked = SimpleNamespace(model=made, cluster=ClusterSettings(**cluster))
        said.tried((model, cluster), inline.check_inline, asked)
    said.check("inline_runs")
