"""One writer to a run directory: a lock where the file system has them, a lease where it only says so."""

import errno
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster.errors import UserError
from cluster.storage import lock as module
from cluster.storage.lock import STALE_SECONDS, LeaseLostError, RunLock, writer_of
from cluster.storage.process import seen, this_process
from cluster.storage.run_directory import RunDirectory
from evals.ledger.lease import Lease
from evals.ledger.ledger import open_ledger
from evals.ledger.parts import write_part
from evals.ledger.records import records_to_table
from tests.cluster.conftest import ROOT
from tests.evals.test_records import EXTRA, an_episode, done

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


def fake_lease(folder: Path, age: float, **content) -> Path:
    path = folder / ".lease-000007"
    path.write_text(json.dumps(content))
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_the_start_of_a_process_is_when_it_began():
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    program = (
        "import json, sys; from cluster.storage.process import this_process; "
        "print(json.dumps(this_process()), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdin=-1, stdout=-1, text=True) as process:
        after = time.clock_gettime(time.CLOCK_BOOTTIME)
        found = json.loads(process.stdout.readline())
        while_it_runs = seen(found)
        process.stdin.close()
    tick = 1 / os.sysconf("SC_CLK_TCK")
    assert before - 2 * tick <= found["start_ticks"] * tick <= after + 2 * tick
    assert while_it_runs == "alive" and seen(found) == "dead" and seen(ELSEWHERE) == "out of sight"


ELSEWHERE = {**this_process(), "host": "elsewhere", "boot": "another"}
CONTAINER = {**this_process(), "pid_namespace": "pid:[1]"}
"""With this host's name and kernel, but processes of its own."""


def taken_over(folder: Path) -> bool:
    try:
        RunLock(folder).acquire()
    except UserError:
        return False
    return True


def test_a_snapshot_by_hard_links_is_locked_apart_from_its_original(tmp_path):
    original, snapshot = tmp_path / "run", tmp_path / "snapshot"
    for folder in (original, snapshot):
        folder.mkdir()
    ours, other = RunLock(original), RunLock(snapshot)
    ours.acquire()
    for path in original.iterdir():
        (snapshot / path.name).hardlink_to(path)
    with pytest.raises(UserError, match="another driver is running here"):
        RunLock(original).acquire()
    other.acquire()
    for lock in (ours, other):
        lock.check()
        lock.release()


def test_where_locks_do_not_hold_a_second_process_is_refused_until_the_first_is_killed(tmp_path, holder, without_flock):
    ours = RunLock(tmp_path)
    with pytest.raises(UserError, match=str(holder.pid)):
        ours.acquire()
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    ours.acquire()
    ours.check()
    assert json.loads(lease(tmp_path).read_text())["pid"] == os.getpid()


@pytest.mark.parametrize(
    ("holder", "age", "free"),
    [
        (this_process(), 10 * STALE_SECONDS, False),  # a clock that was set, or a process that was suspended
        ({**this_process(), "start_ticks": 5}, 1, True),  # another process had this number
        ({**this_process(), "pid": 2**22 + 1}, 1, True),
        ({**this_process(), "pid": "x"}, 1, True),
        # Not 0: the file system's clock may be some milliseconds behind ours, and the heartbeat would be in the future.
        (ELSEWHERE, STALE_SECONDS - 30, False),
        (ELSEWHERE, STALE_SECONDS + 30, True),
        ({**CONTAINER, "pid": 2**22 + 1}, 1, False),  # cannot be seen from here, so cannot be called dead
        ({**CONTAINER, "pid": 2**22 + 1}, STALE_SECONDS + 30, True),
        ({"host": socket.gethostname(), "pid": 2**22 + 1, "started": 1.0}, 1, False),  # of an older version
        ({"host": socket.gethostname(), "pid": os.getpid(), "started": 1.0, "released": True}, 1, True),
    ],
)
def test_a_lease_is_free_when_its_process_is_seen_to_be_dead_or_silent_for_long(
    tmp_path, without_flock, holder, age, free
):
    old = fake_lease(tmp_path, age, **holder)
    assert taken_over(tmp_path) == free
    assert lease(tmp_path).name == (".lease-000008" if free else old.name)


@pytest.mark.parametrize("written", [True, False])
def test_an_empty_lease_holds_only_if_its_content_is_about_to_be_written(tmp_path, monkeypatch, without_flock, written):
    path = tmp_path / ".lease-000001"
    path.touch()

    def sleep(seconds):
        if written:
            path.write_text(json.dumps(ELSEWHERE))

    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=sleep, time=time.time))
    assert taken_over(tmp_path) != written
    assert writer_of(tmp_path).state == "at work", "of whoever holds it now"


def test_a_claim_that_finds_the_disk_full_leaves_no_lease(tmp_path, monkeypatch):
    def write(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("cluster.storage.durable.os.write", write)
        with pytest.raises(OSError, match="No space"):
            RunLock(tmp_path).acquire()
    assert module.find_leases(tmp_path) == []
    RunLock(tmp_path).acquire()


def test_of_two_who_start_together_the_slower_removes_nothing(tmp_path, monkeypatch):
    """The slower one makes the folder, and the faster one locks it."""
    faster, slower = RunDirectory(tmp_path / "run"), RunDirectory(tmp_path / "run")
    mkdir = Path.mkdir

    def claimed_meanwhile(path, *arguments, **named):
        monkeypatch.undo()
        mkdir(path, *arguments, **named)
        faster.claim()

    monkeypatch.setattr(Path, "mkdir", claimed_meanwhile)
    with pytest.raises(UserError, match="another driver"):
        slower.claim()
    committed(faster)
    assert (tmp_path / "run" / ".lock").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda run: run.rename(run.with_name("moved")), "run: the run directory is gone"),
        (lambda run: lease(run).unlink(), "its lease is gone"),
        (lambda run: lease(run).rename(run / ".lease-000002"), "another driver took over"),
    ],
)
def test_a_driver_that_may_no_longer_write_says_why(tmp_path, change, said):
    directory = RunDirectory(tmp_path / "run")
    directory.claim()
    change(directory.path)
    with pytest.raises(LeaseLostError, match=said):
        directory.check_claim()


def test_of_two_who_take_over_at_once_one_succeeds(tmp_path, monkeypatch, without_flock):
    fake_lease(tmp_path, STALE_SECONDS + 30, **ELSEWHERE)
    seen = module.find_leases(tmp_path)
    RunLock(tmp_path).acquire()
    real, listings = module.find_leases, [seen]
    monkeypatch.setattr(module, "find_leases", lambda folder: listings.pop() if listings else real(folder))
    with pytest.raises(UserError):
        RunLock(tmp_path).acquire()


def test_a_slow_second_does_not_take_a_number_that_has_come_and_gone(tmp_path, monkeypatch, without_flock):
    fake_lease(tmp_path, STALE_SECONDS + 30, **ELSEWHERE)
    seen = module.find_leases(tmp_path)
    for _ in range(2):
        ours = RunLock(tmp_path)
        ours.acquire()
        ours.release()
    holder = RunLock(tmp_path)
    holder.acquire()
    real, listings = module.find_leases, [seen]
    monkeypatch.setattr(module, "find_leases", lambda folder: listings.pop() if listings else real(folder))
    with pytest.raises(UserError):
        RunLock(tmp_path).acquire()
    holder.check()


def test_the_heart_beats_until_the_release(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 0.01)
    ours = RunLock(tmp_path)
    for _ in range(2):  # a lock may be taken again
        ours.acquire()
        os.utime(lease(tmp_path), (1, 1))
        while lease(tmp_path).stat().st_mtime == 1:
            assert ours._heart.is_alive()
            time.sleep(0.01)
        ours.release()
    os.utime(lease(tmp_path), (1, 1))
    time.sleep(0.05)
    assert lease(tmp_path).stat().st_mtime == 1
    ours.acquire()
    os.utime(lease(tmp_path), (1, 1))
    end = time.monotonic() + 30
    while lease(tmp_path).stat().st_mtime == 1:
        assert time.monotonic() < end, "it beats again"
        time.sleep(0.01)
    ours.release()


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


def test_a_refusal_names_the_holder_its_lease_and_how_long_ago_it_gave_a_sign(tmp_path):
    path = fake_lease(tmp_path, STALE_SECONDS - 30, **ELSEWHERE)
    with pytest.raises(UserError, match=rf"process {os.getpid()} on elsewhere.*{path}, was 1(4\d|5\d|6\d) s ago"):
        RunLock(tmp_path).acquire()


def test_a_copy_of_a_folder_that_is_played_is_held_by_nobody(tmp_path):
    played, copy = tmp_path / "played", tmp_path / "copy"
    played.mkdir()
    driver = RunLock(played)
    driver.acquire()
    shutil.copytree(played, copy)
    assert (writer_of(played).state, writer_of(copy).state) == ("at work", "elsewhere")
    second = RunLock(copy)
    second.acquire()
    assert writer_of(copy).state == "at work"
    driver.check()
    second.check()


def test_a_folder_that_was_renamed_while_it_is_played_is_held_all_the_same(tmp_path, without_flock):
    (tmp_path / "before").mkdir()
    RunLock(tmp_path / "before").acquire()
    (tmp_path / "before").rename(tmp_path / "after")
    assert writer_of(tmp_path / "after").state == "at work"
    with pytest.raises(UserError, match="it is alive, so end it first"):
        RunLock(tmp_path / "after").acquire()


def test_of_a_copy_with_a_lease_of_an_older_version_the_lease_may_be_removed(tmp_path, without_flock):
    """No time without a heartbeat frees it: a process that is alive may have been suspended."""
    path = fake_lease(tmp_path, 10 * STALE_SECONDS, **this_process())
    with pytest.raises(
        UserError, match=f"is alive, so end it first.* a copy, remove this folder's {path.name}"
    ) as told:
        RunLock(tmp_path).acquire()
    assert "180" not in str(told.value)
    path.unlink()
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
    fake_lease(tmp_path, 0, **ELSEWHERE)
    assert [found.number for found in module.find_leases(tmp_path)] == [7]


def test_a_lease_that_goes_while_it_is_looked_for_is_no_error(tmp_path, monkeypatch):
    gone = tmp_path / ".lease-000003"
    monkeypatch.setattr(type(tmp_path), "glob", lambda self, what: iter([gone] if "lease" in what else []))
    assert module.find_leases(tmp_path) == []
    stale = Lease(gone, 3, {"released": True}, 0.0)
    listings = [[], [stale]]
    monkeypatch.setattr(module, "find_leases", lambda folder: listings.pop())
    with (tmp_path / "clock").open("w") as clock:
        assert module._take_lease(tmp_path, clock)[0].path.name == ".lease-000004"


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
    held = json.loads(lease(tmp_path).read_text())
    folder = f"{tmp_path.stat().st_dev}-{tmp_path.stat().st_ino}"
    nonce = ours.mark.partition("-")[2]
    assert held == {**this_process(), "folder": folder, "nonce": nonce, "parts": []} and len(nonce) == 16
    ours.release()
    assert json.loads(lease(tmp_path).read_text()) == {**held, "released": True}


def test_who_writes_is_seen_from_outside(tmp_path):
    assert writer_of(tmp_path) is None
    name = f"process {os.getpid()} on {socket.gethostname()}"
    ours = RunLock(tmp_path)
    ours.acquire()
    assert (writer_of(tmp_path).name, writer_of(tmp_path).state) == (name, "at work")
    ours.release()
    assert (writer_of(tmp_path).name, writer_of(tmp_path).state) == (name, "done")


@pytest.mark.parametrize(
    ("holder", "age", "state"),
    [
        ({**this_process(), "start_ticks": 5}, 20, "gone"),
        (ELSEWHERE, 20, "at work"),
        (ELSEWHERE, -100, "at work"),
        (ELSEWHERE, STALE_SECONDS + 20, "silent"),
    ],
)
def test_a_writer_that_is_not_seen_is_gone_here_and_silent_elsewhere(tmp_path, holder, age, state):
    fake_lease(tmp_path, age, **holder)
    (tmp_path / ".lease-000002").write_text(json.dumps({"released": True}))  # the highest number counts
    writer = writer_of(tmp_path)
    assert (writer.name, writer.state) == (f"process {os.getpid()} on {holder['host']}", state)
    assert max(age, 0) <= writer.silent_seconds < max(age, 0) + 10


@pytest.mark.parametrize("created", [True, False])
def test_without_file_locking_nothing_is_claimed_and_only_a_folder_of_ones_own_is_removed(
    tmp_path, monkeypatch, created
):
    def refuse(*given):
        raise OSError(errno.ENOLCK, "No locks available")

    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(UserError, match=rf"run_dir={folder}: this file system .* \(\[Errno 37\] No locks available\)"):
        RunLock(folder).acquire(created)
    assert [*tmp_path.rglob("*")] == ([] if created else [folder, folder / ".lock"])


@pytest.mark.parametrize("beats", [True, False])
def test_a_heartbeat_in_the_future_holds_only_as_long_as_it_goes_on(tmp_path, monkeypatch, capsys, beats):
    path = fake_lease(tmp_path, -86_400, **ELSEWHERE)
    looks = []

    def sleep(seconds):
        looks.append(seconds)
        if beats:
            os.utime(path)

    clock = itertools.count()
    monkeypatch.setattr(
        module, "time", SimpleNamespace(monotonic=lambda: 60 * next(clock), sleep=sleep, time=time.time)
    )
    assert taken_over(tmp_path) != beats
    said = " ".join(capsys.readouterr().err.split())
    assert str(path) in said and re.search(r"heartbeat is 86[34]\d\d s in the future", said)
    assert len(looks) == (1 if beats else 2)


def committed(directory: RunDirectory) -> str:
    """A part with one row, or the episode that it is of; every driver plays the same one first."""
    return directory.commit_rows(records_to_table([done(0)], EXTRA)).name


def test_a_driver_whose_lease_was_removed_writes_no_row_that_counts_twice(tmp_path, without_flock, monkeypatch):
    run = tmp_path / "run"
    one, two, three = (RunDirectory(run) for _ in range(3))
    one.claim()
    one.begin([an_episode(0)], {})
    lease(run).unlink()  # as people do who are told that another driver is running here
    two.claim()
    assert two._lock.mark != one._lock.mark
    row = committed(two)
    with pytest.raises(LeaseLostError):
        committed(one)
    monkeypatch.setattr(one._lock, "check", lambda: None)  # it had looked just before
    late = committed(one)
    found = open_ledger(run)
    assert [part.path.name for part in found.parts] == [row] and [path.name for path in found.fenced] == [late]
    one.release()
    two._lock.check()  # what the first one released was not the second one's lease
    with pytest.raises(UserError):
        three.claim()
    two.release()
    three.claim()
    assert three._lock.mark.startswith("2-" if two._lock.mark.startswith("1-") else "3-")
    assert [path.name for path in open_ledger(run).fenced] == [late], "nor does it count for the next one"


def test_numbers_go_on_from_those_that_parts_name_when_the_lease_was_removed(tmp_path):
    run = tmp_path / "run"
    for number in (1, 2, 3):
        directory = RunDirectory(run)
        directory.claim()
        assert directory._lock.mark.startswith(f"{number}-")
        committed(directory)
        directory.release()
        lease(run).unlink()


def test_a_run_of_an_older_version_is_gone_on_with(tmp_path):
    directory = RunDirectory(tmp_path / "run")
    directory.claim()
    old = tmp_path / "run" / "episodes" / "part-000001-old.parquet"
    old.write_bytes(write_part([table := records_to_table([done(0)], EXTRA)], table.schema))
    directory.release()
    lease(tmp_path / "run").unlink()
    fake_lease(tmp_path / "run", 0, host="vm", pid=1, started=1.0, released=True)
    directory.claim()
    new = committed(directory)
    assert [part.path.name for part in open_ledger(tmp_path / "run").parts] == [old.name, new]


def test_a_damaged_part_is_still_reported_after_the_next_claim(tmp_path):
    directory = RunDirectory(tmp_path / "run")
    directory.claim()
    part = directory.parts / "part-000001-x.parquet"
    part.write_bytes(b"no Parquet")
    directory.release()
    directory.claim()
    assert [damage.path for damage in open_ledger(tmp_path / "run").damage] == [part]
