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


class Process:
    """A process that lives for so many looks."""

    def __init__(self, name, looks=99, children=(), command=()):
        self.title, self.looks, self.below, self.command, self.killed = name, looks, children, command, 0

    def name(self):
        return self.title

    def cmdline(self):
        return [*self.command]

    def is_running(self):
        self.looks -= 1
        return self.looks >= 0

    def status(self):
        return "running"

    def children(self, recursive):
        assert recursive
        return [*self.below]

    def kill(self):
        self.killed += 1
        raise psutil.NoSuchProcess(1)


@pytest.mark.parametrize("closed", [False, True])
def test_what_a_dead_host_leaves_is_killed_and_nothing_of_one_that_closed_its_engine(closed, monkeypatch, tmp_path):
    words = ("core", "late", "wandb-core", "resource_tracker", guard.__file__)
    engine, late, wandb, tracker, other = (Process("python", command=[f"python {word}"]) for word in words)
    host = Process("host", looks=99 if closed else 3, children=[engine, wandb, tracker, other])
    memory = {"host": {"own", "shared"}, "python": {"engine"}}
    for name in ("early", "later", "own", "shared", "engine", "foreign"):
        (tmp_path / name).touch()
    at_a_look = iter(["early", "later"])  # and no longer at the next one
    marked = iter([[late]] * 3)

    def mapped(processes):
        found = [process.name() for process in processes]
        if "host" in found:
            memory["passing"] = {next(at_a_look, "own")}
            found.append("passing")
        return set().union(*(memory.get(name, {"shared"}) for name in found))

    monkeypatch.setattr(guard, "SHARED", tmp_path)
    monkeypatch.setattr(guard, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(guard, "SHARED_SECONDS", 0.0)
    monkeypatch.setattr(guard, "_marked", lambda mark: next(marked, []) if mark == "m" else [])
    monkeypatch.setattr(guard, "_shared_by", mapped)
    monkeypatch.setattr(guard.psutil, "process_iter", lambda: [Process("neighbor")])
    monkeypatch.setattr(guard.psutil, "wait_procs", lambda processes, seconds: None)
    monkeypatch.setattr(guard, "select", SimpleNamespace(select=lambda *_: ([0] if closed else [], [], [])))
    guard.watch(host, "m")
    assert [each.killed for each in (engine, late)] == [0 if closed else 1] * 2
    assert not any(each.killed for each in (host, wandb, tracker, other))
    assert {path.name for path in tmp_path.iterdir()} == {"shared", "foreign"}, "what a neighbor maps is its own"
    assert not closed or next(marked, None) is None, "it waits until the engine's processes have ended"


class Marked(Process):
    """A process with a mark in its environment."""

    def __init__(self, mark, status="running", **how):
        super().__init__("python", **how)
        self.mark, self.said = mark, status

    def environ(self):
        if isinstance(self.mark, Exception):
            raise self.mark
        return {guard.MARK: self.mark} if self.mark else {}

    def status(self):
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


def test_marked_processes_are_those_that_live_and_no_trackers(monkeypatch):
    gone = psutil.NoSuchProcess(1)
    found = [Marked("m"), Marked("m", "sleeping")]
    others = [Marked("other"), Marked(None), Marked(gone), Marked("m", gone), Marked("m", psutil.STATUS_ZOMBIE)]
    others += [Marked("m", looks=0), Marked("m", command=["wandb-core"])]
    monkeypatch.setattr(guard.psutil, "process_iter", lambda: [*others[:4], *found, *others[4:]])
    assert list(guard._marked("m")) == found


def test_shared_memory_is_read_from_the_maps_of_processes(monkeypatch, tmp_path):
    lines = "7f00-7f01 rw-s 0 00:1a 2 {0}/psm_1\n7f00 r-xp /lib/x.so\n7f01 rw-s {0}/a/b\n7f02 rw-s {0}/old (deleted)\n"
    (tmp_path / "1").write_text(lines.format(guard.SHARED))
    (tmp_path / "2").write_bytes(f"\xff 0 {guard.SHARED}/sem.2\n".encode("latin-1"))
    monkeypatch.setattr(guard, "Path", lambda name: tmp_path / name.split("/")[2])
    assert guard._shared_by([SimpleNamespace(pid=pid) for pid in (1, 3, 2)]) == {"psm_1", "sem.2"}


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
