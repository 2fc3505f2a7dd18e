"""Reads a live log while it grows.

A log is a file ``live/LEASE.NUMBER.v1.jsonl`` in the run directory. Only that of the newest lease is read (see
``evals.ledger.lease``): a driver that has lost the run may go on writing its own, which nobody looks at. When a log has grown
to its bound, its writer begins the next number with what is still running, and removes the one before.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from envs.files import FileError, MissingFileError, open_regular
from evals.ledger.lease import MOST_DIGITS, read_fence
from evals.live.lines import VERSION, read
from evals.live.running import RunningEpisodes

FOLDER: Final = "live"
"""In the run directory."""
MOST_BYTES: Final = 2**24
"""A larger log is not read; writers keep below a quarter of it."""


def log_path(run_dir: Path, mark: str, number: int) -> Path:
    """The log of this number of the holder of a lease."""
    return run_dir / FOLDER / f"{mark}.{number:06d}.v{VERSION}.jsonl"


class LiveLog:
    """The live log of one run, read as far as it goes."""

    def __init__(self, run_dir: Path) -> None:
        """Read nothing yet."""
        self.running = RunningEpisodes()
        self.trouble = ""
        """Why the log cannot be read; empty if it can."""
        self.version = 0
        """Changes whenever something has been read."""
        self._run_dir = run_dir
        self._path: Path | None = None
        self._read_bytes = 0

    def refresh(self) -> None:
        """Read what was added."""
        try:
            path = self._newest()
            if path != self._path:
                self._begin(path)
            added = self._added(path) if path is not None else b""
            self.trouble = ""
        except MissingFileError:
            return  # the next one has just taken its place
        except (FileError, OSError) as error:
            self.trouble = str(error)
            return
        whole = added[: added.rfind(b"\n") + 1]  # of the last line, half may be there
        self._read_bytes += len(whole)
        for text in whole.splitlines():
            line = read(text)
            if line is not None:
                self.running.add(line)
        self.version += bool(whole)

    def _begin(self, path: Path | None) -> None:
        self._path, self._read_bytes, self.running = path, 0, RunningEpisodes()
        self.version += 1

    def _added(self, path: Path) -> bytes:
        with open_regular(path, MOST_BYTES) as file:
            file.seek(self._read_bytes)
            return file.read(MOST_BYTES)

    def _newest(self) -> Path | None:
        """The latest log of the newest lease; None if there is none."""
        mark = read_fence(self._run_dir).mark
        name = re.compile(rf"{re.escape(mark)}\.([0-9]{{1,{MOST_DIGITS}}})\.v{VERSION}\.jsonl")
        try:
            names = [path.name for path in (self._run_dir / FOLDER).iterdir()] if mark else []
        except (FileNotFoundError, NotADirectoryError):
            return None
        numbers = [int(found[1]) for found in map(name.fullmatch, names) if found]
        return log_path(self._run_dir, mark, max(numbers)) if numbers else None
