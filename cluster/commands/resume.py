"""What a run still has to play: what its ledger lacks, and failed episodes where they are to be played again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from cluster.observe.run_statistics import RunStatistics
from cluster.storage.provenance import changes, read_versions, unfinished_retry
from cluster.storage.stored_run import damaged, read_plan_table, sound_ledger
from evals.ledger import LedgerDamagedError
from evals.types import Episode


@dataclass(frozen=True)
class Resume:
    """Where a run stands when a session begins."""

    todo: list[Episode]
    """In the order of the plan."""
    attempts: Mapping[str, int]
    """Of the episodes to be played again, how often each was played."""
    retry: tuple[str, ...]
    """Earlier sessions that played failed episodes again on the same command; see ``unfinished_retry``."""
    changes: Sequence[str]
    """What has another version now than when rows of the ledger were played."""
    replaced: tuple[Path, ...]
    """Parts of the ledger whose rows larger parts hold."""


def look_through(run_dir: Path, plan: Sequence[Episode], stats: RunStatistics, retry_failed: bool) -> Resume:
    """Read the whole ledger but for the turns, so that damage is found before anything is played.

    Args:
        run_dir: The run directory, claimed and begun.
        plan: Its plan.
        stats: Is told what was planned and what counts as finished.
        retry_failed: Whether failed episodes are to be played again.

    Raises:
        UserError: the ledger is damaged, or has rows that the plan does not.
    """
    stats.plan(plan)
    sessions = read_versions(run_dir)
    retry = unfinished_retry(sessions) if retry_failed else ()
    ledger = sound_ledger(run_dir, read_plan_table(run_dir))
    finished: set[str] = set()
    attempts: dict[str, int] = {}
    played: set[str] = set()
    try:
        for rows in ledger.batches():
            again = _to_repeat(rows, retry) if retry_failed else pa.array([False] * len(rows))
            repeated = rows.filter(again)
            attempts.update(zip(repeated["episode_id"].to_pylist(), repeated["attempt"].to_pylist(), strict=True))
            rest = rows.filter(pc.invert(again))
            finished.update(rest["episode_id"].to_pylist())
            stats.resume(rest)
            played.update(pc.unique(rows["session"]).to_pylist())
    except LedgerDamagedError as error:
        raise damaged(run_dir, error.damage) from error
    todo = [episode for episode in plan if episode.id not in finished]
    return Resume(todo, attempts, retry, changes(sessions, played), ledger.replaced)


def _to_repeat(rows: pa.Table, retry: Sequence[str]) -> pa.ChunkedArray:
    """Failed rows but for those that the interrupted retry has played already."""
    done_again = pc.is_in(rows["session"], pa.array(retry, pa.string()))
    return pc.and_(pc.equal(rows["status"], "failed"), pc.invert(done_again))
