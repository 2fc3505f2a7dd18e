"""One writer to a run directory, on one host or many.

Two mechanisms guard it. ``flock`` on ``.lock`` is exact where it works, but on a network file system it may hold only
within each host. So there is also a lease: a file that names the writer (host, process, its start) and whose modification
time is the writer's heartbeat. Leases are numbered, and the highest number counts. A process that takes over a released
or stale lease creates the next number exclusively, so of several that try at once exactly one succeeds. The last lease
is kept, marked as released; otherwise a slow process could create a number that was already used.

A lease is stale if its process is dead (on the same host), or if its heartbeat is older than ``STALE_SECONDS``. All times
are the file system's own, so that the hosts' clocks need not agree.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import psutil

from cluster.errors import RunFailedError, UserError

HEARTBEAT_SECONDS = 15.0
STALE_SECONDS = 180.0
"""A writer on another host without a heartbeat for this long is considered dead."""


class LeaseLostError(RunFailedError):
    """Another driver took over: this one missed its heartbeats (it was suspended, say) and must not write anymore."""


@dataclass(frozen=True)
class _Lease:
    """One lease file as another process finds it."""

    path: Path
    number: int
    holder: dict[str, Any]
    """Host, process and its start; empty while it is being written."""
    heartbeat: float
    """Modification time, by the file system's clock."""

    @property
    def owner(self) -> str:
        return f"process {self.holder.get('pid', 'unknown')} on {self.holder.get('host', 'an unknown host')}"

    def is_free(self, now: float) -> bool:
        if self.holder.get("released"):
            return True
        if self.holder.get("host") == socket.gethostname():
            return not _lives(self.holder.get("pid"), self.holder.get("started"))
        return now - self.heartbeat > STALE_SECONDS


@dataclass(frozen=True)
class Writer:
    """Who writes to a folder, or did last, as seen from outside."""

    name: str
    """Process and host."""
    state: Literal["at work", "silent", "gone", "done"]
    """Silent: on another host and overdue. Gone: it ended without releasing the folder. Done: it released it."""
    silent_seconds: float
    """Since its last sign of life."""


def writer_of(folder: Path) -> Writer | None:
    """Who writes to a folder, without disturbing anyone; None where nobody ever has."""
    leases = _leases(folder)
    if not leases:
        return None
    lease, now = leases[-1], time.time()
    silent = max(0.0, now - lease.heartbeat)
    if lease.holder.get("released"):
        return Writer(lease.owner, "done", silent)
    here = lease.holder.get("host") == socket.gethostname()
    free = lease.is_free(now)
    return Writer(lease.owner, ("gone" if here else "silent") if free else "at work", silent)


class RunLock:
    """Makes this process the only writer to a folder."""

    def __init__(self, folder: Path) -> None:
        """Create an unlocked lock."""
        self.folder = folder
        self._file: IO[str] | None = None
        self._lease: Path | None = None
        self._ended = threading.Event()
        self._heart: threading.Thread | None = None

    def acquire(self) -> None:
        """Acquire the lock, and send heartbeats until it is released.

        Raises:
            UserError: another process has it, or the file system does not support file locking.
            OSError: the folder cannot be written.
        """
        file = (self.folder / ".lock").open("a+")
        try:
            _lock(file, self.folder)
            lease = _take_lease(self.folder, _clock(file))
        except BaseException:
            file.close()
            raise
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        self._file, self._lease = file, lease
        self._ended.clear()
        self._heart = threading.Thread(target=self._beat, daemon=True)
        self._heart.start()

    def check(self) -> None:
        """Check that the lock is still held.

        Raises:
            LeaseLostError: another process took it over.
        """
        if self._lease is None or not self._lease.exists():
            raise LeaseLostError(f"{self.folder}: another driver took over this run; nothing more is written here")

    def release(self) -> None:
        """Release the lock."""
        if self._file is None or self._lease is None or self._heart is None:
            return
        self._ended.set()
        self._heart.join()
        with contextlib.suppress(OSError):
            if self._lease.exists():  # otherwise another process owns it
                self._lease.write_text(json.dumps({**_this_process(), "released": True}))
        self._file.close()
        self._file = self._lease = None

    def _beat(self) -> None:
        lease = self._lease
        assert lease is not None
        while not self._ended.wait(HEARTBEAT_SECONDS):
            with contextlib.suppress(OSError):  # ``check`` notices a lease that is gone
                os.utime(lease)


def _lock(file: IO[str], folder: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        owner = file.read().strip() or "unknown"
        raise UserError(f"run_dir={folder}: another driver is running here (process {owner})") from error
    except OSError as error:
        raise UserError(
            f"run_dir={folder}: this file system does not support file locking ({error}), so two drivers could write at "
            "once; choose a folder elsewhere, or have it mounted with locks (Lustre: -o flock)"
        ) from error


def _take_lease(folder: Path, now: float) -> Path:
    """Create the next lease.

    Raises:
        UserError: another process holds the current one, or was faster.
    """
    leases = _leases(folder)
    current = leases[-1] if leases else None
    if current is not None and not current.is_free(now):
        silent = now - current.heartbeat
        raise UserError(
            f"run_dir={folder}: another driver is running here ({current.owner}; its last heartbeat was "
            f"{silent:.0f} s ago; after {STALE_SECONDS:.0f} s without one another driver may start)"
        )
    number = current.number + 1 if current is not None else 1
    mine = folder / f".lease-{number:06d}"
    try:
        with mine.open("x") as file:
            file.write(json.dumps(_this_process()))
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError as error:
        raise UserError(f"run_dir={folder}: another driver is starting here") from error
    if any(lease.number > number for lease in _leases(folder)):  # this number had come and gone
        mine.unlink()
        raise UserError(f"run_dir={folder}: another driver is starting here")
    for lease in leases:
        lease.path.unlink(missing_ok=True)
    return mine


def _leases(folder: Path) -> list[_Lease]:
    """All leases, the current one last."""
    found = []
    for path in folder.glob(".lease-*"):
        if not (number := re.fullmatch(r"\.lease-(\d+)", path.name)):
            continue
        with contextlib.suppress(FileNotFoundError), path.open() as file:
            try:
                holder = json.loads(file.read())
            except ValueError:
                holder = {}
            holder = holder if isinstance(holder, dict) else {}
            found.append(_Lease(path, int(number[1]), holder, os.fstat(file.fileno()).st_mtime))
    return sorted(found, key=lambda lease: lease.number)


def _clock(file: IO[str]) -> float:
    """The file system's time."""
    os.utime(file.fileno())
    return os.fstat(file.fileno()).st_mtime


def _this_process() -> dict[str, Any]:
    return {"host": socket.gethostname(), "pid": os.getpid(), "started": _start(os.getpid())}


def _start(pid: int) -> float:
    return psutil.Process(pid).create_time()


def _lives(pid: object, started: object) -> bool:
    """Whether that very process is alive, not a later one with its number."""
    try:
        return isinstance(pid, int) and abs(_start(pid) - float(str(started))) < 1.0
    except (psutil.Error, ValueError):
        return False
