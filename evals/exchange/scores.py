"""The scores of a suite as one player played it: each with its interval, standard error and number of games."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evals.exchange.source import Source
from evals.stats.intervals import UNBOUNDED, UNIT, Bounds, Estimate, clustered_error, mean_estimate, proportion_estimate
from evals.suite_results import suite_measures
from evals.summary.as_planned import overall_estimate
from evals.summary.paired import Measure, Observation, column_measure

CONFIDENCE = 0.95
METHOD = "clustered by game; Wilson for shares, Student's t for means"
ANYTIME_VALID = "clustered by game; anytime-valid (a confidence sequence)"
MAIN = "success"


@dataclass(frozen=True)
class Score:
    """One number of a suite."""

    metric: str
    """``success``, ``score``, or what the suite measures besides."""
    cell: tuple[str, ...]
    """Empty for all episodes, else the values of ``dimensions``."""
    dimensions: tuple[str, ...]
    estimate: Estimate
    error: float
    """Standard error, clustered by game; nan for a single game."""
    bounds: Bounds
    higher_is_better: bool

    @property
    def name(self) -> str:
        """The metric and its cell, such as ``success CL 1 zero_shot``."""
        return " ".join((self.metric, *self.cell))


def scores_of(source: Source) -> list[Score]:
    """All scores: success and score of all episodes and of each cell, then the suite's own measures.

    A failed episode counts as no success, with score 0; episodes that were not played do not count. A measure whose mean is
    nan or infinite is left out: none of the formats has a place for it.
    """
    success = column_measure(source.run, source.player)
    credit = column_measure(source.run, source.player, "score")
    measures = [success]
    if [one.value for one in credit.observations] != [one.value for one in success.observations]:
        measures.append(credit)
    measures += [each for each in suite_measures(source.suite, source.run, source.player) if each.name != MAIN]
    with source.run.intervals():
        scores = [score for measure in measures for score in _scores(measure, source)]
    return [score for score in scores if known(score.estimate.mean) is not None]


def main_score(scores: Sequence[Score]) -> Score | None:
    """Success over all episodes; None where none was played."""
    return next((score for score in scores if score.metric == MAIN and not score.cell), None)


def _scores(measure: Measure, source: Source) -> Iterator[Score]:
    is_share = all(0 <= one.value <= 1 for one in measure.observations)
    bounds = UNIT if is_share else UNBOUNDED
    if measure.observations:
        overall = _score(measure, (), measure.observations, bounds)
        if source.run.cells_stop:
            estimate = overall_estimate(source.run, source.player, measure.observations)
            overall = dataclasses.replace(overall, estimate=estimate, error=math.nan)
        yield overall
    cells: defaultdict[tuple[str, ...], list[Observation]] = defaultdict(list)
    for one in measure.observations:
        cells[one.cell].append(one)
    if len(cells) > 1:
        for cell, observations in cells.items():
            yield _score(measure, tuple(map(str, cell)), observations, bounds)


def _score(measure: Measure, cell: tuple[str, ...], observations: Sequence[Observation], bounds: Bounds) -> Score:
    values = [one.value for one in observations]
    games = [one.game for one in observations]
    if measure.name == MAIN:
        won = [value > 0 for value in values]
        estimate = proportion_estimate(won, games)
    else:
        estimate = mean_estimate(values, games, CONFIDENCE, bounds)
    _, error, _ = clustered_error(values, games)
    higher = measure.better == "higher"
    return Score(measure.name, cell, measure.dimensions, estimate, error, bounds, higher)


def known(value: float) -> float | None:
    """A number, or None for nan and infinity: JSON has neither."""
    return value if math.isfinite(value) else None
