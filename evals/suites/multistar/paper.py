"""MultiStAR's results as its paper shows them: Tables 1 (direct), 2, 3, 5 (chain), 4 (weights), Figures 15 and 16 (gains)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from evals.suites.multistar.answers import STAGES, Answered, groups_of, in_order
from evals.suites.multistar.comparison import STEPS
from evals.suites.multistar.gains import gain_tables
from evals.tables import Cell, Table, rounded

_PRIORS = {"none": "w/o", "model": "w", "truth": "GT"}
_MEASURES = {"Acc": (100, 1), "MSEval": (1, 2)}
"""With the factor and the digits that they are printed with."""


def paper_tables(answers: Sequence[Answered]) -> Iterator[Table]:
    """The tables that these answers have something to say in.

    Args:
        answers: Of all players; questions of failed episodes count as wrong and have no MSEval.
    """
    groups = groups_of(answers, lambda answer: (answer.player, answer.mode, answer.stage))
    asked = {stage for _, _, stage in groups}
    stages = [stage for stage in STAGES if stage in asked]
    modes_of: dict[str, dict[str, None]] = {player: {} for player, _, _ in groups}
    for player, mode, _ in in_order(groups):
        modes_of[player][mode] = None
    rows: list[tuple[Cell, ...]] = []
    for player, modes in modes_of.items():
        for measure, mode in itertools.product(_MEASURES, modes):
            values: list[Cell] = []
            for stage in stages:
                of_stage = groups.get((player, mode, stage), ())
                values.append(_measured(of_stage, measure))
            has_value = any(value is not None for value in values)
            if has_value:
                style, _, prior = mode.partition("/")
                rows.append((player, measure, style, _PRIORS[prior or "none"], *values))
    if rows:
        yield Table(
            name="multistar_paper",
            title="MultiStAR: accuracy (Acc, per cent) and MSEval by stage",
            columns=("Model", "Metric", "Prompt", "Prior", *stages),
            rows=tuple(rows),
            notes=("Prior: w/o none, w the model's own answers, GT the truth.",),
            section="paper",
            better=dict.fromkeys(stages, "higher"),
        )
    yield from _weights(answers)
    yield from gain_tables(answers)


def _measured(answers: Sequence[Answered], measure: str) -> Cell:
    values: list[float] = []
    for answer in answers:
        if not answer.counts:
            continue
        if measure == "Acc":
            values.append(float(answer.right))
        elif answer.score and not answer.failed:
            values.append(answer.score.value)
    if not values:
        return None
    factor, digits = _MEASURES[measure]
    return rounded(factor * sum(values) / len(values), digits)


def _weights(answers: Sequence[Answered]) -> Iterator[Table]:
    """The paper's Table 4 for each style and prior."""
    told = [answer for answer in answers if answer.score and answer.parents]
    modes = groups_of(told, lambda answer: (answer.mode,))
    for (mode,), of_mode in modes.items():
        style, _, prior = mode.partition("/")
        groups = groups_of(of_mode, lambda answer: (answer.player, answer.attribute, answer.stage))
        asked = {stage for _, _, stage in groups}
        stages = [stage for stage in STEPS if stage in asked]
        steps = [STEPS[stage] for stage in stages]
        rows: dict[tuple[str, str], tuple[Cell, ...]] = {}
        for player, attribute, _ in groups:
            means = []
            for stage in stages:
                of_stage = groups.get((player, attribute, stage), ())
                means.append(_mean_weight(of_stage))
            rows[player, attribute] = (player, attribute, *means)
        yield Table(
            name=f"multistar_paper_weights_{style}_{prior}",
            title=f"MultiStAR: weight of the questions before (NCMI), prompt {style}, prior {_PRIORS[prior or 'none']}",
            columns=("Model", "Attributes", *steps),
            rows=tuple(rows.values()),
            section="paper",
        )


def _mean_weight(answers: Sequence[Answered]) -> Cell:
    weights = [answer.score.parents_weight for answer in answers if answer.score]
    return rounded(sum(weights) / len(weights), 2) if weights else None
