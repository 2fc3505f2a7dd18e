"""MultiStAR's figures: accuracy by stage, the radar of attributes, and the weights of the questions before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evals.figures import Figure, Series
from evals.stats.intervals import UNIT, Estimate, mean_estimate, proportion_estimate
from evals.suites.multistar.answers import STAGES, Answered, groups_of, in_order
from evals.suites.multistar.comparison import STEPS
from evals.suites.multistar.questions import QUESTION_ATTRIBUTES


def multistar_figures(answers: Sequence[Answered]) -> Iterator[Figure]:
    """The figures that these answers have something to say in; questions of failed episodes count as wrong."""
    counted = [answer for answer in answers if answer.counts]
    if counted:
        yield _stages(counted)
    if radar := tuple(_attributes(counted)):
        yield Figure(
            name="multistar_radar",
            title="MultiStAR: accuracy by attribute",
            kind="radar",
            series=radar,
            limits=(0, 1),
            notes=("All stages together, the final question aside.",),
        )
    if weights := tuple(_weights(answers)):
        yield Figure(
            name="multistar_weights",
            title="MultiStAR: weight of the questions before (NCMI)",
            kind="lines",
            series=weights,
            x_label="step",
            y_label="sum of weights",
            limits=(0, 1),
        )


def _stages(answers: Sequence[Answered]) -> Figure:
    groups = groups_of(answers, lambda answer: (answer.player, answer.mode, answer.stage))
    asked = {stage for _, _, stage in groups}
    stages = tuple(stage for stage in STAGES if stage in asked)
    series = []
    for player, mode in dict.fromkeys(key[:2] for key in in_order(groups)):
        accuracies = tuple(_accuracy(groups.get((player, mode, stage), ())) for stage in stages)
        series.append(Series(player, stages, accuracies, _named(mode)))
    of_stage = groups_of(answers, lambda answer: (answer.mode, answer.stage))
    for mode in dict.fromkeys(mode for _, mode, _ in groups):
        chances = tuple(_chance(of_stage.get((mode, stage), ())) for stage in stages)
        series.append(Series("chance", stages, chances, _named(mode), reference=True))
    return Figure(
        name="multistar_stages",
        title="MultiStAR: accuracy by stage",
        kind="lines",
        series=tuple(series),
        x_label="stage",
        y_label="accuracy",
        limits=(0, 1),
    )


def _accuracy(answers: Sequence[Answered]) -> Estimate | None:
    if not answers:
        return None
    return proportion_estimate([answer.right for answer in answers], [answer.cluster for answer in answers])


def _chance(answers: Sequence[Answered]) -> float | None:
    """Accuracy of a guess."""
    if not answers:
        return None
    return sum(1 / answer.options for answer in answers) / len(answers)


def _named(mode: str) -> str:
    """``style/prior`` in words."""
    style, _, prior = mode.partition("/")
    return {"": style, "none": f"{style}, told nothing", "model": f"{style}, told own answers"}.get(
        prior, f"{style}, told the truth"
    )


def _attributes(answers: Sequence[Answered]) -> Iterator[Series]:
    told = [answer for answer in answers if answer.attribute in QUESTION_ATTRIBUTES]
    groups = groups_of(told, lambda answer: (answer.player, answer.mode, answer.attribute))
    asked = {attribute for _, _, attribute in groups}
    names = tuple(name for name in QUESTION_ATTRIBUTES if name in asked)
    if len(names) < 3:  # no area to see
        return
    for player, mode in dict.fromkeys(key[:2] for key in groups):
        shares = tuple(_share_right(groups.get((player, mode, name), ())) for name in names)
        yield Series(player, names, shares, _named(mode))


def _share_right(answers: Sequence[Answered]) -> float | None:
    if not answers:
        return None
    return sum(answer.right for answer in answers) / len(answers)


def _weights(answers: Sequence[Answered]) -> Iterator[Series]:
    told = [answer for answer in answers if answer.score and answer.parents]
    groups = groups_of(told, lambda answer: (answer.player, answer.mode, answer.attribute, answer.stage))
    asked = {stage for *_, stage in groups}
    stages = tuple(stage for stage in STEPS if stage in asked)
    steps = tuple(STEPS[stage] for stage in stages)
    for player, mode, attribute in dict.fromkeys(key[:3] for key in in_order(groups)):
        means = tuple(_mean_weight(groups.get((player, mode, attribute, stage), ())) for stage in stages)
        yield Series(attribute, steps, means, f"{player}, {_named(mode)}")


def _mean_weight(answers: Sequence[Answered]) -> Estimate | None:
    if not answers:
        return None
    weights = [answer.score.parents_weight for answer in answers if answer.score]
    return mean_estimate(weights, [answer.cluster for answer in answers], bounds=UNIT)
