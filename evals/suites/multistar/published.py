"""MultiStAR beside its paper: cells of a run with their published twins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from evals.reference.comparison import RunCell

if TYPE_CHECKING:
    from evals.suites.multistar.answers import Answered


def run_cells(answers: Iterable[Answered], subtask: str) -> list[RunCell]:
    """Accuracy and MSEval by player, style, prior and stage, and the weight of the questions before by attribute (NCMI).

    Args:
        answers: Of a run; questions of failed episodes count as wrong and have no MSEval.
        subtask: ``chain`` or ``direct``.
    """
    cells: dict[tuple[str, str, tuple[tuple[str, str], ...]], tuple[list[float], list[tuple[str, int]]]] = {}

    def add(answer: Answered, measure: str, value: float, **more: str) -> None:
        place = {"subtask": subtask, "style": answer.style, "prior": answer.prior, **more, "stage": answer.stage}
        values, games = cells.setdefault((answer.player, measure, tuple(place.items())), ([], []))
        values.append(value)
        games.append(answer.cluster)

    for answer in answers:
        if answer.counts:
            add(answer, "accuracy", float(answer.right))
        if answer.score is not None:
            add(answer, "MSEval", answer.score.value)
            if answer.parents:
                add(answer, "NCMI", answer.score.parents_weight, attribute=answer.attribute)
    return [RunCell(player, measure, dict(place), *sample) for (player, measure, place), sample in cells.items()]
