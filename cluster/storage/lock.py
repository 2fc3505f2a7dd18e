"""One writer to a run directory, on one host or many.

Two mechanisms guard it. ``flock`` on ``.lock`` is exact where it works, but on a network file system it may hold only
within each host. So there is also a lease (``evals.ledger.lease``): a file that names the writer and whose modification
time is the writer's heartbeat. Leases are numbered, and the highest number counts. A process that takes over a released
or stale lease creates the next number exclusively, so of several that try at once exactly one succeeds. The last lease
is kept, marked as released; otherwise a slow process could create a number that was already used. If someone removes it,
numbers go on from the highest that a part of the ledger names.

A lease is stale if its process is dead, where that can be seen (``cluster.storage.process``), and else if its heartbeat is
older than ``STALE_SECONDS``. It names its folder: in a copy of a folder that is played it holds nothing. All times are the
file system's own, so that the hosts' clocks need not agree. A heartbeat in the future (the clock was set back, a snapshot
restored) is watched for as long, and stale if it does not change.

Should all this fail, the ledger still counts nothing twice: the new lease lists the parts that its holder has found, and
parts that a former holder writes later are not among them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from cluster.console import warn
from cluster.errors import RunFailedError, UserError
from cluster.storage.durable import create_durably, write_durably
from cluster.storage.process import seen, this_process
from envs.disk import own_file, sync_directory
from evals.ledger.lease import Lease, counted_parts, find_leases

LOCK = ".lock"
HEARTBEAT_SECONDS = 15.0
STALE_SECONDS = 180.0
"""A writer that cannot be seen from here is considered dead when its heartbeat has not changed for this long."""
WATCH_SECONDS = 1.0
"""Between looks at a heartbeat in the future, or at an empty lease."""


class LeaseLostError(RunFailedError):
    """This driver no longer holds its folder, and must not write anymore.

    Another driver took over since this one missed its heartbeats (it was suspended, say), or the folder or the lease was
    removed.
    """


@dataclass(frozen=True)
class Writer:
    """Who writes to a folder, or did last, as seen from outside."""

    name: str
    """Process and host."""
    state: Literal["at work", "silent", "gone", "done", "elsewhere"]
    """Silent: on another host and overdue. Gone: it ended without releasing the folder. Done: it released it. Elsewhere: it
    writes to the folder that this one was copied from."""
    silent_seconds: float
    """Since its last sign of life."""


def writer_of(folder: Path) -> Writer | None:
    """Who writes to a folder, without disturbing anyone; None where nobody ever has."""
    leases = find_leases(folder)
    if not leases:
        return None
    lease, now = leases[-1], time.time()
    silent = max(0.0, now - lease.heartbeat)
    if lease.content.get("released"):
        return Writer(_owner(lease), "done", silent)
    if _is_of_another_folder(lease):
        return Writer(_owner(lease), "elsewhere", silent)
    if not _is_free(lease, now):
        return Writer(_owner(lease), "at work", silent)
    # Only on its own host a process can be seen to be dead.
    if seen(lease.content) == "dead":
        return Writer(_owner(lease), "gone", silent)
    return Writer(_owner(lease), "silent", silent)


def open_lock(folder: Path) -> IO[str]:
    """Open the file of a folder that is locked, as it is.

    A folder of somebody else's may hold a link or a pipe of this name, which must be neither emptied nor waited for.

    Raises:
        OSError: something else has its name, or it cannot be opened.
    """
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"{folder / LOCK} is not a regular file")
    return os.fdopen(handle, "r+", encoding="utf-8")


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Be the only command that writes to a folder of results, where its file system can tell.

    Raises:
        UserError: another one does.
        OSError: the folder cannot be opened.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise UserError(f"--out {folder}: another command writes there; name another folder") from error
    except OSError:
        pass  # a network file system that locks no folders
    try:
        yield
    finally:
        os.close(handle)


def no_locks(place: object, error: OSError) -> UserError:
    """What to say where a file cannot be locked though nobody holds it."""
    return UserError(
        f"{place}: this file system does not support file locking ({error}), so two processes could write at once; choose a "
        "folder elsewhere, or have it mounted with locks (Lustre: -o flock)"
    )


class RunLock:
    """Makes this process the only writer to a folder."""

    def __init__(self, folder: Path) -> None:
        """Create an unlocked lock."""
        self.folder = folder
        self.mark = ""
        """Names the lease in the parts that its holder writes; empty before there is one."""
        self._file: IO[str] | None = None
        self._lease: Path | None = None
        self._content = b""
        """Of the lease, by which it is told from another one of that number."""
        self._ended = threading.Event()
        self._heart: threading.Thread | None = None

    def acquire(self, created: bool = False) -> None:
        """Acquire the lock, and send heartbeats until it is released.

        Args:
            created: This process has created the folder; it is removed if nobody can lock it.

        Raises:
            UserError: another process has it, or the file system does not support file locking.
            OSError: the folder cannot be written.
        """
        # A snapshot by hard links is locked apart from its original. Who holds this folder itself has its lease.
        writer = writer_of(self.folder)
        if writer is None or writer.state != "at work":
            own_file(self.folder / LOCK)
        file = open_lock(self.folder)
        try:
            _lock(file, self.folder, created)
            lease, content = _take_lease(self.folder, file)
        except BaseException:
            file.close()
            raise
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        self._file, self._lease, self._content = file, lease.path, content
        self.mark = lease.mark
        self._ended.clear()
        self._heart = threading.Thread(target=self._beat, daemon=True)
        self._heart.start()

    def check(self) -> None:
        """Check that the lock is still held.

        Raises:
            LeaseLostError: another process took it over, or the folder or the lease was removed.
        """
        if self._is_held():
            return
        if not self.folder.exists():
            reason = "the run directory is gone; it was deleted or renamed while this driver wrote to it"
        elif not find_leases(self.folder):
            reason = "its lease is gone; someone removed it while this driver held it"
        else:
            reason = "another driver took over this run"
        raise LeaseLostError(f"{self.folder}: {reason}; nothing more is written here")

    def release(self) -> None:
        """Release the lock."""
        if self._file is None or self._lease is None or self._heart is None:
            return
        self._ended.set()
        self._heart.join()
        with contextlib.suppress(OSError):
            if self._is_held():  # otherwise another process owns it
                write_durably(self._lease, _json({**json.loads(self._content), "released": True}))
        self._file.close()
        self._file = self._lease = None

    def _is_held(self) -> bool:
        try:
            return self._lease is not None and self._lease.read_bytes() == self._content
        except FileNotFoundError:
            return False

    def _beat(self) -> None:
        lease = self._lease
        assert lease is not None
        while not self._ended.wait(HEARTBEAT_SECONDS):
            with contextlib.suppress(OSError):  # ``check`` notices a lease that is gone
                if self._is_held():
                    os.utime(lease)


def _lock(file: IO[str], folder: Path, created: bool) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        owner = file.read().strip() or "unknown"
        raise UserError(f"run_dir={folder}: another driver is running here (process {owner})") from error
    except OSError as error:
        if created:
            with contextlib.suppress(OSError):  # nobody can hold a lock here, so this removes nobody's
                (folder / ".lock").unlink()
                folder.rmdir()
        raise no_locks(f"run_dir={folder}", error) from error


def _take_lease(folder: Path, file: IO[str]) -> tuple[Lease, bytes]:
    """Create the next lease; returns it with what its file holds. ``file`` tells the file system's time."""
    leases = find_leases(folder)
    if leases and _is_empty(leases[-1]):
        time.sleep(WATCH_SECONDS)  # its writer is about to write its content, or died before it could
        leases = find_leases(folder)
    now = _clock(file)
    current = leases[-1] if leases else None
    if current is not None and _is_held(current, now):
        raise UserError(
            f"run_dir={folder}: another driver is running here ({_owner(current)}; {_when_free(current, now)})"
        )
    parts, named = counted_parts(folder)
    # Above every number that was ever used here, also of leases that somebody removed.
    number = max([named, *(lease.number for lease in leases)]) + 1
    content = {**this_process(), "folder": _identity(folder), "nonce": secrets.token_hex(8), "parts": parts}
    mine = Lease(folder / f".lease-{number:06d}", number, content, now)
    try:
        create_durably(mine.path, _json(content))
    except FileExistsError as error:
        raise UserError(f"run_dir={folder}: another driver is starting here") from error
    if any(lease.number > number for lease in find_leases(folder)):  # this number had come and gone
        mine.path.unlink(missing_ok=True)
        raise UserError(f"run_dir={folder}: another driver is starting here")
    for lease in leases:
        lease.path.unlink(missing_ok=True)
    sync_directory(folder)
    return mine, _json(content)


def _is_held(lease: Lease, now: float) -> bool:
    """Whether its driver may still run, as far as this process can see; to see that, it may have to watch it."""
    if _is_free(lease, now):
        return False
    return not _stays_silent(lease, now)


def _is_free(lease: Lease, now: float) -> bool:
    """Whether a lease may be taken over.

    It names nobody, was released or copied, its process is dead, or its heartbeat is old.
    """
    if lease.content.get("released") or _is_empty(lease) or _is_of_another_folder(lease):
        return True
    state = seen(lease.content)
    return now - lease.heartbeat > STALE_SECONDS if state == "out of sight" else state == "dead"


def _when_free(lease: Lease, now: float) -> str:
    """When a lease that is held may be taken over."""
    if seen(lease.content) == "alive":
        if "folder" in lease.content:
            return "it is alive, so end it first"
        # a lease of an older version
        return (
            "it is alive, so end it first; if it plays another folder, of which this one is a copy, remove this folder's "
            f"{lease.path.name}"
        )
    return (
        f"its last heartbeat, the modification time of {lease.path}, was {now - lease.heartbeat:.0f} s ago; after "
        f"{STALE_SECONDS:.0f} s without one another driver may start"
    )


def _is_of_another_folder(lease: Lease) -> bool:
    """Whether its process is seen to hold another folder, of which this one is a copy.

    This is asked where ``flock`` is exact: its process is on this machine.
    """
    taken = lease.content.get("folder")
    return isinstance(taken, str) and seen(lease.content) == "alive" and taken != _identity(lease.path.parent)


def _identity(folder: Path) -> str:
    """Tells a folder from every copy of it, on one machine until its next boot."""
    found = folder.stat()
    return f"{found.st_dev}-{found.st_ino}"


def _is_empty(lease: Lease) -> bool:
    """Whether a lease's file has no content, so no process has come to hold it."""
    try:
        return lease.path.stat().st_size == 0
    except FileNotFoundError:
        return False


def _stays_silent(lease: Lease, now: float) -> bool:
    """Whether a lease of another machine with a heartbeat in the future has none for ``STALE_SECONDS`` from now."""
    if lease.heartbeat <= now or seen(lease.content) != "out of sight":
        return False
    warn(
        f"{lease.path}: its last heartbeat is {lease.heartbeat - now:.0f} s in the future (was a clock set back?); "
        f"watching it for {STALE_SECONDS:.0f} s to see whether {_owner(lease)} still writes here"
    )
    end = time.monotonic() + STALE_SECONDS
    while time.monotonic() < end:
        time.sleep(min(WATCH_SECONDS, STALE_SECONDS))
        # Another heartbeat, another lease, or none anymore: somebody was here.
        leases = find_leases(lease.path.parent)
        if not leases or leases[-1].heartbeat != lease.heartbeat:
            return False
    return True


def _owner(lease: Lease) -> str:
    return f"process {lease.content.get('pid', 'unknown')} on {lease.content.get('host', 'an unknown host')}"


def _clock(file: IO[str]) -> float:
    """The file system's time."""
    os.utime(file.fileno())
    return os.fstat(file.fileno()).st_mtime


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode()
