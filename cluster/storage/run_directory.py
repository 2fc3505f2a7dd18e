"""Writing a run directory: it belongs to one plan and one driver; episodes are committed as immutable parts."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from cluster.console import warn
from cluster.errors import UserError, cannot_write
from cluster.storage import compaction, provenance
from cluster.storage.durable import is_scratch, is_unfinished, write_durably
from cluster.storage.lock import LOCK, LeaseLostError, RunLock
from cluster.storage.stored_run import FOLDERS, Run, check_links
from envs.disk import sync_directory
from evals.ledger.lease import MOST_DIGITS, find_leases, part_files, read_fence
from evals.ledger.parts import LedgerPart, describe_part, part_order, write_part
from evals.ledger.records import PARQUET_OPTIONS, plan_to_table
from evals.types import Episode

KEEP_REPLACED_SECONDS = 600.0
"""So long parts that were merged into a larger one stay, for readers that had found them."""

_NAMES_SHOWN = 3
LOGS = "logs"
"""Folder with the output of failed replicas, which says why a run that never began did not."""


class RunDirectory(Run):
    """A run that can be written, too; ``claim`` makes this process its only writer."""

    def __init__(self, path: Path) -> None:
        """Nothing is created until the directory is claimed."""
        super().__init__(path)
        self.parts = path / "episodes"
        """The folder of the ledger's parts."""
        self.session = ""
        """Id of the session that commits; see ``cluster.storage.provenance``."""
        self.attempts: Mapping[str, int] = {}
        """Attempts that the ledger has of episodes that are played again."""
        self._config_text = b""
        """What ``config.yaml`` holds since the run began here."""
        self._lock = RunLock(path)
        self._created = False
        """Whether this process created the directory, and nobody has begun a run in it before it was claimed."""
        self._numbers: Iterator[int]
        self._commits = 0
        """Parts written since parts were last looked at for merging."""
        self._replaced: list[tuple[float, list[Path]]] = []
        self._writing = threading.Lock()
        """Commits and merging write in threads of their own: held while a part is neither written nor doubtful."""
        self._doubtful: Path | None = None
        """A part whose writing failed; it may be there all the same."""

    def check_plan(self, plan: Sequence[Episode]) -> None:
        """See that the directory is new or belongs to this plan.

        Raises:
            UserError: it belongs to another plan, or something else is there.
        """
        ours = [episode.id for episode in plan]
        if len(set(ours)) < len(ours):
            raise UserError("suite: plans an episode twice; episodes must differ in task, level, mode, index or repeat")
        if not self.begun:
            self._check_free()
            return
        theirs = self.planned["episode_id"]
        if not theirs.equals(pa.chunked_array([ours], pa.string())) and {*theirs.to_pylist()} != {*ours}:
            raise UserError(_other_plan(self.path, self.plan, plan))

    def _check_free(self) -> None:
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise UserError(f"run_dir={self.path}: is a file; name a folder")
        if not _holds_logs_only(self.path) and not _has_had_a_driver(self.path):
            raise UserError(f"run_dir={self.path}: the directory is not empty and holds no run; name another one")

    @property
    def is_read_only(self) -> bool:
        """Whether an existing folder takes no file of this user: its file system is mounted read-only, or it is another's."""
        return self.path.is_dir() and not os.access(self.path, os.W_OK)

    def claim(self) -> None:
        """Lock the directory for this process until it is released.

        Raises:
            UserError: another driver is running here, or the folder does not support locking or cannot be written.
        """
        check_links(self.path)
        try:
            has_logs = (self.path / LOGS).is_dir()
            started_before = has_logs and _holds_logs_only(self.path)
            created = _create(self.path)
            self._lock.acquire(created)
            self.parts.mkdir(exist_ok=True)
        except OSError as error:
            self._lock.release()
            raise cannot_write(f"run_dir={self.path}", error) from error
        # Whoever created it need not be the first to lock it.
        is_new = created or started_before
        self._created = is_new and not self.begun and not any(self.parts.iterdir())
        self._remove_leftovers()
        self._numbers = itertools.count(self._last_number() + 1)

    def _remove_leftovers(self) -> None:
        """Remove files that were not written to their end; other folders below may be runs whose drivers write just now."""
        for folder in (self.path, *map(self.path.joinpath, FOLDERS)):
            # Behind a link in place of a folder others may write.
            leftovers = [] if folder.is_symlink() and folder != self.path else folder.glob(".*.tmp")
            for leftover in leftovers:
                # A link to a folder is no folder.
                is_folder = not leftover.is_symlink() and leftover.is_dir()
                if is_unfinished(leftover) and not is_folder:
                    leftover.unlink(missing_ok=True)

    def _last_number(self) -> int:
        """The highest number of a part: parts of one run sort by their numbers, whichever driver wrote them.

        Raises:
            UserError: no driver counts so far, and the numbers after it could not be told from none.
        """
        last = max(part_files(self.parts), key=part_order, default=None)
        number = part_order(last)[0] if last else 0
        if number >= 10 ** (MOST_DIGITS - 1):
            self._lock.release()
            raise UserError(f"{last}: no part has such a number; rename the file")
        return number

    def check_claim(self) -> None:
        """See that this process may still write.

        Raises:
            LeaseLostError: another driver has taken over.
        """
        self._lock.check()

    def release(self) -> None:
        """Remove what merged parts have replaced, and let another driver in."""
        with contextlib.suppress(OSError, LeaseLostError):  # else the next driver removes it
            self.remove_replaced(KEEP_REPLACED_SECONDS)
        self._lock.release()

    def discard(self) -> None:
        """Remove the directory if this process created it and nothing was played: a failed start leaves at most ``LOGS``.

        It is renamed first, so that another driver that starts now finds none of it and makes its own.
        """
        with contextlib.suppress(OSError, LeaseLostError):
            if self._created and not any(self.parts.iterdir()):
                self.check_claim()
                aside = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.tmp")
                self.path.rename(aside)
                if (aside / LOGS).is_dir():
                    self.path.mkdir()
                    (aside / LOGS).rename(self.path / LOGS)
                shutil.rmtree(aside)

    def begin(self, plan: Sequence[Episode], files: Mapping[str, str]) -> None:
        """Write the plan and what describes the run; those of a run that has begun stay as they are."""
        begun = self.begun
        for name, text in files.items():
            if not begun or not (self.path / name).exists():
                write_durably(self.path / name, text.encode())
        if not begun:
            self.write_plan(plan)
        if (self.path / "config.yaml").exists():
            self._config_text = (self.path / "config.yaml").read_bytes()

    def write_plan(self, plan: Sequence[Episode]) -> None:
        """Write the plan in place of any other."""
        self.planned = plan_to_table(plan)
        self.plan = list(plan)
        sink = pa.BufferOutputStream()
        pq.write_table(self.planned, sink, **PARQUET_OPTIONS)
        write_durably(self.path / "plan.parquet", sink.getvalue().to_pybytes())

    def keep_description(self) -> None:
        """Write plan and configuration again if they were removed while the run went on: without them no command reads it."""
        if not (self.path / "plan.parquet").exists():
            warn(f"{self.path}: plan.parquet was removed meanwhile; it is written again")
            self.write_plan(self.plan)
        if self._config_text and not (self.path / "config.yaml").exists():
            warn(f"{self.path}: config.yaml was removed meanwhile; it is written again")
            write_durably(self.path / "config.yaml", self._config_text)

    def write_suite(self, section: Mapping[str, Any]) -> None:
        """Store the suite's current settings of scoring, which are part of no id, so that reports use the same."""
        if self.config["suite"] != section:
            self.config = {**self.config, "suite": section}
            self._config_text = yaml.safe_dump(self.config, sort_keys=False, allow_unicode=True).encode()
            write_durably(self.path / "config.yaml", self._config_text)

    # --- sessions ---

    def begin_session(self, config: Mapping[str, Any], retry: str = "", commit: str = "") -> None:
        """Add this session to those that played here; rows that are committed from now on name it.

        Args:
            config: The resolved configuration.
            retry: If the session plays failed episodes again: the first session that did so on the same command, empty if
                this one is the first; see ``provenance.unfinished_retry``.
            commit: Of the model's files, where it is known.

        Raises:
            UserError: the run has been started too often.
        """
        session = provenance.new_session(config, retry, commit)
        sessions = [*self.sessions, session]
        provenance.check_room(self.path, sessions)
        self.session = session["id"]
        self.write_sessions(sessions)

    def complete_session(self, session_id: str) -> None:
        """Note that a session left nothing to play."""
        sessions = []
        for each in self.sessions:
            is_complete = each.get("id") == session_id
            sessions.append(each | {"complete": True} if is_complete else each)
        self.write_sessions(sessions)

    def note_engines(self, engines: Mapping[str, Mapping[str, str | float]]) -> None:
        """Note what the engines of this session say of themselves, by replica; nothing is written if that is known.

        Raises:
            LeaseLostError: another driver has the run.
        """
        noted = {name: dict(facts) for name, facts in sorted(engines.items())}
        mine = [each for each in self.sessions if each.get("id") == self.session]
        if mine and mine[0].get("engines", {}) != noted:
            self.check_claim()
            self.write_sessions([each | {"engines": noted} if each in mine else each for each in self.sessions])

    def write_sessions(self, sessions: list[dict[str, Any]]) -> None:
        """Replace the sessions that are noted."""
        self.sessions = sessions
        provenance.write_versions(self.path, sessions)

    # --- parts ---

    def commit(self, episodes: pa.Table) -> Path:
        """Write one immutable part; when this returns it survives the death of anything.

        Args:
            episodes: New rows of this session; which attempt each is, the directory knows.

        Raises:
            OSError: it cannot be written.
            LeaseLostError: another driver has taken over.
        """
        attempts = [self.attempts.get(name, 0) + 1 for name in episodes["episode_id"].to_pylist()]
        filled = {
            "attempt": pa.array(attempts, pa.int32()),
            "session": pa.array([self.session] * len(attempts), pa.string()),
        }
        for name, values in filled.items():
            episodes = episodes.set_column(episodes.column_names.index(name), name, values)
        return self.commit_rows(episodes)

    def commit_rows(self, episodes: pa.Table) -> Path:
        """As ``commit``, for rows that say by themselves which session and attempt they are of."""
        return self._write(write_part([episodes], episodes.schema, lease=self._lock.mark))

    def compact(self, everything: bool = False) -> None:
        """Merge small parts into larger ones once there are many, or all of them.

        Raises:
            OSError: nothing can be written.
            LedgerDamagedError: a part cannot be read.
            LeaseLostError: another driver has taken over.
        """
        self.remove_replaced()
        few = self._commits < compaction.FAN
        if few and not everything:
            return
        self._commits = 0
        here: set[str] = set()
        replaced: set[str] = set()
        counted = self._counted_parts()
        for part in counted:
            here.add(part.path.name)
            replaced |= part.replaces
        parts = [part for part in counted if part.path.name not in replaced]
        sizes = [part.path.stat().st_size for part in parts]
        for group in compaction.choose(sizes, everything):
            chosen = [parts[number] for number in group]
            self._write_merged(chosen, replaced & here)

    def _write_merged(self, chosen: Sequence[LedgerPart], replaced_here: set[str]) -> None:
        """Write the rows of some parts as one, and note these parts for removal."""
        names = {part.path.name for part in chosen}
        # Of the parts that the chosen ones have replaced, those that are still here are named again, and no others:
        # readers look whether all rows of a named part are there.
        for part in chosen:
            names.update(part.replaces & replaced_here)
        self._write(compaction.merged(chosen, names, self._lock.mark))
        self._replaced.append((time.monotonic(), [part.path for part in chosen]))

    def _counted_parts(self) -> list[LedgerPart]:
        """The parts of this driver, and those that counted when it took the lease, oldest first."""
        fence = read_fence(self.path)
        with self._writing:
            self._remove_doubtful()
            paths = sorted(part_files(self.parts), key=part_order)
        return [part for part in map(describe_part, paths) if fence.admits(part.path.name, part.lease)]

    def remove_replaced(self, seconds: float = 0.0) -> None:
        """Remove parts that will have been replaced for ``KEEP_REPLACED_SECONDS``, ``seconds`` from now."""
        due = time.monotonic() + seconds - KEEP_REPLACED_SECONDS
        old: list[Path] = []
        while self._replaced and self._replaced[0][0] <= due:
            old += self._replaced.pop(0)[1]
        self.remove(old)

    def remove(self, parts: Sequence[Path]) -> None:
        """Remove parts whose rows are in others."""
        if parts:
            self._lock.check()
            for part in parts:
                part.unlink(missing_ok=True)
            sync_directory(self.parts)

    def _write(self, content: bytes) -> Path:
        with self._writing:
            self._lock.check()
            if self.parts.is_symlink():  # somebody has put it in the folder's place
                raise OSError(f"{self.parts}: is a link; put back the folder that was there")
            self._remove_doubtful()
            self._commits += 1
            path = self.parts / f"part-{next(self._numbers):06d}-{secrets.token_hex(4)}.parquet"
            self._doubtful = path
            write_durably(path, content)
            self._doubtful = None
            return path

    def _remove_doubtful(self) -> None:
        """Remove a part whose writing failed, before its rows are written again: they must not be there twice.

        A network file system may rename a file and lose its answer; and what cannot be synced has been renamed before.

        Raises:
            OSError: it cannot be removed.
        """
        if self._doubtful is not None:
            self._doubtful.unlink(missing_ok=True)
            self._doubtful = None


def _holds_logs_only(folder: Path) -> bool:
    """Whether an existing folder is empty but for what failed starts, and ``raycade doctor``, have left."""
    return all(path.name == LOGS or is_scratch(path) for path in folder.iterdir())


def _has_had_a_driver(folder: Path) -> bool:
    """Whether an existing folder without a plan is a run's: a driver, which has left its lease, died before it wrote the plan.

    Others call a lock ``.lock``, too. Of a driver that died before it wrote its lease there is nothing else.
    """
    try:
        names = {path.name for path in folder.iterdir() if not is_scratch(path)}
        return bool(find_leases(folder)) or names <= {LOCK, LOGS}
    except OSError as error:
        raise cannot_write(f"run_dir={folder}", error) from error


def _create(path: Path) -> bool:
    """Create a folder unless it is there; of several processes that try, one is told that it did."""
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        return False
    return True


def _other_plan(path: Path, theirs: Sequence[Episode], ours: Sequence[Episode]) -> str:
    lines = [
        f"run_dir={path}: the directory belongs to another plan; name another one, or repeat the run's own settings."
    ]
    for name in ("player", "suite", "task", "level", "mode"):
        here = sorted({str(getattr(episode, name)) for episode in theirs})
        asked = sorted({str(getattr(episode, name)) for episode in ours})
        if here != asked:
            lines.append(f"  {name}: there {_some(here)}, asked for {_some(asked)}")
    # What none of these tells apart is in the ids alone.
    if len(lines) == 1:
        their_ids = {episode.id for episode in theirs}
        our_ids = {episode.id for episode in ours}
        lines.append(
            f"  there {len(theirs)} episodes, asked for {len(ours)}, of which {len(their_ids & our_ids)} are the same: "
            "sampling, decoding, prompts, games, counts or a served player's version differ; each of these needs a run_dir of "
            "its own"
        )
    return "\n".join(lines)


def _some(names: list[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
