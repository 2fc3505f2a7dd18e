"""A run directory as it is read (plan, configuration, sessions, timings, ledger), also while a driver writes to it."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from cluster.console import raycade, warn
from cluster.errors import RunFailedError, UserError
from cluster.storage.provenance import VERSIONS, read_versions
from cluster.storage.spending import SPENDING, Spending, check_journal, read_spending
from cluster.storage.stop_rule import StoredRule, read_rule
from envs.files import FileError, MissingFileError, is_unicode, parse_json, read_lines, read_yaml, real_path
from envs.files.parquet import read_parquet
from envs.suggest import did_you_mean
from evals.ledger.ledger import Ledger, open_ledger, retry_until_stable
from evals.ledger.parts import Damage, LedgerChangedError, LedgerDamagedError, hindered
from evals.ledger.records import check_plan, plan_from_table
from evals.ledger.run_data import RunData
from evals.stopping.outcomes import CELLS_STOP, StopState
from evals.summary.status import imported_stopping
from evals.types import Episode

T = TypeVar("T")

DAMAGE_SHOWN = 20
_CANNOT_READ = (
    "cannot be read here, but may be sound: permission, memory or file handles are missing, or its path is not UTF-8"
)
TIMINGS = "timings.jsonl"
"""One line of timings for each session that came to its end."""
FOLDERS = ("episodes", "tables", "logs", "batches", "live")
"""Those of a run's own folders; others in its directory may be runs themselves."""


class Run:
    """One run directory; each of its files is read when it is first asked for, and not again until ``refresh``.

    Whoever needs something of a run is given a ``Run``, not its path. Ledgers may change while they are read: wrap reads in
    ``read_runs``.
    """

    def __init__(self, path: Path) -> None:
        """Nothing is read yet; there need not be a run."""
        self.path = path

    @property
    def begun(self) -> bool:
        """Whether there is a run here."""
        return (self.path / "plan.parquet").exists()

    def check_begun(self) -> None:
        """See that there is a run.

        Raises:
            UserError: there is none; the message names those that may have been meant.
        """
        check_links(self.path)
        if not self.begun:
            raise UserError(f"{self.path}: no run here (there is no plan.parquet){_other_runs(self.path)}")

    def check_path(self) -> None:
        """See that readers of Parquet can open the run's files.

        Raises:
            UserError: its path is not UTF-8.
        """
        try:
            str(self.path.absolute()).encode()
        except UnicodeEncodeError as error:
            raise UserError(f"{self.path}: {_CANNOT_READ}: {error}") from error

    @cached_property
    def planned(self) -> pa.Table:
        """The plan as stored, one row per episode (``evals.ledger.records.PLAN_SCHEMA``), checked against its ids.

        Raises:
            UserError: there is none, or it cannot be read.
        """
        self.check_begun()
        path = self.path / "plan.parquet"
        try:
            table = read_parquet(path)
            check_plan(table)
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            if hindered(error):
                raise UserError(f"{path}: {_CANNOT_READ}: {error}") from error
            raise UserError(f"{path}: damaged, cannot be read as a plan: {error}") from error
        return table

    @cached_property
    def plan(self) -> list[Episode]:
        """The planned episodes; of a million this takes seconds, where ``planned`` is read at once.

        Raises:
            UserError: see ``planned``.
        """
        try:
            return plan_from_table(self.planned)
        except ValueError as error:
            raise UserError(f"{self.path / 'plan.parquet'}: damaged, cannot be read as a plan: {error}") from error

    @cached_property
    def config(self) -> dict[str, Any]:
        """The resolved configuration that the run started with.

        Raises:
            UserError: there is none, or it cannot be read.
        """
        check_links(self.path)
        path = self.path / "config.yaml"
        try:
            config = read_yaml(path)
        except MissingFileError as error:
            raise UserError(f"{self.path}: no run here (there is no config.yaml){_other_runs(self.path)}") from error
        except FileError as error:
            raise UserError(str(error)) from error
        if not isinstance(config, dict) or "suite" not in config:
            raise UserError(f"{path}: names no suite")
        if wrong := _wrong_shape("StoredConfig", config):
            raise UserError(f"{path}: not the configuration of a run: {wrong}")
        return config

    @cached_property
    def sessions(self) -> list[dict[str, Any]]:
        """See ``read_sessions``."""
        return read_sessions(self.path)

    @cached_property
    def timings(self) -> list[dict[str, Any]]:
        """The statistics of each session that came to its end; a killed one has none, and what is damaged is left out.

        Scores do not depend on them: of a file that cannot be read a warning tells.
        """
        path = self.path / TIMINGS
        if not path.exists():
            return []
        try:
            lines = list(read_lines(path))
        except (FileError, OSError) as error:
            warn(f"{error}; times are left out")
            return []
        found = []
        for number, line in lines:
            place = f"{path}, line {number}"
            try:
                session = parse_json(line, place)
            except FileError as error:
                warn(f"{error}; the line is skipped")
                continue
            if wrong := _wrong_shape("StoredTimings", session):
                warn(f"{place}: no timings of a session, and skipped: {wrong}")
            else:
                found.append(session)
        return found

    @property
    def spending(self) -> Spending:
        """What all sessions have spent; nothing where nothing was noted.

        Raises:
            UserError: the journal is damaged.
        """
        return read_spending(self.path)

    @property
    def spent(self) -> float | None:
        """Money that all sessions have spent, whatever became of the answers; None where nothing was noted.

        Raises:
            UserError: see ``spending``.
        """
        return self.spending.total if os.path.lexists(self.path / SPENDING) else None

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger as it was when it was first asked for, checked against the plan.

        Raises:
            UserError: a lease or a part cannot be read, or parts hold duplicate rows or rows that are not in the plan or differ
                from it; the message names each part.
        """
        try:
            ledger = open_ledger(self.path, self.planned)
        except OSError as error:  # of a lease; parts that cannot be read are listed as damage
            raise UserError(str(error)) from error
        if ledger.damage:
            raise damaged(self.path, ledger.damage)
        if ledger.fenced:
            _warn_of_fenced(self.path, tuple(path.name for path in ledger.fenced))
        return ledger

    @cached_property
    def data(self) -> RunData:
        """What scores, reports and comparisons read: plan and ledger by column, configuration, sessions.

        Raises:
            UserError: see ``planned``, ``ledger``, ``config`` and ``sessions``.
        """
        if self.spent is not None:
            check_journal(self.path, self.ledger_cost, capped=False)
        whole = RunData.of_ledger(self.planned, self.ledger, self.config, self.sessions, self.spent)
        state = self.stopping
        if state is None:
            said = imported_stopping(self.sessions)
            return dataclasses.replace(whole, stopping=said, cells_stop=CELLS_STOP in said)
        # What a decision did not take is neither missing nor scored: episodes that were under way when it fell finished
        # in the order of their length, and are no fair sample.
        not_needed = set(self.planned["episode_id"].to_pylist()) - state.needed
        needed = whole.without(not_needed)
        return dataclasses.replace(
            needed,
            stopping=tuple(state.lines()),
            cells_stop=state.rule.by == "cell",
            with_not_needed=self.planned,
        )

    @property
    def rule(self) -> StoredRule | None:
        """The stopping rule; None where the plan is to be played to its end.

        Raises:
            UserError: it cannot be read.
        """
        return read_rule(self.path)

    @property
    def ledger_cost(self) -> float:
        """What the episodes in the ledger cost; 0 before the run has begun."""
        if not self.begun:
            return 0.0
        cost = pc.sum(self.episodes(["cost"])["cost"]).as_py()
        return float(cost or 0.0)

    @cached_property
    def stopping(self) -> StopState | None:
        """What the run's stopping rule says of its ledger; None where it has no rule.

        Raises:
            UserError: see ``ledger`` and ``rule``.
        """
        stored = self.rule
        return None if stored is None else stored.outcomes_of(self.planned, self.ledger).look()

    def episodes(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows that count, in one table; all columns but the bulky ``turns`` unless ``columns`` are named.

        Raises:
            UserError, RunFailedError: see ``ledger`` and ``read_runs``.
        """
        return read_runs([self], lambda: self.ledger.table(columns))

    def refresh(self) -> None:
        """Forget what may have changed since it was read: all but the plan."""
        for name in ("config", "sessions", "timings", "ledger", "data", "stopping"):
            self.__dict__.pop(name, None)  # where a cached property keeps its value


def read_sessions(run_dir: Path) -> list[dict[str, Any]]:
    """The sessions that played a run, in their order, each with its versions (``cluster.storage.provenance``).

    Raises:
        UserError: the file cannot be read, or a session has no id or a beginning that is no time.
    """
    found = read_versions(run_dir)
    for number, session in enumerate(found, 1):
        wrong = _wrong_shape("StoredSession", session)
        if not wrong and not is_unicode(session):
            wrong = "a text holds half a surrogate pair"
        if wrong:
            raise UserError(f"{run_dir / VERSIONS}: session {number} is damaged: {wrong}")
    return found


def check_links(run_dir: Path) -> None:
    """See that nothing in a run directory leads out of it: it may be somebody else's, and tables are written into it.

    Raises:
        UserError: a link does.
    """
    home = real_path(run_dir)
    for folder in (run_dir, *map(run_dir.joinpath, FOLDERS)):
        for link in _links_in(folder):
            if not real_path(link).is_relative_to(home):
                raise UserError(
                    f"{link}: is a link out of the run directory; replace it by what it should be, or remove it"
                )


def _links_in(folder: Path) -> list[Path]:
    """The links in a folder; none where it is not there, for whoever needs it says so."""
    try:
        links = [Path(entry.path) for entry in os.scandir(folder) if entry.is_symlink()]
    except OSError:
        return []
    # the lock file is opened in a way that follows no link
    return [link for link in links if link.name != ".lock"]


def read_runs(runs: Sequence[Run], read: Callable[[], T]) -> T:
    """What ``read`` finds in runs; if parts of a ledger were merged meanwhile they are refreshed, and it is called again.

    Raises:
        UserError: a part of a ledger cannot be read after all.
        RunFailedError: parts were merged each time that it read.
    """
    try:
        return retry_until_stable(functools.partial(_read_or_refresh, runs, read))
    except LedgerDamagedError as error:
        raise damaged(", ".join(str(run.path) for run in runs), error.damage) from error
    except LedgerChangedError as error:
        raise RunFailedError(
            f"parts of the ledger were merged at each attempt to read it ({error}); try again"
        ) from error


def _wrong_shape(name: str, value: object) -> str:
    from cluster.storage import stored_shapes  # here, since it takes a tenth of a second, for pydantic

    return stored_shapes.wrong_shape(getattr(stored_shapes, name), value)


def _read_or_refresh(runs: Sequence[Run], read: Callable[[], T]) -> T:
    try:
        return read()
    except LedgerChangedError:
        for run in runs:
            run.refresh()
        raise


@functools.cache
def _warn_of_fenced(run_dir: Path, names: tuple[str, ...]) -> None:
    """Once in a process, however often the ledger is read."""
    warn(
        f"{run_dir}: not counted, since they were copied from another run, or written by a driver after another one had "
        f"taken over: {', '.join(names)}. `raycade run` plays their episodes again"
    )


def damaged(run_dir: Path | str, damage: Sequence[Damage]) -> UserError:
    """The error for a ledger that cannot be read completely; the parts' own paths say where it is if ``run_dir`` is empty."""
    # As long as some cannot be read here, nothing is said of moving files.
    unread = [each for each in damage if each.may_be_sound]
    damage = unread or damage
    found = "\n".join(f"  {each.path}: {each.reason}" for each in damage[:DAMAGE_SHOWN])
    more = f"\n  and {len(damage) - DAMAGE_SHOWN} more" if len(damage) > DAMAGE_SHOWN else ""
    where = f"{run_dir}: " if run_dir else ""
    if unread:
        return UserError(f"{where}parts of the ledger {_CANNOT_READ}:\n{found}{more}")
    return UserError(
        f"{where}the ledger is damaged:\n{found}{more}\n"
        "To continue without these files, move them out of the episodes folder; `raycade run` plays their episodes again."
    )


def _other_runs(path: Path) -> str:
    """What else a path that holds no run may have meant: the nearest name beside it, or the runs below it."""
    if any(path.glob("*/plan.parquet")):
        return f"; `{raycade('list', path)}` lists the runs below it"
    runs = [each.parent.name for each in path.parent.glob("*/plan.parquet")]
    # A directory that lacks a file of its own is no other run.
    names = [name for name in runs if name != path.name]
    return did_you_mean(path.name, names)
