"""The runs of a plan with what the ledger holds of them, and means over them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa

from evals.ledger.run_data import RunData
from evals.stats.intervals import NONNEGATIVE, Bounds, Estimate, mean_estimate, proportion_estimate
from evals.suites.kumo.levels import size_of

T = TypeVar("T")

_LEDGER_COLUMNS = (
    *("task", "level", "index", "status", "success", "prompt_tokens", "completion_tokens"),
    *("tests", "parse_errors", "parse_failed", "optimal_actions", "n_actions", "cut_off"),
    *("shipped_optimal_actions", "tied_optimal_actions", "malformed"),
    *("ending", "idle_tests", "late_tests", "regret"),
    *("exact_certain_after", "exact_ending", "exact_late_tests", "exact_regret"),
)


@dataclass(frozen=True)
class Run:
    """One planned run, and what the ledger holds of it."""

    episode_id: str
    player: str
    difficulty: str
    domain: str
    index: int
    status: str
    """``done``, ``failed``, or empty while it has not been played."""
    success: bool
    tests: int
    parse_errors: int
    parse_failed: bool
    tokens: int
    offered: int
    """|A|, the number of tests that the task offers."""
    optimal_actions: int | None
    """Tests and prediction of perfect play; None if no run of this task, of any player, got so far as to tell."""
    shipped_optimal_actions: int | None = None
    """The same by the published search, of an imported task."""
    tied_optimal_actions: float | None = None
    """The same as a mean over equally good tests, of an imported task."""
    malformed: bool = False
    """Whether an imported task is malformed."""
    cut_off: int = 0
    """Replies that ended at the limit of tokens."""
    ending: str = ""
    """What the truth named was (``evals.suites.kumo.judge.ENDINGS``); empty if none was named."""
    idle_tests: int = 0
    late_tests: int = 0
    regret: tuple[float, ...] = ()
    """For each test what it lost, where searched."""
    exact_certain_after: int | None = None
    """Tests after which the answer followed from the guarantee; None if it never did."""
    exact_ending: str = ""
    exact_late_tests: int | None = None
    """None where the guarantee was not judged by: in malformed tasks, and in runs of older versions."""
    exact_regret: tuple[float, ...] = ()
    game: str = ""
    """The same for the same game in any run (``Episode.group``)."""

    @property
    def task(self) -> tuple[str, str, int]:
        """What repeats and players share; the cluster of the intervals."""
        return self.domain, self.difficulty, self.index

    @property
    def actions(self) -> int:
        """Tests and the prediction; |A| + 1 without success."""
        return self.tests + 1 if self.success else self.offered + 1

    @property
    def relative_actions(self) -> float | None:
        """(actions - optimal actions) / optimal actions."""
        return None if self.optimal_actions is None else self.actions / self.optimal_actions - 1

    @property
    def published_actions(self) -> int:
        """Length of the published action list: tests, prediction and one entry of bookkeeping; |A| + 1 without success."""
        return self.tests + 2 if self.success else self.offered + 1

    @property
    def published_relative_actions(self) -> float | None:
        """(C - O) / O where O, too, has the entry of bookkeeping: the published search's, where it is known."""
        shipped = self.shipped_optimal_actions
        return self.published_actions_over(self.optimal_actions if shipped is None else shipped)

    def published_actions_over(self, optimal_actions: float | None) -> float | None:
        """(C - O) / O for another count of perfect play; None without one."""
        return None if optimal_actions is None else self.published_actions / (optimal_actions + 1) - 1


def join_runs(plan: pa.Table, ledger: pa.Table) -> Iterator[Run]:
    """Every planned run in the order of the plan."""
    rows = _rows_by_id(ledger)
    planned = plan.select(["episode_id", "player", "level", "task", "index", "group"]).to_pylist()
    # What a finished run says of its task holds for all runs of the task, also for those that failed or are missing. Last
    # come rows that are not planned: those of players that a report of several runs leaves out.
    known: dict[tuple[str, str, int], Mapping[str, Any]] = {}
    for entry in planned:
        row = rows.get(entry["episode_id"], {})
        if row.get("status") == "done":
            known[entry["task"], entry["level"], entry["index"]] = row
    for row in rows.values():
        if row.get("status") == "done":
            known.setdefault((row["task"], row["level"], row["index"]), row)
    for entry in planned:
        row = rows.get(entry["episode_id"], {})
        of_task = known.get((entry["task"], entry["level"], entry["index"]), {})
        yield Run(
            episode_id=entry["episode_id"],
            player=entry["player"],
            difficulty=entry["level"],
            domain=entry["task"],
            index=entry["index"],
            game=entry["group"],
            status=row.get("status") or "",
            success=bool(row.get("success")),
            tests=row.get("tests") or 0,
            parse_errors=row.get("parse_errors") or 0,
            parse_failed=bool(row.get("parse_failed")),
            tokens=(row.get("prompt_tokens") or 0) + (row.get("completion_tokens") or 0),
            offered=row.get("n_actions") or size_of(entry["level"])[1],
            optimal_actions=of_task.get("optimal_actions"),
            shipped_optimal_actions=of_task.get("shipped_optimal_actions"),
            tied_optimal_actions=of_task.get("tied_optimal_actions"),
            malformed=bool(of_task.get("malformed")),
            cut_off=row.get("cut_off") or 0,
            ending=row.get("ending") or "",
            idle_tests=row.get("idle_tests") or 0,
            late_tests=row.get("late_tests") or 0,
            regret=_known_losses(row, "regret"),
            exact_certain_after=row.get("exact_certain_after"),
            exact_ending=row.get("exact_ending") or "",
            exact_late_tests=row.get("exact_late_tests"),
            exact_regret=_known_losses(row, "exact_regret"),
        )


def _known_losses(row: Mapping[str, Any], column: str) -> tuple[float, ...]:
    """What each test of a run lost, without those of which it is not known."""
    return tuple(lost for lost in row.get(column) or () if lost is not None)


def rows_of_games(run: RunData, suite: str) -> pa.Table:
    """A suite's rows of a run, also those of players that a report of several runs leaves out, for what they say of games."""
    rows = run.episodes()
    if run.unlabeled is None:
        return rows
    return pa.concat_tables([rows, run.unlabeled.of(suite).episodes()], promote_options="default")


def _rows_by_id(ledger: pa.Table) -> dict[str, dict[str, Any]]:
    """Ledger rows by episode; columns that an empty ledger lacks are null."""
    names = [name for name in _LEDGER_COLUMNS if name in ledger.column_names]
    rows = ledger.select(["episode_id", *names]).to_pylist()
    return {row.pop("episode_id"): row for row in rows}


def malformed_episodes(runs: Iterable[Run]) -> list[str]:
    """Ids of the episodes of malformed tasks of an imported benchmark."""
    return [run.episode_id for run in runs if run.malformed]


def groups_of(runs: Sequence[T], key: Callable[[T], tuple[str, ...]]) -> dict[tuple[str, ...], list[T]]:
    """Runs, or what is told of each, by key, in the order of first appearance."""
    groups: dict[tuple[str, ...], list[T]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups


RELATIVE: Final[Bounds] = (-1.0, math.inf)
"""Range of relative actions, (actions - optimal) / optimal."""


def mean_of(runs: Sequence[Run], value: Callable[[Run], float | None], bounds: Bounds = NONNEGATIVE) -> Estimate:
    """Mean over the runs that have a value, clustered by task."""
    numbers, tasks = known_values(runs, value)
    return mean_estimate(numbers, tasks, bounds=bounds)


def known_values(
    runs: Sequence[Run], value: Callable[[Run], float | None]
) -> tuple[list[float], list[tuple[str, str, int]]]:
    """The values of the runs that have one, and the tasks of these runs."""
    numbers, tasks = [], []
    for run in runs:
        number = value(run)
        if number is not None:
            numbers.append(number)
            tasks.append(run.task)
    return numbers, tasks


def share_of(runs: Sequence[Run], holds: Callable[[Run], bool]) -> Estimate:
    """Share of runs for which something holds, clustered by task."""
    return proportion_estimate([holds(run) for run in runs], [run.task for run in runs])
