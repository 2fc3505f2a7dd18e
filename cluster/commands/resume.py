"""Which episodes a session has to play: unfinished ones and, with ``retry_failed``, failed ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster.observe.run_statistics import RunStatistics
from cluster.storage.provenance import changes, unfinished_retry
from cluster.storage.stop_rule import StoredRule
from cluster.storage.stored_run import Run, damaged
from evals.ledger.parts import LedgerDamagedError
from evals.types import Episode


@dataclass(frozen=True)
class Resume:
    """State of a run at the start of a session."""

    todo: list[Episode]
    """Episodes to play, in plan order."""
    attempts: Mapping[str, int]
    """Number of earlier attempts of each episode to be retried."""
    retry: tuple[str, ...]
    """Earlier sessions of the same, interrupted retry; see ``unfinished_retry``."""
    changes: Sequence[str]
    """Software whose version differs from that of rows in the ledger."""
    replaced: tuple[Path, ...]
    """Parts of the ledger that were merged into larger ones."""
    needed: int
    """Episodes that the run needs in all: its plan, or what its stopping rule asks for."""


def scan_resume(
    run: Run,
    plan: Sequence[Episode],
    stats: RunStatistics,
    rule: StoredRule | None,
    retry_failed: bool,
    commit: str = "",
) -> Resume:
    """Read the whole ledger except the turns, so that damage is found before anything is played.

    Args:
        run: Claimed and begun.
        plan: Its plan.
        stats: Is told what was planned and what counts as finished.
        rule: That ends the run early; None to play all.
        retry_failed: Whether failed episodes are to be played again.
        commit: Of the model's files, where it is known.

    Raises:
        UserError: the ledger is damaged, or has rows that the plan does not.
    """
    retry = unfinished_retry(run.sessions) if retry_failed else ()
    finished: list[pa.Array] = []
    attempts: dict[str, int] = {}
    played: set[str] = set()
    try:
        for rows in run.ledger.batches():
            rest = rows
            if retry_failed:
                again = _to_repeat(rows, retry)
                repeated, rest = rows.filter(again), rows.filter(pc.invert(again))
                attempts.update(zip(repeated["episode_id"].to_pylist(), repeated["attempt"].to_pylist(), strict=True))
            finished += rest["episode_id"].chunks
            stats.resume(rest)
            played.update(pc.unique(rows["session"]).to_pylist())
    except LedgerDamagedError as error:
        raise damaged(run.path, error.damage) from error
    ids = pa.array([episode.id for episode in plan], pa.string())
    left = pc.invert(pc.is_in(ids, pa.chunked_array(finished, pa.string())))
    todo = [plan[number] for number in np.flatnonzero(left)]
    # With a stopping rule, only what it still needs is played.
    needed = len(plan)
    if rule is not None:
        by_rule = rule.outcomes_of(run.planned, run.ledger, attempts).look().needed
        todo = [episode for episode in todo if episode.id in by_rule]
        needed = len(by_rule)
    stats.plan(plan, todo)
    changed = changes(run.sessions, played, run.config, commit)
    return Resume(todo, attempts, retry, changed, run.ledger.replaced, needed)


def first_of_retry(retry: Sequence[str]) -> str:
    """The session that began an interrupted retry; empty where there is none."""
    return retry[0] if retry else ""


def _to_repeat(rows: pa.Table, retry: Sequence[str]) -> pa.ChunkedArray:
    """Failed rows except those that the interrupted retry has already played."""
    done_again = pc.is_in(rows["session"], pa.array(retry, pa.string()))
    return pc.and_(pc.equal(rows["status"], "failed"), pc.invert(done_again))
