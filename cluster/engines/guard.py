"""A process that outlives the one that hosts an engine, by seconds.

vLLM's engine does not notice that the process that started it was killed: its processes would keep a GPU, and their shared
memory stays whenever they are killed. This file is run with the number of the host's process, and needs nothing of raycade.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

if TYPE_CHECKING:
    from cluster.engines.base import Engine

LOOK_SECONDS: Final = 0.5
SHARED_SECONDS: Final = 2.0
"""Between looks at what shared memory the processes use, which takes longer."""
CLOSE_SECONDS: Final = 3.0
"""How long the host waits for the end of an engine that it has closed."""
MARK: Final = "raycade_guarded_by"
"""Environment variable of the processes that are started meanwhile, by which those are found that nobody saw start."""
SHARED: Final = Path("/dev/shm")


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """All processes that are started within it, but trackers', end soon after this one; their shared memory with them."""
    mark = secrets.token_hex(16)
    ours, its = socket.socketpair()
    command = [sys.executable, "-P", __file__, str(os.getpid()), mark]
    with its:
        subprocess.run(command, stdin=its.fileno(), start_new_session=True, check=True)
    os.environ[MARK] = mark
    try:
        yield
    finally:
        os.environ.pop(MARK, None)
        with ours:
            ours.shutdown(socket.SHUT_WR)
            ours.settimeout(CLOSE_SECONDS)
            with contextlib.suppress(OSError):  # processes that end late are left to the guard
                ours.recv(1)


def guard_of(engine: type[Engine] | None) -> contextlib.AbstractContextManager[None]:
    """``guarded``, for engines that may start processes."""
    return guarded() if engine is not None and engine.starts_processes else contextlib.nullcontext()


def watch(host: psutil.Process, mark: str) -> None:
    """Remember the descendants of ``host`` and their shared memory; when it has died, kill those that are left.

    A process that was forked has the mark of its parent's start, so none; one that started in the last moment has been seen by
    nobody. Of these, only one that is both is missed. If the host says that its engine is closed, nothing is killed as long as
    it lives; the guard waits until the engine's processes have ended.
    """
    known: list[psutil.Process] = []
    used: set[str] = set()
    next_look, closed = 0.0, False
    while _lives(host):
        has_ended = closed and not list(_marked(mark))
        if has_ended:
            break
        with contextlib.suppress(psutil.Error):
            known = [each for each in host.children(recursive=True) if is_engine(each)]
        if time.monotonic() >= next_look:
            used |= _shared_by([host, *known])
            next_look = time.monotonic() + SHARED_SECONDS
        if closed:
            time.sleep(LOOK_SECONDS)
        else:
            closed = bool(select.select([0], [], [], LOOK_SECONDS)[0]) and _lives(host)
    if not _lives(host):
        left = {*known, *_marked(mark)}
        for process in left:
            with contextlib.suppress(psutil.Error):  # psutil kills no other process that has got the number meanwhile
                process.kill()
        psutil.wait_procs(left, CLOSE_SECONDS)
    # What another living process has mapped is its own: an engine that is starting beside this one, say.
    for name in used - _shared_by(psutil.process_iter()):
        (SHARED / name).unlink(missing_ok=True)


def is_engine(process: psutil.Process) -> bool:
    """No guard; and neither W&B's, which writes its file to the end, nor the one that removes shared memory."""
    command = " ".join([process.name(), *process.cmdline()])
    return "wandb" not in command and "resource_tracker" not in command and __file__ not in command


def _lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _marked(mark: str) -> Iterator[psutil.Process]:
    """Living processes that were started with the mark in their environment."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark and is_engine(process) and _lives(process):
                yield process


def _shared_by(processes: Iterable[psutil.Process]) -> set[str]:
    """Names below ``/dev/shm`` that processes have mapped."""
    names = set()
    for process in processes:
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            for line in Path(f"/proc/{process.pid}/maps").read_text(errors="replace").splitlines():
                _, _, name = line.partition(f" {SHARED}/")
                if name and "/" not in name and not name.endswith(" (deleted)"):
                    names.add(name)
    return names


if __name__ == "__main__" and not os.fork():  # Ray ends the children of its actors, and this must not be one
    watch(psutil.Process(int(sys.argv[1])), sys.argv[2])
