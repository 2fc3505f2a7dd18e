"""Why games were lost: tables of mistakes, refused steps, miscounts and shortcuts, from the ledger's columns alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from envs.kidgym.chance import CHANCE
from evals.stats.intervals import NONNEGATIVE, mean_estimate, proportion_estimate
from evals.suites.kidgym.shortcut_success import SHORTCUT_SUCCESS
from evals.suites.kidgym.shortcuts import SHORTCUTS
from evals.tables import Cell, Table

CELL: Final = ("player", "mode", "task", "level")
_REFUSED: Final = ("refused_blocked", "refused_misfit", "refused_full")
_COLUMNS: Final = (
    *("episode_id", "status", "success", "steps", "forced_steps", "refused_steps"),
    *_REFUSED,
    *("mistake", "lost_step", "miscount"),
)
ABOVE_CHANCE: Final = 0.05
"""A shortcut that wins so much more often than random play is named."""

Cells = Mapping[tuple[str, ...], Sequence[Mapping[str, Any]]]


def diagnose_kidgym(plan: pa.Table, ledger: pa.Table) -> Iterator[Table]:
    """The tables, of which those are left out that have nothing to show."""
    cells = _cells(plan, ledger)
    for table in (_mistakes(cells), _refusals(cells), _miscounts(cells), _shortcuts(plan)):
        if table.rows:
            yield table


def _cells(plan: pa.Table, ledger: pa.Table) -> Cells:
    """The played games of each cell, in the order of the plan; failed ones have nothing to tell."""
    names = [
        name for name in _COLUMNS if name in ledger.column_names
    ]  # before the first row, the suite's are not there
    rows = {row["episode_id"]: row for row in ledger.select(names).to_pylist() if row["status"] == "done"}
    cells: defaultdict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for entry in plan.select(["episode_id", *CELL]).to_pylist():
        if row := rows.get(entry["episode_id"]):
            cells[tuple(entry[name] for name in CELL)].append(row)
    return cells


def _mistakes(cells: Cells) -> Table:
    """One row for each kind of mistake of each cell, the most frequent first."""
    rows: list[tuple[Cell, ...]] = []
    for cell, games in cells.items():
        lost = [game for game in games if not game["success"]]
        kinds = Counter(game["mistake"] or "budget used up" for game in lost)
        for kind, count in kinds.most_common():
            when = [float(game["lost_step"]) for game in lost if game["mistake"] == kind and game["lost_step"]]
            share = proportion_estimate([(game["mistake"] or "budget used up") == kind for game in games])
            rows.append((*cell, kind, count, len(lost), share, mean_estimate(when, bounds=NONNEGATIVE)))
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
        games = [game for game in games if game["refused_blocked"] is not None]  # unknown in the published environment
        if any(game["refused_steps"] for game in games):
            steps = sum(game["steps"] for game in games)
            counts = [sum(game[name] for game in games) for name in ("refused_steps", *_REFUSED)]
            rows.append((*cell, steps, *counts, counts[0] / steps))
    return Table(
        name="kidgym_refusals",
        title="KidGym: refused actions",
        columns=(*CELL, "steps", "refused", "way blocked", "does not fit", "backpack full", "refused share"),
        rows=tuple(rows),
        notes=("A refused action changes nothing and uses up a step. Cells without one are left out.",),
    )


def _miscounts(cells: Cells) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for cell, games in cells.items():
        errors = [game["miscount"] for game in games if game["miscount"] is not None]
        if errors:
            signs = [sum(error < 0 for error in errors), errors.count(0), sum(error > 0 for error in errors)]
            wrong = [float(abs(error)) for error in errors if error]
            rows.append(
                (
                    *cell,
                    len(errors),
                    *signs,
                    mean_estimate([float(error) for error in errors]),
                    mean_estimate(wrong, bounds=NONNEGATIVE),
                )
            )
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
                chance = CHANCE[task]
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
