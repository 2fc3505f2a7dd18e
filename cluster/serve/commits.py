"""Finished episodes of served games into the ledger: whoever hands one in waits until it would survive a power cut."""

from __future__ import annotations

import asyncio
import itertools
from typing import Final

from cluster.console import warn
from cluster.errors import RunFailedError
from cluster.observe.run_statistics import RunStatistics
from cluster.observe.tracker import Watcher
from cluster.stopping.watch import StopWatch
from cluster.storage.run_directory import RunDirectory
from evals.conversation import Record
from evals.ledger.parts import LedgerDamagedError
from evals.ledger.sound_rows import sound_rows
from evals.suite import Suite, ledger_columns

TRIES: Final = 30
"""The run fails after so many failed commits in a row (a full disk, for example)."""
RETRY_SECONDS: Final = 2.0


class Commits:
    """Episodes that finish while one part is written become the next part together."""

    def __init__(
        self, suite: Suite, directory: RunDirectory, stats: RunStatistics, stopping: StopWatch, watcher: Watcher
    ) -> None:
        """``directory`` is claimed and has a session."""
        self.failure: RunFailedError | None = None
        """Why nothing more can be written."""
        self._columns = ledger_columns(suite)
        self._directory, self._stats, self._stopping, self._watcher = directory, stats, stopping, watcher
        self._waiting: list[Record] = []
        self._writing = asyncio.Lock()
        self._tries = TRIES
        self._compacting: asyncio.Task[None] | None = None

    async def add(self, record: Record) -> None:
        """Return when the episode is in the ledger.

        Raises:
            RunFailedError: it cannot be written, nor can any other.
        """
        self._waiting.append(record)
        async with self._writing:
            if self.failure is not None:
                raise self.failure
            # Whoever wrote before may have taken this record along.
            if any(each is record for each in self._waiting):
                await self._write()

    async def settle(self) -> None:
        """Return when nothing is being written."""
        async with self._writing:
            pass
        if self._compacting is not None:
            await self._compacting

    def hurry(self) -> None:
        """From now on, the first commit that fails is the last: nobody waits for room on a disk any more."""
        self._tries = 1

    async def _write(self) -> None:
        batch = list(self._waiting)
        rows = sound_rows(batch, self._columns)
        for attempt in itertools.count(1):
            try:
                await asyncio.to_thread(self._directory.commit, rows)
                break
            except OSError as error:
                if attempt == 1:
                    warn(f"cannot write the ledger; keeping finished episodes in memory: {error}")
                if attempt >= self._tries:
                    unwritten = len(self._waiting)
                    self.failure = RunFailedError(
                        f"cannot write the ledger; {unwritten} finished episodes are in memory only: {error}"
                    )
                    raise self.failure from error
                await asyncio.sleep(RETRY_SECONDS)
            except RunFailedError as error:  # another driver has taken over
                self.failure = error
                raise
        del self._waiting[: len(batch)]
        self._stats.finished(rows, by_model=True)
        for record in batch:
            self._count(record)
        self._stopping.add(rows)
        self._watcher.log(self._stats.to_json())
        if self._compacting is None or self._compacting.done():
            self._compacting = asyncio.create_task(self._compact())

    def _count(self, record: Record) -> None:
        if record.error:
            warn(f"a game failed ({record.episode.task}, level {record.episode.level}): {record.error}")
        counts = self._stats.counts
        for played in record.turns:
            counts.turns += 1
            counts.prompt_tokens += played.reply.prompt_tokens
            counts.completion_tokens += played.reply.completion_tokens
            counts.cached_tokens += played.reply.cached_tokens
            counts.reasoning_tokens += played.reply.reasoning_tokens

    async def _compact(self) -> None:
        """Merge small parts of the ledger once there are many; commits continue in the meantime."""
        try:
            await asyncio.to_thread(self._directory.compact)
        except (OSError, LedgerDamagedError, RunFailedError) as error:
            warn(f"cannot merge the ledger's small parts, which are kept: {error}")
