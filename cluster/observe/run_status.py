"""How far a run is, from its plan, ledger and lease alone: for another shell, whether the run is at work or not."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from cluster.config.plan import label_suites, make_suite
from cluster.errors import UserError
from cluster.observe.progress import clock
from cluster.runner.episode_queue import expected_work
from cluster.storage.lock import Writer, writer_of
from cluster.storage.stored_run import Run
from envs.files import shown_files
from envs.printable import printable
from evals.summary.cost import costs_of, money, planned_cost
from evals.summary.status import is_imported
from evals.tables import Cell, Table
from evals.types import Episode

CAUSES_SHOWN = 3


@dataclass(frozen=True)
class Pace:
    """How fast the latest session plays."""

    seconds: float
    """Since the session began, or from then to its last commit if it is over."""
    finished: int
    """Episodes of the session."""
    seconds_left: float | None
    """At its speed so far; None before anything is finished, and where nothing is left."""

    def __str__(self) -> str:
        minutes = self.seconds / 60
        rate = f", {self.finished / minutes:,.1f} a minute" if minutes > 0 else ""
        left = f", ETA {clock(self.seconds_left)}" if self.seconds_left is not None else ""
        return f"latest session: {self.finished:,} episodes finished in {clock(self.seconds)}{rate}{left}"


@dataclass(frozen=True)
class Status:
    """A run as it is now."""

    state: str
    """One sentence."""
    players: Table
    pace: Pace | None
    """None for a run without a session."""
    money: str = ""
    """Scored, spent and planned cost; empty for a run that costs nothing."""
    stopping: tuple[str, ...] = ()
    """What the run's stopping rule says."""


def run_status(run: Run) -> Status:
    """Read a run's state; it may be at work, and need not have begun.

    Raises:
        UserError: there is no run, or its ledger is damaged.
    """
    rows = run.ledger.table(["episode_id", "player", "status", "error", "session", "success", *_SUMS])
    writer, imported = writer_of(run.path), is_imported(run.sessions)
    left = len(run.planned) - len(rows)
    rule = run.stopping
    if rule is None:
        return Status(
            _state(writer, left, imported), _players(run.planned, rows), _pace(run, rows, writer), _money(run)
        )
    finished = set(rows["episode_id"].to_pylist())
    left = len(rule.needed - finished)
    players = _players(run.planned, rows, rule.needed)
    return Status(_state(writer, left, imported), players, _pace(run, rows, writer), _money(run), tuple(rule.lines()))


_SUMS = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cost")


def _state(writer: Writer | None, left: int, imported: bool = False) -> str:
    if writer is None:
        return "not started"
    seen = f"last sign of life {clock(writer.silent_seconds)} ago"
    if writer.state == "at work":
        return f"at work: {writer.name}, {seen}"
    if not left:
        return "complete"
    if imported:
        return f"imported; the files lack {left:,} planned episodes"
    states = {
        "silent": f"{writer.name} is overdue ({seen}); its node may be gone. The same command resumes the run",
        "elsewhere": (
            f"not at work: a copy, taken while {writer.name} played the original. The same command with this run_dir resumes "
            "the copy"
        ),
        "gone": f"dead: {writer.name} is gone without ending the run. The same command resumes it",
        "done": f"stopped {clock(writer.silent_seconds)} ago. The same command resumes the run",
    }
    return states[writer.state]


def _money(run: Run) -> str:
    has_prices = planned_cost(run.data) is not None
    costs = costs_of(run.data, _label_suites(run) if has_prices else frozenset())
    if costs is None:
        return ""
    amounts = {"scored": costs.scored, "spent": costs.spent, "planned": costs.planned}
    return "cost: " + ", ".join(f"{name} {money(amount)}" for name, amount in amounts.items() if amount is not None)


def _label_suites(run: Run) -> frozenset[str]:
    try:
        return label_suites(make_suite(run.config["suite"]))
    except (UserError, KeyError):  # a suite of a package that is not installed here has a status, too
        return frozenset()


def _players(plan: pa.Table, rows: pa.Table, needed: Collection[str] | None = None) -> Table:
    """A row for each player; with a stopping rule, only ``needed`` episodes are left, and won is of them alone."""
    finished = set(rows["episode_id"].to_pylist())
    waiting = set(plan["episode_id"].to_pylist()) - finished
    dropped: set[str] = set()
    not_counted: set[str] = set()
    if needed is not None:
        dropped = waiting - set(needed)
        not_counted = finished - set(needed)
    of_player = plan.filter(pc.is_in(plan["episode_id"], pa.array(list(dropped), pa.string())))
    not_needed = Counter(of_player["player"].to_pylist())
    planned = Counter(plan["player"].to_pylist())
    table = [_player(name, count, not_needed[name], rows, not_counted) for name, count in planned.items()]
    columns = ("player", "planned", "done", "failed", "left", "not_needed", "won", *_SUMS)
    kept = _columns_to_show(columns, table)
    titles = [columns[place].replace("_", " ") for place in kept]
    shown = [tuple(row[place] for place in kept) for row in table]
    notes = list(_causes(rows))
    if not_counted:
        notes.append(
            f"{len(not_counted):,} finished after a decision for which they were not needed: neither won nor the report "
            "counts them"
        )
    return Table("status", "Episodes", tuple(titles), tuple(shown), tuple(notes))


def _columns_to_show(columns: Sequence[str], table: Sequence[tuple[Cell, ...]]) -> list[int]:
    """Which columns are shown, by number: of the optional ones those in which any player has something."""
    optional = ("not_needed", *_SUMS)
    shown = []
    for place, name in enumerate(columns):
        if name not in optional or any(row[place] for row in table):
            shown.append(place)
    return shown


def _player(name: str, planned: int, not_needed: int, rows: pa.Table, not_counted: Collection[str]) -> tuple[Cell, ...]:
    mine = rows.filter(pc.equal(rows["player"], name))
    counted = mine.filter(pc.invert(pc.is_in(mine["episode_id"], pa.array(list(not_counted), pa.string()))))
    failed = pc.sum(pc.equal(mine["status"], "failed")).as_py() or 0
    won = pc.sum(pc.fill_null(counted["success"], False)).as_py() or 0
    sums = (pc.sum(mine[column]).as_py() or 0 for column in _SUMS)
    return (
        name,
        planned,
        len(mine) - failed,
        failed,
        planned - len(mine) - not_needed,
        not_needed,
        won / len(counted) if len(counted) else None,
        *sums,
    )


def _causes(rows: pa.Table) -> Iterator[str]:
    failed = Counter(rows.filter(pc.equal(rows["status"], "failed"))["error"].to_pylist())
    for cause, count in failed.most_common(CAUSES_SHOWN):
        yield f"{count} failed: {printable(cause)[:200]}"
    if len(failed) > CAUSES_SHOWN:
        yield f"and {len(failed) - CAUSES_SHOWN} other causes of failure"


def _pace(run: Run, rows: pa.Table, writer: Writer | None) -> Pace | None:
    """The pace of the latest session; work is weighted as the queue weighs it, by calls and prompt tokens."""
    sessions = run.sessions
    if writer is None or not sessions:
        return None
    session = sessions[-1]
    if "began" not in session:
        return None
    began = datetime.datetime.fromisoformat(str(session["began"])).timestamp()
    parts = shown_files(run.path / "episodes", "*.parquet")
    last = max((part.stat().st_mtime for part in parts), default=began)
    at_work = writer.state == "at work"
    now = datetime.datetime.now(datetime.UTC).timestamp() if at_work else last
    mine = rows.filter(pc.equal(rows["session"], session["id"]))
    finished = set(rows["episode_id"].to_pylist())
    of_session = set(mine["episode_id"].to_pylist())
    done, left = _work(run.plan, of_session, finished)
    seconds = max(now - began, 0.0)
    # Copies of files have other times. Where each session came to its end, the last one's timings are there.
    if not at_work and len(run.timings) == len(sessions):
        seconds = run.timings[-1].get("seconds", seconds)
    seconds_left = None
    if at_work and done and left:
        seconds_left = left / done * seconds
    return Pace(seconds, len(mine), seconds_left)


def _work(plan: Iterable[Episode], of_session: Collection[str], finished: Collection[str]) -> tuple[float, float]:
    """The work that a session has done, and what no session has."""
    done = left = 0.0
    for episode in plan:
        if episode.id in of_session:
            done += expected_work(episode)
        elif episode.id not in finished:
            left += expected_work(episode)
    return done, left
