"""MultiStAR's figures: accuracy by stage, the radar of attributes, and the weights of the questions before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evals.figures import Figure, Series
from evals.stats.intervals import UNIT, mean_estimate, proportion_estimate
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
    stages = tuple(stage for stage in STAGES if any(key[2] == stage for key in groups))
    series = []
    for player, mode in dict.fromkeys(key[:2] for key in in_order(groups)):
        members = [groups.get((player, mode, stage)) for stage in stages]
        values = [
            proportion_estimate([answer.right for answer in each], [answer.cluster for answer in each])
            if each
            else None
            for each in members
        ]
        series.append(Series(player, stages, tuple(values), _named(mode)))
    for mode in dict.fromkeys(mode for _, mode, _ in groups):
        asked = [[answer for answer in answers if (answer.mode, answer.stage) == (mode, stage)] for stage in stages]
        chance = [sum(1 / answer.options for answer in each) / len(each) if each else None for each in asked]
        series.append(Series("chance", stages, tuple(chance), _named(mode), reference=True))
    return Figure(
        name="multistar_stages",
        title="MultiStAR: accuracy by stage",
        kind="lines",
        series=tuple(series),
        x_label="stage",
        y_label="accuracy",
        limits=(0, 1),
    )


def _named(mode: str) -> str:
    """``style/prior`` in words."""
    style, _, prior = mode.partition("/")
    return {"": style, "none": f"{style}, told nothing", "model": f"{style}, told own answers"}.get(
        prior, f"{style}, told the truth"
    )


def _attributes(answers: Sequence[Answered]) -> Iterator[Series]:
    told = [answer for answer in answers if answer.attribute in QUESTION_ATTRIBUTES]
    groups = groups_of(told, lambda answer: (answer.player, answer.mode, answer.attribute))
    names = tuple(name for name in QUESTION_ATTRIBUTES if any(key[2] == name for key in groups))
    if len(names) < 3:  # no area to see
        return
    for player, mode in dict.fromkeys(key[:2] for key in groups):
        members = [groups.get((player, mode, name)) for name in names]
        shares = [sum(answer.right for answer in each) / len(each) if each else None for each in members]
        yield Series(player, names, tuple(shares), _named(mode))


def _weights(answers: Sequence[Answered]) -> Iterator[Series]:
    told = [answer for answer in answers if answer.score and answer.parents]
    groups = groups_of(told, lambda answer: (answer.player, answer.mode, answer.attribute, answer.stage))
    stages = tuple(stage for stage in STEPS if any(key[3] == stage for key in groups))
    for player, mode, attribute in dict.fromkeys(key[:3] for key in in_order(groups)):
        members = [groups.get((player, mode, attribute, stage)) for stage in stages]
        values = [
            mean_estimate(
                [answer.score.parents_weight for answer in each if answer.score], [a.cluster for a in each], bounds=UNIT
            )
            if each
            else None
            for each in members
        ]
        yield Series(attribute, tuple(STEPS[stage] for stage in stages), tuple(values), f"{player}, {_named(mode)}")
