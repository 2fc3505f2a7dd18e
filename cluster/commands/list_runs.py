"""``raycade list``: the runs in a folder."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from cluster.console import show
from cluster.errors import UserError
from cluster.storage.provenance import read_versions
from cluster.storage.stored_run import read_config, read_plan_table, reading, sound_ledger
from evals.ledger.run_data import RunData
from evals.summary.overview import Line, overview
from evals.tables import Cell, Table

DEPTH = 3
"""Levels of folders in which runs are looked for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``raycade list``."""
    parser.description = "Lists all runs in a folder and the folders below it, the latest first. Reads only."
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs"), metavar="FOLDER", help="default: runs")


def main(options: argparse.Namespace) -> None:
    """Print the table."""
    show([list_runs(options.folder)])


def list_runs(folder: Path) -> Table:
    """A line for each suite of each run; a run that cannot be read has one that says so.

    Raises:
        UserError: there is no such folder, or no run in it.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; name one that holds runs, or start one with `raycade run`")
    runs = sorted(((_began(run), run) for run in _find(folder, DEPTH)), reverse=True)
    if not runs:
        raise UserError(f"{folder}: no runs here (a run's folder holds a plan.parquet)")
    rows, damage = list[tuple[Cell, ...]](), []
    costs = False
    for began, run in runs:
        name = str(run.relative_to(folder)) if run != folder else run.name
        try:
            lines = reading(lambda run=run: list(overview(_open(run))))  # type: ignore[misc]
        except UserError as error:
            rows.append((name, began, "–", "–", "unreadable", 0, None, None))
            damage.append(f"{name}: {error}")
            continue
        costs = costs or any(line.cost for line in lines)
        rows += [_row(name if not place else "", began if not place else "", line) for place, line in enumerate(lines)]
    columns = ("run", "began", "suite", "model", "done", "failed", "success", "cost")
    shown = len(columns) if costs else len(columns) - 1
    return Table(
        "runs",
        f"Runs in {folder}",
        columns[:shown],
        tuple(row[:shown] for row in rows),
        (
            "done: of the model's planned episodes. success: of the finished ones, failed ones counting as lost.",
            *damage,
        ),
    )


def _row(name: str, began: str, line: Line) -> tuple[Cell, ...]:
    done = f"{line.done}/{line.planned}"
    return (name, began, line.suite, line.player, done, line.failed, line.success, line.cost or None)


def _open(run_dir: Path) -> RunData:
    """A run without the check of its plan, which reads the whole of it."""
    plan = read_plan_table(run_dir)
    return RunData.of_ledger(plan, sound_ledger(run_dir, plan), read_config(run_dir), ())


def _find(folder: Path, depth: int) -> Iterator[Path]:
    if (folder / "plan.parquet").exists():
        yield folder
    elif depth:
        for below in sorted(folder.iterdir()):
            if below.is_dir() and not below.name.startswith("."):
                yield from _find(below, depth - 1)


def _began(run_dir: Path) -> str:
    """Start of the run's first session, in UTC; empty where none is noted."""
    try:
        sessions = read_versions(run_dir)
    except UserError:
        return ""
    began = str(sessions[0].get("began", "")) if sessions else ""
    return began[:16].replace("T", " ")
