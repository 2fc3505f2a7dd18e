"""``raycade list``: the runs in a folder."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.text import Text

from cluster.console import warn
from cluster.errors import RunFailedError, UserError
from cluster.storage.stored_run import Run, read_runs
from envs.printable import printable
from evals.report.terminal import Output
from evals.summary.cost import money_digits
from evals.summary.overview import Line, overview
from evals.tables import Cell, Table, format_cell, rounded

DEPTH = 3
"""Levels of folders in which runs are looked for."""
NAMED = 3
"""Folders that cannot be looked into and are named."""


def main(options: argparse.Namespace) -> None:
    """Print each run's whole name on a line of its own, so that it can be copied, and its suites below."""
    table = list_runs(options.folder)
    console = Output()
    console.print(Text(printable(table.title), style="bold"))
    titles = table.columns[2:]
    shown = []
    for row in table.rows:
        shown.append([printable(format_cell(cell)) for cell in row[2:]])
    columns = zip(titles, *shown, strict=True)
    widths = [max(map(cell_len, column)) for column in columns]
    console.print(Text(f"  {_aligned(titles, widths)}", style="dim"), soft_wrap=True)
    for row, cells in zip(table.rows, shown, strict=True):
        name, began = map(str, row[:2])
        # Only the first line of a run has its name.
        if name:
            console.print(Text.assemble((printable(name), "bold"), f"  {printable(began)}"), soft_wrap=True)
        console.print(Text(f"  {_aligned(cells, widths)}"), soft_wrap=True)
    for note in table.notes:
        console.print(Text(printable(note), style="dim"))


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)]
    return "  ".join(padded).rstrip()


def list_runs(folder: Path) -> Table:
    """A line for each suite of each run; a run that cannot be read has one that says so.

    Raises:
        UserError: there is no such folder, or no run in it.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; name one that holds runs, or start one with `raycade run`")
    unread = list[Path]()
    runs = [(_began(run), run) for run in find_runs(folder, unread)]
    if not runs and unread:
        raise UserError(f"{folder}: no runs here that can be read; {_listed(unread)} cannot be looked into")
    if not runs:
        raise UserError(f"{folder}: no runs here (a run's folder holds a plan.parquet)")
    rows = list[tuple[Cell, ...]]()
    damage = []
    costs = False
    for began, run in runs:
        # The folder may itself be a run.
        name = run.path.name if run.path == folder else str(run.path.relative_to(folder))
        try:
            lines = read_runs([run], lambda run=run: list(overview(run.data)))  # type: ignore[misc]
            spent = run.spent
        except (UserError, RunFailedError, OSError) as error:
            rows.append((name, began, "–", "–", "unreadable", 0, None, None, None))
            damage.append(f"{name}: {error}")
            continue
        damage += [f"{name}: {line}" for line in run.data.stopping]
        if spent or any(line.cost for line in lines):
            costs = True
        rows += _rows_of(name, began, lines, spent)
    columns: tuple[str, ...] = ("run", "began", "suite", "model", "done", "failed", "success", "scored cost", "spent")
    notes = [
        "Times are UTC. done: of the model's planned episodes. success: of the finished ones, failed ones counting as lost."
    ]
    if costs:
        rows = _with_digits(rows)
        notes.append("scored cost: of the answers that count; spent: by the whole run, whatever became of the answers.")
    else:
        columns = columns[:-2]
        rows = [row[:-2] for row in rows]
    return Table("runs", f"Runs in {folder}", columns, tuple(rows), (*notes, *damage))


def _rows_of(name: str, began: str, lines: Sequence[Line], spent: float | None) -> Iterator[tuple[Cell, ...]]:
    """A run's rows, one for each suite; what is told of the whole run stands in the first."""
    about: tuple[Cell, ...] = (name, began)
    of_run: Cell = spent
    for line in lines:
        done = f"{line.done}/{line.planned}"
        yield (*about, line.suite, line.player, done, line.failed, line.success, line.cost or None, of_run)
        about, of_run = ("", ""), None


def find_runs(folder: Path, unread: list[Path] | None = None) -> list[Run]:
    """The runs in a folder and below, the latest first.

    Args:
        folder: Where to look.
        unread: Gets the folders that cannot be looked into.
    """
    runs = _find(folder, DEPTH, set(), [] if unread is None else unread)
    found = sorted(((_began(run), run) for run in runs), key=_latest_first, reverse=True)
    return [run for _, run in found]


def _listed(folders: Sequence[Path]) -> str:
    named = ", ".join(map(str, folders[:NAMED]))
    more = len(folders) - NAMED
    return f"{named} and {more} more" if more > 0 else named


def _with_digits(rows: Sequence[tuple[Cell, ...]]) -> list[tuple[Cell, ...]]:
    """The rows with money to as many digits as the smallest sum needs."""
    sums: list[float] = []
    for row in rows:
        sums += [value for value in row[-2:] if isinstance(value, float)]
    digits = money_digits(sums)
    return [(*row[:-2], *(rounded(value, digits) for value in row[-2:])) for row in rows]  # type: ignore[arg-type]


def _find(folder: Path, depth: int, seen: set[str], unread: list[Path]) -> Iterator[Run]:
    """The runs in a folder and below; what may not be looked into is passed over with a warning.

    Args:
        folder: Where to look.
        depth: Levels of folders below it.
        seen: Folders that were looked into, without links; a link that leads back to one of them adds nothing.
        unread: Gets the folders that were passed over.
    """
    place = os.path.realpath(folder)
    if place in seen:
        return
    seen.add(place)
    try:
        is_run = (folder / "plan.parquet").exists()
        below = [] if is_run else sorted(folder.iterdir())
    except OSError as error:
        warn(f"{folder}: cannot be read: {error.strerror}")
        unread.append(folder)
        return
    if is_run:
        yield Run(folder)
    if not depth:
        return
    for path in below:
        if path.name.startswith("."):
            continue
        # Of an entry that may not be looked at, os.path.isdir raises no error.
        if os.path.isdir(path):  # noqa: PTH112
            yield from _find(path, depth - 1, seen, unread)


def _began(run: Run) -> str:
    """Start of the run's first session, in UTC; empty where none is noted."""
    try:
        sessions = run.sessions
    except UserError:
        return ""
    began = str(sessions[0].get("began", "")) if sessions else ""
    return began[:16].replace("T", " ")


def _latest_first(found: tuple[str, Run]) -> tuple[str, Path]:
    began, run = found
    return began, run.path
