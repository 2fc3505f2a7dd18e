"""MultiStAR beside its paper: cells of a run with their published twins, and under which conditions each were measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from evals.presentation import Presentation
from evals.presentation.settings import in_words
from evals.reference import Conditions, published
from evals.reference.comparison import RunCell
from evals.suites.multistar.prompts import DEFAULT

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
        if answer.score is not None and answer.parents:
            add(answer, "NCMI", answer.score.parents_weight, attribute=answer.attribute)
    return [RunCell(player, measure, dict(place), *sample) for (player, measure, place), sample in cells.items()]


def conditions_of(settings: Mapping[str, Any], presentation: Presentation) -> Conditions:
    """How questions are asked, in the words of the paper's own.

    Args:
        settings: Of the suite, by name.
        presentation: What of them says how questions are told.
    """
    decoder = "most likely of the labels" if settings["reply"] == "labels" else "written replies"
    prompts = _prompts(settings, presentation)
    if settings["wording"] == "published":
        theirs = published("multistar").conditions
        games = theirs.games
        if settings["doubtful"] == "left_out":
            games += ", doubtful keys left out"
        return Conditions(games, theirs.pictures, prompts, decoder)
    return Conditions(_games(settings), _pictures(settings), prompts, decoder)


def _games(settings: Mapping[str, Any]) -> str:
    """What puzzles our own questions are asked on."""
    said = ["problems from files" if settings["problems"] else "drawn from seeds"]
    if settings["variant"] == "balanced":
        said.append("balanced variant")
    if settings["changing"] or settings["values"]:
        said.append("another difficulty")
    return ", ".join(said)


def _pictures(settings: Mapping[str, Any]) -> str:
    drawn = "own" if settings["render"] == "own" else "published drawing"
    if settings["scale"] == 1:
        return drawn
    return f"{drawn}, {settings['scale']} times as large"


def _prompts(settings: Mapping[str, Any], presentation: Presentation) -> str:
    plain = "published questions in our frame" if settings["wording"] == "published" else "own"
    prompts = "other templates" if settings["templates"] else plain
    seen = "what is seen asked for" if settings["reply"] == "described" else ""
    told = in_words(presentation.changes(DEFAULT))
    return ", ".join(said for said in (prompts, seen, told) if said)
