"""Shared memory that engine processes leave behind when they are killed, and the files by which they met.

Workers of one engine talk through POSIX shared memory, which outlives them: a few megabytes for each start that fails.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil

SHARED_MEMORY: Final = Path("/dev/shm")
NAMES: Final = re.compile(r"psm_\w+|vllm_dist_.+|sem\.mp-\w+")
"""What Python's multiprocessing and vLLM call theirs."""
CHILDREN_SECONDS: Final = 5.0
"""How long processes of the engine may take to end before theirs are looked for."""


class SharedFiles:
    """Notes what is there before an engine starts, to remove what it has left when it has ended."""

    def __init__(self) -> None:
        """Look at what is there; it belongs to others."""
        self._before = set(_files())

    def remove_left(self) -> list[Path]:
        """Remove files that came since then, are this user's, and are used by no process; returns them."""
        new = [path for path in _files() if path not in self._before]
        if not new:
            return []
        end = time.monotonic() + CHILDREN_SECONDS
        while _in_use(psutil.Process().children(recursive=True)) & {*new} and time.monotonic() < end:
            time.sleep(0.1)
        in_use = _in_use(psutil.process_iter())
        removed = []
        for path in new:
            with contextlib.suppress(OSError):
                if path not in in_use and path.stat().st_uid == os.geteuid():
                    path.unlink()
                    removed.append(path)
        return removed


def _files() -> Iterator[Path]:
    for folder in (SHARED_MEMORY, Path(tempfile.gettempdir())):
        with contextlib.suppress(OSError):
            yield from (path for path in folder.iterdir() if NAMES.fullmatch(path.name) and path.is_file())


def _in_use(processes: Iterator[psutil.Process] | list[psutil.Process]) -> set[Path]:
    """Files of interest that one of these processes has mapped or open."""
    found = set[Path]()
    for process in processes:
        with contextlib.suppress(psutil.Error, OSError):
            if process.uids().effective != os.geteuid():
                continue
            mapped = [entry.path for entry in process.memory_maps()]
            found |= {Path(name) for name in (*mapped, *(file.path for file in process.open_files()))}
    return found
