"""What answers tell beside one another: with and without prior information, how parents weigh, why a chain went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from evals.multistar.answers import Answered, groups_of, in_order
from evals.multistar.mseval import Convention, weight_bounds
from evals.reference import load_reference
from evals.statistics import mean_estimate, proportion_estimate
from evals.tables import Cell, Table

ERRORS = ("invalid", "perception", "propagation", "reasoning", "undecided")

STEPS = {"2P": "1P to 2P", "1R": "1P, 2P to 1R", "2R": "1R to 2R", "final": "2R to final"}


def effect_table(answers: Sequence[Answered]) -> Table:
    """How much prior information helps: differences on the very same questions."""
    groups = groups_of(answers, lambda answer: (answer.player, answer.style, answer.stage, answer.prior))
    rows: list[tuple[Cell, ...]] = []
    for player, style, stage in in_order(dict.fromkeys(key[:3] for key in groups)):
        alone = groups.get((player, style, stage, "none"), [])
        for prior in ("model", "truth"):
            both = _pairs(alone, groups.get((player, style, stage, prior), []))
            if not both:
                continue
            pairs = [(bare, told) for bare, told in both if not bare.failed and not told.failed]
            scored = [
                (told.score.share - bare.score.share, told.cluster) for bare, told in pairs if bare.score and told.score
            ]
            rights = mean_estimate(
                [told.right - bare.right for bare, told in pairs], [told.cluster for _, told in pairs]
            )
            scores = mean_estimate([value for value, _ in scored], [cluster for _, cluster in scored])
            rows.append((player, style, stage, prior, len(pairs), len(both) - len(pairs), rights, scores))
    return Table(
        "multistar_prior",
        "MultiStAR: what prior information adds",
        ("player", "style", "stage", "prior", "questions", "left out", "accuracy", "MSEval of perfect"),
        tuple(rows),
        (
            "Differences to no prior information on the same questions, with 95 % confidence intervals clustered by puzzle. "
            "left out: questions that failed with or without it. MSEval of perfect: MSEval as a share of what perfect play "
            "scores under the same weights; MSEval itself has another maximum with prior information than without.",
        ),
    )


def _pairs(first: Iterable[Answered], second: Iterable[Answered]) -> list[tuple[Answered, Answered]]:
    """Answers of two groups to the same questions."""
    others = {answer.asked: answer for answer in second}
    return [(answer, others[answer.asked]) for answer in first if answer.asked in others]


# --- weights ---------------------------------------------------------------------------------------------------------


def weights_table(answers: Sequence[Answered], convention: Convention) -> Table:
    """NCMI: how much of a question's MSEval is its parents' (the paper's Table 4)."""
    told = [answer for answer in answers if answer.score and answer.parents]
    groups = groups_of(told, lambda answer: (answer.player, answer.mode, answer.stage, answer.attribute))
    published = load_reference("multistar")["ncmi"]
    models = sorted({model for figures in published.values() for one in figures.values() for model in one})
    rows: list[tuple[Cell, ...]] = []
    for key in in_order(groups):
        group, step = groups[key], STEPS[key[2]]
        weights = [answer.score.parents_weight for answer in group if answer.score]
        bounds = [weight_bounds(answer.options, answer.parent_options, convention) for answer in group]
        least, most = (sum(bound) / len(group) for bound in zip(*bounds, strict=True))
        figures: Mapping[str, str] = published[step].get(key[3]) or published[step].get("any") or {}
        rows.append(
            (
                *key[:2],
                step,
                key[3],
                len(group),
                mean_estimate(weights, [answer.cluster for answer in group]),
                *((None, None) if convention.model_prior else (least, most)),
                *(figures.get(model) for model in models),
            )
        )
    return Table(
        "multistar_ncmi",
        "MultiStAR: weight of the questions before (NCMI)",
        ("player", "mode", "step", "attribute", "questions", "NCMI", "least", "most", *models),
        tuple(rows),
        (
            "NCMI: sum of the parents' weights in MSEval. least and most: if none of their options "
            "changed the answer, or their options led to all answers as evenly as they can.",
            "Published figures (Table 4) as printed; position, 1P to 2P, is below the least there can be, because the "
            "paper's sentence omits the position. Final, 0.42 for Qwen2-VL, contradicts the paper's own Table 2.",
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
        counts = Counter(_error(answer, twins) for answer in wrong)
        share = proportion_estimate(
            [_error(answer, twins) == "undecided" for answer in wrong], [answer.cluster for answer in wrong]
        )
        rows.append((*key, len(group), failed, len(wrong), *(counts[name] for name in ERRORS), share))
    return Table(
        "multistar_errors",
        "MultiStAR: errors",
        ("player", "mode", "stage", "questions", "failed", "wrong", *ERRORS, "share undecided"),
        tuple(rows),
        (
            "Each wrong answer is in the first class that fits; questions of failed episodes are in none. "
            "invalid: no answer, or the most likely token was no label, or the labels together had less than half of the "
            "probability. perception: a question on one panel.",
            "propagation: something told was wrong, and the same question told the truth was answered right. "
            "reasoning: wrong although all that was told was right, or although the truth was told in its twin.",
            "undecided: told nothing, or told something wrong and not played with the truth too (suite.priors). "
            "share undecided: of the wrong answers.",
        ),
        section="diagnostics",
    )


def _error(answer: Answered, twins: Mapping[tuple[Any, ...], Answered]) -> str:
    if not answer.valid:
        return "invalid"
    if answer.stage.startswith("1P"):
        return "perception"
    if answer.prior == "truth":
        return "reasoning"
    if answer.prior == "none":
        return "undecided"
    told = [
        twins.get((answer.player, answer.style, answer.prior, (*answer.cluster, parent))) for parent in answer.parents
    ]
    if all(parent is not None and parent.right for parent in told):
        return "reasoning"
    truth = twins.get((answer.player, answer.style, "truth", answer.asked))
    if truth is None or truth.failed:
        return "undecided"
    return "propagation" if truth.right else "reasoning"


# --- published -------------------------------------------------------------------------------------------------------


def published_table(answers: Sequence[Answered], chain: bool, notes: Sequence[str]) -> Table:
    """Players of this run, over all configurations, above the figures that the paper gives.

    Args:
        answers: Of this run, failed ones included.
        chain: Whether they are the chain's.
        notes: How failed and unplayed episodes enter the figures of this run.
    """
    reference = load_reference("multistar")
    published: Mapping[str, Any] = reference["chain"] if chain else {"none": reference["direct"]}
    groups = groups_of(answers, lambda answer: (answer.player, answer.mode, answer.stage))
    rows: list[tuple[Cell, ...]] = []
    for key in in_order(groups):
        group = groups[key]
        clusters = [answer.cluster for answer in group]
        scored = [answer for answer in group if answer.score]
        right = proportion_estimate([answer.right for answer in group], clusters)
        score = mean_estimate([a.score.value for a in scored if a.score], [a.cluster for a in scored])
        rows.append((key[0], "this run", group[0].style, group[0].prior, key[2], right, score))
    priors = dict.fromkeys(answer.prior for answer in answers)
    return Table(
        "multistar_published",
        "MultiStAR beside published figures",
        ("player", "source", "style", "prior", "stage", "accuracy", "MSEval"),
        (*rows, *_published_rows({prior: published[prior] for prior in priors if prior in published})),
        (
            "Published models answered other puzzles (drawn by a modified generator) under other wording: compare with care. "
            "Figures that could not be had are left out; evals/reference/multistar.yaml says which, and what in the paper "
            "contradicts itself.",
            *notes,
        ),
    )


def _published_rows(published: Mapping[str, Any]) -> Iterator[tuple[Cell, ...]]:
    for prior, players in published.items():
        for player, stages in players.items():
            for stage, figures in stages.items():
                yield player, "published", "vanilla", prior, stage, figures.get("accuracy"), figures.get("mseval")
