"""A process that outlives the one that hosts an engine, by seconds: it ends the engine's processes, which would keep a GPU.

vLLM's engine does not notice that the process that started it was killed. This file is run with that process's number.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

import psutil

LOOK_SECONDS: Final = 0.5
MARK: Final = "raycade_guarded_by"
"""Environment variable of the processes that are started meanwhile, by which those are found that nobody saw start."""


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Within it, all processes that this one starts, but trackers', end soon after it, however it ends."""
    mark = secrets.token_hex(16)
    command = [sys.executable, "-P", __file__, str(os.getpid()), mark]  # as a file: it needs nothing of raycade
    guard = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    os.environ[MARK] = mark
    try:
        yield
    finally:
        del os.environ[MARK]
        guard.kill()
        guard.wait()


def watch(parent: int, mark: str) -> None:
    """Remember the descendants of process ``parent`` as long as it lives, then kill those that are left.

    A process that was forked has the mark of its parent's start, so none; one that started in the last moment has been seen by
    nobody. Of these, only one that is both is missed.
    """
    known: list[psutil.Process] = []
    while os.getppid() == parent:
        with contextlib.suppress(psutil.Error):
            known = [each for each in psutil.Process(parent).children(recursive=True) if _is_engine(each)]
        time.sleep(LOOK_SECONDS)
    for process in {*known, *_marked(mark)}:
        with contextlib.suppress(psutil.Error):  # psutil kills no other process that has got the number meanwhile
            process.kill()


def _marked(mark: str) -> Iterator[psutil.Process]:
    """Processes that were started with the mark in their environment."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark and _is_engine(process):
                yield process


def _is_engine(process: psutil.Process) -> bool:
    """Not this process; and neither W&B's, which writes its file to the end, nor the one that removes shared memory."""
    if process.pid == os.getpid():
        return False
    command = " ".join([process.name(), *process.cmdline()])
    return "wandb" not in command and "resource_tracker" not in command


if __name__ == "__main__":
    watch(int(sys.argv[1]), sys.argv[2])
