"""What a replica's process does when its engine stands still."""

import subprocess
import sys
import time

import psutil

from tests.cluster.conftest import ROOT

STANDING_STILL = """
import asyncio, os, signal, subprocess, sys
from cluster.engines.replica import Replica

class Engine:
    max_num_seqs, metered = 4, False

    async def start(self):
        core = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        os.kill(core.pid, signal.SIGSTOP)  # as an engine's process that hangs in the driver of its device
        print(core.pid, flush=True)

    async def check_health(self):
        await asyncio.Event().wait()

async def main():
    replica = Replica("r", Engine)
    await replica.start()
    try:
        await replica.check_health(0.1)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


def test_an_engine_that_stands_still_takes_its_process_and_all_below_it_with_it():
    process = subprocess.Popen([sys.executable, "-c", STANDING_STILL], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    out, _ = process.communicate(timeout=60)
    core, said = out.splitlines()
    assert said == "EngineDiedError unresponsive for 0.1 s"
    assert process.returncode == -9
    end = time.monotonic() + 10
    while psutil.pid_exists(int(core)) and psutil.Process(int(core)).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end, "its child is left"
        time.sleep(0.05)
