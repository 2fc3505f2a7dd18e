"""Why games were lost: tables of mistakes, refused steps, miscounts and shortcuts, from the ledger's columns alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from evals.stats.intervals import NONNEGATIVE, mean_estimate, proportion_estimate
from evals.suites.kidgym.games import CELL, CellKey, rows_of_cells
from evals.suites.kidgym.shortcut_success import SHORTCUT_SUCCESS
from evals.suites.kidgym.shortcuts import SHORTCUTS
from evals.suites.kidgym.variants import chance_of
from evals.tables import Cell, Table

_REFUSED: Final = ("refused_blocked", "refused_misfit", "refused_full")
_COLUMNS: Final = ("status", "success", "steps", "refused_steps", *_REFUSED, "mistake", "lost_step", "miscount")
ABOVE_CHANCE: Final = 0.05
"""A shortcut that wins so much more often than random play is named."""

Cells = Mapping[CellKey, pa.Table]


def diagnose_kidgym(plan: pa.Table, ledger: pa.Table) -> Iterator[Table]:
    """The tables, of which those are left out that have nothing to show."""
    cells = _cells(plan, ledger)
    for table in (_mistakes(cells), _refusals(cells), _miscounts(cells), _shortcuts(plan)):
        if table.rows:
            yield table


def _cells(plan: pa.Table, ledger: pa.Table) -> Cells:
    """The games of each cell that were played to their end, in the order of the plan; failed ones have nothing to tell."""
    cells = {}
    for cell, rows in rows_of_cells(plan, ledger, _COLUMNS).items():
        done = rows.filter(pc.equal(pc.cast(rows["status"], pa.string()), "done"))
        if len(done):
            cells[cell] = done
    return cells


def _mistakes(cells: Cells) -> Table:
    """One row for each kind of mistake of each cell, the most frequent first."""
    rows: list[tuple[Cell, ...]] = []
    for cell, games in cells.items():
        lost = games.filter(pc.invert(games["success"]))
        mistakes = pc.fill_null(pc.cast(lost["mistake"], pa.string()), "budget used up").to_pylist()
        when: dict[str, list[float]] = {mistake: [] for mistake in mistakes}
        for mistake, step in zip(mistakes, lost["lost_step"].to_pylist(), strict=True):
            if step:
                when[mistake].append(float(step))
        for kind, count in Counter(mistakes).most_common():
            share = proportion_estimate([True] * count + [False] * (len(games) - count))
            rows.append((*cell, kind, count, len(lost), share, mean_estimate(when[kind], bounds=NONNEGATIVE)))
    return Table(
        name="kidgym_mistakes",
        title="KidGym: what lost the games",
        columns=(*CELL, "mistake", "games", "lost games", "share of all games", "at step"),
        rows=tuple(rows),
        notes=(
            "mistake: the first action after which perfect play could not win any more within the budget, or the reply that "
            "named no action; at step: when that was.",
            "FI, MFI, PU: a mirror twin is the piece of the other side, left for right, upside down the one above or below; "
            "SO: order not reversed is a place that the opposite order would be right for; PL: direction not inverted is the "
            "given direction (with the turn or without); detour: an action that could be done, but cost a step too many.",
        ),
    )


def _refusals(cells: Cells) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for cell, games in cells.items():
        known = games.filter(pc.is_valid(games["refused_blocked"]))  # unknown in the published environment
        refused, *reasons = [sum(known[name].to_pylist()) for name in ("refused_steps", *_REFUSED)]
        if refused:
            steps = sum(known["steps"].to_pylist())
            rows.append((*cell, steps, refused, *reasons, refused / steps))
    return Table(
        name="kidgym_refusals",
        title="KidGym: refused actions",
        columns=(*CELL, "steps", "refused", "way blocked", "does not fit", "backpack full", "refused share"),
        rows=tuple(rows),
        notes=(
            "A refused action uses up a step and changes nothing but where the person stands. Cells without one are left out.",
        ),
    )


def _miscounts(cells: Cells) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for cell, games in cells.items():
        errors = games["miscount"].drop_null().to_pylist()
        if errors:
            too_few = [error for error in errors if error < 0]
            too_many = [error for error in errors if error > 0]
            right = len(errors) - len(too_few) - len(too_many)
            error = mean_estimate([float(error) for error in errors])
            off_by = mean_estimate([float(abs(error)) for error in (*too_few, *too_many)], bounds=NONNEGATIVE)
            rows.append((*cell, len(errors), len(too_few), right, len(too_many), error, off_by))
    return Table(
        name="kidgym_miscounts",
        title="KidGym: declared numbers in CO",
        columns=(*CELL, "declared", "too few", "right", "too many", "error", "absolute error of wrong ones"),
        rows=tuple(rows),
        notes=(
            "error: in the backpack less what was asked for, when it was declared to be right: the implied miscount.",
        ),
    )


def _shortcuts(plan: pa.Table) -> Table:
    """What shortcuts win over many games, for the tasks of this run."""
    planned = set(zip(plan["task"].to_pylist(), plan["level"].to_pylist(), strict=True))
    rows: list[tuple[Cell, ...]] = []
    for name, tasks in SHORTCUT_SUCCESS.items():
        for task, shares in tasks.items():
            if {(task, str(level)) for level in (1, 2, 3)} & planned:
                chance = chance_of(task) or ()
                above = max(share - value for share, value in zip(shares, chance, strict=True)) > ABOVE_CHANCE
                rows.append((name, task, *shares, *chance, above, SHORTCUTS[name]))
    return Table(
        name="kidgym_shortcuts",
        title="KidGym: what shortcuts win",
        columns=(
            *("shortcut", "task", "level 1", "level 2", "level 3"),
            *("chance 1", "chance 2", "chance 3", "above chance", "what it does"),
        ),
        rows=tuple(rows),
        notes=(
            "Success over many games (python -m benchmarks.kidgym_shortcuts), whichever players this run has.",
            f"above chance: at some level by more than {ABOVE_CHANCE}.",
        ),
    )
