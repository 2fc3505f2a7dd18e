"""From a ledger to tables and a summary: pure, at any time, on a partial ledger too."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from cluster.config.settings import make_suite
from cluster.observe.performance import performance_table, replica_table
from cluster.storage.run_directory import read_config, read_episodes, read_plan, write_durably
from evals.records import COLUMNS, plan_to_table
from evals.run_data import RunData
from evals.suite import Suite, ledger_columns, suite_results
from evals.tables import Table, tables_to_json
from evals.types import Episode


def suite_of(run_dir: Path) -> Suite:
    """The suite that a run directory was made with.

    Raises:
        UserError: its config cannot be read.
    """
    return make_suite(read_config(run_dir)["suite"])


def score_run(run_dir: Path) -> tuple[list[Table], dict[str, object]]:
    """All tables of a run, and its summary.

    Raises:
        UserError: there is no run, or its ledger is damaged.
    """
    plan = read_plan(run_dir)
    suite = suite_of(run_dir)
    ledger = read_episodes(run_dir).table
    run = RunData.of_tables(plan_to_table(plan), read_episodes(run_dir, [*COLUMNS, *ledger_columns(suite)]).table)
    tables = [coverage(plan, ledger), *suite_results(suite, run, "scores"), *suite_results(suite, run, "diagnostics")]
    summary = summarise(plan, ledger, tables)
    times = [performance_table(run_dir), replica_table(run_dir)]
    times += suite_results(suite, run, "performance")  # depends on routing, and so stays out of the summary
    return [*tables, *(table for table in times if table is not None)], summary


def coverage(plan: Sequence[Episode], ledger: pa.Table) -> Table:
    """Planned, done and failed episodes of each player and suite, with the causes of failure."""
    planned = Counter((episode.player, episode.suite) for episode in plan)
    done: Counter[tuple[str, str]] = Counter()
    failed: dict[tuple[str, str], Counter[str]] = {}
    for player, suite, status, error in zip(
        *(ledger[name].to_pylist() for name in ("player", "suite", "status", "error")), strict=True
    ):
        if status == "done":
            done[player, suite] += 1
        else:
            failed.setdefault((player, suite), Counter())[error.partition(":")[0]] += 1
    rows = []
    for (player, suite), count in planned.items():
        causes = failed.get((player, suite), Counter())
        missing = count - done[player, suite] - causes.total()
        shown = ", ".join(f"{number} × {cause}" for cause, number in sorted(causes.items()))
        rows.append((player, suite, count, done[player, suite], causes.total(), missing, shown))
    return Table(
        name="coverage",
        title="Episodes",
        columns=("player", "suite", "planned", "done", "failed", "missing", "causes of failure"),
        rows=tuple(rows),
    )


def summarise(plan: Sequence[Episode], ledger: pa.Table, tables: Sequence[Table]) -> dict[str, object]:
    """What ``summary.json`` holds: counts and all tables; no times, so that a resumed run's equals an undisturbed one's."""
    statuses = Counter(ledger["status"].to_pylist())
    return {
        "planned": len(plan),
        "done": statuses["done"],
        "failed": statuses["failed"],
        "missing": len(plan) - ledger.num_rows,
        "tables": [table.to_json() for table in tables],
    }


def write_results(run_dir: Path, tables: Sequence[Table], summary: dict[str, object]) -> None:
    """``summary.json`` and each table as CSV, Markdown and JSON below ``tables/``."""
    folder = run_dir / "tables"
    folder.mkdir(exist_ok=True)
    for table in tables:
        write_durably(folder / f"{table.name}.csv", table.to_csv().encode())
        write_durably(folder / f"{table.name}.md", table.to_markdown().encode())
        write_durably(folder / f"{table.name}.json", tables_to_json([table]).encode())
    write_durably(run_dir / "summary.json", (json.dumps(summary, indent=2, ensure_ascii=False) + "\n").encode())
