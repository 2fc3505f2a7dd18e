"""MultiStAR's result tables, a pure function of the plan and the ledger."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from evals.reference import Conditions
from evals.reference.comparison import published_tables
from evals.stats.intervals import NONNEGATIVE, UNIT, mean_estimate, proportion_estimate
from evals.suites.multistar.answers import LOW_MASS, Answered, Played, answers_of, groups_of, in_order, join
from evals.suites.multistar.comparison import error_table, weights_table
from evals.suites.multistar.effects import effect_tables
from evals.suites.multistar.mseval import Convention
from evals.suites.multistar.published import run_cells
from evals.suites.multistar.questions import Question
from evals.tables import Cell, Table
from evals.types import Episode

MEASURES = (
    "questions",
    "links",
    "failed",
    "cut off",
    "accuracy",
    "chance",
    "best shortcut",
    "MSEval",
    "MSEval of perfect",
    "without MSEval",
    "most likely a label",
    "label mass",
)


def score_multistar(
    plan: pa.Table,
    ledger: pa.Table,
    lost_questions: Callable[[Episode], Sequence[Question]],
    convention: Convention,
    shortcuts: Collection[str] = (),
    conditions: Conditions | None = None,
    settings: Mapping[str, Any] | None = None,
    absent: Mapping[str, Collection[str]] | None = None,
    stored_names: Mapping[str, str] | None = None,
    with_shortcuts: Sequence[Answered] | None = None,
) -> Sequence[Table]:
    """All tables of MultiStAR; rows of the ledger that are not planned do not count.

    Args:
        plan: The suite's part of the plan (``evals.ledger.records.PLAN_SCHEMA``).
        ledger: The suite's part of the ledger, in any order and possibly partial.
        lost_questions: What a failed episode would have asked, told from the plan; empty where that is unknown.
        convention: How MSEval's weights are computed.
        conditions: Of this run, in the words of the paper's own.
        settings: The run's configuration.
        absent: By episode, the nodes whose replies name objects that are not in the picture.
        shortcuts: Names of players that cheat; where they were played, the best of them stands beside every other player.
        stored_names: What the ledger calls players that have other names here (``RunData.stored_names``).
        with_shortcuts: The answers of the run as it is stored, where the plan names shortcuts otherwise, or not at all.
    """
    played = join(plan, ledger)
    answers = answers_of(played, lost_questions, convention, absent or {})
    unknown = sum(item.failed and not lost_questions(item.episode) for item in played)
    notes = (*_NOTES, *_state_notes(played, answers, unknown))
    of_shortcuts = [each for each in with_shortcuts or answers if each.player.rpartition(":")[2] in shortcuts]
    tables = [
        _measures_table("stages", "by stage", (), answers, of_shortcuts, notes),
        _measures_table("attributes", "by attribute", ("attribute",), answers, of_shortcuts, notes),
        _measures_table("configurations", "by configuration", ("configuration",), answers, of_shortcuts, notes),
    ]
    subtask = "direct"
    if any(item.episode.level == "chain" for item in played):
        subtask = "chain"
        tables += [weights_table(answers, convention), _calls_table(played), *effect_tables(answers)]
    beside = published_tables(
        "multistar", "MultiStAR", run_cells(answers, subtask), conditions or Conditions(), settings, stored_names
    )
    return [*tables, error_table(answers), *beside]


_NOTES = (
    "Brackets: 95 % confidence intervals; the questions on one puzzle are one cluster.",
    "questions: those that count. links: asked so that later questions can build on them, but left out of accuracy and MSEval, "
    "since their words or options give the answer away too often (docs/multistar_questions.md), or since their published keys "
    "are doubtful (docs/multistar_published.md).",
    "chance: accuracy of a guess. best shortcut: accuracy of the best player that does without what is asked, if one was "
    "played. cut off: replies that ended at the token limit, or that a content filter stopped (the table of replies tells them "
    "apart); only a complete answer in them is read.",
    "MSEval: 1 for a guess; without prior information it is p |A|. MSEval of perfect: as a share of what perfect play scores "
    "under the same weights.",
    "most likely a label: share of answers whose most likely token was one of the labels; label mass: their probability. "
    "The answer is the most likely label in any case.",
)


def _measures_table(
    name: str,
    title: str,
    by: tuple[str, ...],
    answers: Sequence[Answered],
    of_shortcuts: Sequence[Answered],
    notes: tuple[str, ...],
) -> Table:
    """One row per player, mode and stage, and per what else is named."""
    keys = ("player", "mode", "stage", *by)
    key_of = lambda answer: tuple(getattr(answer, key) for key in keys)  # noqa: E731
    groups = groups_of(answers, key_of)
    best: dict[tuple[str, ...], float] = {}
    for key, group in groups_of(of_shortcuts, key_of).items():
        counted = [answer.right for answer in group if answer.counts]
        if counted:
            best[key[1:]] = max(best.get(key[1:], 0.0), sum(counted) / len(counted))
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (*key, *_measures(groups[key], best.get(key[1:]))) for key in in_order(groups)
    )
    return Table(
        f"multistar_{name}",
        f"MultiStAR {title}",
        (*keys, *MEASURES),
        rows,
        notes,
        headline=name == "stages",
        brief=(*keys, "failed", "accuracy", "chance", "MSEval of perfect"),
    )


def _measures(asked: Sequence[Answered], shortcut: float | None) -> tuple[Cell, ...]:
    answers = [answer for answer in asked if answer.counts]
    right = [answer.right for answer in answers]
    of_puzzle = [answer.cluster for answer in answers]
    chance = _mean([1 / answer.options for answer in answers])
    done = [answer for answer in answers if not answer.failed]
    # MSEval, of the questions that have one.
    values, shares, clusters = [], [], []
    for answer in done:
        if answer.score:
            values.append(answer.score.value)
            shares.append(answer.score.share)
            clusters.append(answer.cluster)
    # Written replies have no probabilities of labels.
    labeled = [answer for answer in done if answer.argmax_is_label is not None]
    masses = [answer.mass for answer in labeled if answer.mass is not None]
    return (
        len(answers),
        len(asked) - len(answers),
        len(answers) - len(done),
        sum(answer.cut_off for answer in asked),
        proportion_estimate(right, of_puzzle),
        chance,
        shortcut,
        mean_estimate(values, clusters, bounds=NONNEGATIVE),
        mean_estimate(shares, clusters, bounds=UNIT),
        len(done) - len(values),
        _mean([bool(answer.argmax_is_label) for answer in labeled]),
        _mean(masses),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _calls_table(played: Sequence[Played]) -> Table:
    """Model calls made beside those planned, over the episodes that are done."""
    groups: dict[tuple[str, str], list[Mapping[str, int]]] = {}
    for item in played:
        if item.row is not None and not item.failed:
            groups.setdefault((item.episode.player, item.episode.mode), []).append(item.row)
    rows: list[tuple[Cell, ...]] = []
    for key, group in groups.items():
        counts = (sum(row[name] for row in group) for name in ("n_questions", "n_calls", "n_planned_calls"))
        rows.append((*key, len(group), *counts))
    return Table(
        "multistar_calls",
        "MultiStAR: model calls",
        ("player", "mode", "chains done", "questions", "calls", "planned calls"),
        tuple(rows),
        (
            "A chain with prior information asks each question, and again with every option of every question before it; "
            "the same prompt is asked once. Questions without exact probabilities are not asked again.",
        ),
        section="diagnostics",
    )


def _state_notes(played: Sequence[Played], answers: Sequence[Answered], unknown: int) -> list[str]:
    """How failed episodes, refused scores and unplayed episodes enter the figures."""
    # As the columns count: links are left out.
    counted = [answer for answer in answers if answer.counts]
    failed = sum(answer.failed for answer in counted)
    inexact = sum(answer.inexact for answer in counted)
    unswept = sum(not (answer.score or answer.inexact or answer.failed) for answer in counted)
    masses = [answer.mass for answer in answers if answer.mass is not None]
    doubtful = sum(mass < LOW_MASS for mass in masses)
    unplayed = sum(item.row is None for item in played)
    notes = (
        (failed, f"{failed:,} questions of failed episodes count as answered wrong, and have no MSEval."),
        (
            unknown,
            f"{unknown:,} failed episodes whose questions are unknown (their puzzle cannot be read) count nowhere.",
        ),
        (
            inexact,
            f"{inexact:,} questions have no MSEval: the engine gave no exact probabilities for them or for what they "
            "build on (written replies, or top tokens only), and unknown ones are not taken for zero.",
        ),
        (
            unswept,
            f"{unswept:,} questions with prior information have no MSEval because they were not asked again (sweep).",
        ),
        (doubtful, f"{doubtful:,} answers had less than {LOW_MASS:.0%} probability on all labels together."),
        (unplayed, f"{unplayed:,} of {len(played):,} planned episodes have not been played and count nowhere."),
    )
    return [note for count, note in notes if count]
