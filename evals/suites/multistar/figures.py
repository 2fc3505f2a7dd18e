"""MultiStAR's figures: accuracy by stage, prior, attribute and size, and the weights of the questions before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evals.figures import Figure, Series
from evals.reference.trend import size_figures
from evals.stats.intervals import UNIT, Estimate, mean_estimate, proportion_estimate
from evals.suites.multistar.answers import STAGES, Answered, groups_of, in_order
from evals.suites.multistar.comparison import STEPS
from evals.suites.multistar.gains import gain_figures
from evals.suites.multistar.published import run_cells
from evals.suites.multistar.questions import QUESTION_ATTRIBUTES

BARS = "95 % confidence, clustered by puzzle"


def multistar_figures(
    answers: Sequence[Answered], subtask: str, stored_names: Mapping[str, str] | None = None
) -> Iterator[Figure]:
    """The figures that these answers have something to say in; questions of failed episodes count as wrong.

    Args:
        answers: Of a run.
        subtask: ``chain`` or ``direct``.
        stored_names: What the ledger calls players that have other names here (``RunData.stored_names``).
    """
    counted = [answer for answer in answers if answer.counts]
    if counted:
        yield _stages(counted)
    yield from _priors(counted)
    yield from gain_figures(answers)
    attributes = tuple(_attributes(counted))
    if attributes:
        yield Figure(
            name="multistar_attributes",
            title="MultiStAR: accuracy by attribute",
            kind="dots",
            series=attributes,
            y_label="accuracy",
            limits=(0, 1),
            intervals=BARS,
            unit="answers",
            notes=("All stages together, the final question aside.",),
        )
    cells = run_cells(counted, subtask)
    yield from size_figures("multistar", "MultiStAR", cells, split_by="stage", stored_names=stored_names)
    weights = tuple(_weights(answers))
    if weights:
        yield Figure(
            name="multistar_weights",
            title="MultiStAR: weight of the questions before (NCMI)",
            kind="lines",
            series=weights,
            x_label="step",
            y_label="sum of weights",
            limits=(0, 1),
            intervals=BARS,
            unit="answers",
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
        intervals=BARS,
        unit="answers",
    )


def _priors(answers: Sequence[Answered]) -> Iterator[Figure]:
    """Accuracy by stage and by what a player was told of earlier answers, where a run has several of these."""
    groups = groups_of(answers, lambda answer: (answer.player, answer.mode, answer.stage))
    chains = {key: each for key, each in groups.items() if "/" in key[1]}
    asked = {stage for _, _, stage in chains}
    stages = tuple(stage for stage in STAGES if stage in asked)
    modes_of: dict[str, dict[str, None]] = {player: {} for player, _, _ in chains}
    for player, mode, _ in in_order(chains):
        modes_of[player][mode] = None
    series = []
    for player, modes in modes_of.items():
        if len(modes) == 1:
            continue
        for mode in modes:
            accuracies = tuple(_accuracy(chains.get((player, mode, stage), ())) for stage in stages)
            series.append(Series(_named(mode), stages, accuracies, player))
    if series:
        yield Figure(
            name="multistar_priors",
            title="MultiStAR: accuracy by what the prompt says of earlier answers",
            kind="lines",
            series=tuple(series),
            x_label="stage",
            y_label="accuracy",
            limits=(0, 1),
            intervals=BARS,
            unit="answers",
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
    for player, mode in dict.fromkeys(key[:2] for key in groups):
        shares = tuple(_accuracy(groups.get((player, mode, name), ())) for name in names)
        yield Series(player, names, shares, _named(mode))


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
