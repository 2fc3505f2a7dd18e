"""Turns as batch jobs: killed at each step of a job's life, no turn is asked or paid for twice."""

import asyncio
import datetime
import itertools
import json
import math
import multiprocessing
import os
import re
import time
from collections import Counter
from types import SimpleNamespace
from typing import get_args

import httpx2
import pytest
from anthropic.types.messages import MessageBatch
from google import genai
from google.genai.types import HttpOptions, JobState
from hypothesis import given
from hypothesis import strategies as st
from openai import NotFoundError
from openai.types import Batch

from cluster.config.settings import load_settings
from cluster.engines import api_engine
from cluster.engines.api_errors import EndpointError
from cluster.engines.base import EngineClosedError, EngineSettingsError, EngineWaitsError
from cluster.engines.batch import connection
from cluster.engines.batch import store as store_module
from cluster.engines.batch.formats import (
    EXPIRED,
    NOBODY,
    UNREADABLE,
    AnthropicBatches,
    GeminiBatches,
    JobFailedError,
    OpenAIBatches,
    _openai_answer,
)
from cluster.engines.batch.store import Store
from cluster.engines.providers import connection as client_connection
from cluster.engines.providers import gemini_jobs
from cluster.errors import UserError
from cluster.storage.spending import read_spending
from evals.types import PlayerError, message
from tests.cluster.providers import batch_driver
from tests.cluster.providers.batch_stub import STEPS, BatchStub
from tests.cluster.providers.conftest import VARIABLES
from tests.cluster.providers.engines import engine, request
from tests.cluster.providers.stub import KEY

HALF = {"responses": 0.008, "anthropic": 0.007875, "gemini": 0.0019875}
"""What a turn costs in a batch: half of what test_replies.py computes by hand."""
GAMES, TURNS = 5, 16
"""Even games of ToySuite have four turns, odd ones two."""


@pytest.fixture
def provider(monkeypatch):
    for name in VARIABLES:
        monkeypatch.setenv(name, KEY)
    monkeypatch.setattr(api_engine, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(connection, "FIRST_PAUSE", 0.05)
    made = BatchStub()
    yield made
    made.close()


STATES = [
    (
        OpenAIBatches,
        "status",
        get_args(Batch.model_fields["status"].annotation),
        "validating in_progress finalizing cancelling",
    ),
    (
        AnthropicBatches,
        "processing_status",
        get_args(MessageBatch.model_fields["processing_status"].annotation),
        "in_progress canceling",
    ),
    (GeminiBatches, "state", list(JobState), "UNSPECIFIED QUEUED PENDING RUNNING CANCELLING PAUSED UPDATING"),
]
"""Every state that a provider's client knows, and those in which a job may still do something."""


@pytest.mark.parametrize(("jobs", "field", "states", "at_work"), STATES)
async def test_a_job_is_waited_for_in_every_state_in_which_it_may_do_more_and_in_no_other(jobs, field, states, at_work):
    for state in states:

        async def job(*given, state=state, **named):
            return SimpleNamespace(**{field: state})

        made = object.__new__(jobs)
        made._batches = SimpleNamespace(retrieve=job, get=job)
        made._client = SimpleNamespace(batches=made._batches)
        name = getattr(state, "name", state).removeprefix("JOB_STATE_")
        assert await made.has_ended("a job") == (name not in at_work.split()), name


@pytest.mark.parametrize("jobs", [OpenAIBatches, AnthropicBatches, GeminiBatches])
async def test_a_job_is_looked_for_though_the_clocks_differ_by_a_day_and_no_further(jobs):
    since, day = 1_000_000.0, 86_400
    listed = {"ahead": day, "other": -day / 2, "behind": -day, "old other": -day - 1, "too old": -2 * day}

    async def latest_first(**given):
        for name, at in listed.items():
            key = "another" if "other" in name else "key"
            when = datetime.datetime.fromtimestamp(since + at, datetime.UTC)
            yield SimpleNamespace(
                id=name,
                name=name,
                display_name=key,
                metadata={"raycade_job": key},
                create_time=when,
                created_at=when.timestamp() if jobs is OpenAIBatches else when,
                request_counts=SimpleNamespace(model_dump=lambda key=key: {"processing": 1, "succeeded": len(key) - 2}),
            )

    async def awaited(**given):
        return latest_first()

    made = object.__new__(jobs)
    made._batches = SimpleNamespace(list=awaited if jobs is GeminiBatches else latest_first)
    made._client = SimpleNamespace(batches=made._batches)
    assert await made.candidates("key", ("one", "two"), since) == ["ahead", "behind"]


TYPED = SimpleNamespace(model_dump=lambda **_: {"x": 1})
"""An answer as a provider's client has it."""


ASKED = httpx2.Request("GET", "https://host")


def openai_job(**job):
    """A batch of OpenAI with an answer, two refusals and a turn that it did not come to."""

    def line(turn, status=200, error=None):
        body = {"text": turn} if status == 200 else {"error": {"message": "too much", "code": "x"}}
        return json.dumps({"custom_id": turn, "error": error, "response": {"status_code": status, "body": body}})

    late, broken = {"code": "batch_expired"}, {"code": "other", "message": "broke"}
    files = {"output": [line("a"), line("b", 429)], "errors": [line("c", error=late), line("d", error=broken)]}

    async def content(file):
        if file not in files:
            raise NotFoundError("No such File object", response=httpx2.Response(404, request=ASKED), body=None)
        return SimpleNamespace(content="\n".join(files[file]).encode())

    async def retrieve(batch):
        return SimpleNamespace(**{"status": "completed", "output_file_id": "output", "error_file_id": "errors", **job})

    made = object.__new__(OpenAIBatches)
    made._client = SimpleNamespace(batches=SimpleNamespace(retrieve=retrieve), files=SimpleNamespace(content=content))
    return made


async def test_each_turn_of_a_job_of_openai_has_its_answer_or_its_error():
    found = await openai_job().answers("batch", "key")
    assert (found["a"], found["c"], [*found]) == ({"data": {"text": "a"}}, EXPIRED, ["a", "b", "c", "d"])
    assert [
        (found[turn]["status"], said in found[turn]["error"]) for turn, said in (("b", "too much"), ("d", "broke"))
    ] == [
        (429, True),
        (500, True),
    ]
    assert [*await openai_job(error_file_id=None).answers("batch", "key")] == ["a", "b"]
    assert [*await openai_job(output_file_id=None).answers("batch", "key")] == ["c", "d"]
    for gone, left in (("output_file_id", "cd"), ("error_file_id", "ab")):
        there = await openai_job(**{gone: "deleted"}).answers("batch", "key")
        assert [*there] == [*left, NOBODY] and there[NOBODY] == UNREADABLE
    with pytest.raises(NotFoundError):
        await openai_job(output_file_id="deleted", error_file_id="deleted").answers("batch", "key")
    for errors, said in ((SimpleNamespace(data=[SimpleNamespace(message="bad file")]), "bad file"), (None, "failed: ")):
        with pytest.raises(EndpointError, match=said) as refused:
            await openai_job(status="failed", errors=errors).answers("batch", "key")
        assert refused.value.meaning == "refused"


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        *(("token_limit_exceeded", "passing"), ("internal_error", "passing"), ("rate_limit_exceeded", "passing")),
        *(("billing_hard_limit_reached", "lasting"), ("model_not_found", "refused"), (None, "refused")),
    ],
)
async def test_why_a_job_of_openai_failed_decides_what_becomes_of_its_turns(code, meaning):
    errors = SimpleNamespace(data=[SimpleNamespace(message="It failed.", code=code)])
    with pytest.raises(JobFailedError, match="the batch failed: It failed") as failed:
        await openai_job(status="failed", errors=errors).answers("batch", "key")
    assert failed.value.meaning == meaning and (code or "") in failed.value.words


@pytest.mark.parametrize("codes", [("internal_error", None), (None, "internal_error")])
async def test_of_several_failures_of_a_job_the_one_that_may_pass_decides(codes):
    errors = SimpleNamespace(data=[SimpleNamespace(message=f"No. {n}", code=code) for n, code in enumerate(codes)])
    with pytest.raises(JobFailedError, match=r"No\. 0.*; No\. 1") as failed:
        await openai_job(status="failed", errors=errors).answers("batch", "key")
    assert failed.value.meaning == "passing"


async def test_a_job_of_anthropic_is_told_by_its_key_from_those_of_other_runs():
    """Two runs of the same settings ask the same turns; jobs have no names."""
    taken = []

    async def create(requests):
        taken.append([each["custom_id"] for each in requests])
        return SimpleNamespace(id=f"batch-{len(taken)}")

    made = object.__new__(AnthropicBatches)
    made._batches, made._further = SimpleNamespace(create=create), {}
    turn = f"{'0' * 32}-0"
    keys = [f"raycade-{digit * 24}" for digit in "ab"]
    for key in keys:
        await made.create(key, {turn: {"model": "m"}})
    assert taken[0] != taken[1] and all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", each) for [each] in taken)
    for key, [id_] in zip(keys, taken, strict=True):
        mine, other = (
            answered(AnthropicBatches, anthropic_line(id_, "red"), key=each) for each in (key, "raycade-" + "c" * 24)
        )
        assert await mine == {turn: {"data": {"id": "red"}}} and turn not in await other


async def test_each_turn_of_a_job_of_anthropic_has_its_answer_or_its_error():
    def line(turn, kind, **about):
        return json.dumps({"custom_id": turn, "result": {"type": kind, **about}})

    errors = {"b": "overloaded_error", "c": "invalid_request_error", "d": "new"}
    lines = [line("a", "succeeded", message={"id": "x"}), line("e", "expired"), line("f", "canceled")]
    for turn, kind in errors.items():
        error = {"type": "error", "error": {"type": kind, "message": "no"}}
        lines.append(line(turn, "errored", error=error))
    found = await answered(AnthropicBatches, *lines)
    assert (found["a"], found["e"], found["f"]) == ({"data": {"id": "x"}}, EXPIRED, EXPIRED)
    assert [found[turn]["status"] for turn in "bcd"] == [529, 400, 500]


async def test_each_turn_of_a_job_of_gemini_has_its_answer_or_its_error():
    def response(turn, answer=None, code=None):
        return SimpleNamespace(
            metadata={"key": turn} if turn else None, response=answer, error=SimpleNamespace(code=code)
        )

    async def get(name):
        return job

    made = object.__new__(GeminiBatches)
    made._batches = SimpleNamespace(get=get)
    responses = [response("a", TYPED), response("b", code=429), response("c", code=13), response("d")]
    ended = SimpleNamespace(name="JOB_STATE_EXPIRED")
    job = SimpleNamespace(dest=SimpleNamespace(inlined_responses=responses), error=None, state=ended)
    found = await made.answers("batch", "key")
    assert found["a"] == {"data": {"x": 1}} and [found[turn]["status"] for turn in "bcd"] == [429, 500, 500]
    codes = {3: 400, 5: 404, 7: 403, 8: 429, 9: 400, 11: 400, 12: 400, 13: 500, 16: 401, 404: 404}
    responses[:] = [response(str(code), code=code) for code in codes]
    assert {int(turn): each["status"] for turn, each in (await made.answers("batch", "key")).items()} == codes
    job = SimpleNamespace(dest=None, error=SimpleNamespace(message="no such model"), state=ended)
    with pytest.raises(EndpointError, match="the batch failed: no such model") as refused:
        await made.answers("batch", "key")
    assert refused.value.meaning == "refused"
    for code, meaning in (
        (3, "refused"),
        (7, "lasting"),
        (8, "passing"),
        (13, "passing"),
        (404, "lasting"),
        (5, "lasting"),
    ):
        job.error = SimpleNamespace(message="It failed.", code=code)
        with pytest.raises(JobFailedError, match="It failed") as refused:
            await made.answers("batch", "key")
        assert refused.value.meaning == meaning
    job.error = None
    assert await made.answers("batch", "key") == {}
    job.state = SimpleNamespace(name="JOB_STATE_FAILED")
    with pytest.raises(JobFailedError, match="does not say why") as refused:
        await made.answers("batch", "key")
    assert refused.value.meaning == "passing"


@given(st.lists(st.integers(0, 300), max_size=20))
def test_jobs_are_filled_up_to_the_provider_s_limits_one_after_the_other(lengths):
    made = object.__new__(connection.BatchConnection)
    made._format = SimpleNamespace(most_turns=3, most_bytes=1000)
    made._bodies = {str(number): {"text": "x" * length} for number, length in enumerate(lengths)}
    made._queue = dict.fromkeys([*made._bodies, "not asked yet"], 1.0)
    jobs = made._jobs_of_queue()
    assert [turn for job in jobs for turn in job] == [*made._bodies] and [*made._queue] == ["not asked yet"]
    sizes = [[len(json.dumps(made._bodies[turn])) + 200 for turn in job] for job in jobs]
    assert all(len(job) <= 3 and sum(job) <= 1000 for job in sizes)
    assert all(len(job) == 3 or sum(job) + after[0] > 1000 for job, after in itertools.pairwise(sizes))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "steps"),
    [("responses", STEPS), ("anthropic", ("after create", "while downloading")), ("gemini", ("after create",))],
)
def test_no_turn_is_asked_twice_whenever_the_driver_is_killed(provider, tmp_path, name, steps):
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.cluster.providers.batch_driver", "openai", "anthropic"])
    for step in (*steps, ""):
        provider.kill_at = step
        process = processes.Process(target=batch_driver.start, args=(name, provider.url, tmp_path, GAMES))
        process.start()
        provider.pid = process.pid
        process.join(60)
        assert process.exitcode == (-9 if step else 0), step
        assert provider.kill_at == "", f"{step!r} was not reached"
    assert len(provider.asked) == TURNS and set(provider.asked.values()) == {1}
    assert len((tmp_path / "done").read_text().split()) == GAMES
    exact = TURNS * HALF[name]
    spent = read_spending(tmp_path).total
    # what was answered in the last tenth of a second of a session may stay counted with the most it could cost
    assert spent == pytest.approx(exact) if "after download" not in steps else spent >= exact - 1e-9
    assert not any(KEY in path.read_text() for path in tmp_path.rglob("*") if path.is_file())


async def play(provider, tmp_path, name="responses", games=3):
    await asyncio.wait_for(batch_driver.main(name, provider.url, tmp_path, games), 60)


@pytest.mark.slow
@pytest.mark.parametrize("name", HALF)
async def test_what_a_job_did_not_come_to_is_asked_again_and_the_rest_is_taken(provider, tmp_path, name):
    provider.expire, provider.fail = {1, 4}, {2}
    await play(provider, tmp_path, name)
    assert sum(provider.asked.values()) == 10 + 3 and len(provider.asked) == 10
    assert read_spending(tmp_path).total == pytest.approx(10 * HALF[name]), "expired and failed turns cost nothing"


@pytest.mark.slow
@pytest.mark.parametrize("highest", [0.0, 1.0])
async def test_a_job_that_takes_too_long_ends_the_run_and_is_waited_for_again(provider, tmp_path, highest):
    provider.polls_before_end = 1_000
    (tmp_path / "plan.parquet").touch()
    made = engine("responses", provider, **batch_driver.PACE, batch_wait_hours=1e-4)
    made.keep_in(tmp_path)
    made.add_spent_elsewhere(0.0, highest)  # so much is reserved for each turn from now on
    with pytest.raises(EngineWaitsError, match=r"^the batch .* has not ended .*batch_wait_hours"):
        await made.complete(request())
    await made.close()
    most = (await made.settle(0, 0.0)).spent
    assert most >= highest
    provider.polls_before_end = 1
    again = engine("responses", provider, **batch_driver.PACE)
    again.keep_in(tmp_path)
    assert (await again.complete(request())).text == "red" and set(provider.asked.values()) == {1}
    account = await again.settle(0, 0.0)
    assert account.counted_before == most
    assert most > HALF["responses"] == pytest.approx(most + account.spent), (
        "a turn that was sent counts until its price is known"
    )
    await again.close()


async def test_a_job_that_was_announced_in_the_future_is_waited_for_from_now_on():
    async def not_yet(ask):
        return False

    made = object.__new__(connection.BatchConnection)
    made._pace, made._secrets, made._step = connection.Pace(0.1, 0.01, 1e-6), [], not_yet
    async with asyncio.timeout(10):
        with pytest.raises(connection.BatchWaitError):
            await made._until_ended("batch", time.time() + 86_400)


@pytest.mark.slow
@pytest.mark.parametrize("name", HALF)
@pytest.mark.parametrize(
    ("ahead", "step", "taken"), [(3600, 0, True), (-3600, 0, True), (0, -3600, False), (0, 3600, False)]
)
async def test_wrong_clocks_and_clocks_that_are_set_send_no_job_twice_and_keep_none_back(
    provider, tmp_path, monkeypatch, name, ahead, step, taken
):
    """The connection breaks while a job is sent, before the provider has taken it or after."""
    (tmp_path / "plan.parquet").touch()
    clock = SimpleNamespace(time=lambda: time.time() + ahead, time_ns=time.time_ns, monotonic=time.monotonic)
    monkeypatch.setattr(store_module, "time", clock)
    monkeypatch.setattr(connection, "time", SimpleNamespace(**vars(clock)))
    made = engine(name, provider, **batch_driver.PACE)
    made.keep_in(tmp_path)
    create = made._endpoint.http._format.create

    async def broken(key, bodies):
        made._endpoint.http._format.create = create
        connection.time.time = lambda: time.time() + ahead + step
        if taken:
            await create(key, bodies)
        raise EndpointError("the connection broke", may_cost=True)

    made._endpoint.http._format.create = broken
    async with asyncio.timeout(30):
        assert (await made.complete(request())).text == "red"
    assert set(provider.asked.values()) == {1}
    await made.close()


async def test_a_refused_job_fails_its_turns_and_a_refused_key_ends_the_run(provider, tmp_path):
    (tmp_path / "plan.parquet").touch()
    made = engine("anthropic", provider, **batch_driver.PACE)
    made.keep_in(tmp_path)
    made._endpoint.http._format.create = refuse(401, f"invalid x-api-key {KEY}")
    with pytest.raises(EngineClosedError) as error:
        await made.complete(request())
    assert "abcdefgh" not in str(error.value)
    with pytest.raises(EngineClosedError):
        await made.complete(request(1))
    await made.close()


def refuse(status, said):
    async def create(key, bodies):
        raise connection.EndpointError(said.replace(KEY, "***"), status)

    return create


def test_a_line_that_a_death_cut_short_is_dropped(tmp_path):
    store = Store.open(tmp_path)
    job = store.announce({"a-0": 1.5})
    store.sent(job, "batch_1")
    whole = store.path.read_bytes()
    store.answered({"a-0": {"data": {}}})
    for cut in range(len(whole), len(store.path.read_bytes())):
        store.path.write_bytes((whole + store.path.read_bytes()[len(whole) :])[:cut])
        again = Store.open(tmp_path)
        assert again.jobs[job.key].batch == "batch_1" and again.answers == {} and store.path.read_bytes() == whole
        again.answered({"a-0": {"data": {}}})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"job":"x","turns":[1],"since":0}', "no line of it"),
        ('{"job":"x","turns":{"a-0":"1"},"since":0}', "no line of it"),
        ('{"job":"x","turns":{},"since":"nan"}', "no line of it"),
        ('{"job":"x","turns":{},"since":-1}', "no line of it"),
        ('{"job":"x","turns":{},"since":1e308}', "no line of it"),
        ('{"priced":"a-0","price":-1}', "no line of it"),
        (f'{{"job":"x","turns":{{"a-0":1}},"since":{10**400}}}', "no line of it"),
        ('{"sent":"nobody","batch":"b"}', "no line of it"),
        ('{"turn":"a-x","error":"e","status":0}', "no line of it"),
        ('{"turn":"a-0","status":0}', "no line of it"),
        ("[]", "no line of it"),
        ("[" * 100_000, "nested deeper"),
        ('{"turn":"\\ud800\xff', "not JSON"),
    ],
)
def test_a_damaged_journal_is_named_and_no_start_is_tried_again(provider, tmp_path, line, said):
    (tmp_path / "plan.parquet").touch()
    journal = tmp_path / "batches" / "journal.jsonl"
    journal.parent.mkdir()
    journal.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(EngineSettingsError, match=rf"journal\.jsonl, line 1.*{said}"):
        engine("responses", provider, **batch_driver.PACE).keep_in(tmp_path)
    assert journal.read_text(encoding="utf-8") == line + "\n"


def test_an_answer_that_the_journal_could_not_give_back_is_kept_as_unreadable():
    made = connection.BatchConnection.__new__(connection.BatchConnection)
    made._secrets = []
    deep = json.loads("[" * 100 + "]" * 100)
    assert made._redacted({"data": {"x": 1.5}}) == {"data": {"x": 1.5}}
    assert made._redacted({"data": math.nan}) == made._redacted({"data": deep}) == {"data": None}


def answered(jobs, *lines, key="key", **known):
    """What a format reads from these lines of a job's output."""

    told_as = b"\n".join(line.encode() if isinstance(line, str) else line for line in lines)

    async def read():
        return told_as

    async def content(file):
        return SimpleNamespace(content=told_as)

    async def results(batch):
        return SimpleNamespace(read=read)

    async def retrieve(batch):
        told = {
            "status": "completed",
            "output_file_id": "output",
            "error_file_id": None,
            "results_url": "https://host/x",
        }
        return SimpleNamespace(**{**told, **known})

    made = object.__new__(jobs)
    made._host = "host"
    made._batches = SimpleNamespace(retrieve=retrieve, with_raw_response=SimpleNamespace(results=results))
    made._client = SimpleNamespace(batches=made._batches, files=SimpleNamespace(content=content))
    return made.answers("batch", key)


def openai_line(turn, text):
    return json.dumps({"custom_id": turn, "response": {"status_code": 200, "body": {"text": text}}}, ensure_ascii=False)


def anthropic_line(turn, text):
    result = {"type": "succeeded", "message": {"id": text}}
    return json.dumps({"custom_id": turn, "result": result}, ensure_ascii=False)


FORMATS = [(OpenAIBatches, openai_line, "text"), (AnthropicBatches, anthropic_line, "id")]


@pytest.mark.parametrize(("jobs", "line", "key"), FORMATS)
async def test_answers_to_one_turn_that_contradict_one_another_are_unreadable_whichever_comes_first(jobs, line, key):
    for order in (("red", "green"), ("green", "red")):
        lines = [line("same", "red"), *(line("two", text) for text in order), line("same", "red"), line("one", "blue")]
        expected = {"same": {"data": {key: "red"}}, "two": UNREADABLE, "one": {"data": {key: "blue"}}}
        assert await answered(jobs, *lines) == expected


@pytest.mark.parametrize(("jobs", "line", "key"), FORMATS)
async def test_a_line_that_cannot_be_read_costs_its_own_turn_alone(jobs, line, key):
    broken = ["5", "[]", "{", '{"custom_id": 3', "{}", 1000 * "[", "", " "]
    for n, wrong in enumerate(("null", "5", '"x"', "{}", "[]")):
        broken.append(f'{{"custom_id": "{n}", "response": {wrong}, "result": {wrong}, "error": {wrong}}}')
    broken.append('{"custom_id": "5", "response": {"status_code": 1e999, "body": {}}}')
    broken.append(line("6", "one").replace('"one"', '"one", "x": 1, "x": 2'))
    broken.append(line("7", "one").encode().replace(b"one", b"\xff\xfe33"))
    text = "a \u2028 b \u0085 c"
    found = await answered(jobs, *broken, line("sound", text))
    assert found.pop("sound") == {"data": {key: text}}
    assert found.pop(NOBODY) == UNREADABLE and found.keys() == {*"01234"}
    assert all(answer == UNREADABLE or "error" in answer for answer in found.values())


async def test_an_answer_of_gemini_that_its_client_cannot_read_costs_its_own_turn_alone():
    reply, broke = {"candidates": [], "new": 1}, {"code": 429, "message": "busy", "details": [{"@type": "x"}]}
    broken = [5, None, [], {"metadata": {"key": ["x"]}, "response": reply}, {"response": {"embedding": 1}}]
    wrong = [{}, {"response": 5}, {"response": {"candidates": 5}}, {"error": "boom"}, {"error": {"code": "x"}}]
    broken += [{"metadata": {"key": str(n)}, **each} for n, each in enumerate(wrong)]
    sound = [{"metadata": {"key": "a"}, "response": reply}, {"metadata": {"key": "b"}, "error": broke}]
    output = {"inlinedResponses": {"inlinedResponses": [*broken, *sound]}}
    job = {"name": "batches/x", "metadata": {"state": "BATCH_STATE_SUCCEEDED", "output": output}}

    def respond(asked):
        said = job if asked.url.path.endswith("batches/x") else {"operations": [job]}
        return httpx2.Response(200, stream=httpx2.ByteStream(json.dumps(said).encode()))

    http = client_connection.http_client(1, 600.0, batch=True, mend=gemini_jobs.readable)
    http._transport = httpx2.MockTransport(respond)
    made = object.__new__(GeminiBatches)
    client = genai.Client(api_key=KEY, vertexai=False, http_options=HttpOptions(httpx_async_client=http))
    made._batches = client.aio.batches
    assert await made.has_ended("batches/x") and await made.candidates("key", [], time.time()) == []
    found = await made.answers("batches/x", "key")
    assert found.pop("a") == {"data": {"candidates": []}} and found.pop("b")["status"] == 429
    assert found == dict.fromkeys([NOBODY, *"01234"], UNREADABLE)
    await client.aio.aclose()


async def test_results_that_are_kept_no_longer_are_unreadable_and_those_elsewhere_are_not_fetched():
    assert await answered(AnthropicBatches, results_url=None) == {NOBODY: UNREADABLE}
    with pytest.raises(EndpointError, match="another address") as refused:
        await answered(AnthropicBatches, results_url="https://elsewhere/x")
    assert refused.value.meaning == "lasting"


def test_answers_under_ids_of_nobody_may_be_those_of_turns_without_one(tmp_path):
    made = connection.BatchConnection.__new__(connection.BatchConnection)
    made._secrets, made._bodies, made._waiting = [], {}, {}
    for strays, missing in (({}, EXPIRED), ({NOBODY: UNREADABLE}, UNREADABLE), ({"c-0": {"data": 1}}, UNREADABLE)):
        made._store = Store(tmp_path / f"{len(strays)}{missing.get('status')}")
        made._hand_out(made._store.announce({"a-0": 1.0, "b-0": 1.0}), {"a-0": {"data": {}}, **strays})
        stored = {
            turn: {name: answer[name] for name in answer if name != "turn"}
            for turn, answer in made.store.answers.items()
        }
        assert stored == {"a-0": {"data": {}}, "b-0": dict(missing)}


@pytest.mark.parametrize("given", [None, "", 5])
async def test_a_job_that_was_taken_without_an_id_is_looked_for(given):
    async def create(**about):
        return SimpleNamespace(id=given, name=given)

    for jobs in (OpenAIBatches, AnthropicBatches, GeminiBatches):
        made = object.__new__(jobs)
        made._batches = SimpleNamespace(create=create)
        made._client = SimpleNamespace(batches=made._batches, files=made._batches)
        made._endpoint, made._model, made._further = "", "", {}
        with pytest.raises(EndpointError, match="without telling its id") as error:
            await made.create("key", {})
        assert error.value.meaning == "passing"


@pytest.mark.slow
@pytest.mark.parametrize("name", HALF)
async def test_answers_of_a_job_may_be_longer_than_those_of_a_turn(provider, tmp_path, monkeypatch, name):
    monkeypatch.setattr(client_connection, "MOST_BYTES", 10)
    (tmp_path / "plan.parquet").touch()
    made = engine(name, provider, **batch_driver.PACE)
    made.keep_in(tmp_path)
    async with asyncio.timeout(20):
        assert (await made.complete(request())).text == "red"
    await made.close()


@pytest.mark.slow
async def test_a_turn_whose_answer_is_unreadable_is_asked_again_and_paid_twice(provider, tmp_path):
    (tmp_path / "plan.parquet").touch()
    provider.garble = {0}
    made = engine("responses", provider, **batch_driver.PACE)
    made.keep_in(tmp_path)
    reply = await made.complete(request())
    spent = (await made.settle(0, 0.0)).spent
    await made.close()
    assert reply.text == "red" and reply.retries == 1 and set(provider.asked.values()) == {2}
    assert spent > 2 * HALF["responses"], "an unreadable answer counts with the most that it may cost"
    assert Store.open(tmp_path).failures.popitem()[1] == 1, "the next session does not read it again"


async def test_a_batch_that_the_provider_does_not_know_is_named_with_what_to_do(provider, tmp_path):
    store = Store.open(tmp_path)
    store.sent(store.announce({"a-0": 1.0}), "\x1b[31mbatch_9\x07")
    (tmp_path / "plan.parquet").touch()
    made = engine("responses", provider, **batch_driver.PACE)
    made.keep_in(tmp_path)

    async def unknown(batch):
        raise EndpointError("status 404: no such batch", 404)

    made._endpoint.http._format.has_ended = unknown
    with pytest.raises(EngineClosedError, match=r"tells nothing of the batch batch_9.*remove .*journal.jsonl"):
        await made.complete(request())
        await made.complete(request())
    await made.close()


def test_what_is_no_file_or_too_large_is_no_journal(tmp_path, monkeypatch):
    store = Store.open(tmp_path)
    store.announce({"a-0": 1.5})
    monkeypatch.setattr(store_module, "MOST_JOURNAL_BYTES", 10)
    with pytest.raises(ValueError, match="at most 10"):
        Store.open(tmp_path)
    for put in (lambda: store.path.symlink_to(tmp_path / "elsewhere"), lambda: os.mkfifo(store.path)):
        store.path.unlink()
        put()
        with pytest.raises(ValueError, match=r"cannot be opened|not a regular file"):
            Store.open(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_a_failed_attempt_has_another_id_than_the_next_one(tmp_path):
    store = Store.open(tmp_path)
    first = store.turn_id("episode-0", {"x": 1})
    assert first == store.turn_id("episode-0", {"x": 1}) != store.turn_id("episode-1", {"x": 1})
    store.answered({first: {"error": "expired", "status": 0}})
    assert store.turn_id("episode-0", {"x": 1}) != first == store.turn_id("episode-0", {"x": 1})[:-1] + "0"
    assert Store.open(tmp_path).turn_id("episode-0", {"x": 1}).endswith("-1")


async def test_the_parameter_that_a_refused_turn_names_is_told(jobs):
    body = {"error": {"message": "Not with this model.", "param": "include"}}
    line = json.dumps({"custom_id": "a", "response": {"status_code": 400, "body": body}})
    _, refused = _openai_answer(line.encode())
    through = jobs.connect()
    turn = through.store.turn_id("a-0", {"say": "a"})
    through.store.answered({turn: refused})
    with pytest.raises(EndpointError, match="Not with this model") as error:
        await through._answer_of(turn, {"say": "a"})
    assert error.value.named({"include", "store"}) == ["include"]
    await through.close()


def test_batches_of_a_provider_without_any_are_refused_when_planning():
    with pytest.raises(UserError, match="no batch"):
        load_settings(["suite=kumo", "model=openrouter", "model.engine.model=m", "model.engine.batch=true"])


def test_a_busy_provider_is_given_the_time_that_it_asks_for():
    """The longer of its wish and our own pause."""
    made = connection.BatchConnection.__new__(connection.BatchConnection)
    now = time.monotonic()
    assert made._wait_after(EndpointError("busy", 429, retry_after=30), now, 2.0) == 30
    assert made._wait_after(EndpointError("busy", 429), now, 2.0) == 2.0
    with pytest.raises(EndpointError, match="wrong key"):
        made._wait_after(EndpointError("wrong key", 401), now, 2.0)


# --- without a provider: what becomes of turns and jobs ---


class Jobs:
    """A provider's jobs as scripted: ``breaks`` are raised by the next calls of a kind."""

    most_turns, most_bytes = 3, 10**6

    def __init__(self):
        self.made, self.taken = {}, []
        """Turns of each batch; and the keys of those that were created, in order."""
        self.breaks = {"create": [], "has_ended": [], "answers": [], "candidates": []}
        self.takes_before_it_breaks = False
        self.offered = []
        self.without = set()

    def _break(self, kind):
        if self.breaks[kind]:
            raise self.breaks[kind].pop(0)

    async def create(self, key, bodies):
        if self.takes_before_it_breaks or not self.breaks["create"]:
            self.taken.append(key)
            self.made[f"batch-{len(self.made)}"] = [*bodies]
        self._break("create")
        return f"batch-{len(self.made) - 1}"

    async def candidates(self, key, turns, since):
        self._break("candidates")
        return [*self.offered, *self.made]

    async def has_ended(self, batch):
        self._break("has_ended")
        return True

    async def answers(self, batch, key):
        self._break("answers")
        return {turn: {"data": f"{batch}: {KEY}"} for turn in self.made[batch] if turn not in self.without}


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    """Makes connections to one provider, each as after a death of the one before; all is closed at the end."""
    monkeypatch.setattr(connection, "FIRST_PAUSE", 0.001)
    (tmp_path / "plan.parquet").touch()
    made, opened = Jobs(), []

    async def close_client():
        pass

    def connect(**pace):
        provider = SimpleNamespace(
            address="a", status_of=lambda status, words: status, close_client=close_client, known_by=lambda body: body
        )
        wanted = {"quiet_seconds": 0.002, "poll_seconds": 0.002, "wait_hours": 1.0, **pace}
        opened.append(connection.BatchConnection(provider, [KEY], 5.0, made, connection.Pace(**wanted)))
        opened[-1].open(tmp_path)
        return opened[-1]

    made.connect = connect
    return made


def asked(through, *names):
    """Ask these turns at once, each as the engine does: what it may cost is noted first."""

    async def one(name):
        if through.counted_before({"say": name}, f"{name}-0") is None:
            through.note_reserved({"say": name}, f"{name}-0", ord(name))
        return await through.complete({"say": name}, f"{name}-0")

    return asyncio.wait_for(asyncio.gather(*map(one, names), return_exceptions=True), 5)


PASSING, REFUSED, LASTING = EndpointError("busy", 503), EndpointError("no", 400, words="no"), EndpointError("key", 401)


async def test_turns_that_wait_go_in_one_job_and_are_never_sent_again(jobs):
    first = jobs.connect()
    assert await asked(first, *"abcd") == ["batch-0: [redacted]"] * 3 + ["batch-1: [redacted]"]
    store = first.store
    assert (
        first.notes_reserved
        and not client_connection.ClientConnection(SimpleNamespace(address="a"), [], 1.0).notes_reserved
    )
    assert sorted(store.counted.values()) == [97, 98, 99, 100] and not store.open_jobs
    first.note_price({"say": "c"}, "c-0", 2.5)
    first.note_price({"say": "x"}, "x-0", 7.0)
    assert first.counted_before({"say": "c"}, "c-0") == 2.5 and first.counted_before({"say": "x"}, "x-0") is None
    await first.close()
    again = jobs.connect()
    assert await asked(again, *"dcba") == ["batch-1: [redacted]"] + ["batch-0: [redacted]"] * 3 and len(jobs.made) == 2
    assert sorted(again.store.counted.values()) == [2.5, 97, 98, 100]
    await again.close()


@pytest.mark.parametrize("state", ["sent", "taken", "lost"])
async def test_a_job_of_an_earlier_session_is_found_or_its_turns_are_sent_in_another(jobs, state):
    first = jobs.connect()
    turns = {first.store.turn_id(f"{name}-0", {"say": name}): float(most) for name, most in (("a", 3), ("b", 4))}
    job = first.store.announce(turns)
    if state != "lost":
        jobs.made = {"batch-0": [*turns]}
    if state == "sent":
        first.store.sent(job, "batch-0")
    jobs.made["of others"], jobs.offered = ["another turn"], ["of others"]
    await first.close()
    later = jobs.connect()
    answers = await asked(later, *"ab")
    assert answers == [f"batch-{1 if state == 'lost' else 0}: [redacted]"] * 2
    assert len(jobs.taken) == (state == "lost") and sorted(later.store.counted.values()) == [3, 4]
    assert not later.store.open_jobs
    await later.close()


@pytest.mark.parametrize("taken", [True, False])
async def test_a_job_whose_sending_broke_is_looked_for_before_it_is_sent_again(jobs, taken):
    jobs.breaks = {name: [PASSING] for name in jobs.breaks}
    jobs.takes_before_it_breaks = taken
    through = jobs.connect()
    assert await asked(through, "a") == ["batch-0: [redacted]"]
    assert len(jobs.made) == 1 and not any(jobs.breaks.values())
    await through.close()


@pytest.mark.parametrize(("status", "looks"), [(429, False), (529, False), (500, True), (0, True)])
async def test_a_job_that_a_busy_provider_did_not_take_is_sent_again_and_not_looked_for(jobs, status, looks):
    """Else a job of somebody else with as many turns might be followed to its end."""
    jobs.breaks["create"] = [EndpointError("busy", status)]
    jobs.breaks["candidates"] = [LASTING]
    through = jobs.connect()
    (answer,) = await asked(through, "a")
    assert str(answer) == ("key" if looks else "batch-0: [redacted]")
    await through.close()


@pytest.mark.parametrize("where", ["create", "answers"])
async def test_a_refused_job_is_an_error_of_each_of_its_turns_and_the_next_try_is_another_turn(jobs, where):
    jobs.breaks[where] = [REFUSED if where == "create" else JobFailedError("no such model", 400)]
    through = jobs.connect()
    errors = await asked(through, *"ab")
    assert [(error.status, error.meaning, error.may_cost) for error in errors] == [(400, "refused", False)] * 2
    assert len(through.store.jobs) == 1 and not through.store.open_jobs
    number = len(jobs.made)
    assert await asked(through, "a") == [f"batch-{number}: [redacted]"] and len(through.store.jobs) == 2
    await through.close()


@pytest.mark.parametrize("where", ["has_ended", "candidates", "answers"])
async def test_where_the_provider_refuses_to_tell_of_a_job_the_run_stops_and_a_later_one_takes_its_answers(jobs, where):
    first = jobs.connect()
    turn = first.store.turn_id("a-0", {"say": "a"})
    job = first.store.announce({turn: 3.0})
    jobs.made, jobs.breaks[where] = {"batch-0": [turn]}, [REFUSED]
    if where != "candidates":
        first.store.sent(job, "batch-0")
    (error,) = await asked(first, "a")
    assert (error.meaning, error.may_cost) == ("lasting", True)
    await first.close()
    again = jobs.connect()
    assert await asked(again, "a") == ["batch-0: [redacted]"] and not jobs.taken
    await again.close()


async def test_a_job_that_was_taken_and_failed_is_found_again_and_its_turns_are_refused(jobs):
    first = jobs.connect()
    turn = first.store.turn_id("a-0", {"say": "a"})
    first.store.announce({turn: 3.0})
    jobs.made, jobs.breaks["answers"] = {"batch-0": [turn]}, [JobFailedError("no such model", 400)] * 2
    (error,) = await asked(first, "a")
    assert error.meaning == "refused" and not jobs.taken and not first.store.open_jobs
    await first.close()


async def test_a_turn_that_a_job_did_not_come_to_may_be_asked_again(jobs):
    through = jobs.connect()
    turn = through.store.turn_id("b-0", {"say": "b"})
    jobs.without = {turn}
    answer, error = await asked(through, *"ab")
    assert answer == "batch-0: [redacted]" and (error.meaning, error.may_cost) == ("passing", False)
    assert through.store.turn_id("b-0", {"say": "b"}) == turn[:-1] + "1"
    assert await asked(through, "b") == ["batch-1: [redacted]"]
    await through.close()


@pytest.mark.parametrize("error", [LASTING, PASSING], ids=str)
@pytest.mark.parametrize("where", ["create", "has_ended", "answers"])
async def test_what_all_turns_would_meet_is_told_to_all_and_what_may_have_been_taken_may_cost(
    jobs, where, error, monkeypatch
):
    monkeypatch.setattr(connection, "OUTAGE_SECONDS", 3600.0 if error is LASTING else -1.0)
    jobs.breaks[where] = [error]
    through = jobs.connect()
    told = await asked(through, *"ab")
    was_taken = where != "create" or error is not LASTING
    assert {(each.meaning, each.may_cost) for each in told} == {("lasting", was_taken)}
    (further,) = await asked(through, "z")
    assert further.meaning == "lasting" and not further.may_cost
    await through.close()


@pytest.mark.parametrize("where", ["create", "has_ended"])
async def test_a_wait_of_a_year_that_a_provider_asks_for_is_told_and_ends_the_run(jobs, where):
    jobs.breaks[where] = [EndpointError("busy", 429, retry_after=8760 * 3600)]
    through = jobs.connect()
    (error,) = await asked(through, "a")
    if where == "create":  # it took nothing, so the turn's next try is told
        assert (error.meaning, error.may_cost) == ("passing", False)
        (error,) = await asked(through, "a")
    assert "asks to wait 8760.0 hours" in str(error) and error.meaning == "lasting"
    assert error.may_cost == (where != "create")
    await through.close()


async def test_nothing_is_sent_after_the_turns_that_waited_were_told_so(jobs):
    through = jobs.connect()
    through.note_reserved({"say": "a"}, "a-0", 1.0)
    (turn,) = through._queue
    through._bodies[turn] = {"say": "a"}
    through._stopped = LASTING
    through._came.set()
    await asyncio.wait_for(through._gather_forever(), 5)
    assert not through.store.jobs and not jobs.made
    await through.close()


def test_the_answers_of_a_job_that_is_handed_out_again_stay_what_they_were(jobs):
    """A death between the answers and the note that the job is over; meanwhile the provider has deleted its answers."""
    store = jobs.connect().store
    job = store.announce({"a-0": 1.0, "b-0": 1.0})
    store.answered({"a-0": {"data": "red"}})
    later = jobs.connect()
    later._hand_out(later.store.jobs[job.key], {NOBODY: UNREADABLE})
    stored = {turn: answer["data"] for turn, answer in later.store.answers.items()}
    assert stored == {"a-0": "red", "b-0": None}


async def test_limits_per_minute_concern_no_turn_of_a_batch_and_a_failed_job_makes_the_next_one_no_smaller(provider):
    limits = {"requests_per_minute": 1.0, "tokens_per_minute": 1.0}
    made = engine("responses", provider, **batch_driver.PACE, **limits, batch_requests=10)
    endpoint = made._endpoint
    assert endpoint._requests.delay(1000) == endpoint._tokens.delay(1000) == 0
    endpoint.concurrency.too_many()
    assert endpoint.concurrency.limit == 20
    await made.close()


async def test_a_turn_of_a_batch_fails_alone_though_nothing_else_was_answered(provider, tmp_path, monkeypatch):
    (tmp_path / "plan.parquet").touch()
    made, tries = engine("anthropic", provider, **batch_driver.PACE, max_tries=3), []
    made.keep_in(tmp_path)

    async def busy(body, name):
        tries.append(name)
        raise PASSING

    monkeypatch.setattr(made._endpoint.http, "complete", busy)
    with pytest.raises(PlayerError, match="the endpoint failed 3 times"):
        await made.complete(request())
    assert len(tries) == 3
    await made.close()


@pytest.mark.parametrize("name", HALF)
async def test_turns_that_failed_together_wait_for_their_next_job_alone(provider, tmp_path, monkeypatch, name):
    """Waits of their own would spread them over many jobs; so would limits per minute."""
    (tmp_path / "plan.parquet").touch()
    monkeypatch.setattr(api_engine, "FIRST_WAIT", 3600.0)
    made = engine(name, provider, **batch_driver.PACE, max_tries=3, requests_per_minute=1, tokens_per_minute=10)
    made.keep_in(tmp_path)
    tries = Counter()

    async def busy(body, turn):
        tries[turn] += 1
        raise PASSING

    monkeypatch.setattr(made._endpoint.http, "complete", busy)
    asked_at_once = (made.complete(request(number)) for number in range(4))
    ends = await asyncio.wait_for(asyncio.gather(*asked_at_once, return_exceptions=True), 10)
    assert {type(end) for end in ends} == {PlayerError} and {*tries.values()} == {3} and len(tries) == 4
    await made.close()


async def test_a_turn_is_known_however_long_its_prompt_is_kept(provider, tmp_path, monkeypatch):
    """So the answers of an open job are taken where the setting is changed meanwhile."""
    chat = tuple(message(*each) for each in (("system", "Play."), ("user", "A"), ("assistant", "B"), ("user", "C")))
    turn = request(chat=chat)
    (tmp_path / "plan.parquet").touch()
    bodies = []
    for cache in ("5m", "off", "1h"):
        made = engine("anthropic", provider, **batch_driver.PACE, cache=cache)
        made.keep_in(tmp_path)
        bodies.append(made.body(turn))
        before = json.dumps(bodies[-1])
        assert made.known_by(bodies[-1]) == bodies[0], "those of the default are known by all that is sent"
        assert json.dumps(bodies[-1]) == before, "what is sent stays as it is"
        http = made._endpoint.http
        monkeypatch.setattr(http, "_start_working", lambda: None)
        if cache == "5m":
            first = http._turn_id(turn.id, bodies[0])
            http.store.sent(http.store.announce({first: 1.5}), "batch_1")
            http.store.answered({first: {"data": {"id": "of the job"}}})
        assert http.counted_before(bodies[-1], turn.id) == 1.5
        assert await http.complete(bodies[-1], turn.id) == {"id": "of the job"}
        await made.close()
    assert len({json.dumps(body) for body in bodies}) == 3
    other = made.body(request(said="Else."))
    assert made.known_by(other) != bodies[0]


async def test_a_folder_that_is_not_there_is_named(jobs, tmp_path):
    with pytest.raises(EngineSettingsError, match="must be reachable"):
        jobs.connect().open(tmp_path / "elsewhere")
