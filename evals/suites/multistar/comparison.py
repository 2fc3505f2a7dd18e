"""What answers tell beside one another: how parents weigh, why a chain went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evals.stats.intervals import UNIT, mean_estimate, proportion_estimate
from evals.suites.multistar.answers import Answered, groups_of, in_order
from evals.suites.multistar.mseval import Convention, weight_bounds
from evals.tables import Cell, Table

ERRORS = ("invalid", "hallucination", "perception", "propagation", "reasoning", "undecided")

STEPS = {"2P": "1P to 2P", "1R": "1P, 2P to 1R", "2R": "1R to 2R", "final": "2R to final"}


def weights_table(answers: Sequence[Answered], convention: Convention) -> Table:
    """NCMI: how much of a question's MSEval is its parents' (the paper's Table 4)."""
    told = [answer for answer in answers if answer.score and answer.parents]
    groups = groups_of(told, lambda answer: (answer.player, answer.mode, answer.stage, answer.attribute))
    rows: list[tuple[Cell, ...]] = []
    for key in in_order(groups):
        player, mode, stage, attribute = key
        group = groups[key]
        weights = [answer.score.parents_weight for answer in group if answer.score]
        estimate = mean_estimate(weights, [answer.cluster for answer in group], bounds=UNIT)
        bounds = [weight_bounds(answer.options, answer.parent_options, convention) for answer in group]
        least, most = (sum(bound) / len(group) for bound in zip(*bounds, strict=True))
        ends = (None, None) if convention.model_prior else (least, most)
        rows.append((player, mode, STEPS[stage], attribute, len(group), estimate, *ends))
    return Table(
        "multistar_ncmi",
        "MultiStAR: weight of the questions before (NCMI)",
        ("player", "mode", "step", "attribute", "questions", "NCMI", "least", "most"),
        tuple(rows),
        (
            "NCMI: sum of the parents' weights in MSEval. least and most: if none of their options "
            "changed the answer, or their options led to all answers as evenly as they can.",
        ),
    )


# --- errors ----------------------------------------------------------------------------------------------------------


def error_table(answers: Sequence[Answered]) -> Table:
    """Wrong answers by what can be told of their cause, and how many are left whose cause cannot be told."""
    twins = {(a.player, a.style, a.prior, a.asked): a for a in answers}
    counted = [answer for answer in answers if answer.counts]
    groups = groups_of(counted, lambda answer: (answer.player, answer.mode, answer.stage))
    rows: list[tuple[Cell, ...]] = []
    for key in in_order(groups):
        group = groups[key]
        failed = sum(answer.failed for answer in group)
        wrong = [answer for answer in group if not answer.right and not answer.failed]
        errors = [_error(answer, twins) for answer in wrong]
        counts = Counter(errors)
        undecided = [error == "undecided" for error in errors]
        share = proportion_estimate(undecided, [answer.cluster for answer in wrong])
        rows.append((*key, len(group), failed, len(wrong), *(counts[name] for name in ERRORS), share))
    return Table(
        "multistar_errors",
        "MultiStAR: errors",
        ("player", "mode", "stage", "questions", "failed", "wrong", *ERRORS, "share undecided"),
        tuple(rows),
        (
            "Each wrong answer is in the first class that fits; questions of failed episodes are in none. "
            "invalid: no answer, or the most likely token was no label, or the labels together had less than half of the "
            "probability. hallucination: the written reply names an object that is not in the picture "
            "(suite.reply=described asks for what is seen). perception: a question on one panel.",
            "propagation: something told was wrong, and the same question told the truth was answered right. "
            "reasoning: wrong although all that was told was right, or although the truth was told in its twin.",
            "undecided: told nothing, or told something wrong and not played with the truth too (suite.priors). "
            "share undecided: of the wrong answers.",
        ),
        section="diagnostics",
    )


def _error(answer: Answered, twins: Mapping[tuple[Any, ...], Answered]) -> str:
    """The class of a wrong answer: the first that fits."""
    if not answer.valid:
        return "invalid"
    if answer.names_absent:
        return "hallucination"
    if answer.stage.startswith("1P"):
        return "perception"
    match answer.prior:
        case "truth":
            # All that was told is right.
            return "reasoning"
        case "none":
            return "undecided"
    # Told its own answers: if all of them were right, what went wrong is the step from them.
    parents = []
    for parent in answer.parents:
        asked = (*answer.cluster, parent)
        parents.append(twins.get((answer.player, answer.style, answer.prior, asked)))
    if all(told is not None and told.right for told in parents):
        return "reasoning"
    # Something told was wrong: whether that did it shows where the same question was told the truth.
    truth = twins.get((answer.player, answer.style, "truth", answer.asked))
    if truth is None or truth.failed:
        return "undecided"
    return "propagation" if truth.right else "reasoning"
