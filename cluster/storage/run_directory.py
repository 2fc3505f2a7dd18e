"""Durable writing: a run directory belongs to one plan and one driver; episodes are committed as immutable parts."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from cluster.errors import UserError
from evals.records import PARQUET_OPTIONS, LedgerContents, plan_from_table, plan_to_table, read_ledger
from evals.types import Episode

_NAMES_SHOWN = 3


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file so that a reader sees the old content or the new, whole, even after a crash of the machine."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(path)
    except OSError:
        beside.unlink(missing_ok=True)  # half a file must not fill a disk that is full already
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


class RunDirectory:
    """The files of one run; ``claim`` makes this process its only writer."""

    def __init__(self, path: Path) -> None:
        """Nothing is created until the directory is claimed."""
        self.path = path
        self.episodes = path / "episodes"
        self._lock: IO[str] | None = None
        self._parts = 0

    def check_plan(self, plan: Sequence[Episode]) -> None:
        """See that the directory is new or belongs to this plan.

        Raises:
            UserError: it belongs to another plan, or something else is there.
        """
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"run_dir={self.path}: is a file; name a folder")
        stored = self.path / "plan.parquet"
        if not stored.exists():
            if self.path.exists() and any(self.path.iterdir()) and not (self.path / ".lock").exists():
                raise UserError(f"run_dir={self.path}: the directory is not empty and holds no run; name another one")
            return
        theirs = {episode.id: episode for episode in read_plan(self.path)}
        ours = {episode.id: episode for episode in plan}
        if theirs.keys() != ours.keys():
            raise UserError(_other_plan(self.path, theirs, ours))

    def claim(self) -> None:
        """Lock the directory for this process, for as long as it lives.

        Raises:
            UserError: another driver is at work here, or the file system knows no locks or lets nobody write.
        """
        new = not self.path.exists()
        try:
            self.episodes.mkdir(parents=True, exist_ok=True)
            lock = (self.path / ".lock").open("a+")
        except OSError as error:
            raise UserError(f"run_dir={self.path}: cannot be written: {error}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            owner = lock.read().strip() or "unknown"
            lock.close()
            raise UserError(f"run_dir={self.path}: another driver is running here (process {owner})") from error
        except OSError as error:
            lock.close()
            if new:
                (self.path / ".lock").unlink()
                self.episodes.rmdir()
                self.path.rmdir()
            raise UserError(
                f"run_dir={self.path}: this file system knows no locks ({error}), so two drivers could write at once; name "
                "a folder elsewhere, or have it mounted with locks (Lustre: -o flock)"
            ) from error
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._lock = lock
        for leftover in self.path.rglob(".*.tmp"):
            leftover.unlink(missing_ok=True)
        numbers = [
            int(found[1]) for part in self.episodes.glob("*.parquet") if (found := re.match(r"part-(\d+)", part.name))
        ]
        self._parts = max(numbers, default=0)

    def release(self) -> None:
        """Let another driver in."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def begin(self, plan: Sequence[Episode], files: Mapping[str, str]) -> None:
        """Write the plan and what describes the run; those of a run that has begun stay as they are."""
        begun = (self.path / "plan.parquet").exists()
        for name, text in files.items():
            if not begun or not (self.path / name).exists():
                write_durably(self.path / name, text.encode())
        if not begun:
            self.write_plan(plan)

    def write_plan(self, plan: Sequence[Episode]) -> None:
        """Write the plan in place of any other."""
        sink = pa.BufferOutputStream()
        pq.write_table(plan_to_table(plan), sink, **PARQUET_OPTIONS)
        write_durably(self.path / "plan.parquet", sink.getvalue().to_pybytes())

    def commit(self, episodes: pa.Table) -> Path:
        """Write one immutable part; when this returns it survives the death of anything."""
        self._parts += 1
        sink = pa.BufferOutputStream()
        pq.write_table(episodes, sink, **PARQUET_OPTIONS)
        path = self.episodes / f"part-{self._parts:06d}-{secrets.token_hex(4)}.parquet"
        write_durably(path, sink.getvalue().to_pybytes())
        return path


def read_plan(run_dir: Path) -> list[Episode]:
    """The plan that a run directory belongs to.

    Raises:
        UserError: there is none, or it cannot be read.
    """
    path = run_dir / "plan.parquet"
    if not path.exists():
        raise UserError(f"{run_dir}: no run here (there is no plan.parquet)")
    try:
        return plan_from_table(pq.read_table(path))
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise UserError(f"{path}: damaged, cannot be read as a plan: {error}") from error


def read_config(run_dir: Path) -> dict[str, Any]:
    """The resolved configuration that a run began with.

    Raises:
        UserError: there is none, or it cannot be read.
    """
    path = run_dir / "config.yaml"
    try:
        config = yaml.safe_load(path.read_text())
    except FileNotFoundError as error:
        raise UserError(f"{run_dir}: no run here (there is no config.yaml)") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not YAML: {error}") from error
    if not isinstance(config, dict) or "suite" not in config:
        raise UserError(f"{path}: names no suite")
    return config


def read_episodes(run_dir: Path, columns: Sequence[str] | None = None) -> LedgerContents:
    """The run's ledger; all columns but the bulky ``turns`` unless ``columns`` are named.

    Raises:
        UserError: a part is damaged or an episode is there twice; the message names each.
    """
    contents = read_ledger(run_dir, columns)
    if contents.damaged:
        found = "\n".join(f"  {path}: {reason}" for path, reason in contents.damaged)
        raise UserError(
            f"{run_dir}: the ledger is damaged:\n{found}\n"
            "Move these files out of the episodes folder to go on without them; `raycade run` plays again what they held."
        )
    return contents


def _other_plan(path: Path, theirs: dict[str, Episode], ours: dict[str, Episode]) -> str:
    lines = [
        f"run_dir={path}: the directory belongs to another plan; name another one, or repeat the run's own settings."
    ]
    for name in ("player", "suite", "task", "level", "mode"):
        here = sorted({str(getattr(episode, name)) for episode in theirs.values()})
        asked = sorted({str(getattr(episode, name)) for episode in ours.values()})
        if here != asked:
            lines.append(f"  {name}: there {_some(here)}, asked for {_some(asked)}")
    if len(lines) == 1:
        shared = len(theirs.keys() & ours.keys())
        lines.append(
            f"  there {len(theirs)} episodes, asked for {len(ours)}, of which {shared} are the same: sampling, decoding, "
            "prompts, games or counts differ"
        )
    return "\n".join(lines)


def _some(names: list[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
