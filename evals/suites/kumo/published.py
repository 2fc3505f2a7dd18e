"""KUMO beside its paper: cells of a run with their published twins, in the published convention."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from evals.reference import published
from evals.reference.comparison import RunCell
from evals.suites.kumo.repeats import Run, known_values

MEASURES: dict[str, Callable[[Run], float | None]] = {
    "success": lambda run: float(run.success),
    "relative actions": lambda run: run.published_relative_actions,
    "actions if successful": lambda run: run.published_actions if run.success else None,
    "parse errors": lambda run: float(run.parse_failed),
    "tokens": lambda run: run.tokens,
}
"""What is compared, in the published convention, with what a run contributes to it."""


def run_cells(runs: Iterable[Run]) -> list[RunCell]:
    """Every measure by player and difficulty, over all runs that were played, failed ones included.

    Runs over more than the paper's number of main domains stand beside the figures over all 100 domains.
    """
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        if run.status:
            groups.setdefault((run.player, run.difficulty), []).append(run)
    return [
        _cell(player, measure, {"domains": _domains(group), "level": level}, group, value)
        for (player, level), group in groups.items()
        for measure, value in MEASURES.items()
    ]


def _domains(runs: Iterable[Run]) -> str:
    return "5 domains" if len({run.domain for run in runs}) <= 5 else "100 domains"


def _cell(
    player: str, measure: str, cell: dict[str, str], runs: Sequence[Run], value: Callable[[Run], float | None]
) -> RunCell:
    return RunCell(player, measure, cell, *known_values(runs, value))


def leaderboard(difficulty: str) -> list[tuple[str, tuple[float | None, ...]]]:
    """All models, people and the optimal search over the five main domains, best success first.

    Args:
        difficulty: ``easy`` or ``hard``.

    Returns:
        Names with their figures in the order of ``MEASURES``; None where the paper has none.
    """
    paper, cell = published("kumo"), {"domains": "5 domains", "level": difficulty}
    rows = []
    for name in (*(model.name for model in paper.models), *paper.baselines):
        figures = [paper.find(name, measure, cell) for measure in MEASURES]
        rows.append((name, tuple(figure.value if figure else None for figure in figures)))
    return sorted(rows, key=lambda row: -(row[1][0] or 0.0))
