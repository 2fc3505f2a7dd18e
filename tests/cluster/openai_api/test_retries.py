"""Trouble that passes: retries, outages, and endpoints that ask to wait."""

import asyncio
import datetime
import email.utils
import itertools
import json
import time
import traceback
from types import SimpleNamespace

import pytest

from cluster.engines import api_engine, api_errors
from cluster.engines.api_answer import Answer, Usage
from cluster.engines.api_errors import EndpointError, asked_seconds
from cluster.engines.base import EngineClosedError
from evals.types import PlayerError
from tests.cluster.openai_api.stub import KEY, engine, request


@pytest.mark.parametrize(
    "trouble",
    [
        (429, "slow down", {}),
        (500, "oops", {}),
        (503, "later", {}),
        "garbage",
        {"object": "chat.completion", "choices": []},
        "hang up",
    ],
    ids=str,
)
async def test_passing_trouble_is_retried(stub, trouble):
    stub.script = [trouble, trouble, "answer"]
    reply = await engine(stub).complete(request())
    assert (reply.text, reply.retries, len(stub.bodies)) == ("hello", 2, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "trouble", [(500, "oops", {}), (429, "check your plan and billing details", {}), (408, "", {})]
)
async def test_an_outage_costs_no_request_however_many_tries_it_takes(stub, trouble):
    stub.script = [trouble] * 30 + ["answer"]
    made = engine(stub, max_tries=2)
    replies = await asyncio.gather(*(made.complete(request(n)) for n in range(3)))
    assert [reply.text for reply in replies] == ["hello"] * 3 and len(stub.bodies) == 33


@pytest.mark.slow
@pytest.mark.parametrize(
    "trouble", [(503, f"key {KEY}", {}), (429, "slow down", {}), "hang up", "never", "garbage"], ids=str
)
async def test_an_endpoint_that_answers_nobody_for_long_stops_the_run(stub, monkeypatch, trouble):
    monkeypatch.setattr(api_engine, "OUTAGE_SECONDS", 0.3)
    stub.script = [trouble]
    made = engine(stub, timeout_seconds=0.2, max_tries=2)
    ends = await asyncio.gather(*(made.complete(request(n)) for n in range(3)), return_exceptions=True)
    assert {type(end) for end in ends} == {EngineClosedError}
    assert "gave no answers for 0.3 s" in str(ends[0])
    for end in ends:
        assert KEY not in "".join(traceback.format_exception(end))  # with all that it was raised from
    sent = len(stub.bodies)
    with pytest.raises(EngineClosedError, match="gave no answers"):
        await made.complete(request())
    assert len(stub.bodies) == sent


async def test_an_endpoint_that_is_down_stops_the_run(stub, monkeypatch):
    monkeypatch.setattr(api_engine, "OUTAGE_SECONDS", 0.1)
    stub.server.server_close()
    with pytest.raises(EngineClosedError, match=r"gave no answers for 0\.1 s, last: no connection"):
        await engine(stub, max_tries=2).complete(request())


async def test_a_request_that_fails_while_others_are_answered_fails_alone(stub):
    stub.poison = "poison"
    made = engine(stub, max_tries=3)
    bad = asyncio.create_task(made.complete(request(said="poison")))
    while not bad.done():
        assert (await made.complete(request())).text == "hello"
    with pytest.raises(PlayerError, match=r"failed 3 times, last: .*broken"):
        await bad


@pytest.mark.parametrize(
    ("status", "longest_wait", "ends"), [(429, 600.0, "answered"), (429, 0.0, "failed"), (503, 600.0, "failed")]
)
async def test_a_rate_limit_costs_no_tries_until_it_lasts_as_long_as_an_outage(monkeypatch, status, longest_wait, ends):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(api_engine, "FIRST_WAIT", 0.0)
    monkeypatch.setattr(api_engine, "OUTAGE_SECONDS", longest_wait)
    made = engine(SimpleNamespace(url="http://127.0.0.1:9/v1"), max_tries=3)
    tries = itertools.count(1)

    async def send(request, body):
        made._answered += 1  # another request was answered meanwhile
        if next(tries) < 20:
            raise EndpointError("slow down", status)
        return Answer("hello", "stop", "", Usage(1, 1), {}), 0.0

    async def never(error):
        return False

    monkeypatch.setattr(made, "_send", send)
    monkeypatch.setattr(made, "_fails_alone", never)
    if ends == "failed":
        with pytest.raises(PlayerError, match="failed 3 times, last: slow down"):
            await made.complete(request())
    else:
        assert (await made.complete(request())).retries == 19


@pytest.mark.slow
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("asked", [{"retry-after": "0.7"}, {"retry-after-ms": "700", "retry-after": "90"}], ids=str)
async def test_retry_after_is_honored(stub, status, asked):
    assert asked_seconds(asked) == pytest.approx(0.7), "milliseconds say it more exactly"
    stub.script = [(status, "slow down", asked), "answer"]
    await engine(stub).complete(request())
    assert stub.times[1] - stub.times[0] >= 0.69


def in_seconds(seconds: float) -> str:
    return email.utils.formatdate(time.time() + seconds, usegmt=True)


async def until(met) -> None:
    """Wait for a condition, some seconds at most."""
    for _ in range(300):
        if met():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to that")


@pytest.mark.parametrize("form", ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"])
@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_dates_of_http_are_those_of_utc_in_all_three_forms_wherever_one_is(form, zone, monkeypatch):
    at = datetime.datetime(2030, 1, 6, 8, 49, 37, tzinfo=datetime.UTC)
    clock = SimpleNamespace(time=lambda: at.timestamp() - 30)
    monkeypatch.setattr(api_errors, "time", clock)
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        waits = [
            asked_seconds({"retry-after": date}) for date in (at.strftime(form), at.strftime("%d %b %Y %H:%M:%S -0000"))
        ]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert waits == [30, 30]


@pytest.mark.parametrize("spelling", [str, in_seconds], ids=["seconds", "date"])
async def test_one_refusal_holds_back_all_requests_for_as_long_as_it_asks(stub, spelling):
    stub.script = [(429, "slow down", {"retry-after": spelling(240)}), "answer"]
    made = engine(stub)
    first = asyncio.create_task(made.complete(request()))
    await until(lambda: made._endpoint.concurrency.held)
    assert 200 < made._endpoint.concurrency.held <= 240
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.gather(first, *(made.complete(request(n)) for n in range(1, 9))), 0.3)
    assert len(stub.bodies) == 1


@pytest.mark.slow
async def test_requests_that_wait_for_their_turn_are_held_back_too_and_give_their_turn_back(stub):
    made = engine(stub, requests_per_minute=60, tokens_per_minute=6_000_000)
    made._endpoint._requests._left = 0.0  # a turn comes in a second
    waiting = asyncio.create_task(made.complete(request()))
    await until(lambda: made._endpoint.concurrency.in_flight)
    made._endpoint.concurrency.hold(240)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(waiting, 1.5)
    assert not stub.bodies and made._endpoint.concurrency.in_flight == 0
    assert made._endpoint._requests._left >= 0 and made._endpoint._tokens._left == 100_000  # a second of the limit


@pytest.mark.slow
async def test_an_outage_counts_from_the_last_answer(stub, monkeypatch):
    monkeypatch.setattr(api_engine, "OUTAGE_SECONDS", 0.3)
    stub.script = ["hang up", "answer", "hang up", "answer"]
    made = engine(stub)
    await made.complete(request())
    await asyncio.sleep(0.35)
    await made.complete(request())
    assert not any("Hello." in json.dumps(body) for body in stub.bodies)


@pytest.mark.slow
async def test_after_the_wait_all_go_on(stub):
    stub.script = [(429, "slow down", {"retry-after": "0.4"}), "answer"]
    made = engine(stub, max_num_seqs=2)
    replies = await asyncio.gather(*(made.complete(request(n)) for n in range(6)))
    assert len(replies) == 6 and len(stub.bodies) == 7
