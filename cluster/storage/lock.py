"""One writer to a run directory, on one host or many.

Two things guard it. ``flock`` on ``.lock`` is exact where it works, but on a network file system it may hold within each
host only. Beside it stands a lease, a file that says who writes (host, process, its start) and whose modification time is
the writer's heartbeat. Leases are numbered: the highest number counts, and whoever takes over a lease that was released
or has gone stale creates the next one exclusively, so that of several who try at once exactly one succeeds. The last
lease stays, marked as released, for else a slow second might create a number that has come and gone.

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
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from cluster.errors import RunFailedError, UserError

HEARTBEAT_SECONDS = 15.0
STALE_SECONDS = 180.0
"""A writer on another host that gave no sign for so long is taken to be dead."""


class LeaseLostError(RunFailedError):
    """Another driver took over: this one was silent for too long (suspended, say) and must not write any more."""


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


class RunLock:
    """Makes this process the only writer to a folder."""

    def __init__(self, folder: Path) -> None:
        """Takes nothing yet."""
        self.folder = folder
        self._file: IO[str] | None = None
        self._lease: Path | None = None
        self._ended = threading.Event()
        self._heart: threading.Thread | None = None

    def acquire(self) -> None:
        """Take the lock, and keep the heartbeat up until it is released.

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
        self._heart = threading.Thread(target=self._beat, name="lease", daemon=True)
        self._heart.start()

    def check(self) -> None:
        """See that nobody took over.

        Raises:
            LeaseLostError: somebody did.
        """
        if self._lease is None or not self._lease.exists():
            raise LeaseLostError(f"{self.folder}: another driver took over this run; nothing more is written here")

    def release(self) -> None:
        """Let another process in."""
        if self._file is None or self._lease is None or self._heart is None:
            return
        self._ended.set()
        self._heart.join()
        with contextlib.suppress(OSError):
            if self._lease.exists():  # else it is no longer ours to write
                self._lease.write_text(json.dumps({"released": True}))
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
            "once; name a folder elsewhere, or have it mounted with locks (Lustre: -o flock)"
        ) from error


def _take_lease(folder: Path, now: float) -> Path:
    """Create the next lease.

    Raises:
        UserError: another process has the present one, or was faster.
    """
    leases = _leases(folder)
    current = leases[-1] if leases else None
    if current is not None and not current.is_free(now):
        silent = now - current.heartbeat
        raise UserError(
            f"run_dir={folder}: another driver is running here ({current.owner}; its last sign of life was "
            f"{silent:.0f} s ago, and after {STALE_SECONDS:.0f} s without one its place is free)"
        )
    number = current.number + 1 if current is not None else 1
    mine = folder / f".lease-{number:06d}"
    try:
        with mine.open("x") as file:
            file.write(json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "started": _start(os.getpid())}))
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
    """All leases, the present one last."""
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


def _start(pid: int) -> float:
    return psutil.Process(pid).create_time()


def _lives(pid: object, started: object) -> bool:
    """Whether that very process is alive, not a later one with its number."""
    try:
        return isinstance(pid, int) and abs(_start(pid) - float(str(started))) < 1.0
    except (psutil.Error, ValueError):
        return False
