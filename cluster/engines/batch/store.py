"""What of a run's batch jobs is on disk: which turns each holds, its id at the provider, its answers.

One file of lines, each on disk before what it announces is done: a job's turns before they are sent, an answer before the game
goes on. So a death at any moment leaves a job that can be found again, and no turn is asked or paid for twice.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envs.disk import own_file
from envs.files import Bounds, FileError, MissingFileError, open_regular, parse_json
from evals.ledger.check import MOST
from evals.types import stable_hash

FOLDER = "batches"
JOURNAL = "journal.jsonl"
MOST_JOURNAL_BYTES = 2**32
LATEST = 1e11
"""No job is announced later, in seconds since 1970: some thousand years from now."""
LINE_BOUNDS = Bounds(2**27, 65, 5_000_000)
"""Of a line; those of an answer are ``Bounds()``."""


def journal_of(run_dir: Path) -> Path:
    """Where the journal of a run's batch jobs is, if it has any."""
    return run_dir / FOLDER / JOURNAL


@dataclass
class Job:
    """One batch job."""

    key: str
    """Ours; providers that take a name for a job are told it."""
    turns: tuple[str, ...]
    """Ids of its turns."""
    since: float
    """When it was announced, in seconds since 1970."""
    batch: str = ""
    """The provider's id; empty before it is known."""
    over: bool = False
    """Whether all that it will ever answer is on disk, or it was never sent."""


@dataclass
class Store:
    """The journal of a run's batch jobs, and what stands in it."""

    path: Path
    jobs: dict[str, Job] = field(default_factory=dict)
    answers: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """By turn: ``data``, or the ``error`` with its ``status``."""
    counted: dict[str, float] = field(default_factory=dict)
    """By turn: what the run's spending holds for it; at first the most that it may cost, then its price."""
    failures: dict[str, int] = field(default_factory=dict)
    """Attempts at a turn that have failed, by the turn without its attempt."""

    @classmethod
    def open(cls, run_dir: Path) -> Store:
        """Read a run's journal, or begin one; a last line that a death cut short is dropped.

        Raises:
            OSError, FileError: it cannot be read, or is not what this module has written.
        """
        store = cls(journal_of(run_dir))
        store.path.parent.mkdir(exist_ok=True)
        try:
            file = open_regular(store.path, MOST_JOURNAL_BYTES, os.O_NOFOLLOW)
        except MissingFileError:
            return store
        whole = 0
        with file:
            for number in itertools.count(1):
                line = file.readline(LINE_BOUNDS.size + 1)
                place = f"{store.path}, line {number}"
                if not line.endswith(b"\n") and len(line) <= LINE_BOUNDS.size:
                    break  # at its end
                whole += len(line)
                value = parse_json(line, place, LINE_BOUNDS)
                try:
                    store._take(value)
                except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
                    raise FileError(place, f"is no line of it: {type(error).__name__}") from None
        if whole < store.path.stat().st_size:
            os.truncate(store.path, whole)
        return store

    def turn_id(self, name: str, known_by: Mapping[str, Any]) -> str:
        """The id of a turn's current attempt: a hash of its name and what it is known by, and a number."""
        base = stable_hash(name, known_by)
        return f"{base}-{self.failures.get(base, 0)}"

    @property
    def open_jobs(self) -> list[Job]:
        """Jobs that may still answer."""
        return [job for job in self.jobs.values() if not job.over]

    def job_of(self, turn: str) -> Job | None:
        """The job that was announced for a turn, unless it is known not to have been sent."""
        return next((job for job in self.jobs.values() if turn in job.turns), None)

    # --- what happens, each on disk when the call returns ---

    def announce(self, turns: Mapping[str, float]) -> Job:
        """A job is about to be sent, with the most that each of its turns may cost."""
        key = "raycade-" + stable_hash(sorted(turns), time.time_ns())[:24]
        self._write({"job": key, "turns": dict(turns), "since": time.time()})
        return self.jobs[key]

    def sent(self, job: Job, batch: str) -> None:
        """The provider has taken a job."""
        self._write({"sent": job.key, "batch": batch})

    def answered(self, answers: Mapping[str, Mapping[str, Any]]) -> None:
        """Answers have come."""
        self._write(*({"turn": turn, **answer} for turn, answer in answers.items()))

    def over(self, job: Job) -> None:
        """A job will answer no more."""
        self._write({"over": job.key})

    def never_sent(self, job: Job) -> None:
        """The provider does not know a job: its turns are sent in another one."""
        self._write({"dropped": job.key})

    def priced(self, turn: str, price: float) -> None:
        """What a turn did cost takes the place of what it might."""
        self._write({"priced": turn, "price": price})

    def unreadable(self, turn: str) -> None:
        """What was answered to a turn is no answer: its next attempt has another id."""
        self._write({"unreadable": turn})

    def _write(self, *lines: dict[str, Any]) -> None:
        own_file(self.path)
        with self.path.open("ab") as file:
            file.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())
        for line in lines:
            self._take(line)

    def _take(self, line: Mapping[str, Any]) -> None:
        """Bring what is known up to date with one line."""
        if "job" in line:
            self.jobs[line["job"]] = Job(line["job"], tuple(line["turns"]), _number(line["since"], LATEST))
            for turn, most in line["turns"].items():
                self.counted.setdefault(turn, _number(most, MOST))
        elif "sent" in line:
            self.jobs[line["sent"]].batch = str(line["batch"])
        elif "over" in line:
            self.jobs[line["over"]].over = True
        elif "dropped" in line:
            del self.jobs[line["dropped"]]
        elif "priced" in line:
            self.counted[line["priced"]] = _number(line["price"], MOST)
        elif "unreadable" in line:
            self._failed(line["unreadable"])
        else:
            if "data" not in line:
                line = {**line, "error": str(line["error"]), "status": int(line["status"])}
                self._failed(line["turn"])
            self.answers[line["turn"]] = line

    def _failed(self, turn: str) -> None:
        base, _, attempt = turn.rpartition("-")
        self.failures[base] = max(self.failures.get(base, 0), int(attempt) + 1)


def _number(value: Any, most: float) -> float:
    """A number from 0 up, as it is noted.

    Raises:
        TypeError, ValueError: it is none, or above ``most``.
    """
    if not 0 <= value <= most:
        raise ValueError(value)
    return float(value)
