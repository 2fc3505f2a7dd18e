"""What being told earlier answers adds, in per cent of what is reached without: the paper's Figures 15 and 16."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evals.figures import Figure, Series
from evals.reference import published
from evals.suites.multistar.answers import STAGES, Answered
from evals.suites.multistar.published import run_cells
from evals.tables import Cell, Table, rounded

_MEASURES = {"accuracy": "Acc", "MSEval": "MSEval"}
PAPER = " (paper)"
"""Behind the names of the paper's models."""

Means = Mapping[tuple[str, str, str, str, str], float]
"""By player, measure, style, prior and stage."""


def gain_tables(answers: Sequence[Answered]) -> Iterator[Table]:
    """The gains of a run's players, and below them those of the paper's models; nothing where a run has no such pair."""
    gains = _gains(_means(answers))
    if not gains:
        return
    theirs = _gains(_published_means())
    stages = _stages(gains)
    rows: list[tuple[Cell, ...]] = []
    for (player, measure, style), own in [*gains.items(), *theirs.items()]:
        rows.append((player, _MEASURES[measure], style, *(rounded(own.get(stage), 1) for stage in stages)))
    yield Table(
        name="multistar_paper_gains",
        title="MultiStAR: gain by the model's own earlier answers, per cent of what it reaches without",
        columns=("Model", "Metric", "Prompt", *stages),
        rows=tuple(rows),
        notes=(f"Figures 15 and 16 show the gains of the rows marked{PAPER}, computed here from Table 2.",),
        section="paper",
        better=dict.fromkeys(stages, "higher"),
    )


def _stages(gains: Mapping[tuple[str, str, str], Mapping[str, float]]) -> list[str]:
    """The stages in which any player has a gain."""
    have = {stage for own in gains.values() for stage in own}
    return [stage for stage in STAGES if stage in have]


def gain_figures(answers: Sequence[Answered]) -> Iterator[Figure]:
    """The same as a figure, a panel for each measure and style; the paper's models as reference."""
    gains = _gains(_means(answers))
    if not gains:
        return
    measured = {(measure, style) for _, measure, style in gains}
    theirs = {key: own for key, own in _gains(_published_means()).items() if key[1:] in measured}
    stages = tuple(_stages(gains))
    series = []
    for (player, measure, style), own in [*gains.items(), *theirs.items()]:
        is_theirs = player.endswith(PAPER)
        name = "the paper's models" if is_theirs else player
        values = tuple(own.get(stage) for stage in stages)
        series.append(Series(name, stages, values, f"{_MEASURES[measure]}, {style}", reference=is_theirs))
    yield Figure(
        name="multistar_gains",
        title="MultiStAR: gain by earlier answers",
        kind="lines",
        series=tuple(series),
        x_label="stage",
        y_label="gain, per cent",
    )


def _means(answers: Sequence[Answered]) -> dict[tuple[str, str, str, str, str], float]:
    means = {}
    for cell in run_cells(answers, "chain"):
        if cell.measure in _MEASURES:
            place = cell.cell
            key = cell.player, cell.measure, place["style"], place["prior"], place["stage"]
            means[key] = sum(cell.values) / len(cell.values)
    return means


def _published_means() -> dict[tuple[str, str, str, str, str], float]:
    """The paper's Table 2, which is in vanilla style."""
    found = {}
    paper = published("multistar")
    for figure in paper.table("Table 2"):
        cell = figure.cell
        if figure.row in paper.baselines:
            continue
        found[figure.row + PAPER, figure.measure, cell["style"], cell["prior"], cell["stage"]] = figure.value
    return found


def _gains(means: Means) -> dict[tuple[str, str, str], dict[str, float]]:
    """By player, measure and style, the gain of each stage that was asked both ways and is not told nothing in both."""
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    for (player, measure, style, prior, stage), value in means.items():
        without = means.get((player, measure, style, "none", stage))
        if prior == "model" and without and not stage.startswith("1P"):
            found.setdefault((player, measure, style), {})[stage] = 100 * (value / without - 1)
    return found
