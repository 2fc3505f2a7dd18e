"""MultiStAR's paired effects: what prior information, its truth, and the style of a prompt change on the same questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from evals.summary.paired import Measure, Observation, effects_tables, paired_effects
from evals.tables import Table

if TYPE_CHECKING:
    from evals.suites.multistar.answers import Answered

_PRIORS = {"with_prior": ("model", "none"), "true_prior": ("truth", "model")}
_STYLES = ("structured", "document")

_MEASURES: dict[str, Callable[[Answered], float | None]] = {
    "accuracy": lambda answer: float(answer.right) if answer.counts else None,
    "MSEval of perfect": lambda answer: answer.score.share if answer.score and answer.counts else None,
}


def effect_tables(answers: Sequence[Answered]) -> Iterator[Table]:
    """With minus without prior, true minus own prior, HTML and document minus vanilla, each by stage.

    Args:
        answers: Of a run; questions of failed episodes are left out, and those on one panel, which are told nothing, where
            priors are compared.
    """
    done = [answer for answer in answers if not answer.failed]
    told = [answer for answer in done if not answer.stage.startswith("1P")]
    for measure in _MEASURES:
        for name, sides in _PRIORS.items():
            title = f"MultiStAR: {measure}, prior {sides[0]} minus {sides[1]} on the same questions"
            yield from _tables(name, title, told, measure, "prior", sides, "style")
        for style in _STYLES:
            title = f"MultiStAR: {measure}, {style} minus vanilla on the same questions"
            yield from _tables(style, title, done, measure, "style", (style, "vanilla"), "prior")


def answer_measures(answers: Sequence[Answered], player: str) -> list[Measure]:
    """Accuracy and MSEval of one player's questions by style, prior and stage; questions of failed episodes count as wrong."""
    found = []
    own = [answer for answer in answers if answer.player == player]
    for name, measure in _MEASURES.items():
        observations = []
        for answer in own:
            value = measure(answer)
            if value is not None:
                cell = answer.style, answer.prior, answer.stage
                unit = answer.mode, answer.node
                observations.append(Observation(cell, answer.cluster, unit, value))
        found.append(Measure(name, ("style", "prior", "stage"), observations, bounded=name == "accuracy"))
    return found


def _tables(
    name: str,
    title: str,
    answers: Sequence[Answered],
    measure: str,
    setting: str,
    sides: tuple[str, str],
    other: str,
) -> Iterator[Table]:
    """Tables of one contrast: answers with one value of a setting minus those with another, by the other setting."""
    first, second = (_observations(answers, measure, setting, side, other) for side in sides)
    effects = paired_effects(first, second)
    return effects_tables(
        f"multistar_{name}_{measure.lower().replace(' ', '_')}_effect", title, (other, "stage"), sides, effects
    )


def _observations(
    answers: Iterable[Answered], measure: str, setting: str, side: str, other: str
) -> Iterator[Observation]:
    for answer in answers:
        value = _MEASURES[measure](answer)
        if getattr(answer, setting) == side and value is not None:
            cell = (answer.player, getattr(answer, other), answer.stage)
            yield Observation(cell, answer.cluster, answer.node, value)
