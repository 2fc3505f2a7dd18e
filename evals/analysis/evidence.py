"""Anytime-valid evidence of differences: for runs that stopped, and for those that are looked at on the way."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence

from evals.analysis.compare import Side, shared_measures
from evals.stats.anytime import difference_capital, difference_sequence, e_benjamini_hochberg, e_holm
from evals.summary.paired import Measure
from evals.tables import Cell, Table

ALPHA = 0.05


def evidence_table(first: Side, others: Sequence[Side], column: str | None = None) -> Table | None:
    """E-values of the first side against each other one, on identical games, corrected for their number.

    Args:
        first: What stands before the minus sign.
        others: What the others stand behind.
        column: Compare this column of the ledger instead of what the suites offer.

    Returns:
        None where no measure has known bounds (``Measure.bounded``), as successes and scores from 0 to 1 have.
    """
    found: list[tuple[str, str, list[float]]] = []
    for other in others:
        for suite, mine, theirs in shared_measures(first, other, column):
            if not (mine.bounded and theirs.bounded):
                continue
            # Where each cell stops by itself, games of all cells together are no sample of the plan.
            apart = first.run.cells_stop or other.run.cells_stop
            for cell, differences in _differences(mine, theirs, apart).items():
                about = " ".join((f"{suite}: {mine.name}", *cell))
                found.append((f"{first.label} - {other.label}", about, differences))
    if not found:
        return None
    e_values = [difference_capital(differences).e_value for *_, differences in found]
    holm, discovered = e_holm(e_values), e_benjamini_hochberg(e_values, ALPHA)
    rows: list[tuple[Cell, ...]] = []
    for (pair, measure, differences), e_value, corrected, kept in zip(found, e_values, holm, discovered, strict=True):
        estimate = difference_sequence(differences, ALPHA)
        shown = (_short(e_value), _short(corrected), "yes" if kept else "no")
        rows.append((pair, measure, len(differences), estimate, *shown))
    return Table(
        name="compare_evidence",
        title="Anytime-valid evidence",
        columns=("pair", "measure", "games", "difference", "e-value", "Holm e", "found"),
        rows=tuple(rows),
        notes=(
            "These intervals (95 %) and e-values hold however often one looks and whenever a run stops; p-values do not.",
            f"Holm e: corrected for the table's {len(rows)} rows; from {1 / ALPHA:g} on there is a difference, with a chance "
            "of error in any row of 5 %. found: by e-BH, of which 5 % are false in the mean.",
        ),
    )


def _differences(first: Measure, second: Measure, apart: bool) -> dict[tuple[str, ...], list[float]]:
    """Of each game the mean difference over its pairs; ``apart`` by cell, else in one cell without a name."""
    twins = {(one.cell, one.game, one.unit): one.value for one in second.observations}
    cells: defaultdict[tuple[str, ...], defaultdict[Hashable, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in first.observations:
        twin = twins.get((one.cell, one.game, one.unit))
        if twin is not None:
            cells[one.cell if apart else ()][one.game].append(one.value - twin)
    return {cell: [math.fsum(pairs) / len(pairs) for pairs in games.values()] for cell, games in cells.items()}


def _short(e_value: float) -> Cell:
    return e_value if e_value < 1000 else f"{e_value:.1e}"
