"""The process beside an engine's host: what it ends and removes when the host is killed, and what it leaves alone."""

import secrets
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest

from cluster.engines import guard

MAPS = """
import mmap, subprocess, sys, time
kept = []
for name in sys.argv[1:]:
    with open(f"/dev/shm/{name}", "r+b") as file:
        kept.append(mmap.mmap(file.fileno(), 4096))
subprocess.Popen(["sleep", "600"])
print("ready", flush=True)
time.sleep(600)
"""


def mapping(*names):
    """A process with a child that has files of /dev/shm mapped."""
    process = psutil.Popen([sys.executable, "-c", MAPS, *names], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process, *process.children()


@pytest.mark.slow
def test_of_a_killed_host_all_processes_end_and_only_memory_that_nobody_else_maps_goes(monkeypatch):
    own, shared = (f"raycade-{secrets.token_hex(8)}" for _ in range(2))
    for name in (own, shared):
        (guard.SHARED / name).write_bytes(bytes(4096))
    host, child = mapping(own, shared)
    neighbor, its = mapping(shared)

    def killed(*_):
        """Once it has been looked at, the host dies."""
        host.kill()
        host.wait()
        return [], [], []

    monkeypatch.setattr(guard, "select", SimpleNamespace(select=killed))
    try:
        guard.watch(psutil.Process(host.pid), "no process has this mark")
        assert not child.is_running() and neighbor.is_running() and its.is_running()
        assert [(guard.SHARED / name).exists() for name in (own, shared)] == [False, True]
    finally:
        for process in (host, child, its, neighbor):
            if process.is_running():
                process.kill()
        neighbor.wait()
        for name in (own, shared):
            (guard.SHARED / name).unlink(missing_ok=True)
