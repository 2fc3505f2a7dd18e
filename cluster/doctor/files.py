"""Checks of file systems: the run directory's locks, renames and room; folders of caches; the socket paths of Ray."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import secrets
import shlex
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from cluster import stop_signals
from cluster.doctor.check import Check, Need, Outcome, Status, existing, first_words, gib, ok
from cluster.engines.tiny_model import cache_directory
from cluster.errors import UserError
from cluster.storage.durable import create_durably, write_durably
from envs.disk import sync_directory
from envs.files import home_folder

RUN_BYTES = 2**30
"""Room that a run directory should have: a ledger takes about 2 kB an episode."""
CACHE_BYTES = 2 * 2**30
FEW_INODES = 10_000
CLOCK_SECONDS = 30.0
"""Difference between this machine's clock and its file system's that is worth a word."""
SOCKET_BYTES = 107
"""Of the longest path of a Unix socket on Linux; Ray's is its temporary folder with about 65 more."""
RAY_SOCKET_BYTES = 65


@contextlib.contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder of its own in an existing folder, removed at the end, also where a stop signal ends the command."""
    path = folder / f".doctor-{secrets.token_hex(4)}"  # see ``is_scratch``
    in_main_thread = threading.current_thread() is threading.main_thread()  # no other one can handle signals
    try:
        with stop_signals.raised() if in_main_thread else contextlib.nullcontext():
            try:
                path.mkdir()
                yield path
            finally:
                shutil.rmtree(path, ignore_errors=True)
    except stop_signals.StoppedError as stopped:
        os.kill(os.getpid(), signal.Signals[str(stopped)])  # what it does without us
        raise


def run_folder(need: Need) -> Outcome:
    """Create, write durably, rename over, lock: what the ledger relies on, tried where the run directory is or will be."""
    where = existing(need.run_dir)
    breaks = "the run: it could not keep its episodes"
    for path in (need.run_dir, *need.run_dir.parents):
        if os.path.lexists(path) and not path.is_dir():
            kind = "a link that leads nowhere" if path.is_symlink() and not path.exists() else "no folder"
            return Outcome("fail", f"{path} is {kind}", breaks, "run_dir=... somewhere else, or remove what is there")
    try:
        with _scratch(where) as folder:
            wrong = _wrong_of(folder)
            behind = (folder / "renamed").stat().st_mtime - time.time() if not wrong else 0.0
    except OSError as error:
        mend = (
            f"run_dir=... on a file system that you may write to ({where} is what was tried; df -h, id, mount show why)"
        )
        return Outcome("fail", first_words(str(error)), breaks, mend)
    if wrong:
        mend = "run_dir=... on another file system; Lustre: have it mounted with -o flock; NFS: version 4"
        return Outcome("fail", f"{where}: {wrong}", "the lock of a run directory: two drivers could write to one", mend)
    if abs(behind) > CLOCK_SECONDS:
        mend = (
            "set the clocks of this machine and of the file server by NTP: timedatectl set-ntp true, chronyc makestep"
        )
        ahead = f"the file system's clock is {abs(behind):.0f} s {'ahead' if behind > 0 else 'behind'}"
        return Outcome(
            "warn", ahead, "raycade status and times of parts; locks go by the file system's clock alone", mend
        )
    return ok("lock, rename, fsync work")


def _wrong_of(folder: Path) -> str:
    """Which promise of POSIX the file system breaks; empty if none."""
    first, second = folder / "first", folder / "renamed"
    create_durably(first, b"1")
    try:
        create_durably(first, b"2")
        return "a file was created twice (O_EXCL)"
    except FileExistsError:
        pass
    write_durably(second, b"old")
    first.replace(second)
    sync_directory(folder)
    if second.read_bytes() != b"1" or first.exists():
        return "a file that was renamed over another is not there as it was"
    with second.open("rb") as one, second.open("rb") as other:
        try:
            fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return f"flock does not work: {error.strerror}"
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return ""
    return "two can hold the same lock (flock)"


def room(need: Need) -> Outcome:
    """Bytes and files that the run directory's file system still takes."""
    where = existing(need.run_dir)
    disk = os.statvfs(where)
    free = disk.f_bavail * disk.f_frsize
    found = f"{gib(free)} free"
    # A file system that does not count files says 0 for all of them.
    few_files = disk.f_files > 0 and disk.f_favail < FEW_INODES
    if few_files:
        found += f", {disk.f_favail:,} files"
    if free >= RUN_BYTES and not few_files:
        return ok(found)
    almost_full = free < RUN_BYTES / 20
    almost_no_files = disk.f_favail < 100 <= disk.f_files
    severity: Status = "fail" if almost_full or almost_no_files else "warn"
    mend = f"make room in {where} (du -sh {shlex.quote(str(where))}/* | sort -h), or run_dir=... on another file system"
    return Outcome(severity, found, "commits to the ledger; the run ends after thirty", mend)


def caches(need: Need) -> Outcome:
    """Folders of caches: to be written to, with room, and files in them may be run (compiled kernels are loaded)."""
    breaks = "compiled kernels of vLLM, Triton and Numba, the tiny model, weights"
    try:
        folders = _cache_folders(need)
    except UserError as error:
        return Outcome("fail", str(error), breaks, "export RAYCADE_CACHE=/local/disk/... before the run")
    wrong = []
    for path in folders:
        where = existing(path)
        try:
            with _scratch(where) as folder:
                _load(folder / "kernel.so")
        except OSError as error:
            # What may be written there may not be run.
            noexec = isinstance(error, PermissionError) and os.access(where, os.W_OK)
            reason = "mounted noexec" if noexec else error.strerror
            wrong.append((path, str(reason)))
            continue
        free = shutil.disk_usage(where).free
        if free < CACHE_BYTES:
            wrong.append((path, f"{gib(free)} free"))
    if not wrong:
        return ok("writable, with room")
    path, why = wrong[0]
    return Outcome(
        "fail" if "free" not in why else "warn",
        "; ".join(f"{path}: {why}" for path, why in wrong[:3]),
        breaks,
        f"export {_variable(path)}=/local/disk/... before the run (on Slurm: --node-cache=DIR of ./launch.sh slurm)",
    )


def _load(path: Path) -> None:
    """Map a file as code, which a file system that is mounted noexec refuses."""
    path.write_bytes(b"\0" * mmap.PAGESIZE)
    with path.open("rb") as file:
        mmap.mmap(file.fileno(), mmap.PAGESIZE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC).close()


def _cache_folders(need: Need) -> list[Path]:
    found = [cache_directory()]
    if need.vllm:
        # Without a home vLLM takes the sign for one as a name.
        user_home = home_folder() or Path("~")
        home = Path(os.environ.get("XDG_CACHE_HOME") or user_home / ".cache")
        found.append(Path(os.environ.get("VLLM_CACHE_ROOT") or home / "vllm"))
    return found


def _variable(path: Path) -> str:
    """The variable that moves a folder of caches."""
    return "RAYCADE_CACHE" if path == cache_directory() else "VLLM_CACHE_ROOT"


def temporary(need: Need) -> Outcome:
    """The temporary folder: room, and short enough for the sockets of Ray."""
    path = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()).absolute()
    variable = "RAY_TMPDIR" if "RAY_TMPDIR" in os.environ else "TMPDIR"
    mend = f"export {variable}=/tmp, or another short path on a local disk with some GB"
    try:
        with _scratch(path) as folder:
            (folder / "file").write_bytes(b"\0" * 2**16)
    except OSError as error:
        return Outcome("fail", first_words(str(error)), "Ray, and all that writes temporary files", mend)
    longest = len(os.fsencode(path)) + RAY_SOCKET_BYTES
    if need.uses_ray and longest > SOCKET_BYTES:
        return Outcome("fail", f"{path} is too long a path", "Ray (AF_UNIX path length cannot exceed 107 bytes)", mend)
    if need.uses_ray and not str(path).isascii():
        return Outcome("fail", f"{path} has letters beyond ASCII", "Ray, which does not start there", mend)
    disk = shutil.disk_usage(path)
    found = f"{path}: {gib(disk.free)} free"
    almost_full = disk.total * 0.05 > disk.free
    if almost_full or disk.free < CACHE_BYTES / 4:
        return Outcome(
            "warn", found, "Ray's logs; from 95 % full on it stores no objects", f"make room there, or {mend}"
        )
    return ok(found)


CHECKS = (
    Check("run folder", "run directory: lock, rename, fsync", run_folder),
    Check("room", "run directory: room", room),
    Check("caches", "folders of caches", caches),
    Check("temporary", "temporary folder", temporary),
)
