"""What a replica's process does when its engine is unresponsive."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import ClassVar

import psutil
import pytest

from cluster.engines import replica as module
from cluster.engines.base import Account, Engine, EngineDiedError, EngineError, EngineSettingsError, Request
from cluster.engines.replica import Replica
from evals.types import PromptTooLong, Reply
from tests.cluster.conftest import ROOT

STANDING_STILL = """
import asyncio, os, signal, subprocess, sys
from cluster.engines.base import Engine
from cluster.engines.replica import Replica

class Hanging(Engine):
    async def complete(self, request):
        raise NotImplementedError

    async def start(self):
        core = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        os.kill(core.pid, signal.SIGSTOP)  # as an engine's process that hangs in the driver of its device
        print(core.pid, flush=True)

    async def check_health(self):
        await asyncio.Event().wait()

async def main():
    replica = Replica("r", Hanging)
    await replica.start()
    if "killed" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        await replica.check_health(0.1)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["unresponsive", "killed"])
def test_when_an_engine_is_unresponsive_or_its_host_is_killed_all_child_processes_end(how):
    command = [sys.executable, "-c", STANDING_STILL, how]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    out, _ = process.communicate(timeout=60)
    core, *said = out.splitlines()
    assert said == ([] if how == "killed" else ["EngineDiedError unresponsive for 0.1 s"])
    assert process.returncode == -9
    end = time.monotonic() + 10
    while psutil.pid_exists(int(core)) and psutil.Process(int(core)).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end, "its child is left"
        time.sleep(0.05)


class Broken(Engine):
    """Raises what no engine should."""

    async def complete(self, request):
        raise {"bug": ZeroDivisionError("a bug"), "prompt": PromptTooLong("9 tokens")}[request.id]


async def test_whatever_an_engine_raises_is_the_engine_s_failure_except_what_it_says_of_the_request():
    replica = Replica("r", Broken)
    await replica.start()
    with pytest.raises(EngineError, match="ZeroDivisionError: a bug"):
        await replica.complete(Request("bug", ()))
    with pytest.raises(PromptTooLong):
        await replica.complete(Request("prompt", ()))
    await replica.close()


class Paid(Broken):
    metered = True
    told = ()

    def add_spent_elsewhere(self, total, highest):
        Paid.told = total, highest

    async def settle(self, covered, seconds):
        return Account(2.5, 0.5, 0.25, covered)


async def test_a_replica_passes_on_what_was_spent_both_ways():
    replica = Replica("r", Paid)
    assert await replica.start(7.0, 0.5) == {"batch": 1, "metered": True, "facts": {}}
    assert Paid.told == (7.0, 0.5)
    assert await replica.settle(3, 0.0) == Account(2.5, 0.5, 0.25, 3)
    assert (await replica.close()).spent == 2.5


async def test_an_engine_is_started_within_its_guard_closed_before_it_and_accounted_for_last(monkeypatch, caplog):
    told = []

    @contextlib.contextmanager
    def guarded(engine_class):
        told.append(f"guard of {engine_class.__name__}")
        yield
        told.append("guard ends")

    class Told(Paid):
        facts: ClassVar = {"a": 1}
        max_num_seqs = 7

        def keep_in(self, run_dir):
            told.append(f"keeps in {run_dir}")

        async def start(self):
            told.append("starts")

        async def settle(self, covered, seconds):
            told.append(("settles", covered, seconds))
            return Account(2.5, 0.5, 0.25, covered)

        async def close(self):
            told.append("closes")

    monkeypatch.setattr(module, "guard_of", guarded)
    for metered in (True, False):
        monkeypatch.setattr(Told, "metered", metered)
        replica = Replica("r", Told)
        assert await replica.start(run_dir="a run") == {"batch": 7, "metered": metered, "facts": {"a": 1}}
        with pytest.raises(EngineError):
            await replica.complete(Request("bug", ()))
        assert caplog.messages.pop() == "replica r: the engine raised"
        assert (await replica.close() is None) != metered
        account = [("settles", 0, 0.0)] if metered else []
        assert told == ["guard of Told", "keeps in a run", "starts", "closes", "guard ends", *account]
        told.clear()


async def test_an_engine_that_is_dead_or_does_not_answer_ends_its_process_and_one_that_fails_does_not(
    monkeypatch, caplog
):
    ends = []
    monkeypatch.setattr(Replica, "_exit", lambda self: ends.append(self.name))

    class Ill(Broken):
        starts_processes = False
        said = None

        async def check_health(self):
            if self.said == "hangs":
                await asyncio.sleep(60)
            if self.said is not None:
                raise self.said

        async def complete(self, request):
            raise self.said

    replica = Replica("r", Ill)
    await replica.start()
    for said, raised, ended in (
        (None, None, False),
        (EngineError("no heartbeat"), EngineError, False),
        (EngineDiedError("gone"), EngineDiedError, True),
        ("hangs", EngineDiedError, True),
    ):
        ends.clear()
        Ill.said = said
        with pytest.raises(raised) if raised else contextlib.nullcontext() as found:
            await replica.check_health(0.01)
        assert ends == ["r"] * ended and (not raised or type(found.value) is raised)
    for said, ended in ((EngineDiedError("gone"), True), (EngineError("once"), False), (PromptTooLong("9"), False)):
        ends.clear()
        Ill.said = said
        with pytest.raises(type(said)):
            await replica.complete(Request("x", ()))
        assert ends == ["r"] * ended
    assert caplog.messages == ["replica r: the engine died"]
    await replica.close()
    assert await Replica("never started", Ill).close() is None


async def test_requests_of_a_group_are_answered_in_their_order_each_by_its_reply_or_its_error():
    class Slow(Broken):
        starts_processes = False

        async def complete(self, request):
            if request.id == "cancels its own":
                raise asyncio.CancelledError
            if request.id == "canceled":
                asyncio.current_task().cancel()
            await asyncio.sleep(0.01 if request.id == "late" else 0)
            return Reply(request.id) if request.id != "bug" else await super().complete(request)

    replica = Replica("r", Slow)
    await replica.start()
    group = [Request(name, ()) for name in ("late", "bug", "cancels its own", "soon")]
    late, wrong, own, soon = await replica.complete_group(group)
    assert (late, soon) == (Reply("late"), Reply("soon")) and "a bug" in str(wrong)
    assert isinstance(own, EngineError) and "CancelledError" in str(own)
    with pytest.raises(asyncio.CancelledError):
        await replica.complete_group([*group, Request("canceled", ())])


async def test_the_end_comes_after_the_error_was_sent_and_takes_descendants_along_but_no_trackers(monkeypatch):
    killed = []

    class Child:
        def __init__(self, name):
            self.name = name

        def kill(self):
            killed.append(self.name)
            raise psutil.NoSuchProcess(1)

    host = SimpleNamespace(
        children=lambda recursive=False: [Child(name) for name in ("core", "wandb", "worker")[: 3 if recursive else 1]]
    )
    monkeypatch.setattr(module, "psutil", SimpleNamespace(Process=lambda: host, NoSuchProcess=psutil.NoSuchProcess))
    monkeypatch.setattr(module, "is_engine", lambda child: child.name != "wandb")
    monkeypatch.setattr(module.os, "kill", lambda process, signal: killed.append((process, signal)))
    Replica("r", Broken)._exit()
    await asyncio.sleep(0.1)
    assert killed == []
    await asyncio.sleep(0.15)
    assert killed == ["core", "worker", (os.getpid(), signal.SIGKILL)]


async def test_settings_that_an_engine_refuses_are_told_from_a_failed_start_and_it_is_given_its_folder(tmp_path):
    def refused():
        raise ValueError("seed=x")

    with pytest.raises(EngineSettingsError, match="seed=x"):
        await Replica("r", refused).start()
    kept = []

    class Keeps(Broken):
        starts_processes = False
        max_num_seqs = 3
        facts: ClassVar = {"blocks": 5}

        def keep_in(self, directory):
            kept.append(directory)

        async def start(self):
            kept.append("start")

    assert await Replica("r", Keeps).start(run_dir=tmp_path) == {"batch": 3, "metered": False, "facts": {"blocks": 5}}
    assert kept == [tmp_path, "start"]
