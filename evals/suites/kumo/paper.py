"""KUMO's results as a table of the measures that the paper plots (its Figures 4 and 6), in its convention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from evals.suites.kumo.published import run_cells
from evals.suites.kumo.repeats import Run
from evals.tables import Cell, Table, rounded

_MEASURES: dict[str, tuple[float, int, Literal["higher", "lower"]]] = {
    "success": (100, 1, "higher"),
    "relative actions": (1, 2, "lower"),
    "parse errors": (100, 1, "lower"),
    "tokens": (1, 0, "lower"),
}
"""With the factor and the digits they are printed with, and what is better."""


def paper_tables(runs: Sequence[Run]) -> Iterator[Table]:
    """One row for each model, one group of columns for each difficulty.

    Args:
        runs: As ``join_runs`` gives them.
    """
    cells = {(cell.player, cell.cell["level"], cell.measure): cell.estimate for cell in run_cells(runs)}
    levels = dict.fromkeys(level for _, level, _ in cells)
    players = dict.fromkeys(player for player, _, _ in cells)
    columns = {f"{level}: {measure}": (level, measure) for level in levels for measure in _MEASURES}
    rows: list[tuple[Cell, ...]] = []
    for player in players:
        values = []
        for level, measure in columns.values():
            factor, digits, _ = _MEASURES[measure]
            estimate = cells.get((player, level, measure))
            value = None
            if estimate and estimate.n:
                value = factor * estimate.mean
            values.append(rounded(value, digits))
        rows.append((player, *values))
    if not rows:
        return
    better = {}
    for name, (_, measure) in columns.items():
        better[name] = _MEASURES[measure][2]
    yield Table(
        name="kumo_paper",
        title="KUMO: success and parse errors in per cent, relative action count, tokens of a run",
        columns=("Model", *columns),
        rows=tuple(rows),
        notes=("Actions count as published: tests + 2; |A| + 1 without success.",),
        section="paper",
        better=better,
    )
