"""KumO's result tables, a pure function of the plan and the ledger: in our convention, and in the published one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from envs.kumo import DIFFICULTIES
from evals.reference import load_reference
from evals.statistics import Estimate, mean_estimate, proportion_estimate
from evals.tables import Cell, Table

_LEDGER_COLUMNS = (
    *("status", "success", "prompt_tokens", "completion_tokens"),
    *("tests", "parse_errors", "parse_failed", "optimal_actions", "n_actions"),
)


@dataclass(frozen=True)
class Run:
    """One planned run, and what the ledger holds of it."""

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
        """(C - O) / O where O, too, has the entry of bookkeeping."""
        return None if self.optimal_actions is None else self.published_actions / (self.optimal_actions + 1) - 1


def score_kumo(plan: pa.Table, ledger: pa.Table) -> Sequence[Table]:
    """All tables of KumO; rows of the ledger that are not planned do not count.

    Args:
        plan: The suite's part of the plan (``evals.records.PLAN_SCHEMA``).
        ledger: The suite's part of the ledger, in any order and possibly partial.
    """
    runs = list(_join(plan, ledger))
    return [
        _success_table(runs, by_domain=False),
        _success_table(runs, by_domain=True),
        _published_table(runs),
    ]


def _join(plan: pa.Table, ledger: pa.Table) -> Iterator[Run]:
    """Every planned run in the order of the plan."""
    rows = _rows_by_id(ledger)
    planned = plan.select(["episode_id", "player", "level", "task", "index"]).to_pylist()
    optima = {
        (entry["task"], entry["level"], entry["index"]): rows[entry["episode_id"]]["optimal_actions"]
        for entry in planned
        if rows.get(entry["episode_id"], {}).get("optimal_actions") is not None
    }
    for entry in planned:
        row = rows.get(entry["episode_id"], {})
        yield Run(
            player=entry["player"],
            difficulty=entry["level"],
            domain=entry["task"],
            index=entry["index"],
            status=row.get("status") or "",
            success=bool(row.get("success")),
            tests=row.get("tests") or 0,
            parse_errors=row.get("parse_errors") or 0,
            parse_failed=bool(row.get("parse_failed")),
            tokens=(row.get("prompt_tokens") or 0) + (row.get("completion_tokens") or 0),
            offered=row.get("n_actions") or DIFFICULTIES[entry["level"]][1],
            optimal_actions=optima.get((entry["task"], entry["level"], entry["index"])),
        )


def _rows_by_id(ledger: pa.Table) -> dict[str, dict[str, Any]]:
    """Ledger rows by episode; columns that an empty ledger lacks are null."""
    names = [name for name in _LEDGER_COLUMNS if name in ledger.column_names]
    rows = ledger.select(["episode_id", *names]).to_pylist()
    return {row.pop("episode_id"): {"optimal_actions": None, **row} for row in rows}


def _groups(runs: Sequence[Run], key: Callable[[Run], tuple[str, ...]]) -> dict[tuple[str, ...], list[Run]]:
    """Runs by key, in the order of first appearance."""
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups


def _mean(runs: Sequence[Run], value: Callable[[Run], float | None]) -> Estimate:
    """Mean over the runs that have a value, clustered by task."""
    pairs = [(number, run.task) for run in runs if (number := value(run)) is not None]
    return mean_estimate([number for number, _ in pairs], [task for _, task in pairs])


def _share(runs: Sequence[Run], holds: Callable[[Run], bool]) -> Estimate:
    """Share of runs for which something holds, clustered by task."""
    return proportion_estimate([holds(run) for run in runs], [run.task for run in runs])


# --- our convention --------------------------------------------------------------------------------------------------


def _success_table(runs: Sequence[Run], *, by_domain: bool) -> Table:
    """One row per player and difficulty, or per player, difficulty and domain."""
    keys = ("player", "difficulty", "domain") if by_domain else ("player", "difficulty")
    groups = _groups(runs, lambda run: tuple(getattr(run, key) for key in keys))
    rows: list[tuple[Cell, ...]] = []
    for key, planned in groups.items():
        played = [run for run in planned if run.status]
        failed = sum(run.status == "failed" for run in played)
        rows.append(
            (
                *key,
                len(planned),
                len(played) - failed,
                failed,
                _share(played, lambda run: run.success),
                _mean(played, lambda run: run.actions),
                _mean(played, lambda run: run.relative_actions),
                _share(played, lambda run: run.parse_errors > 0),
                _share(played, lambda run: run.parse_failed),
                _mean(played, lambda run: run.tokens),
            )
        )
    measures = ("success", "actions", "relative actions", "parse errors", "parse failures", "tokens")
    return Table(
        name="kumo_domains" if by_domain else "kumo_success",
        title="KumO by domain" if by_domain else "KumO",
        columns=(*keys, "planned", "done", "failed", *measures),
        rows=tuple(rows),
        notes=(
            "actions: tests and the final prediction; a run without success counts |A| + 1 (easy 7, hard 17). "
            "relative actions: mean of (actions - optimal) / optimal on the same outcomes.",
            "parse errors: runs with a reply that names nothing; parse failures: runs that such a reply ended.",
            "tokens: prompt and completion tokens of all calls of a run.",
            "Brackets: 95 % confidence intervals; the runs of one task are one cluster.",
            *_failure_notes(runs),
        ),
    )


def _failure_notes(runs: Sequence[Run]) -> list[str]:
    """How runs that failed, or have not been played, enter the figures."""
    failed = [run for run in runs if run.status == "failed"]
    unplayed = sum(not run.status for run in runs)
    unknown = sum(bool(run.status) and run.optimal_actions is None for run in runs)
    notes = []
    if failed:
        notes.append(
            f"{len(failed):,} failed {'run' if len(failed) == 1 else 'runs'} (the player could not answer) "
            f"{'counts' if len(failed) == 1 else 'count'} as not successful, with |A| + 1 actions, and with the tokens "
            "used until then."
        )
    if unknown:
        notes.append(
            f"{unknown:,} of them belong to tasks that no one finished: their optimum is not on record, and "
            "relative actions leave them out."
        )
    if unplayed:
        notes.append(f"{unplayed:,} of {len(runs):,} planned runs have not been played and count nowhere else.")
    return notes


# --- the published convention ----------------------------------------------------------------------------------------


def _published_table(runs: Sequence[Run]) -> Table:
    """Players of this run above the figures that the paper and its result files give."""
    reference = load_reference("kumo")
    rows: list[tuple[Cell, ...]] = []
    for difficulty in DIFFICULTIES:
        here = [run for run in runs if run.difficulty == difficulty]
        for (player,), planned in _groups(here, lambda run: (run.player,)).items():
            rows.append((difficulty, player, "this run", *_published_cells([run for run in planned if run.status])))
        if here:
            rows += _reference_rows(difficulty, reference)
    return Table(
        name="kumo_published",
        title="KumO in the published convention",
        columns=(
            "difficulty",
            "player",
            "source",
            "runs",
            "success",
            "relative action count",
            "actions if successful",
            "parse errors",
            "tokens",
        ),
        rows=tuple(rows),
        notes=(
            "actions if successful: mean length of the published action list, tests + 2 (the prediction, and an entry of "
            "bookkeeping), over the successful runs.",
            "relative action count: mean of (C - O) / O with O that length for the optimal search, and C that length for "
            "the run, or |A| + 1 (easy 7, hard 17) without success.",
            "parse errors: runs that an unread reply ended. decoder=strict reads replies by the published rules.",
            "A call that failed for good counts as a parse error without tokens in the published figures; here its run is "
            "a failed one, with its tokens and without a parse error. Neither is a success.",
            f"Published models played {reference['runs_per_model']:,} runs per difficulty, on the paper's own domains and "
            "tasks; this run's are others, so compare with care.",
            *_failure_notes(runs),
        ),
    )


def _published_cells(played: Sequence[Run]) -> tuple[Cell, ...]:
    return (
        len(played),
        _share(played, lambda run: run.success),
        _mean(played, lambda run: run.published_relative_actions),
        _mean([run for run in played if run.success], lambda run: run.published_actions),
        _share(played, lambda run: run.parse_failed),
        _mean(played, lambda run: run.tokens),
    )


def _reference_rows(difficulty: str, reference: Mapping[str, Any]) -> list[tuple[Cell, ...]]:
    """The published figures of one difficulty, best success first; what is not known is an empty cell."""
    known = {player: figures[difficulty] for player, figures in reference["players"].items() if difficulty in figures}
    best_first = sorted(known, key=lambda player: -known[player].get("success", -1.0))
    measures = ("success", "relative", "actions", "parse", "tokens")
    return [
        (difficulty, player, "published", None, *(_reference_cell(known[player], name) for name in measures))
        for player in best_first
    ]


def _reference_cell(figures: Mapping[str, Any], measure: str) -> Cell:
    value: Cell = figures.get(measure)
    return f"about {value}" if measure in figures.get("about", ()) else value
