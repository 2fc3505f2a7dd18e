"""One writer to a run directory: a lock where the file system has them, a lease where it only says so."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from cluster.errors import UserError
from cluster.storage import lock as module
from cluster.storage.lock import STALE_SECONDS, LeaseLostError, RunLock, writer_of
from cluster.storage.run_directory import RunDirectory
from tests.cluster.conftest import ROOT

HOLDER = """
import fcntl, sys, time
from pathlib import Path
from cluster.storage.lock import RunLock
if "--no-locks" in sys.argv:
    fcntl.flock = lambda *_: None  # as on a network file system that holds locks within each host only
RunLock(Path(sys.argv[1])).acquire()
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def without_flock(monkeypatch):
    """As on a network file system that holds locks within each host only."""
    monkeypatch.setattr("fcntl.flock", lambda *_: None)


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path), "--no-locks"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def lease(folder: Path) -> Path:
    [path] = folder.glob(".lease-*")
    return path


def fake_lease(folder: Path, age: float, **holder) -> Path:
    path = folder / ".lease-000007"
    path.write_text(json.dumps(holder))
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_a_second_process_is_refused_where_locks_do_not_hold(tmp_path, holder, without_flock):
    with pytest.raises(UserError, match=str(holder.pid)):
        RunLock(tmp_path).acquire()


def test_the_lease_of_a_process_that_was_killed_is_free_at_once(tmp_path, holder, without_flock):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    ours = RunLock(tmp_path)
    ours.acquire()
    ours.check()
    assert json.loads(lease(tmp_path).read_text())["pid"] == os.getpid()


def test_a_process_that_has_the_number_of_the_dead_one_does_not_hold_its_lease(tmp_path):
    fake_lease(tmp_path, 0, host=socket.gethostname(), pid=os.getpid(), started=12345.0)
    RunLock(tmp_path).acquire()


def test_a_lease_of_another_host_holds_as_long_as_its_heart_beats(tmp_path):
    fake_lease(tmp_path, STALE_SECONDS - 30, host="elsewhere", pid=1, started=1.0)
    with pytest.raises(UserError, match="elsewhere"):
        RunLock(tmp_path).acquire()


def test_a_lease_of_another_host_without_heartbeat_is_taken_over(tmp_path):
    stale = fake_lease(tmp_path, STALE_SECONDS + 30, host="elsewhere", pid=1, started=1.0)
    RunLock(tmp_path).acquire()
    assert lease(tmp_path).name == ".lease-000008" and not stale.exists()


def test_a_lease_that_is_only_being_written_holds(tmp_path):
    (tmp_path / ".lease-000001").touch()
    with pytest.raises(UserError):
        RunLock(tmp_path).acquire()


def test_of_two_who_take_over_at_once_one_succeeds(tmp_path, monkeypatch, without_flock):
    fake_lease(tmp_path, STALE_SECONDS + 30, host="elsewhere", pid=1, started=1.0)
    seen = module._leases(tmp_path)
    RunLock(tmp_path).acquire()
    real, listings = module._leases, [seen]
    monkeypatch.setattr(module, "_leases", lambda folder: listings.pop() if listings else real(folder))
    with pytest.raises(UserError):
        RunLock(tmp_path).acquire()


def test_a_slow_second_does_not_take_a_number_that_has_come_and_gone(tmp_path, monkeypatch, without_flock):
    fake_lease(tmp_path, STALE_SECONDS + 30, host="elsewhere", pid=1, started=1.0)
    seen = module._leases(tmp_path)
    for _ in range(2):
        ours = RunLock(tmp_path)
        ours.acquire()
        ours.release()
    holder = RunLock(tmp_path)
    holder.acquire()
    real, listings = module._leases, [seen]
    monkeypatch.setattr(module, "_leases", lambda folder: listings.pop() if listings else real(folder))
    with pytest.raises(UserError):
        RunLock(tmp_path).acquire()
    holder.check()


def test_a_released_lease_is_free_at_once_and_leaves_one_small_file(tmp_path):
    for _ in range(3):
        ours = RunLock(tmp_path)
        ours.acquire()
        ours.release()
    assert lease(tmp_path).name == ".lease-000003"


def test_the_heart_beats_until_the_release(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 0.01)
    ours = RunLock(tmp_path)
    ours.acquire()
    os.utime(lease(tmp_path), (1, 1))
    while lease(tmp_path).stat().st_mtime == 1:
        time.sleep(0.01)
    ours.release()
    os.utime(lease(tmp_path), (1, 1))
    time.sleep(0.05)
    assert lease(tmp_path).stat().st_mtime == 1


def test_whoever_was_taken_over_writes_nothing_more(tmp_path):
    directory = RunDirectory(tmp_path / "run")
    directory.claim()
    path = lease(tmp_path / "run")
    path.rename(path.with_name(".lease-000002"))  # as another host takes over
    with pytest.raises(LeaseLostError):
        directory._write(b"")
    directory.release()
    assert "released" not in lease(tmp_path / "run").read_text()
    assert not list(directory.parts.iterdir())


def test_a_lease_of_another_living_process_of_this_host_holds(tmp_path):
    parent = os.getppid()
    fake_lease(tmp_path, 0, host=socket.gethostname(), pid=parent, started=psutil.Process(parent).create_time())
    with pytest.raises(UserError, match=f"process {parent} on {socket.gethostname()}"):
        RunLock(tmp_path).acquire()
    fake_lease(tmp_path, 0, host=socket.gethostname(), pid=parent, started=psutil.Process(parent).create_time() - 1.5)
    RunLock(tmp_path).acquire()


def test_a_refusal_says_how_long_ago_the_holder_gave_a_sign(tmp_path):
    fake_lease(tmp_path, STALE_SECONDS - 30, host="elsewhere", pid=1, started=1.0)
    with pytest.raises(UserError, match=r"heartbeat was 1(4\d|5\d|6\d) s ago"):
        RunLock(tmp_path).acquire()


@pytest.mark.parametrize("text", ["[]", "7", '"x"', "{"])
def test_a_lease_that_says_nothing_sensible_holds_until_it_is_stale(tmp_path, text):
    path = tmp_path / ".lease-000007"
    path.write_text(text)
    with pytest.raises(UserError, match="process unknown on an unknown host"):
        RunLock(tmp_path).acquire()
    os.utime(path, (1, 1))
    RunLock(tmp_path).acquire()


def test_other_files_beside_the_leases_do_not_matter(tmp_path):
    for name in (".lease-", ".lease-000009.bak", ".lease-zz", ".lease-old"):
        (tmp_path / name).touch()
    fake_lease(tmp_path, 0, host="elsewhere", pid=1, started=1.0)
    assert [found.number for found in module._leases(tmp_path)] == [7]


def test_a_lease_that_goes_while_it_is_looked_for_is_no_error(tmp_path, monkeypatch):
    gone = tmp_path / ".lease-000003"
    monkeypatch.setattr(type(tmp_path), "glob", lambda self, what: iter([gone]))
    assert module._leases(tmp_path) == []
    stale = module._Lease(gone, 3, {"released": True}, 0.0)
    listings = [[], [stale]]
    monkeypatch.setattr(module, "_leases", lambda folder: listings.pop())
    assert module._take_lease(tmp_path, 0.0).name == ".lease-000004"


def test_the_lock_file_names_its_holder_and_only_the_last(tmp_path):
    (tmp_path / ".lock").write_text("12345678901234567890\n")
    ours = RunLock(tmp_path)
    ours.acquire()
    assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"
    with pytest.raises(UserError, match=rf"{tmp_path}.*process {os.getpid()}\)"):
        RunLock(tmp_path).acquire()
    (tmp_path / ".lock").write_text("")
    with pytest.raises(UserError, match="process unknown"):
        RunLock(tmp_path).acquire()


def test_a_heartbeat_never_keeps_a_process_from_ending(tmp_path):
    ours = RunLock(tmp_path)
    ours.acquire()
    assert ours._heart.daemon


def test_a_folder_that_can_no_longer_be_written_does_not_stop_the_heart_or_the_release(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 0.01)
    beats = []

    def utime(path, *_):
        beats.append(path)
        raise OSError("stale file handle")

    ours = RunLock(tmp_path)
    ours.acquire()
    monkeypatch.setattr(module.os, "utime", utime)
    while len(beats) < 2:
        time.sleep(0.01)
    monkeypatch.setattr(type(tmp_path), "write_text", utime)
    ours.release()
    ours.release()


def test_a_lease_names_this_very_process_while_it_holds_and_after(tmp_path):
    ours = RunLock(tmp_path)
    ours.acquire()
    own = {"host": socket.gethostname(), "pid": os.getpid(), "started": psutil.Process().create_time()}
    assert json.loads(lease(tmp_path).read_text()) == own
    ours.release()
    assert json.loads(lease(tmp_path).read_text()) == {**own, "released": True}


def test_who_writes_is_seen_from_outside(tmp_path):
    assert writer_of(tmp_path) is None
    name = f"process {os.getpid()} on {socket.gethostname()}"
    ours = RunLock(tmp_path)
    ours.acquire()
    assert (writer_of(tmp_path).name, writer_of(tmp_path).state) == (name, "at work")
    ours.release()
    assert (writer_of(tmp_path).name, writer_of(tmp_path).state) == (name, "done")


@pytest.mark.parametrize(
    ("host", "age", "state"),
    [
        (socket.gethostname(), 20, "gone"),  # no process has this start
        ("elsewhere", 20, "at work"),
        ("elsewhere", STALE_SECONDS + 20, "silent"),
    ],
)
def test_a_writer_that_is_not_seen_is_gone_here_and_silent_elsewhere(tmp_path, host, age, state):
    fake_lease(tmp_path, age, host=host, pid=os.getpid(), started=1.0)
    (tmp_path / ".lease-000002").write_text(json.dumps({"released": True}))  # the highest number counts
    writer = writer_of(tmp_path)
    assert (writer.name, writer.state) == (f"process {os.getpid()} on {host}", state)
    assert age <= writer.silent_seconds < age + 10


def test_a_heartbeat_from_the_future_is_no_silence(tmp_path):
    fake_lease(tmp_path, -100, host="elsewhere", pid=1, started=1.0)
    assert writer_of(tmp_path).silent_seconds == 0
