"""MultiStAR's paired effects: what prior information, its truth, and the style of a prompt change on the same questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from evals.paired import Observation, effects_table, paired_effects
from evals.tables import Table

if TYPE_CHECKING:
    from evals.multistar.answers import Answered

_PRIORS = {"with_prior": ("model", "none"), "true_prior": ("truth", "model")}
_STYLES = ("structured", "document")


def effect_tables(answers: Sequence[Answered]) -> Iterator[Table]:
    """With minus without prior, true minus own prior, HTML and document minus vanilla, each by stage.

    Args:
        answers: Of a run; questions of failed episodes are left out.
    """
    for name, sides in _PRIORS.items():
        title = f"MultiStAR: prior {sides[0]} minus {sides[1]}, same questions"
        first, second = (_observations(answers, side, "prior", ("player", "style")) for side in sides)
        yield from _tables(f"multistar_{name}_effect", title, ("player", "style"), sides, first, second)
    for style in _STYLES:
        title = f"MultiStAR: {style} minus vanilla, same questions"
        first, second = (_observations(answers, side, "style", ("player", "prior")) for side in (style, "vanilla"))
        dimensions = ("player", "prior")
        yield from _tables(f"multistar_{style}_effect", title, dimensions, (style, "vanilla"), first, second)


def _tables(
    name: str,
    title: str,
    dimensions: tuple[str, ...],
    sides: tuple[str, str],
    first: Iterable[Observation],
    second: Iterable[Observation],
) -> Iterator[Table]:
    effects = paired_effects(first, second)
    table = effects_table(name, title, (*dimensions, "stage", "measure"), sides, effects)
    if table is not None:
        yield table


_MEASURES: dict[str, Callable[[Answered], float | None]] = {
    "accuracy": lambda answer: float(answer.right),
    "MSEval": lambda answer: answer.score.value if answer.score else None,
}


def _observations(
    answers: Iterable[Answered], side: str, setting: str, dimensions: Sequence[str]
) -> Iterator[Observation]:
    """The answers of one side, by the other dimensions, stage and measure."""
    for answer in answers:
        if answer.failed or getattr(answer, setting) != side:
            continue
        place = tuple(str(getattr(answer, name)) for name in dimensions)
        for measure, value in _MEASURES.items():
            if (known := value(answer)) is not None:
                yield Observation((*place, answer.stage, measure), answer.cluster, answer.node, known)
