"""Gathers the turns that games wait for into jobs, and gives each its answer when its job has ended."""

from __future__ import annotations

import asyncio
import copy
import functools
import json
import pkgutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.engines.api_errors import EndpointError, Meaning, clean
from cluster.engines.base import EngineSettingsError
from cluster.engines.batch.formats import EXPIRED, UNREADABLE, Format, JobFailedError
from cluster.engines.batch.store import Job, Store
from cluster.engines.providers.base import ProviderEngine
from cluster.engines.providers.connection import ClientConnection
from envs.files import Bounds, FileError, parse_json

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a step is tried again that failed in passing, doubled each time."""
OUTAGE_SECONDS = 3600.0
"""How long steps may fail in passing before the run stops; it can be resumed."""


TOOK_NOTHING = (429, 529)
"""Statuses of a provider that is too busy to take a job: it need not be looked for among others."""
CONCERN_TURNS = ("refused", "filtered", "too long")
"""Meanings of errors that fail the turns of one job, not the run."""


class BatchStoppedError(EndpointError):
    """Jobs can be sent or looked at no more; they are found again when the run is resumed."""

    @property
    def meaning(self) -> Meaning:
        """All turns would meet it."""
        return "lasting"


class BatchWaitError(BatchStoppedError):
    """A job takes longer than the run may wait."""

    goes_on = True


@dataclass(frozen=True)
class Pace:
    """When jobs are sent and looked at."""

    quiet_seconds: float
    """A job is sent when no further turn has come for so long: all games wait."""
    poll_seconds: float
    wait_hours: float


class BatchConnection(ClientConnection):
    """A connection whose requests are turns of batch jobs."""

    def __init__(
        self, engine: ProviderEngine, secrets: list[str], timeout_seconds: float, format_: Format, pace: Pace
    ) -> None:
        """Nothing is sent before ``open``."""
        super().__init__(engine, secrets, timeout_seconds)
        self._format = format_
        self._pace = pace
        self._known_by = engine.known_by
        self._store: Store | None = None
        self._bodies: dict[str, Mapping[str, Any]] = {}
        """Turns that wait to be sent, or may have to be sent again, and what is sent for each."""
        self._queue: dict[str, float] = {}
        """Turns that wait to be sent, with the most that each may cost."""
        self._waiting: dict[str, asyncio.Future[Mapping[str, Any]]] = {}
        self._came = asyncio.Event()
        self._last = 0.0
        """When the latest turn came."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped: EndpointError | None = None
        """Why nothing more is sent or looked at, if so."""

    def open(self, run_dir: Path) -> None:
        """Take up the jobs of earlier sessions.

        Raises:
            EngineSettingsError: the run directory is not here, or its journal is damaged.
        """
        if not (run_dir / "plan.parquet").exists():
            raise EngineSettingsError(f"batch=true: {run_dir} must be reachable where the engine runs")
        try:
            self._store = Store.open(run_dir)
        except (OSError, FileError) as error:
            raise EngineSettingsError(f"the journal of batch jobs cannot be read: {error}") from error

    @property
    def store(self) -> Store:
        """The run's journal."""
        assert self._store is not None, "open() comes first"
        return self._store

    def _turn_id(self, name: str, body: Mapping[str, Any]) -> str:
        """The id of a turn's current attempt, in this session and in every other one."""
        return self.store.turn_id(name, self._known_by(body))

    @property
    def notes_reserved(self) -> bool:
        """Yes: jobs outlast sessions, and a later one replaces exactly what this one has counted."""
        return True

    def counted_before(self, body: Mapping[str, Any], name: str = "") -> float | None:
        """What the run's spending holds for a turn that was announced before."""
        return self.store.counted.get(self._turn_id(name, body))

    def note_reserved(self, body: Mapping[str, Any], name: str, most: float) -> None:
        """As ``Connection.note_reserved``; it is written down when the turn's job is announced."""
        self._queue[self._turn_id(name, body)] = most

    def note_price(self, body: Mapping[str, Any], name: str, price: float, failed: bool = False) -> None:
        """As ``Connection.note_price``; a turn whose answer ``failed`` is sent again in another job."""
        turn = self._turn_id(name, body)
        if turn in self.store.counted:
            self.store.priced(turn, price)
        if failed and turn in self.store.answers:
            self.store.unreadable(turn)

    async def complete(self, body: Mapping[str, Any], name: str = "") -> Any:
        """Wait for the answer of the job that holds a turn, sending it in the next one if none does."""
        turn = self._turn_id(name, body)
        try:
            return await self._answer_of(turn, body)
        except EndpointError as error:
            if turn not in self.store.answers and turn in self.store.counted:
                error = copy.copy(error)
                error.may_cost = True  # its job goes on: what the run's spending holds for it stays
            raise error from None

    async def _answer_of(self, turn: str, body: Mapping[str, Any]) -> Any:
        """What a turn's job answered.

        Raises:
            EndpointError: it answered an error, or nothing more is sent or looked at.
        """
        if self._stopped is not None:
            raise self._stopped
        self._start_working()
        answer = self.store.answers.get(turn)
        if answer is None:
            self._bodies[turn] = body
            if self.store.job_of(turn) is None:
                self._queue.setdefault(turn, self.store.counted.get(turn, 0.0))
                self._last = time.monotonic()
                self._came.set()
            future = self._waiting.setdefault(turn, asyncio.get_running_loop().create_future())
            answer = await asyncio.shield(future)
        if "data" not in answer:
            words = clean(str(answer["error"]), self._secrets)
            named = str(answer.get("param", ""))
            raise EndpointError(words[:500], int(answer["status"]), words=words, param=named)
        return answer["data"]

    async def close(self) -> None:
        """Stop waiting; jobs go on at the provider."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await super().close()

    # --- the work ---

    def _start_working(self) -> None:
        """Follow the jobs that are open already, and gather new ones."""
        if self._tasks:
            return
        self._keep(self._gather_forever())
        for job in self.store.open_jobs:
            self._keep(self._follow(job))

    def _keep(self, work: Any) -> None:
        self._tasks.add(asyncio.create_task(self._stop_all_on_error(work)))

    async def _stop_all_on_error(self, work: Any) -> None:
        """Tell all turns that wait why nothing more is sent or looked at, if so."""
        try:
            await work
        except Exception as error:
            if not isinstance(error, EndpointError):
                reason: EndpointError = BatchStoppedError(f"{type(error).__name__}: {error}")
            elif error.meaning in CONCERN_TURNS:  # what was asked was no turn
                reason = BatchStoppedError(f"the provider does not tell how its batches stand: {error}")
            else:
                reason = error
            self._stopped = reason
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(reason)
            self._waiting.clear()

    async def _gather_forever(self) -> None:
        """Send a job whenever turns wait and no further one comes."""
        while True:
            await self._came.wait()
            while (left := self._last + self._pace.quiet_seconds - time.monotonic()) > 0:
                await asyncio.sleep(left)
            self._came.clear()
            if self._stopped is not None:
                return  # those that wait were told that their turns have not been sent
            for turns in self._jobs_of_queue():
                job = self.store.announce(turns)
                self._keep(self._send_and_follow(job))

    def _jobs_of_queue(self) -> list[dict[str, float]]:
        """The turns that wait, in jobs within the provider's limits."""
        jobs = list[dict[str, float]]()
        job: dict[str, float] = {}
        size = 0
        waiting = [turn for turn in self._queue if turn in self._bodies]
        for turn in waiting:
            length = len(json.dumps(self._bodies[turn])) + 200
            is_full = len(job) >= self._format.most_turns or size + length > self._format.most_bytes
            # A turn that is too long for any job has one for itself.
            if job and is_full:
                jobs.append(job)
                job, size = {}, 0
            job[turn] = self._queue.pop(turn)
            size += length
        if job:
            jobs.append(job)
        return jobs

    async def _send_and_follow(self, job: Job) -> None:
        """Send a job; where no answer says that it was taken, it is looked for before it is sent again."""
        bodies = {turn: self._bodies[turn] for turn in job.turns}
        began, pause = time.monotonic(), FIRST_PAUSE
        batch: str | None = None
        while batch is None:
            try:
                batch = await self.call(lambda: self._format.create(job.key, bodies), self._seconds)
            except EndpointError as error:
                refusals = {turn: _refusal(error) for turn in job.turns}
                if error.meaning in CONCERN_TURNS:
                    self._hand_out(job, refusals)
                    return
                try:
                    wait = self._wait_after(error, began, pause)
                except EndpointError:
                    if error.meaning == "lasting" or error.status in TOOK_NOTHING:
                        self._hand_out(job, refusals)  # nothing of it will cost anything
                    raise
                await asyncio.sleep(wait)
                pause = min(2 * pause, LONGEST_PAUSE)
                if error.status not in TOOK_NOTHING:
                    batch = await self._find(job)
        self.store.sent(job, batch)
        await self._follow(job)

    async def _follow(self, job: Job) -> None:
        """Wait until a job has ended, and hand out what it answered."""
        if not job.batch:  # announced in an earlier session, which died before it knew whether the job was taken
            found = await self._find(job)
            if not found:
                self.store.never_sent(job)
                for turn in job.turns:
                    if turn in self._waiting:
                        self._queue[turn] = self.store.counted[turn]
                self._came.set()
                return
            self.store.sent(job, found)
        try:
            await self._until_ended(job.batch, job.since)
            self._hand_out(job, await self._answers(job))
        except EndpointError as error:
            is_about_the_job = error.status == 404 or error.meaning in CONCERN_TURNS
            if not is_about_the_job:
                raise
            raise BatchStoppedError(
                f"the provider tells nothing of the batch {clean(job.batch, self._secrets)}: {error}. Run the same command "
                f"again to retry. If the batch is gone for good, remove {self.store.path}: turns of its unfinished games are "
                "then asked, and paid, again"
            ) from None

    def _hand_out(self, job: Job, answers: Mapping[str, Mapping[str, Any]]) -> None:
        """Write down what a job answered, then give it to the games; turns without an answer are retried.

        Answers that belong to none of its turns may be those of the turns without one, and paid for.
        """
        has_strays = bool(answers.keys() - set(job.turns))
        missing = UNREADABLE if has_strays else EXPIRED
        # A session that died here has written down some of them, and games may have gone on with those.
        new = [turn for turn in job.turns if turn not in self.store.answers]
        self.store.answered({turn: self._redacted(answers.get(turn, missing)) for turn in new})
        self.store.over(job)
        for turn in job.turns:
            self._bodies.pop(turn, None)
            future = self._waiting.pop(turn, None)
            if future is not None and not future.done():
                future.set_result(self.store.answers[turn])

    async def _answers(self, job: Job) -> Mapping[str, Mapping[str, Any]]:
        """What a job answered; where the provider failed the whole job, that is each turn's error."""
        try:
            return await self._step(lambda: self._format.answers(job.batch, job.key))  # type: ignore[no-any-return]
        except JobFailedError as error:
            return {turn: _refusal(error) for turn in job.turns}

    def _redacted(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """An answer without the secrets that the endpoint may have repeated in it; none if no journal could hold it."""
        try:
            found: Mapping[str, Any] = parse_json(self.redacted(json.dumps(answer)), "an answer", Bounds())
            return found
        except FileError:
            return UNREADABLE

    async def _find(self, job: Job) -> str | None:
        """The provider's id of a job of which only the announcement is on disk; None if the provider never took it.

        A provider that keeps no names of jobs offers several; the answers tell which one it is.
        """
        known = {other.batch for other in self.store.jobs.values() if other.batch}
        began = time.monotonic()  # the clock of the day may have been set since the job was announced
        while True:
            for batch in await self._step(lambda: self._format.candidates(job.key, job.turns, job.since)):
                if batch in known:
                    continue
                await self._until_ended(batch, job.since)
                try:
                    answers = await self._step(functools.partial(self._format.answers, batch, job.key))
                except JobFailedError:  # only of a job that bears our name is it known that it failed
                    return str(batch)
                if set(answers) & set(job.turns):
                    return str(batch)
                known.add(batch)
            if time.monotonic() - began > self._pace.poll_seconds:  # what was under way has arrived by now
                return None
            await asyncio.sleep(self._pace.poll_seconds / 4)

    async def _until_ended(self, batch: str, since: float) -> None:
        """Ask again and again whether a job has ended.

        Raises:
            BatchWaitError: it took longer than the run may wait.
        """
        since = min(since, time.time())  # the clock of the day may have been set since the job was announced
        while not await self._step(lambda: self._format.has_ended(batch)):
            hours = (time.time() - since) / 3600
            if hours > self._pace.wait_hours:
                raise BatchWaitError(
                    f"the batch {clean(batch, self._secrets)} has not ended for {hours:.1f} hours "
                    "(model.engine.batch_wait_hours); the same command, run again with more, goes on waiting"
                )
            await asyncio.sleep(self._pace.poll_seconds)

    async def _step(self, ask: Any) -> Any:
        """One step at the provider, tried again while it fails in passing.

        Raises:
            EndpointError: it is refused, or has failed for ``OUTAGE_SECONDS``.
        """
        began, pause = time.monotonic(), FIRST_PAUSE
        while True:
            try:
                return await self.call(ask, self._seconds)
            except EndpointError as error:
                wait = self._wait_after(error, began, pause)
            await asyncio.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _wait_after(self, error: EndpointError, began: float, pause: float) -> float:
        """Seconds to wait after a step has failed in passing.

        Raises:
            EndpointError: it is refused, steps have failed for ``OUTAGE_SECONDS``, or a longer wait is asked for.
        """
        if error.meaning != "passing":
            raise error
        if error.retry_after > OUTAGE_SECONDS:
            hours = error.retry_after / 3600
            raise BatchStoppedError(f"the provider asks to wait {hours:.1f} hours: {error}") from None
        if time.monotonic() - began > OUTAGE_SECONDS:
            raise BatchStoppedError(f"the provider's batches fail: {error}") from None
        return max(pause, error.retry_after)


def _refusal(error: EndpointError) -> Mapping[str, Any]:
    """The answer of each turn of a job that the provider refused."""
    return {"error": error.words, "status": error.status}


def connect(engine: ProviderEngine, secrets: list[str]) -> BatchConnection:
    """The connection of an engine with ``batch=true``."""
    format_: Format = pkgutil.resolve_name(engine.batches)(engine)
    pace = Pace(engine.batch_quiet_seconds, engine.batch_poll_seconds, engine.batch_wait_hours)
    return BatchConnection(engine, secrets, engine.timeout_seconds, format_, pace)
