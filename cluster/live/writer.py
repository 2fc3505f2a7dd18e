"""Writes a run's live log: on a thread of its own, so that a slow or full disk is never in the way of the run."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import secrets
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from cluster.console import warn
from cluster.live.listener import Listener
from cluster.storage.run_directory import RunDirectory
from evals.ledger.lease import read_fence
from evals.live import FOLDER, Began, Ended, Gone, Line, Numbers, PlayedLine, RunningEpisodes
from evals.live.lines import written
from evals.live.log import log_path

LOG_BYTES: Final = 4 * 2**20
"""A log that has grown to this begins anew with what is still running, and at most half as many bytes."""
WRITE_SECONDS: Final = 1.0
"""Between writes."""
MOST_WAITING: Final = 10_000
"""Lines that wait to be written; while a disk hangs, further ones are dropped."""
CLOSE_SECONDS: Final = 5.0
"""How long the end of a run waits for a disk that hangs."""
SHOWN_NUMBERS: Final = (
    "episodes/alive",
    "episodes/queued",
    "requests/queued",
    "requests_per_second",
    "tokens_per_second",
    "replicas/up",
    "replicas/busy",
    "spent",
    "gpu_cost",
    "seconds",
    "seconds_left",
)
"""Of the run's statistics."""


class GrowingLog:
    """The file of a live log, which is made when there is something to be written."""

    def __init__(self, run_dir: Path, mark: str, attempts: Mapping[str, int]) -> None:
        """Write nothing yet.

        Args:
            run_dir: The run directory.
            mark: Of the driver's lease.
            attempts: Attempts that the ledger has of episodes that are played again.
        """
        self.running = RunningEpisodes()
        self._run_dir, self._mark, self._attempts = run_dir, mark, attempts
        self._number = 0
        self._size = 0

    def append(self, lines: Iterable[Line]) -> None:
        """Write further lines.

        Raises:
            OSError: they cannot be written.
        """
        text = b""
        for line in map(self._completed, lines):
            if line is not None:
                self.running.add(line)
                text += written(line)
        if not text:
            return
        if self._number == 0 or self._size + len(text) > LOG_BYTES:
            self._begin()
            return
        with self._path.open("ab") as file:
            file.write(text)
        self._size += len(text)

    def remove(self) -> None:
        """Remove the log: nothing is running anymore."""
        if self._number:
            self._path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # another driver's log is there
                self._path.parent.rmdir()

    @property
    def _path(self) -> Path:
        return log_path(self._run_dir, self._mark, self._number)

    def _completed(self, line: Line) -> Line | None:
        """A line as it is written; None for one that says nothing of a followed episode."""
        if isinstance(line, Began):
            return dataclasses.replace(line, attempt=self._attempts.get(line.episode, 0) + 1)
        if isinstance(line, Gone):
            followed = tuple(episode for episode in line.episodes if episode in self.running.episodes)
            return Gone(followed) if followed else None
        is_gone = isinstance(line, PlayedLine | Ended) and line.episode not in self.running.episodes
        return None if is_gone else line

    def _begin(self) -> None:
        """Begin the next file, and remove the one before."""
        before = self._path if self._number else None
        self.running.trim(LOG_BYTES // 2)
        text = b"".join(map(written, self.running.lines()))
        self._number += 1
        self._path.parent.mkdir(exist_ok=True)
        beside = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}.tmp")  # see durable.is_unfinished
        beside.write_bytes(text)
        beside.rename(self._path)
        self._size = len(text)
        if before is not None:
            before.unlink(missing_ok=True)


class LiveWriter:
    """The driver's end of a live log; nothing that befalls it ends the run."""

    def __init__(self, log: GrowingLog | None) -> None:
        """Without a log everything is dropped."""
        self._log = log
        self._lines: queue.Queue[Line] = queue.Queue(MOST_WAITING)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write_forever, daemon=True, name="live log") if log else None
        if self._thread is not None:
            self._thread.start()

    @classmethod
    def of(cls, directory: RunDirectory, wanted: bool) -> LiveWriter:
        """The writer of a run whose directory this process has claimed; logs that former drivers left are removed."""
        with contextlib.suppress(OSError):
            for leftover in (directory.path / FOLDER).glob("*.jsonl"):
                leftover.unlink(missing_ok=True)
        mark = read_fence(directory.path).mark
        return cls(GrowingLog(directory.path, mark, directory.attempts) if wanted and mark else None)

    def listener(self, runners: int) -> Listener | None:
        """For one of so many runners; None if nobody listens."""
        return Listener(1 / runners) if self._log is not None else None

    def add(self, lines: Iterable[Line]) -> None:
        """Write lines soon."""
        if self._log is not None:
            with contextlib.suppress(queue.Full):
                for line in lines:
                    self._lines.put_nowait(line)

    def gone(self, episodes: Iterable[str]) -> None:
        """Take out episodes that are in the ledger now, or wait to be played again."""
        if self._log is not None:
            self.add([Gone(tuple(episodes))])

    def numbers(self, at: float, statistics: Mapping[str, float]) -> None:
        """Note how the run goes."""
        self.add([Numbers(at, {name: statistics[name] for name in SHOWN_NUMBERS if name in statistics})])

    def close(self) -> None:
        """Remove the log."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _write_forever(self) -> None:
        assert self._log is not None
        try:
            while not self._ended.wait(WRITE_SECONDS):
                self._log.append(self._waiting())
            self._log.remove()
        except Exception as error:  # whatever it is, the run goes on
            warn(f"the live log is no longer written, the run goes on: {error}")
            with contextlib.suppress(OSError):
                self._log.remove()

    def _waiting(self) -> list[Line]:
        lines = []
        with contextlib.suppress(queue.Empty):
            while True:
                lines.append(self._lines.get_nowait())
        return lines
