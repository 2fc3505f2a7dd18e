"""From a ledger to tables and a summary: pure, at any time, on a partial ledger too."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from cluster.config.settings import make_suite
from cluster.console import show, show_summary, warn
from cluster.errors import UserError
from cluster.observe.performance import performance_table, replica_table
from cluster.storage.durable import write_durably
from cluster.storage.run_directory import RunDirectory
from cluster.storage.stored_run import damaged, open_run
from evals.ledger import LedgerDamagedError, until_unchanged
from evals.run_data import RunData
from evals.suite import suite_results
from evals.tables import Cell, Table, tables_to_json


@dataclass(frozen=True)
class Results:
    """What scoring a run gives."""

    tables: list[Table]
    summary: dict[str, object]
    """What ``summary.json`` holds: counts and tables of scores; no times, so that a resumed run's equals an undisturbed
    one's."""
    parts: frozenset[str]
    """The parts of the ledger that were scored."""


def report(run_dir: Path, full: bool = True) -> None:
    """Score a run, show its tables, then write them where that is possible and overwrites nothing newer.

    Raises:
        UserError: there is no run, or its ledger is damaged.
    """
    results = score_run(run_dir)
    (show if full else show_summary)(results.tables)
    if obstacle := _write_if_current(run_dir, results):
        warn(f"{run_dir}: the tables above are not written: {obstacle}")


def score_run(run_dir: Path) -> Results:
    """All tables of a run, and its summary.

    Raises:
        UserError: there is no run, or its ledger is damaged.
    """
    try:
        return until_unchanged(lambda: _score(run_dir, open_run(run_dir)))
    except LedgerDamagedError as error:
        raise damaged(run_dir, error.damage) from error


def _score(run_dir: Path, run: RunData) -> Results:
    suite = make_suite(run.settings["suite"])
    tables = [coverage(run), *suite_results(suite, run, "scores"), *suite_results(suite, run, "diagnostics")]
    summary = summarize(run, tables)
    times = [performance_table(run_dir), replica_table(run_dir), sessions_table(run)]
    times += suite_results(suite, run, "performance")  # depends on routing, and so stays out of the summary
    return Results([*tables, *(table for table in times if table is not None)], summary, run.parts)


def coverage(run: RunData) -> Table:
    """Planned, done and failed episodes of each player and suite, with the causes of failure."""
    done: Counter[tuple[str, ...]] = Counter()
    failed: dict[tuple[str, ...], Counter[str]] = {}
    for rows in run.batches(["player", "suite", "status", "error"]):
        played = rows.filter(pc.equal(rows["status"], "done"))
        done.update(_counts(played, ["player", "suite"]))
        broken = rows.filter(pc.equal(rows["status"], "failed"))
        for player, suite, error in zip(
            *(broken[name].to_pylist() for name in ("player", "suite", "error")), strict=True
        ):
            failed.setdefault((player, suite), Counter())[error.partition(":")[0]] += 1
    table = []
    for (player, suite), count in _counts(run.plan, ["player", "suite"]).items():
        causes = failed.get((player, suite), Counter())
        missing = count - done[player, suite] - causes.total()
        shown = ", ".join(f"{number} × {cause}" for cause, number in sorted(causes.items()))
        table.append((player, suite, count, done[player, suite], causes.total(), missing, shown))
    return Table(
        name="coverage",
        title="Episodes",
        columns=("player", "suite", "planned", "done", "failed", "missing", "causes of failure"),
        rows=tuple(table),
        headline=True,
    )


def _counts(rows: pa.Table, names: Sequence[str]) -> Counter[tuple[str, ...]]:
    """Rows of each combination of values, in the order of their first occurrence."""
    counted = rows.group_by(list(names), use_threads=False).aggregate([([], "count_all")])
    *keys, counts = (counted[name].to_pylist() for name in (*names, "count_all"))
    return Counter(dict(zip(zip(*keys, strict=True), counts, strict=True)))


def summarize(run: RunData, tables: Sequence[Table]) -> dict[str, object]:
    """What ``summary.json`` holds."""
    statuses: Counter[tuple[str, ...]] = Counter()
    for rows in run.batches(["status"]):
        statuses.update(_counts(rows, ["status"]))
    return {
        "planned": len(run.plan),
        "done": statuses["done",],
        "failed": statuses["failed",],
        "missing": len(run.plan) - statuses.total(),
        "tables": [table.to_json() for table in tables],
    }


def sessions_table(run: RunData) -> Table | None:
    """What the sessions of a run played, and with what; None where there was one only."""
    episodes: Counter[tuple[str, ...]] = Counter()
    successes: Counter[tuple[str, ...]] = Counter()
    for batch in run.batches(["session", "success"]):
        episodes.update(_counts(batch, ["session"]))
        successes.update(_counts(batch.filter(pc.fill_null(batch["success"], False)), ["session"]))
    rows: list[tuple[Cell, ...]] = []
    for session in run.sessions:
        key = (str(session.get("id")),)
        versions = [session.get(name) for name in ("git_commit", "vllm", "torch")]
        share = successes[key] / episodes[key] if episodes[key] else None
        rows.append((*key, session.get("began"), *versions, episodes[key], share))
    if len(rows) < 2:
        return None
    columns = ("session", "began", "git commit", "vllm", "torch", "episodes", "success")
    notes = ("Episodes whose latest attempt the session played.",)
    return Table("sessions", "Sessions", columns, tuple(rows), notes, section="performance")


def _write_if_current(run_dir: Path, results: Results) -> str:
    """Write results, or say why not: a driver at work writes its own, and newer ones must stay."""
    directory = RunDirectory(run_dir)
    try:
        directory.claim()
    except UserError as error:
        return str(error)
    try:
        if {path.name for path in directory.episodes.glob("*.parquet")} != results.parts:
            return "the run went on meanwhile; ask again"
        write_results(run_dir, results)
    except OSError as error:
        return str(error)
    finally:
        directory.release()
    return ""


def write_results(run_dir: Path, results: Results) -> None:
    """``summary.json`` and each table as CSV, Markdown and JSON below ``tables/``.

    Raises:
        OSError: they cannot be written.
    """
    folder = run_dir / "tables"
    folder.mkdir(exist_ok=True)
    for table in results.tables:
        write_durably(folder / f"{table.name}.csv", table.to_csv().encode())
        write_durably(folder / f"{table.name}.md", table.to_markdown().encode())
        write_durably(folder / f"{table.name}.json", tables_to_json([table]).encode())
    summary = json.dumps(results.summary, indent=2, ensure_ascii=False) + "\n"
    write_durably(run_dir / "summary.json", summary.encode())
