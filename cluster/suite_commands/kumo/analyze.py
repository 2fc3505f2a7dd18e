"""``raycade kumo lab analyze``: what one or several runs tell about domains, structure and other benchmarks."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.config.plan import make_suite
from cluster.console import show
from cluster.errors import UserError, cannot_write
from cluster.storage.durable import write_durably
from cluster.storage.stored_run import Run, read_runs
from envs.files import real_path
from evals.tables import Table, table_files

if TYPE_CHECKING:
    from evals.suites.kumo.lab.analysis.analyze import Analysis, OpenedRun

LISTED = 20
"""Rows of a table that the terminal shows, the first and last ones, unless all are asked for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``raycade kumo lab analyze``."""
    parser.description = (
        "Analyzes runs with KUMO from their ledgers, over all their players: which domains and categories are hard, actions of "
        "perfect play beside the published ones, domain graphs and their communities, whether the structure of games "
        "decides success, correlation with the runs' other suites, tokens and parse errors."
    )
    parser.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN_DIR")
    parser.add_argument(
        "--scores",
        type=Path,
        metavar="FILE.csv",
        help="scores at other benchmarks (column model, and one for each), correlated with these and the published ones",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="write tables (CSV, Markdown, JSON) and figures there"
    )
    parser.add_argument("--full", action="store_true", help="all rows and columns")


def main(options: argparse.Namespace) -> int:
    """Print the tables, and write the files that are asked for.

    Raises:
        UserError: there is no run, none of KUMO, or a file cannot be read or written.
    """
    from evals.suites.kumo.lab.analysis.analyze import analyze  # networkx and scipy take a second to import

    try:
        runs = [Run(path) for path in options.run_dirs]
        found = read_runs(runs, lambda: analyze(_opened(runs), options.scores))
    except ValueError as error:
        raise UserError(str(error)) from error
    tables = found.tables
    if options.full:
        show(tables)
    else:
        show([_shortened(table) for table in tables])
    if options.out:
        _write(options.out, tables, found)
        print(f"written: {options.out}")
    return 0


def _opened(runs: Sequence[Run]) -> list[OpenedRun]:
    from evals.suites.kumo.lab.analysis.analyze import OpenedRun

    last = [real_path(run.path).name for run in runs]
    opened = []
    for folder, run in zip(last, runs, strict=True):
        name = folder if last.count(folder) == 1 else str(run.path)
        opened.append(OpenedRun(name, run.data, make_suite(run.config["suite"])))
    return opened


def _shortened(table: Table) -> Table:
    """The table with its brief columns, without notes, and if it is long with its first and last rows only."""
    rows = table.rows
    notes: tuple[str, ...] = ()
    if len(rows) > LISTED:
        gap = ("...",) * len(table.columns)
        rows = (*rows[: LISTED // 2], gap, *rows[-LISTED // 2 :])
        notes = (f"{LISTED} of {len(table.rows)} rows; --full shows all.",)
    brief = table.brief or table.columns
    places = [place for place, name in enumerate(table.columns) if name in brief]
    columns = [table.columns[place] for place in places]
    shown = [tuple(row[place] for place in places) for row in rows]
    return dataclasses.replace(
        table,
        columns=tuple(columns),
        rows=tuple(shown),
        notes=notes,
    )


def _write(folder: Path, tables: Sequence[Table], found: Analysis) -> None:
    from evals.report.build import figure_files  # matplotlib takes a second to import

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in {**figure_files(found.figures), **table_files(tables)}.items():
            write_durably(folder / name, content)
    except OSError as error:
        raise cannot_write(folder, error) from error
