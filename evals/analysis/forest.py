"""The differences of a comparison as a forest plot: all games of a suite, then its cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from evals.analysis.compare import Side, in_one_cell, shared_measures
from evals.figures import CLUSTERED, Figure, Series
from evals.summary.paired import Effect, paired_effects

MOST_CELLS: Final = 30
"""Rows of a panel below the first; of more cells those with the largest differences are drawn."""


def forest_figure(first: Side, second: Side, column: str | None = None) -> Figure:
    """One panel for each measure, in its own units; a row for all games and one for each cell.

    Args:
        first: What stands before the minus sign.
        second: What stands behind it.
        column: Compare this column of the ledger instead of what the suites offer.

    Raises:
        ValueError: there is no such column, or it is not a number.
    """
    series = []
    left_out = 0
    for suite, one, other in shared_measures(first, second, column):
        overall = paired_effects(in_one_cell(one.observations), in_one_cell(other.observations))
        if not overall:
            continue
        cells = paired_effects(one.observations, other.observations)
        shown = sorted(cells, key=lambda effect: -abs(effect.difference.mean))[:MOST_CELLS]
        left_out += len(cells) - len(shown)
        rows = {"all": overall[0].difference}
        if len(cells) > 1:
            names = _names(cells)
            rows |= {name: effect.difference for name, effect in zip(names, cells, strict=True) if effect in shown}
        series.append(Series("difference", tuple(rows), tuple(rows.values()), f"{suite}: {one.name}"))
    fewer = (f"Of each measure the {MOST_CELLS} cells with the largest differences.",) if left_out else ()
    return Figure(
        name=f"compare_{first.label}_{second.label}",
        title=f"{first.player} ({first.label}) minus {second.player} ({second.label}) on the same games",
        kind="dots",
        series=tuple(series),
        y_label=f"{first.label} minus {second.label}",
        intervals=CLUSTERED,
        unit="games",
        line=0.0,
        notes=fewer,
    )


def _names(cells: Sequence[Effect]) -> list[str]:
    """What tells the cells apart."""
    varying = [place for place in range(len(cells[0].cell)) if len({effect.cell[place] for effect in cells}) > 1]
    return [" ".join(effect.cell[place] for place in varying) for effect in cells]
