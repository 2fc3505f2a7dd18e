"""``cluster=inline``: one engine in the driver's process, with the cluster's ledger, exit codes and resuming."""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import ray

from cluster import stop_signals
from cluster.checkpoints.hosted import HostedEngine
from cluster.config.settings import ClusterSettings
from cluster.driver.start_failures import StartFailures
from cluster.engines.base import Engine, EngineError, HubBusyError, Sampling
from cluster.errors import RunFailedError
from cluster.hosted import inline
from cluster.hosted.inline import _InlinePool
from cluster.observe.progress import Progress
from cluster.observe.run_statistics import RunStatistics
from cluster.storage.stored_run import Run
from evals.types import PlayerError
from tests.cluster.conftest import EASY, ROOT
from tests.cluster.test_checkpoints import write_checkpoint
from tests.cluster.test_cli import run_here

ENGINE = '''
import os, time
from pathlib import Path
from cluster.engines.base import Capabilities, Engine, EngineDiedError, EngineError, HubBusyError
from evals.types import Reply

class First(Engine):
    """Chooses the first option; a file in its folder says how many times it dies, or what happens when it starts."""

    def __init__(self, sampling, folder: str = ""):
        self.folder = Path(folder)
        self.asked = 0

    @classmethod
    def capabilities(cls, settings):
        return Capabilities(options=True)

    @property
    def facts(self):
        return {"cache_blocks": 7, "step_tokens": 64, "attention_backend": "NONE"}

    async def start(self):
        (self.folder / "starts").open("a").write("x")
        os.write(2, b"noise of a library\\n" * 300)
        busy = self.folder / "busy"
        if busy.exists() and int(busy.read_text()):
            busy.write_text(str(int(busy.read_text()) - 1))
            raise HubBusyError("the hub is busy (429)")
        if (self.folder / "broken").exists():
            raise EngineError("no weights here")
        if (self.folder / "slow").exists():
            time.sleep(600)

    async def complete(self, request):
        self.asked += 1
        deaths = self.folder / "deaths"
        if deaths.exists() and self.asked > 3 and int(deaths.read_text()):
            deaths.write_text(str(int(deaths.read_text()) - 1))
            raise EngineDiedError("gone")
        stop = self.folder / "stop"
        if stop.exists() and self.asked == 5:
            dies = stop.read_text() == "die"
            stop.unlink()
            os.kill(os.getpid(), 15)
            if dies:
                raise EngineDiedError("ended by the same signal")
        return Reply(request.options[0], prompt_tokens=1, completion_tokens=1, preemptions=1)
'''


@pytest.fixture
def command(tmp_path, plugins_in):
    """The words of a run inline; the engine reads its folder ``tmp_path``."""
    (tmp_path / "plugins.toml").write_text('["raycade.engines"]\nfirst = "first_engine:First"\n')
    (tmp_path / "first_engine.py").write_text(ENGINE)
    (tmp_path / "first.yaml").write_text("")
    plugins_in(tmp_path)
    model = ["model=tiny", "~model.engine", f"+model.engine={{type:first,folder:{tmp_path}}}", "decoding=choice"]
    return ["run", *EASY, "suite.tasks_per_domain=4", "cluster=inline", *model, f"run_dir={tmp_path / 'run'}"]


class Scripted(Engine):
    """Starts or fails as scripted; is healthy until ``ill`` is set."""

    starts_processes = False
    max_num_seqs = 7
    facts: ClassVar = {"cache_blocks": 3}

    def __init__(self, error=None):
        self.error, self.ill, self.closed = error, None, 0

    async def start(self):
        if self.error is not None:
            raise self.error

    async def check_health(self):
        if self.ill is not None:
            raise self.ill

    async def complete(self, request):
        raise self.ill or PlayerError("too long")

    async def close(self):
        self.closed += 1


def inline_pool(folder, *engines):
    """A pool of these engines, one after the other."""
    left = iter(engines)
    model = SimpleNamespace(name="m", make_engine=lambda: next(left))
    cluster = ClusterSettings(health_seconds=0.001, health_timeout=0.05)
    stats = RunStatistics()
    made = _InlinePool(SimpleNamespace(model=model, cluster=cluster), stats, Progress(stats), None, folder / "logs")
    made.add_runner("far", "another machine")
    made.add_runner("r", "driver")
    return made


async def ended(made, engines):
    """Let each engine die once it is assigned; returns the error that ends the pool, and the names of its replicas."""
    keep, names = asyncio.create_task(made.keep()), []
    async with asyncio.timeout(5):
        for engine in engines:
            while not keep.done() and not {*made.replicas_of("r")} - {*names}:
                await asyncio.sleep(0)
            for name, replica in made.replicas_of("r").items():
                names.append(name)
                assert (replica.batch, replica.metered, made.stats.replicas_up) == (7, False, 1)
                assert made.stats.playing_since is not None
                with pytest.raises(PlayerError):
                    await replica.port.complete(None)
                engine.ill = EngineError("no heartbeat")
                with pytest.raises(EngineError):
                    await replica.port.complete(None)
        with pytest.raises(RunFailedError) as raised:
            await keep
    assert made.stats.replicas_up == 0 and not made.replicas_of("r") and not made._lost
    return str(raised.value), names


async def test_the_engine_of_this_process_is_replaced_twice_each_under_a_name_of_its_own(tmp_path, capsys):
    engines = [Scripted() for _ in range(4)]
    made = inline_pool(tmp_path, *engines)
    error, names = await ended(made, engines[:3])
    assert names == ["m-1", "m-2", "m-3"] and [each.closed for each in engines] == [1, 1, 1, 0]
    log = tmp_path / "logs" / "replica-0.2.log"
    assert error == f"the engine died or is unresponsive: no heartbeat; the end of the engine's output: {log}"
    assert log.read_text().startswith("replica-0.2 in the driver's process: the engine died or is unresponsive")
    assert (made.stats.replicas_wanted, made.stats.replicas_lost, made.stats.engines) == (
        1,
        2,
        {"m": {"cache_blocks": 3}},
    )
    assert capsys.readouterr().err.count("starting another engine") == 2


async def test_the_engine_of_this_process_is_tried_once_and_again_while_a_hub_is_busy(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("cluster.driver.start_failures.LONGEST_PASSING_BACKOFF", 0.0)
    for first in (EngineError("no weights"), ValueError("no weights")):
        error, names = await ended(inline_pool(tmp_path, Scripted(first), Scripted()), [])
        assert error.startswith("model=m: the engine cannot start: ") and "no weights" in error and names == []
    busy = [Scripted(HubBusyError("429")) for _ in range(5)]
    last = Scripted(HubBusyError("429"))
    with monkeypatch.context() as patch:
        patch.setattr(StartFailures, "failed", lambda self, slot, place, reason: self.counted.update({slot: 1}))
        assert "429" in (await ended(inline_pool(tmp_path, last), []))[0], "it has been busy for too long"
    engines = [Scripted() for _ in range(3)]
    _, names = await ended(inline_pool(tmp_path, *busy, *engines), engines)
    assert len(names) == 3 and capsys.readouterr().err.count("trying again in 0 s") == 5


async def test_an_engine_that_a_runner_reports_dead_or_that_does_not_answer_is_dead(tmp_path):
    async def hangs():
        await asyncio.sleep(60)

    for said, by_runner in (("the engine died", True), ("the engine died or is unresponsive: ", False)):
        engine = Scripted()
        made = inline_pool(tmp_path, engine)
        made._deaths = 2
        keep = asyncio.create_task(made.keep())
        async with asyncio.timeout(5):
            while not made.replicas_of("r"):
                await asyncio.sleep(0)
            if by_runner:
                made.lost(["m-0"])
                await asyncio.sleep(0.01)
                assert not keep.done(), "another engine"
                made.lost(["m-1"])
            else:
                engine.check_health = hangs
            with pytest.raises(RunFailedError, match=f"^{said};"):
                await keep


def test_what_an_engine_prints_while_it_starts_is_kept_and_not_shown(tmp_path, monkeypatch):
    usual = {stream: os.dup(stream) for stream in (1, 2)}
    with (tmp_path / "shown").open("wb") as shown, open(1, "w", closefd=False) as out:
        try:
            for stream in usual:
                os.dup2(shown.fileno(), stream)
            monkeypatch.setattr(sys, "stdout", out)
            kept, files = inline._Output(), len([*Path("/proc/self/fd").iterdir()])
            for _ in range(2):
                print("before")
                with kept.taken():
                    print("within")
                    os.write(2, b"of the engine\n")
                    os.write(stop_signals._errors, b"of a signal\n")
                print("after")
            out.flush()
            assert len([*Path("/proc/self/fd").iterdir()]) == files
        finally:
            for stream, file in usual.items():
                os.dup2(file, stream)
                os.close(file)
    assert (tmp_path / "shown").read_text() == "before\nof a signal\nafter\n" * 2
    assert kept.end() == "within\nwithin\n\nof the engine\nof the engine\n"


def test_an_engine_takes_the_weights_of_checkpoints_that_differ_in_nothing_else(tmp_path, capsys):
    log, takes = [], [True, True]

    class Takes(Scripted):
        def __init__(self, number):
            super().__init__()
            self.number = number

        async def load_weights(self, model):
            log.append(f"{self.number} load {Path(model).name}")
            if isinstance(answer := takes.pop(0), Exception):
                raise answer
            return answer

        async def start(self):
            log.append(f"{self.number} start")

        async def close(self):
            log.append(f"{self.number} close")

    numbers = itertools.count()
    for name, config in (("a", {}), ("b", {}), ("c", {"hidden": 3})):
        write_checkpoint(tmp_path / name, ord(name), **config)
    host = HostedEngine()

    def ready(name, sampling=None, **settings):
        log.clear()
        engine = {"model": str(tmp_path / name), **settings}
        made = SimpleNamespace(engine=engine, sampling=sampling or Sampling(), make_engine=lambda: Takes(next(numbers)))
        assert host._loop.run(host.ready(made)).engine.number == int(log[-1][0])
        return log

    assert ready("a") == ["0 start"]
    assert ready("b") == ["0 load b"] and ready("a") == ["0 load a"]
    assert ready("c") == ["0 close", "1 start"]
    assert ready("c", Sampling(max_tokens=3)) == ["1 close", "2 start"]
    assert ready("c", Sampling(max_tokens=3), seed=1) == ["2 close", "3 start"]
    takes += [False, OSError("cut short")]
    for number in (3, 4):
        assert ready("c", Sampling(max_tokens=3), seed=1) == [
            f"{number} load c",
            f"{number} close",
            f"{number + 1} start",
        ]
    said = " ".join(capsys.readouterr().err.split())
    assert "cannot take the weights of c; starting another one: " in said and said.endswith("OSError: cut short")
    assert host.started == 6
    log.clear()
    host._loop.run(host._end())
    assert log == ["5 close"] and ready("c", Sampling(max_tokens=3), seed=1) == ["6 start"], (
        "a closed one is not used again"
    )
    log.clear()
    host.close()
    assert log == ["6 close"]


def starts(folder):
    return len((folder / "starts").read_text())


def played(folder):
    run = Run(folder / "run")
    rows = run.ledger.table(["episode_id", "status"])
    assert sorted(rows["episode_id"].to_pylist()) == sorted(run.planned["episode_id"].to_pylist())
    return set(rows["status"].to_pylist())


@pytest.mark.slow
def test_a_run_is_played_to_its_end_without_ray_and_resumes_as_any_other(command, tmp_path, capfd):
    code, out, err = run_here(capfd, *command)
    assert (code, played(tmp_path), starts(tmp_path)) == (0, {"done"}, 1)
    assert "noise of a library" not in out + err
    assert not ray.is_initialized()
    engine = {"cache_blocks": 7, "step_tokens": 64, "attention_backend": "NONE"}
    assert Run(tmp_path / "run").sessions[0]["engines"] == {"tiny": engine}
    code, _, err = run_here(capfd, *[word.replace("cluster=inline", "cluster=local") for word in command])
    assert code == 0
    assert "nothing to play" in err
    assert starts(tmp_path) == 1


@pytest.mark.slow
def test_an_engine_that_dies_is_replaced_and_no_episode_is_lost_or_doubled(command, tmp_path, capsys):
    (tmp_path / "deaths").write_text("2")
    code, _, err = run_here(capsys, *command)
    assert (code, played(tmp_path), starts(tmp_path)) == (0, {"done"}, 3)
    assert err.count("starting another engine") == 2
    (timings,) = Run(tmp_path / "run").timings
    assert timings["replicas_lost"] == 2 and timings["preemptions"] == timings["turns"] > 0
    assert "model.engine.max_num_seqs lower" in err, "every request was put back"


@pytest.mark.slow
def test_the_third_death_ends_the_run_which_can_be_resumed(command, tmp_path, capsys):
    (tmp_path / "deaths").write_text("3")
    code, _, err = run_here(capsys, *command)
    assert (code, starts(tmp_path)) == (1, 3)
    assert "the engine died" in err
    assert run_here(capsys, *command)[0] == 0
    assert played(tmp_path) == {"done"}


def test_an_engine_that_cannot_start_ends_the_run_with_its_reason(command, tmp_path, capsys):
    (tmp_path / "broken").touch()
    code, _, err = run_here(capsys, *command)
    assert (code, starts(tmp_path)) == (1, 1)
    assert "the engine cannot start: no weights here" in err
    assert f"the end of the engine's output: {tmp_path / 'run' / 'logs' / 'replica-0.0.log'}" in " ".join(err.split())
    kept = (tmp_path / "run" / "logs" / "replica-0.0.log").read_text()
    assert "no weights here" in kept and kept.count("noise of a library") == 200


@pytest.mark.slow
def test_a_busy_hub_is_waited_for(command, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("cluster.driver.start_failures.LONGEST_PASSING_BACKOFF", 0.1)
    (tmp_path / "busy").write_text("4")
    code, _, err = run_here(capsys, *command)
    assert (code, played(tmp_path), starts(tmp_path)) == (0, {"done"}, 5)
    assert err.count("the hub is busy (429)") == 4 == len(list((tmp_path / "run" / "logs").iterdir()))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["lives", "die"])
def test_a_stop_signal_while_it_plays_ends_it_with_75_and_the_same_command_goes_on(engine, command, tmp_path, capsys):
    (tmp_path / "stop").write_text(engine)
    assert run_here(capsys, *command, "cluster.grace_seconds=0.2")[0] == 75
    assert run_here(capsys, *command)[0] == 0
    assert played(tmp_path) == {"done"}


@pytest.mark.slow
def test_a_stop_signal_while_the_engine_loads_ends_it_at_once(command, tmp_path):
    (tmp_path / "slow").touch()
    words = [sys.executable, "-m", "cluster", *command]
    process = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    while not (tmp_path / "starts").exists():
        time.sleep(0.05)
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 75
    process.communicate()


def test_a_model_that_is_paid_by_the_token_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    model = ["model=openai", "model.engine.model=m", "model.engine.base_url=http://127.0.0.1:9/v1"]
    code, _, err = run_here(capsys, "run", *EASY, *model, "cluster=inline", f"run_dir={tmp_path / 'run'}")
    assert code == 2
    assert "need cluster=local" in err
