"""An engine of two workers, on the CPU: whichever process is killed, all of them end and no shared memory stays."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from cluster.engines.base import Request
from cluster.engines.replica import Replica
from tests.cluster.conftest import ROOT
from tests.cluster.test_vllm_engine import ask, make_engine

pytestmark = [pytest.mark.vllm, pytest.mark.slow]


def shared_memory_of(process: psutil.Process) -> set[Path]:
    """Files below /dev/shm that a process has mapped."""
    lines = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
    return {Path(line[line.index("/dev/shm/") :]) for line in lines if "/dev/shm/" in line and "(deleted)" not in line}


@pytest.mark.parametrize("victim", ["Worker_TP1", "the host"])
def test_whichever_process_is_killed_all_end_and_their_shared_memory_goes(victim):
    environment = {**os.environ, "VLLM_CPU_OMP_THREADS_BIND": "0|1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.cluster.test_tensor_parallel"]
    host = psutil.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert host.stdout.readline().strip() == "answers"
    engine = host.children(recursive=True)
    shared = set().union(*map(shared_memory_of, [host, *engine]))
    assert {"EngineCore", "Worker_TP0", "Worker_TP1"} <= {each.name().rpartition("::")[2] for each in engine}
    assert any("psm_" in file.name for file in shared), "vLLM passes steps to its workers through shared memory"
    killed = host if victim == "the host" else next(each for each in engine if victim in each.name())
    killed.send_signal(signal.SIGKILL)
    try:
        assert host.wait(60) == -signal.SIGKILL, "the replica ends itself, to be replaced"
        _, left = psutil.wait_procs(engine, 30)
        assert not left
        for _ in range(100):
            if not any(file.exists() for file in shared):
                return
            time.sleep(0.1)
        assert not [file for file in shared if file.exists()]
    finally:
        for process in [host, *engine]:
            if process.is_running():
                process.kill()


async def answer_for_ever() -> None:
    """As a replica's process does; a dead engine ends it."""
    replica = Replica("replica", lambda: make_engine(tensor_parallel_size=2))
    await replica.start()
    print("answers", flush=True)
    for number in range(10_000):
        await replica.complete(Request(f"request {number}", ask("Go on."), options=("x" * 300,)))


async def wait_for_the_end() -> None:
    try:
        await answer_for_ever()
    finally:
        await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(wait_for_the_end())
