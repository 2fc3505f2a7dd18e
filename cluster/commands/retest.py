"""``raycade retest``: asks a sample of a run's turns again, with its engine, and reports the agreement."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from cluster.concurrency import all_of
from cluster.config.model import ModelSettings, make_model
from cluster.config.plan import make_suite
from cluster.config.stored import stored_sections
from cluster.console import show, warn
from cluster.engines.base import EngineDefectError, EngineError, EngineWaitsError
from cluster.engines.checked import CheckedEngine
from cluster.engines.guard import guard_of
from cluster.errors import ResumableError, RunFailedError, UserError
from cluster.runner.model_player import Decoding, request_for
from cluster.storage.run_directory import RunDirectory
from cluster.storage.spending import Spenders, Spending, SpendingJournal, check_journal
from cluster.storage.stored_run import Run, read_runs
from evals.analysis.recorded import RecordedPlayer
from evals.analysis.rescore import reread_turn
from evals.analysis.retest import (
    Again,
    agreement_table,
    disagreement_table,
    label_shift,
    sample_turns_to_ask,
    turns_that_cannot_be_read,
)
from evals.ledger.run_data import RunData
from evals.replies.reasoning import separate_reasoning
from evals.suite import Suite
from evals.types import Episode, PlayerError, Reply, Turn

SETTLE_SECONDS = 1.0
"""Between two notes of what was spent."""
ENDING_SECONDS = 10.0
"""That requests under way may take when another one has ended the retest."""


def main(options: argparse.Namespace) -> None:
    """Ask, and print the tables."""
    if not 0 < options.share <= 1:
        raise UserError(f"--share {options.share:g}: must be above 0 and at most 1")
    asked, failed, stopped = retest(Run(options.run_dir), options.share, options.seed, options.overrides)
    if stopped and not asked:
        raise ResumableError(f"no turn was answered: {stopped}")
    show([agreement_table(asked, failed), disagreement_table(asked, options.turns)])
    if stopped:
        raise ResumableError(f"stopped early: {stopped}; the tables show the turns that were answered until then")


def retest(run: Run, share: float, seed: int = 0, overrides: Sequence[str] = ()) -> tuple[list[Again], int, str]:
    """Ask a share of a run's turns again.

    Returns:
        What came back; how many turns could not be answered; and why the engine stopped before all were asked, for
        example at the spend cap (empty if all were asked).

    Raises:
        UserError: there is no run, it was played without an engine, or has no turns yet; no new reply could be read,
            since the games' files are gone, say; or its configuration names programs, or where keys are sent, and
            ``overrides`` do not repeat that.
        RunFailedError: the engine does not start.
    """
    sections = stored_sections(run.path, run.config, ["suite", "model"], overrides)
    suite, model = make_suite(sections["suite"]), make_model(sections["model"], run.config)
    if model.engine is None:
        raise UserError(f"{run.path}: played by {model.name}, a built-in player; there is no engine to ask again")
    # The journal of the run's batch jobs would give the same answers to the same turns, and nothing would be asked.
    # (An engine of one's own may call its number of slots ``batch``.)
    if model.engine.get("batch") is True:
        raise UserError(
            f"{run.path}: played in batches, which are not repeated; model.engine.batch=false asks turn by turn "
            "(give model.engine.prompt_price and completion_price: the stored ones are those of batches)"
        )
    chosen = sample_turns_to_ask(read_runs([run], lambda: _turn_counts(run.data, model.name)), share, seed)
    if not chosen:
        raise UserError(f"{run.path}: {model.name} has answered no turn yet")
    found = read_runs([run], lambda: run.data.find(list(chosen)))
    rows = {row["episode_id"]: row for row in found}
    episodes = {episode.id: episode for episode in run.plan if episode.id in chosen}
    jobs: list[_Job] = []
    for name, numbers in chosen.items():
        jobs += [_Job(suite, episodes[name], rows[name], number) for number in numbers]
    jobs = _readable(run, jobs)
    asked_of = {job.episode.id for job in jobs}
    print(f"asking {len(jobs)} turns of {len(asked_of)} episodes again", file=sys.stderr)
    with _journal(run, model) as journal, guard_of(model.engine_class):
        return asyncio.run(_ask_all(model, run.config.get("decoding") or "free", jobs, journal))


@contextlib.contextmanager
def _journal(run: Run, model: ModelSettings) -> Iterator[SpendingJournal | None]:
    """The run's spending journal where an answer costs money; nobody else may write to it meanwhile.

    Raises:
        UserError: the run is being played, its folder cannot be written, or there is a spend cap but no journal.
    """
    if not model.engine_class.metered:
        yield None
        return
    directory = RunDirectory(run.path)
    directory.claim()
    try:
        check_journal(run.path, run.ledger_cost, capped=(model.engine or {}).get("spend_cap") is not None)
        yield SpendingJournal(run.path, directory.check_claim, retest_of=Spenders.of(run.path, run.sessions))
    finally:
        directory.release()


def _readable(run: Run, jobs: Sequence[_Job]) -> list[_Job]:
    """Those whose new replies can be read; of the others nothing is asked, and a warning says why.

    Raises:
        UserError: no new reply could be read.
    """
    causes = read_runs([run], lambda: asyncio.run(_causes_of_unreadable(jobs)))
    readable = [job for job in jobs if (job.episode.id, job.number) not in causes]
    if causes:
        cause = next(iter(causes.values()))
        if not readable:
            raise UserError(f"{run.path}: nothing was asked, since no new reply could be read: {cause}")
        warn(
            f"{len(causes):,} turns are not asked again, since their new replies could not be read, the first: {cause}"
        )
    return readable


async def _causes_of_unreadable(jobs: Sequence[_Job]) -> dict[tuple[str, int], str]:
    """Why new replies could not be read, by episode and turn."""
    jobs_of: dict[str, list[_Job]] = {}
    for job in jobs:
        jobs_of.setdefault(job.episode.id, []).append(job)
    causes: dict[tuple[str, int], str] = {}
    for name, mine in jobs_of.items():
        numbers = [job.number for job in mine]
        found = await turns_that_cannot_be_read(mine[0].part, mine[0].episode, mine[0].row, numbers)
        causes |= {(name, number): cause for number, cause in found.items()}
    return causes


def _turn_counts(run: RunData, player: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for batch in run.batches(["episode_id", "player", "turns"]):
        mine = batch.filter(pc.equal(batch["player"], player))
        lengths = pc.fill_null(pc.list_value_length(mine["turns"]), 0)
        counts.update(zip(mine["episode_id"].to_pylist(), lengths.to_pylist(), strict=True))
    return counts


class _Job:
    """One stored turn that is sampled for the retest."""

    def __init__(self, suite: Suite, episode: Episode, row: Mapping[str, Any], number: int) -> None:
        self.part = next(part for part in suite.parts if part.name == episode.suite)
        self.episode, self.row, self.number = episode, row, number
        self.stored: Mapping[str, Any] = row["turns"][number]

    @property
    def turn(self) -> Turn:
        labels = tuple(label["label"] for label in self.stored["labels"] or ())
        chat = RecordedPlayer(self.row).chat(self.number)
        return Turn(self.episode, self.number, chat, tuple(self.stored["options"]), labels)

    async def compared(self, reply: Reply) -> Again:
        ((_, action),) = await reread_turn(self.part, self.episode, self.row, {self.number: reply})
        return Again(
            suite=self.part.name,
            episode=self.episode.id,
            turn=self.number,
            old_text=self.stored["reply"],
            new_text=reply.text,
            old_action=self.stored["action"],
            new_action=action,
            largest_shift=label_shift(self.stored, reply),
        )


async def _ask_all(
    model: ModelSettings, decoding: Decoding, jobs: Sequence[_Job], journal: SpendingJournal | None
) -> tuple[list[Again], int, str]:
    try:
        engine = CheckedEngine(model.make_engine())
    except (ValueError, EngineDefectError) as error:
        raise UserError(f"model={model.name}: {error}") from error
    keeping = None
    asking: list[asyncio.Future[Any]] = []
    over = asyncio.Event()
    try:
        if journal is not None:
            engine.add_spent_elsewhere(journal.before.total, journal.before.highest)
            await engine.settle(0, 0.0)  # from now on nothing is spent that is not written first
            keeping = asyncio.create_task(_keep_journal(engine, journal))
        await engine.start()
        slots = asyncio.Semaphore(engine.max_num_seqs)
        asking += [asyncio.create_task(_ask(engine, decoding, job, slots, over)) for job in jobs]
        answers = asyncio.gather(*asking)
        asking.append(answers)
        if keeping is not None:
            both: set[asyncio.Future[Any]] = {answers, keeping}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if keeping.done():  # without a journal nothing more is sent
                await all_of(asking, cancel=True)
                keeping.result()
        found = await answers
    except EngineError as error:
        if asking:
            # What is under way is soon refused as well, at no cost; given up, it would count as if it had been answered.
            await asyncio.wait(asking, timeout=ENDING_SECONDS)
        raise RunFailedError(f"the engine of {model.name} failed: {error}") from error
    finally:
        try:
            # After Ctrl-C or the first failure, others are under way or wait: what these have reserved is given back.
            await all_of(asking, cancel=True)
            if keeping is not None and journal is not None:
                keeping.cancel()
                await _note(engine, journal, 0)
        finally:
            with contextlib.suppress(EngineError):  # what was answered is shown nevertheless
                await engine.close()
    stopped = [str(one) for one in found if isinstance(one, EngineWaitsError)]
    answered = [one for one in found if one is not None and not isinstance(one, EngineWaitsError)]
    return answered, found.count(None), stopped[0] if stopped else ""


async def _keep_journal(engine: CheckedEngine, journal: SpendingJournal) -> None:
    """Write down what requests may cost, before they are sent, and what they have cost."""
    covered = 0
    while True:
        covered = await _note(engine, journal, covered, SETTLE_SECONDS)


async def _note(engine: CheckedEngine, journal: SpendingJournal, covered: int, seconds: float = 0.0) -> int:
    try:
        account = await engine.settle(covered, seconds)
    except EngineError as error:
        raise RunFailedError(f"the engine does not tell what it spends: {error}") from error
    journal.note("retest", Spending(account.spent, account.in_flight, account.highest))
    journal.write()
    return account.number


async def _ask(
    engine: CheckedEngine, decoding: Decoding, job: _Job, slots: asyncio.Semaphore, over: asyncio.Event
) -> Again | EngineWaitsError | None:
    """The new answer; None where the turn could not be answered, the error where the engine asks nothing more.

    Nothing is asked any more once the retest is ``over``, which the first failure of the engine says.
    """
    async with slots:
        if over.is_set():
            return None
        try:
            reply = await engine.complete(request_for(job.turn, decoding))
        except PlayerError:
            return None
        except EngineWaitsError as error:  # what other turns were answered, and paid for, is still shown
            return error
        except EngineError:
            over.set()  # before the slot is free for another one
            raise
    return await job.compared(separate_reasoning(reply))
