"""Means over cells that each stop by themselves: in the proportions of the plan, however many games each cell took."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from evals.ledger.run_data import RunData, count_rows
from evals.stats.intervals import NO_ESTIMATE, Estimate
from evals.summary.independent import pooled_estimate
from evals.summary.paired import Observation

_ALPHA: Final = 0.05


def overall_estimate(run: RunData, player: str, observations: Sequence[Observation]) -> Estimate:
    """The mean over a player's observations; where each cell stops by itself, that over cells in the plan's proportions.

    With ``stop.by=cell``, cells that are hard to measure play more games, so that the mean over all games is none of the
    plan. The interval then goes from the mean of the cells' lower ends to that of their upper ends, each at 1 - alpha / cells:
    all of these hold together, however often one looks.

    Args:
        run: One suite's part of a run, within ``run.intervals()``.
        player: Whose observations.
        observations: Of one measure.
    """
    if not observations:
        return NO_ESTIMATE
    shares = all(one.value in (0.0, 1.0) for one in observations)
    if not run.cells_stop:
        return pooled_estimate(observations, shares)
    planned = {} if run.with_not_needed is None else _planned(run.with_not_needed, run, player)
    cells: defaultdict[tuple[str, ...], list[Observation]] = defaultdict(list)
    for one in observations:
        cells[one.cell].append(one)
    if not cells.keys() <= planned.keys():
        # A measure of other cells than those that stop, or an imported run, whose file has the games that were needed
        # alone: nothing holds for the mean.
        mean = math.fsum(one.value for one in observations) / len(observations)
        return Estimate(mean, math.nan, math.nan, len(observations))
    total = sum(planned[cell] for cell in cells)
    weights = [planned[cell] / total for cell in cells]
    estimates = [pooled_estimate(own, shares, 1 - _ALPHA / len(cells)) for own in cells.values()]

    def mean_of(part: str) -> float:
        return math.fsum(weight * getattr(estimate, part) for weight, estimate in zip(weights, estimates, strict=True))

    return Estimate(mean_of("mean"), mean_of("low"), mean_of("high"), len(observations))


def _planned(plan: pa.Table, run: RunData, player: str) -> dict[tuple[str, ...], int]:
    """Episodes of each cell (task, level and mode) of the run's suite in the whole plan."""
    mine = plan.filter(pc.and_(pc.equal(plan["player"], player), pc.is_in(plan["suite"], pc.unique(run.plan["suite"]))))
    return count_rows(mine, ("task", "level", "mode"))
