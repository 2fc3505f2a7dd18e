"""KUMO's error kinds as tables: planning apart from deduction."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from evals.stats.intervals import Estimate
from evals.suites.kumo.judge import ENDINGS
from evals.suites.kumo.repeats import Run, groups_of, join_runs, mean_of, share_of
from evals.tables import Cell, Table

_NEGLIGIBLE = 1e-6
"""Steps; the search's values are that exact."""


def diagnose_kumo(plan: pa.Table, ledger: pa.Table) -> Sequence[Table]:
    """How players planned, and what they concluded; one row per player and difficulty.

    Args:
        plan: The suite's part of the plan (``evals.ledger.records.PLAN_SCHEMA``).
        ledger: The suite's part of the ledger, in any order and possibly partial.
    """
    runs = [run for run in join_runs(plan, ledger) if run.status == "done"]
    groups = groups_of(runs, lambda run: (run.player, run.difficulty))
    tables = [_planning_table(groups), _deduction_table(groups)]
    judged = [run for run in runs if run.exact_late_tests is not None]
    if judged:
        tables.append(_exact_table(groups_of(judged, lambda run: (run.player, run.difficulty))))
    return tables


def _whole_regret(lost: Sequence[float], tests: int) -> float | None:
    """What a run's tests lost together; None where it is not known of each."""
    return sum(lost) if len(lost) == tests else None


def _exactly_ended(runs: Sequence[Run], ending: str) -> Estimate:
    return share_of(runs, lambda run: run.exact_ending == ending)


def _planning_table(groups: dict[tuple[str, ...], list[Run]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for key, runs in groups.items():
        tests = sum(run.tests for run in runs)
        rows.append(
            (
                *key,
                len(runs),
                tests,
                mean_of(runs, lambda run: _whole_regret(run.regret, run.tests)),
                _best([lost for run in runs for lost in run.regret]),
                sum(run.idle_tests for run in runs) / tests if tests else None,
                sum(run.late_tests for run in runs) / tests if tests else None,
            )
        )
    return Table(
        name="kumo_planning",
        title="KUMO: planning",
        columns=("player", "difficulty", "done", "tests", "regret", "best tests", "idle tests", "late tests"),
        rows=tuple(rows),
        notes=(
            "regret: expected steps that a run's tests lost against the best ones, each judged by what was known before it; "
            "best tests: share of tests that lost nothing. Hard tasks are searched with suite.hard_regret=true only.",
            "idle tests: share of tests, before the answer was certain, that could tell nothing: none of their outcomes rules "
            "out a truth that was still possible, or they had been taken before.",
            "late tests: share of tests taken although the answer was certain.",
        ),
    )


def _deduction_table(groups: dict[tuple[str, ...], list[Run]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for key, runs in groups.items():
        endings = [_ended(runs, ending) for ending in (*ENDINGS, "")]
        lucky = share_of(runs, lambda run: run.success and run.ending != "certain")
        rows.append((*key, len(runs), *endings, lucky))
    return Table(
        name="kumo_deduction",
        title="KUMO: deduction",
        columns=("player", "difficulty", "done", *ENDINGS, "none named", "lucky"),
        rows=tuple(rows),
        notes=(
            *(f"{kind}: share of runs in which {meaning}." for kind, meaning in ENDINGS.items()),
            "none named: unread replies or the limit of rounds ended the run. lucky: named rightly, but not with certainty.",
        ),
    )


def _exact_table(groups: dict[tuple[str, ...], list[Run]]) -> Table:
    """Both where all that follows from the guarantee counts as certain."""
    rows: list[tuple[Cell, ...]] = []
    for key, runs in groups.items():
        endings = [_exactly_ended(runs, ending) for ending in (*ENDINGS, "")]
        rows.append(
            (
                *key,
                len(runs),
                mean_of(runs, lambda run: run.exact_certain_after),
                mean_of(runs, lambda run: run.exact_late_tests),
                mean_of(runs, lambda run: _whole_regret(run.exact_regret, run.tests)),
                _best([lost for run in runs for lost in run.exact_regret]),
                *endings,
                share_of(runs, lambda run: run.success and run.exact_ending != "certain"),
            )
        )
    return Table(
        name="kumo_guarantee",
        title="KUMO: planning and deduction by the guarantee",
        columns=(
            *("player", "difficulty", "done", "certain after", "late tests", "regret", "best tests"),
            *(*ENDINGS, "none named", "lucky"),
        ),
        rows=tuple(rows),
        notes=(
            "As above, but by all that follows from what players are told: all tests together leave only the right truth. The "
            "published search does not use it. Malformed tasks are left out.",
            "certain after: tests after which the answer followed, over the runs in which it did; late tests: tests of a run "
            "that were too many.",
            "regret: by exact search; large games have none until few enough truths and tests are left.",
        ),
    )


def _best(lost: Sequence[float]) -> float | None:
    """Share of tests that lost nothing, among those searched."""
    return sum(each < _NEGLIGIBLE for each in lost) / len(lost) if lost else None


def _ended(runs: Sequence[Run], ending: str) -> Estimate:
    return share_of(runs, lambda run: run.ending == ending)
