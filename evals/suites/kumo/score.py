"""KUMO's result tables, a pure function of the plan and the ledger: in our convention, and in the published one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pyarrow as pa

from envs.kumo import DIFFICULTIES
from evals.suites.kumo.published import leaderboard
from evals.suites.kumo.repeats import RELATIVE, Run, groups_of, join_runs, mean_of, share_of
from evals.tables import Cell, Table


def score_kumo(plan: pa.Table, ledger: pa.Table) -> Sequence[Table]:
    """All tables of KUMO; rows of the ledger that are not planned do not count.

    Args:
        plan: The suite's part of the plan (``evals.ledger.records.PLAN_SCHEMA``).
        ledger: The suite's part of the ledger, in any order and possibly partial.
    """
    runs = list(join_runs(plan, ledger))
    tables = [_success_table(runs, by_domain=False), _success_table(runs, by_domain=True)]
    if any(run.difficulty in DIFFICULTIES for run in runs):
        tables.append(_published_table(runs))
    if any(run.shipped_optimal_actions is not None for run in runs):
        tables.append(_optima_table(runs))
    notes = _malformed_notes(runs)
    return [dataclasses.replace(table, notes=(*table.notes, *notes)) for table in tables]


def _malformed_notes(runs: Sequence[Run]) -> list[str]:
    found = [run for run in runs if run.malformed]
    tasks = len({run.task for run in found})
    return [
        f"{len(found):,} runs of {tasks} malformed tasks count as the published code scores them; suite.malformed=left_out "
        "leaves them out."
    ] * bool(found)


# --- our convention --------------------------------------------------------------------------------------------------


def _success_table(runs: Sequence[Run], *, by_domain: bool) -> Table:
    """One row per player and difficulty, or per player, difficulty and domain."""
    keys = ("player", "difficulty", "domain") if by_domain else ("player", "difficulty")
    groups = groups_of(runs, lambda run: tuple(getattr(run, key) for key in keys))
    rows: list[tuple[Cell, ...]] = []
    for key, planned in groups.items():
        played = [run for run in planned if run.status]
        failed = sum(run.status == "failed" for run in played)
        rows.append(
            (
                *key,
                len(planned),
                len(played) - failed,
                failed,
                sum(run.cut_off for run in played),
                share_of(played, lambda run: run.success),
                mean_of(played, lambda run: run.actions),
                mean_of(played, lambda run: run.relative_actions, RELATIVE),
                mean_of(played, lambda run: run.published_relative_actions, RELATIVE),
                share_of(played, lambda run: run.parse_errors > 0),
                share_of(played, lambda run: run.parse_failed),
                mean_of(played, lambda run: run.tokens),
            )
        )
    relative = ("relative actions", "published relative actions")
    measures = ("success", "actions", *relative, "parse errors", "parse failures", "tokens")
    return Table(
        name="kumo_domains" if by_domain else "kumo_success",
        headline=not by_domain,
        brief=(*keys, "done", "failed", "success", "relative actions"),
        title="KUMO by domain" if by_domain else "KUMO",
        columns=(*keys, "planned", "done", "failed", "cut off", *measures),
        rows=tuple(rows),
        notes=(
            "actions: tests and the final prediction; a run without success counts |A| + 1 (easy 7, hard 17). "
            "relative actions: mean of (actions - optimal) / optimal on the same outcomes.",
            "published relative actions: the same in the papers' convention, which counts one more action of the run and of "
            "perfect play (the table in the published convention says how).",
            "parse errors: runs with a reply that names nothing; parse failures: runs that such a reply ended.",
            "cut off: replies that ended at the token limit, or that a content filter stopped (the table of replies tells "
            "them apart); one that had not answered by then names nothing.",
            "tokens: prompt and completion tokens of all calls of a run.",
            "Brackets: 95 % confidence intervals; the runs of one task are one cluster.",
            *_failure_notes(runs),
        ),
    )


def _failure_notes(runs: Sequence[Run]) -> list[str]:
    """How runs that failed, or have not been played, enter the figures."""
    failed = sum(run.status == "failed" for run in runs)
    played = [run for run in runs if run.status]
    unplayed = len(runs) - len(played)
    unknown = sum(run.optimal_actions is None for run in played)
    notes = []
    if failed:
        noun, verb = ("run", "counts") if failed == 1 else ("runs", "count")
        notes.append(
            f"{failed:,} failed {noun} (the player could not answer) {verb} as not successful, with |A| + 1 actions, and "
            "with the tokens used until then."
        )
    if unknown:
        noun = "run" if unknown == 1 else "runs"
        notes.append(
            f"Of {unknown:,} {noun} the optimum is not on record (no player in this table finished the task, or no truth "
            "survives its outcomes): relative actions leave them out."
        )
    if unplayed:
        notes.append(f"{unplayed:,} of {len(runs):,} planned runs have not been played and count nowhere else.")
    return notes


# --- the published convention ----------------------------------------------------------------------------------------


def _published_table(runs: Sequence[Run]) -> Table:
    """Players of this run above the figures that the paper and its result files give."""
    rows: list[tuple[Cell, ...]] = []
    for difficulty in DIFFICULTIES:
        here = [run for run in runs if run.difficulty == difficulty]
        for (player,), planned in groups_of(here, lambda run: (run.player,)).items():
            rows.append((difficulty, player, "this run", *_published_cells([run for run in planned if run.status])))
        if here:
            rows += [(difficulty, name, "published", None, *figures) for name, figures in leaderboard(difficulty)]
    return Table(
        name="kumo_published",
        title="KUMO in the published convention",
        columns=(
            "difficulty",
            "player",
            "source",
            "runs",
            "success",
            "relative action count",
            "actions if successful",
            "parse errors",
            "tokens",
        ),
        rows=tuple(rows),
        notes=(
            "actions if successful: mean length of the published action list, tests + 2 (the prediction, and an entry of "
            "bookkeeping), over the successful runs.",
            "relative action count: mean of (C - O) / O with O that length for the optimal search, and C that length for "
            "the run, or |A| + 1 (easy 7, hard 17) without success.",
            "parse errors: runs that an unread reply ended. decoder=strict reads replies by the published rules.",
            "A call that failed for good counts as a parse error without tokens in the published figures; here its run is "
            "a failed one, with its tokens and without a parse error. Neither is a success.",
            "Published models played 1,250 runs per difficulty, on the authors' tasks of five domains; "
            "only a run of these very tasks (suite.source) is like them.",
            *_failure_notes(runs),
        ),
    )


def _optima_table(runs: Sequence[Run]) -> Table:
    """The relative action count against three counts of perfect play, which differ where tests are equally good."""
    groups = groups_of([run for run in runs if run.status], lambda run: (run.player, run.difficulty))
    rows: list[tuple[Cell, ...]] = []
    for key, played in groups.items():
        shipped = mean_of(played, lambda run: run.published_actions_over(run.shipped_optimal_actions), RELATIVE)
        first = mean_of(played, lambda run: run.published_actions_over(run.optimal_actions), RELATIVE)
        mean = mean_of(played, lambda run: run.published_actions_over(run.tied_optimal_actions), RELATIVE)
        rows.append((*key, len(played), shipped, first, mean))
    return Table(
        name="kumo_optimal_counts",
        title="KUMO: relative action count by count of perfect play",
        columns=("player", "difficulty", "runs", "shipped", "first of ties", "mean over ties"),
        rows=tuple(rows),
        notes=(
            "In the published convention. shipped: counts of the published search, on record with its tasks; first of "
            "ties: our search, which takes the first of equally good tests; mean over ties: each of them equally often.",
        ),
    )


def _published_cells(played: Sequence[Run]) -> tuple[Cell, ...]:
    return (
        len(played),
        share_of(played, lambda run: run.success),
        mean_of(played, lambda run: run.published_relative_actions, RELATIVE),
        mean_of([run for run in played if run.success], lambda run: run.published_actions),
        share_of(played, lambda run: run.parse_failed),
        mean_of(played, lambda run: run.tokens),
    )
