"""A process that outlives the one that hosts an engine, by seconds: it ends the engine's processes, which would keep a GPU.

vLLM's engine does not notice that the process that started it was killed. This file is run with that process's number.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

import psutil

LOOK_SECONDS: Final = 0.5


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Within it, all processes that this one starts, but trackers', end soon after it, however it ends."""
    command = [sys.executable, "-P", __file__, str(os.getpid())]  # as a file: it needs nothing of raycade
    guard = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        guard.kill()
        guard.wait()


def watch(parent: psutil.Process) -> None:
    """Remember the parent's descendants as long as it lives, then kill those that are left."""
    known: list[psutil.Process] = []
    while os.getppid() == parent.pid:
        with contextlib.suppress(psutil.Error):
            known = [each for each in parent.children(recursive=True) if _is_engine(each)]
        time.sleep(LOOK_SECONDS)
    for process in known:
        with contextlib.suppress(psutil.Error):  # psutil kills no other process that has got the number meanwhile
            process.kill()


def _is_engine(process: psutil.Process) -> bool:
    """Not this process; and neither W&B's, which writes its file to the end, nor the one that removes shared memory."""
    if process.pid == os.getpid():
        return False
    command = " ".join([process.name(), *process.cmdline()])
    return "wandb" not in command and "resource_tracker" not in command


if __name__ == "__main__":
    watch(psutil.Process(int(sys.argv[1])))
