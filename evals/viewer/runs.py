"""The runs that a viewer shows, and what their ledgers hold that it has not read yet."""

from __future__ import annotations

import dataclasses
import errno
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from envs.files import shown_files
from envs.files.parquet import read_parquet
from evals.ledger.check import CHECKED, PLANNED, check_rows
from evals.ledger.columns import COLUMNS
from evals.ledger.lease import read_fence
from evals.ledger.parts import (
    Damage,
    LedgerChangedError,
    LedgerDamagedError,
    LedgerPart,
    describe_part,
    part_order,
    read_batches,
)
from evals.ledger.run_data import RunData
from evals.suite import Suite

LISTED = tuple(name for name in COLUMNS if name not in ("turns", "session"))
"""The columns of the ledger that the list of episodes knows."""
LISTED_SCHEMA = pa.schema({name: COLUMNS[name].type for name in LISTED})

PLAN = "plan.parquet"
REPLACED = -1
"""In place of a part's number: its rows are in a merged part."""

FileState = tuple[int, int, int]
"""Number, time of change and size of a file: what differs once it was written again, or another one took its place."""
NO_FILE: FileState = (0, 0, 0)
ReadSoFar = tuple[int, frozenset[str]]
"""``ViewedRun.beginning`` and the names of the parts."""

ROWS_AT_FIRST = 1_000
ROWS_AT_ONCE = 80_000
"""Rows that are read before they are shown; the first ones come sooner."""


@dataclass
class ViewedRun:
    """One run directory, and what of it has been read so far."""

    name: str
    path: Path
    suite: Callable[[], Suite]
    """Makes the run's suite; raises ValueError where it cannot, and episodes are then shown without its help."""
    data: Callable[[], RunData]
    """Opens plan and ledger as they are now, for scores."""
    stopping: Callable[[], Sequence[str]] = tuple
    """What the run's stopping rule says now, a sentence for each decision; nothing for a run without one."""
    writer: Callable[[], str] = str
    """Whether its driver is at work, silent, gone or done; empty for a run that nobody has ever played."""
    reopen: Callable[[], ViewedRun] | None = None
    """Makes the run that is in the folder now, once another one has taken its place."""
    plan: FileState | None = None
    """Of the plan that was read; None before."""
    planned: int = 0
    parts: dict[str, int] = field(default_factory=dict)
    """Names of the parts that were read, with their numbers or ``REPLACED``."""
    damage: dict[str, str] = field(default_factory=dict)
    """What of the run cannot be shown, by file name."""
    unreadable: dict[str, FileState] = field(default_factory=dict)
    """Damaged parts as they were; ``NO_FILE`` for those that may be sound, and are read again at each look."""
    waiting: int = 0
    """Parts that are there and were not read yet."""
    beginning: int = 0
    """How often the folder was read from the beginning again, since another run was in it."""

    @property
    def read_so_far(self) -> ReadSoFar:
        """What others compare to know whether they must read the run again."""
        return self.beginning, frozenset(self.parts)

    @property
    def unopened(self) -> list[str]:
        """Parts that cannot be read here, but may be sound."""
        return [name for name, state in self.unreadable.items() if state == NO_FILE]

    @property
    def is_emptied(self) -> bool:
        """Whether all that was read has been dropped, and the run that is in the folder now is not open yet."""
        return self.plan == NO_FILE

    def emptied(self) -> ViewedRun:
        """The same folder, of which nothing is known."""
        # Something waits there, or the page would take a run without episodes for a finished one.
        beginning = self.beginning + 1
        return dataclasses.replace(
            self, plan=NO_FILE, planned=0, parts={}, damage={}, unreadable={}, waiting=1, beginning=beginning
        )

    def reopened(self) -> ViewedRun:
        """The run that is in the folder now; nothing of it is read yet."""
        run = self.reopen() if self.reopen is not None else self
        return dataclasses.replace(run, plan=None, waiting=self.waiting, beginning=self.beginning)

    def note_damage(self, part: str, damage: Damage, state: FileState) -> None:
        """Say that a part cannot be read; ``state`` is that of its file before it was tried."""
        self.damage[part] = damage.reason
        self.unreadable[part] = NO_FILE if damage.may_be_sound else state

    def forget_damage(self, part: str) -> None:
        """Take back what was said of a part: it can be read now, or is no longer needed, or is gone."""
        self.unreadable.pop(part, None)
        self.damage.pop(part, None)
        self.damage.pop(_some_rows(part), None)


@dataclass(frozen=True)
class Arrivals:
    """Rows of some parts that were read together, and the parts that they replace."""

    parts: tuple[str, ...]
    rows: pa.Table
    """``LISTED``, with ``part`` (position in ``parts``) and ``place`` (row of the part)."""
    replaced: frozenset[str]


def file_state(path: Path) -> FileState:
    """The state of a file; ``NO_FILE`` where there is none.

    Raises:
        OSError: it cannot be looked at.
    """
    try:
        status = path.stat()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        return NO_FILE
    return status.st_ino, status.st_mtime_ns, status.st_size


def file_names(run: ViewedRun) -> frozenset[str]:
    """The files in the folder of the run's parts.

    Raises:
        OSError: it cannot be looked at.
    """
    try:
        return frozenset(path.name for path in (run.path / "episodes").iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()


def read_plan(run: ViewedRun) -> pa.Table:
    """What the run planned: ids and coordinates.

    Raises:
        OSError, pyarrow.ArrowException: there is no plan that can be read.
    """
    return read_parquet(run.path / PLAN, ("episode_id", *PLANNED))


def unread_parts(run: ViewedRun) -> list[Path]:
    """Parts that were not read yet, or have changed since they could not be read; the latest first.

    A merged part comes after those that it replaces.
    """
    paths = []
    for path in shown_files(run.path / "episodes", "*.parquet"):
        was = run.unreadable.get(path.name, NO_FILE)
        is_known_damage = was != NO_FILE and was == file_state(path)
        if path.name not in run.parts and not is_known_damage:
            paths.append(path)
    return sorted(paths, key=part_order, reverse=True)


def arrivals(run: ViewedRun, paths: Sequence[Path], plan: pa.Table) -> Iterator[Arrivals]:
    """The rows of these parts that the plan knows, some parts at a time; what is wrong goes to ``run.damage``."""
    replaced: set[str] = set()
    fence = read_fence(run.path)
    found: list[tuple[LedgerPart, pa.Table]] = []
    run.waiting, enough = len(paths), ROWS_AT_FIRST
    for path in paths:
        run.waiting -= 1
        if path.name in replaced:
            run.parts.setdefault(path.name, REPLACED)
            run.forget_damage(path.name)
            continue
        state = file_state(path)
        try:
            part = describe_part(path)
            if not fence.admits(path.name, part.lease):
                continue  # of a driver that had lost the run; looked at again, as this fence may be out of date
            found.append((part, _rows(part)))
            run.forget_damage(path.name)
            replaced |= part.replaces
        except LedgerChangedError:
            continue  # it was merged into another one, which the next look finds
        except LedgerDamagedError as error:
            run.note_damage(path.name, error.damage[0], state)
        if sum(len(rows) for _, rows in found) >= enough:
            yield _checked(run, found, plan)
            found, enough = [], ROWS_AT_ONCE
    if found:
        yield _checked(run, found, plan)


def _rows(part: LedgerPart) -> pa.Table:
    rows = pa.concat_tables([LISTED_SCHEMA.empty_table(), *read_batches(part.path, LISTED_SCHEMA)])
    return rows.append_column("place", pa.array(np.arange(len(rows)), pa.int32()))


def _checked(run: ViewedRun, found: Sequence[tuple[LedgerPart, pa.Table]], plan: pa.Table) -> Arrivals:
    names = tuple(part.path.name for part, _ in found)
    tables = [rows for _, rows in found]
    checked = check_rows([rows.select(CHECKED) for rows in tables], names, plan)
    for number, reasons in _by_part(checked.problems).items():
        run.damage[_some_rows(names[number])] = "; ".join(reasons)
    part_of = np.repeat(np.arange(len(names)), [len(rows) for rows in tables])
    rows = pa.concat_tables(tables).append_column("part", pa.array(part_of, pa.int32()))
    sound = rows.filter(pa.array(checked.sound))
    replaced: set[str] = set()
    for part, _ in found:
        replaced.update(part.replaces)
    return Arrivals(names, sound, frozenset(replaced))


def _some_rows(part: str) -> str:
    """The entry of a part's damage that does not concern all of it."""
    return f"{part}: some rows"


def _by_part(problems: Sequence[tuple[int, str]]) -> dict[int, list[str]]:
    reasons: dict[int, list[str]] = {}
    for number, reason in problems:
        reasons.setdefault(number, []).append(reason)
    return reasons
