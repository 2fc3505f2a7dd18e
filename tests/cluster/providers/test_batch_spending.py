"""What turns of batches count as spent, whatever is answered, asked twice, given up or lost: never less than is billed."""

import asyncio
import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cluster.engines import api_engine
from cluster.engines.api_answer import Answer, read_usage
from cluster.engines.api_errors import EndpointError
from cluster.engines.base import EngineError, Sampling
from cluster.engines.batch import connection, store
from cluster.engines.providers.base import ProviderEngine
from evals.types import PlayerError
from tests.cluster.providers.engines import request
from tests.cluster.providers.stub import KEY

USAGE = {"prompt_tokens": 10, "completion_tokens": 10}
PRICE, DEAR, RESERVED = 20.0, 900.0, 1_000.0
"""What a turn costs at a price of a million for a million tokens; a dear one costs more than by its length it can; and what is
reserved for each, since one has cost so much before."""
ANSWERS = {
    "good": ({"data": {"usage": USAGE}}, PRICE),
    "dear": ({"data": {"usage": {"prompt_tokens": 890, "completion_tokens": 10}}}, DEAR),
    "failed": ({"data": {"usage": USAGE, "error": (500, "server_error")}}, PRICE),
    "refused within": ({"data": {"usage": USAGE, "error": (400, "no such thing")}}, PRICE),
    "filtered": ({"data": {"usage": USAGE, "error": (400, "content_filter")}}, PRICE),
    "told no usage": ({"data": {}}, PRICE),
    "unreadable": ({"data": None}, PRICE),
    "busy": ({"error": "busy", "status": 500}, 0.0),
    "refused": ({"error": "no", "status": 400}, 0.0),
    "not come to": (None, 0.0),
}
"""What a job may answer to a turn, and what is billed for that."""
ASKED_AGAIN = {"failed", "refused within", "unreadable", "busy", "refused", "not come to"}
UNKNOWN = {"told no usage", "unreadable"}
"""They count with the most that they may cost."""


class Jobs:
    """A provider's jobs in memory: their turns are answered by the next words of a script, then well."""

    most_turns, most_bytes = 3, 10**6

    def __init__(self, script):
        self.script, self.jobs, self.billed = iter(script), {}, 0.0
        self.said = {}
        """The latest answer to each turn, by its id without the attempt."""
        self.end = "over"
        self.at_work = asyncio.Event()

    async def create(self, key, bodies):
        if self.end == "is refused":
            raise EndpointError("the key", 401)
        answers = {}
        for turn in bodies:
            word, asked = next(self.script, "good"), turn.rpartition("-")[0]
            assert self.said.get(asked, "busy") in ASKED_AGAIN, "it was answered already"
            self.said[asked] = word
            answer, price = ANSWERS[word]
            self.billed += price
            if answer is not None:
                answers[turn] = answer
        batch = f"batch-{len(self.jobs)}"
        self.jobs[batch] = (key, answers)
        self.at_work.set()
        if self.end == "dies while sending":
            await asyncio.Event().wait()
        return batch

    async def candidates(self, key, turns, since):
        return [batch for batch, (named, _) in self.jobs.items() if named == key]

    async def has_ended(self, batch):
        self.at_work.set()
        return self.end in ("over", "is refused")

    async def answers(self, batch, key):
        return self.jobs[batch][1]


@dataclass(kw_only=True, eq=False)
class Engine(ProviderEngine):
    package: ClassVar[str] = "json"
    provider: ClassVar[str] = "nobody"
    key_variable: ClassVar[str] = "OPENAI_API_KEY"
    batches: ClassVar[str] = f"{__name__}:Engine._jobs"
    sampled: ClassVar[dict[str, str]] = {}
    jobs: Jobs | None = None

    def _jobs(self):
        return self.jobs

    def _settings(self):
        return {name: value for name, value in super()._settings().items() if name != "jobs"}

    def _make_client(self, key, headers):
        return None

    async def close_client(self):
        pass

    async def ask(self, body):
        raise AssertionError("only jobs are sent")

    async def ask_whether_there(self):
        pass

    def body(self, request):
        return {"turn": request.id}

    def read_usage(self, data):
        return read_usage(data)

    def read_answer(self, data, scored):
        if "error" in data:
            status, words = data["error"]
            raise self.refusal_within(status, {"message": words})
        return Answer("red", "stop", "", self.read_usage(data), {})


class Run:
    """A run over several sessions; ``total`` is what its journal of spending holds."""

    def __init__(self, folder, script):
        self.folder, self.jobs = folder, Jobs(script)
        self.total, self.highest = 0.0, RESERVED
        (folder / "plan.parquet").touch()

    async def session(self, asked, given_up=0, end="over"):
        """Ask these turns at once; the first ones are given up once a job is at work."""
        self.jobs.end, self.jobs.at_work = end, asyncio.Event()
        engine = Engine(
            sampling=Sampling(max_tokens=100, temperature=1.0),
            model="m",
            jobs=self.jobs,
            batch=True,
            batch_quiet_seconds=0.001,
            batch_poll_seconds=0.001,
            batch_wait_hours=1e-9 if end == "waits no longer" else 1.0,
            prompt_price=1e6,
            completion_price=1e6,
            max_tries=3,
        )
        before = self.total
        engine.add_spent_elsewhere(before, self.highest)
        engine.keep_in(self.folder)

        def note(account):
            self.total, self.highest = before + account.spent + account.in_flight, account.highest
            return account.number

        async def keep_account():
            covered = 0
            while True:
                covered = note(await engine.settle(covered, 0.001))

        keeping = asyncio.ensure_future(keep_account())
        playing = [asyncio.ensure_future(self.ask(engine, turn)) for turn in asked]
        if given_up or end.startswith("dies"):
            at_work = asyncio.ensure_future(self.jobs.at_work.wait())
            await asyncio.wait(
                [at_work, asyncio.ensure_future(asyncio.wait(playing))], return_when=asyncio.FIRST_COMPLETED
            )
            at_work.cancel()
        for each in playing[:given_up]:
            each.cancel()
        if end.startswith("dies"):
            keeping.cancel()  # nothing more is written
            for each in playing:
                each.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
        keeping.cancel()
        if not end.startswith("dies"):
            note(await engine.settle(10**9, 0.0))
        await engine.close()
        assert self.total >= self.jobs.billed - 1e-6

    async def ask(self, engine, turn):
        with contextlib.suppress(EngineError, PlayerError):
            await engine.complete(request(turn))


@contextlib.contextmanager
def at_once():
    """Nothing is waited for, and nothing is flushed to a disk."""
    with (
        mock.patch.object(api_engine, "FIRST_WAIT", 0.0),
        mock.patch.object(connection, "FIRST_PAUSE", 0.0),
        mock.patch.object(store.os, "fsync", lambda file: None),
        mock.patch.dict("os.environ", {"OPENAI_API_KEY": KEY}),
        tempfile.TemporaryDirectory() as folder,
    ):
        yield Path(folder)


ENDS = ["over", "is refused", "waits no longer", "dies while sending", "dies while waiting"]
SESSIONS = st.lists(
    st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.integers(0, 2), st.sampled_from(ENDS)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=25)
@example(["failed"], [([0, 1], 0, "over")])
@example(["filtered"], [([0, 1], 0, "over"), ([0, 1], 0, "over")])
@example([], [([0, 0], 0, "over")])
@example([], [([0], 0, "waits no longer"), ([0], 0, "waits no longer")])
@example([], [([0, 1], 0, "is refused")])
@given(st.lists(st.sampled_from(sorted(ANSWERS)), max_size=6), SESSIONS)
def test_never_less_than_is_billed_counts_as_spent_and_no_answer_is_paid_twice(script, sessions):
    async def play():
        run = Run(folder, script)
        for session in sessions:
            await asyncio.wait_for(run.session(*session), 20)
        await asyncio.wait_for(run.session(range(4)), 20)
        lost = any(given_up or end not in ("over", "is refused") for _, given_up, end in sessions)
        if not lost and not UNKNOWN & {*run.jobs.said.values(), *script}:
            assert run.total == pytest.approx(run.jobs.billed)

    with at_once() as folder:
        asyncio.run(play())
