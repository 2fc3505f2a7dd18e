"""Success over size: the paper's models with the run's own among them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from evals.figures import CLUSTERED, Figure, Series
from evals.reference.comparison import RunCell
from evals.reference.figures import Paper, published
from evals.reference.models import parameters_of
from evals.stats.intervals import Estimate

SHARE = ("success", "accuracy")
"""Measures that a trend is drawn of."""


def size_figures(
    suite: str, title: str, cells: Sequence[RunCell], split_by: str, stored_names: Mapping[str, str] | None = None
) -> Iterator[Figure]:
    """One figure, where a player's size is known and the paper has models in the cells that it played.

    A point is the unweighted mean over the cells of its panel that the run played; the paper's models that lack one of
    these are left out, so that all points stand for the same cells.

    Args:
        suite: Name of the suite; its paper's figures are in ``evals/reference/tables``.
        title: What figures call the suite.
        cells: Of all players.
        split_by: The name in ``RunCell.cell`` whose values are the panels, such as ``mode``.
        stored_names: What the ledger calls players that have other names here (``RunData.stored_names``).
    """
    paper = published(suite)
    shares = [cell for cell in cells if cell.measure in SHARE and cell.values]
    series: list[Series] = []
    for panel in dict.fromkeys(cell.cell.get(split_by, "") for cell in shares):
        here = [cell for cell in shares if cell.cell.get(split_by, "") == panel]
        series += _panel_series(paper, here, panel, stored_names or {})
    if series:
        yield Figure(
            name=f"{suite}_sizes",
            title=f"{title}: success over size",
            kind="points",
            series=tuple(series),
            x_label="parameters, billions",
            y_label="success",
            limits=(0, 1),
            logarithmic=True,
            intervals=CLUSTERED,
            notes=(
                f"Means over the cells that this run played. Gray: models of the {paper.source} with published sizes, "
                "experts included.",
            ),
        )


def _is_published(paper: Paper, cell: RunCell) -> bool:
    """Whether any of the paper's models has a figure in a cell."""
    return any(paper.find(model.name, cell.measure, cell.cell) for model in paper.models)


def _panel_series(paper: Paper, cells: Sequence[RunCell], panel: str, stored_names: Mapping[str, str]) -> list[Series]:
    """The players' points and those of the paper's models; nothing where either are missing."""
    known = [cell for cell in cells if _is_published(paper, cell)]
    points = []
    for player in dict.fromkeys(cell.player for cell in known):
        size = parameters_of(stored_names.get(player, player))
        points.append(_own_point(known, player, size))
    ours = [Series(player, (size,), (value,), panel) for player, size, value in filter(None, points)]
    theirs = _published_points(paper, known) if ours else []
    if not theirs:
        return []
    sizes, values = zip(*theirs, strict=True)
    return [*ours, Series("the paper's models", sizes, values, panel, reference=True)]


def _own_point(cells: Sequence[RunCell], player: str, size: float | None) -> tuple[str, float, Estimate] | None:
    if not size:
        return None
    return player, size, _mean_of([cell.estimate for cell in cells if cell.player == player])


def _mean_of(estimates: Sequence[Estimate]) -> Estimate:
    """The unweighted mean of cells; their games differ, so variances add up. The ends stay within 0 and 1."""
    mean = statistics.fmean(each.mean for each in estimates)
    n = sum(each.n for each in estimates)
    halves = [(each.high - each.low) / 2 for each in estimates]
    half = math.sqrt(sum(each * each for each in halves)) / len(halves)
    return Estimate(mean, max(0.0, mean - half), min(1.0, mean + half), n)


def _published_points(paper: Paper, cells: Sequence[RunCell]) -> list[tuple[float, float]]:
    """Size and mean of each model of the paper that has a figure in every cell."""
    places = {(cell.measure, frozenset(cell.cell.items())): cell for cell in cells}
    points = []
    for model in paper.models:
        found = [paper.find(model.name, cell.measure, cell.cell) for cell in places.values()]
        values = [figure.value for figure in found if figure is not None]
        if model.parameters and len(values) == len(found):
            points.append((model.parameters, statistics.fmean(values)))
    return points
