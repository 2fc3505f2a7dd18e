"""What is spent, and the cap on it."""

import asyncio
import contextlib
import json
import math

import pytest

from cluster.engines import api_engine
from cluster.engines.base import EngineClosedError, Request, SpendCapReachedError
from cluster.engines.openai_api import OpenAIEngine
from cluster.engines.prompt_bound import PromptBound
from envs.kidgym import make
from evals.types import PlayerError, Reply, message
from tests.cluster.openai_api.stub import completion, engine, request

FRAME = make("CL", 1, 0).frame
PRICES = {"prompt_price": 1000.0, "completion_price": 1000.0}
"""At these the stub's answers cost 0.11 each."""


def most(said="Go."):
    """The most that the prompt of a request can cost at these prices: as many tokens as it has bytes."""
    body = {"model": "stub", "max_tokens": 50, "temperature": 0.0, "top_p": 1.0}
    return PromptBound().most_tokens(request(said=said), body) / 1000


async def test_the_spend_cap_stops_the_run(stub):
    made = engine(stub, **PRICES, spend_cap=0.2)
    await made.complete(request())
    await made.complete(request())
    with pytest.raises(EngineClosedError, match=r"spend cap .*0\.22 of 0\.20"):
        await made.complete(request())
    assert len(stub.bodies) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("places", "cap", "sent"), [(1, 0.11, 1), (1, 0.30, 3), (12, 0.30, 3), (12, 0.04, 1)])
async def test_the_spend_cap_holds_for_requests_that_wait_and_are_out(stub, places, cap, sent):
    stub.script = ["slow"]
    made = engine(stub, **PRICES, spend_cap=cap, max_num_seqs=places)
    ends = await asyncio.gather(*(made.complete(request(n)) for n in range(12)), return_exceptions=True)
    assert len(stub.bodies) == sent
    assert made._spend.spent == pytest.approx(0.11 * len(stub.bodies)) and made._spend.spent >= cap
    assert {type(end) for end in ends} == {SpendCapReachedError, Reply}


def bytes_as_tokens(handler):
    """Answers as the costliest tokenizer would: a token for each byte of the texts."""
    texts = [message["content"] for message in handler.stub.bodies[-1]["messages"]]
    words = sum(len(part.get("text", "").encode()) for text in texts if isinstance(text, list) for part in text)
    words += sum(len(text.encode()) for text in texts if isinstance(text, str))
    pictures = sum("image_url" in part for text in texts if isinstance(text, list) for part in text)
    usage = {"prompt_tokens": words + 40_000 * pictures, "completion_tokens": 50}
    handler.send(200, json.dumps(completion(usage=usage)).encode())


@pytest.mark.parametrize(
    ("said", "each"), [("x" * 5_000, 5.06), ("漢" * 4_000, 12.06), (FRAME, 40.06)], ids=["x", "漢", "picture"]
)
async def test_the_cap_holds_for_prompts_of_any_length_and_for_pictures(stub, said, each):
    stub.script = [bytes_as_tokens]
    made = engine(stub, **PRICES, spend_cap=2.5 * each, max_num_seqs=12)
    await asyncio.gather(*(made.complete(request(n, said)) for n in range(12)), return_exceptions=True)
    assert made._spend.spent == pytest.approx(3 * each, rel=0.01), "what one request costs beyond the cap, at most"


async def test_answers_tell_what_pictures_of_their_size_cost_at_most(stub):
    stub.script = [completion(usage={"prompt_tokens": 700, "completion_tokens": 10}), "hang up", "answer"]
    made = engine(stub, **PRICES)
    await made.complete(request(said=FRAME))
    reply = await made.complete(request(said=FRAME))
    assert 0.7 < reply.cost - 0.11 < 1.0
    bound, two = PromptBound(), Request("r", (message("user", FRAME, FRAME, "Go."),))
    bound.learn(two, 1501)
    assert bound.most_tokens(two, {}) - bound.most_tokens(Request("r", (message("user", FRAME, "Go."),)), {}) == 751


@pytest.mark.slow
async def test_once_a_price_is_known_the_cap_holds_within_one_request(stub):
    stub.script = ["answer", "slow"]
    made = engine(stub, **PRICES, spend_cap=0.5, max_num_seqs=12)
    await made.complete(request())
    await asyncio.gather(*(made.complete(request(n)) for n in range(12)), return_exceptions=True)
    assert len(stub.bodies) == 5 and made._spend.spent == pytest.approx(0.55)


@pytest.mark.parametrize("places", [1, 4, 64])
@pytest.mark.parametrize("times", [10, 100])
async def test_first_bills_far_above_the_bound_exceed_the_cap_by_one_request_at_most(stub, places, times):
    used = {"prompt_tokens": 1000 * (most() + 0.05) * times, "completion_tokens": 0}
    stub.script = [completion(usage={name: round(count) for name, count in used.items()})]
    bill = most() * times + 0.05 * times
    made = engine(stub, **PRICES, spend_cap=1.5 * bill, max_num_seqs=places)
    ends = await asyncio.gather(*(made.complete(request(n)) for n in range(places + 4)), return_exceptions=True)
    assert len(stub.bodies) == 2 and made._spend.spent == pytest.approx(2 * bill, rel=0.05)
    assert sum(isinstance(end, Reply) for end in ends) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("step", "together"), [("answer", 4), (completion(usage=None), 1)], ids=["a bill", "none"])
async def test_only_a_bill_tells_that_requests_are_billed_as_they_should(stub, step, together):
    """An answer without a bill counts with what it may cost, which tells nothing of the next ones."""
    stub.script = [step, "slow"]
    made = engine(stub, **PRICES, spend_cap=2.0, max_num_seqs=4)
    await made.complete(request())
    asking = [asyncio.create_task(made.complete(request(n))) for n in range(4)]
    while len(stub.bodies) < 2:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    assert len(stub.bodies) == 1 + together
    await asyncio.gather(*asking)


async def test_a_price_of_cached_tokens_counts_for_those_alone(stub):
    made = engine(stub, **PRICES, cache_read_price=250.0, spend_cap=9.0)
    reply = await made.complete(request())
    assert reply.cost == pytest.approx(0.11 - 0.064 * 0.75)
    free = engine(stub, **PRICES, cache_read_price=0.0)
    assert (await free.complete(request(1))).cost == pytest.approx(0.11 - 0.064)
    with pytest.raises(ValueError, match="cache_read_price=10000000000000"):
        engine(stub, cache_read_price=1e13)


@pytest.mark.parametrize("refusal", [(401, "wrong key", {}), (307, "", {"location": "/elsewhere"}), None], ids=str)
async def test_what_waits_to_be_sent_when_an_engine_closes_is_not_owed(stub, refusal):
    """Whether the first request was refused, so that no other one is sent, or the run was stopped before any was."""
    stub.script = [refusal or "answer"]
    made = engine(stub, **PRICES, spend_cap=0.01, max_num_seqs=4)
    await made.settle(0, 0.0)
    asking = [asyncio.create_task(made.complete(request(n))) for n in range(4)]
    account = await made.settle(0, 60.0)
    assert (account.number, account.in_flight > 0) == (1, True)
    if refusal:
        account = await made.settle(1, 60.0)
        assert (account.number, account.spent, len(stub.bodies)) == (2, 0.0, 1)
    await made.close()
    account = await made.settle(0, 0.0)
    assert (account.spent, account.in_flight) == (0.0, 0.0)
    made._spend._covered = math.inf
    ends = await asyncio.gather(*asking, return_exceptions=True)
    assert {type(end) for end in ends} == {EngineClosedError} and len(stub.bodies) == (1 if refusal else 0)


USED = {"prompt_tokens": 1000, "completion_tokens": 100}


@pytest.mark.parametrize(
    ("trouble", "cost"),
    [
        ({"error": {"message": "died"}, "usage": USED}, 1.1),
        ({"error": {"message": "died"}}, 0.0),
        ({"error": {"message": "died", "code": 429}, "choices": []}, 0.0),
        ({"error": {"message": "no money", "code": 402}}, 0.0),
        ({"error": {"message": "too late", "code": 504}}, most() + 0.05),
        ({"choices": [{"error": {"message": "died"}, "message": {}}]}, most() + 0.05),
        ((504, "gateway timeout", {}), most() + 0.05),
        ((422, {"error": "no", "usage": USED}, {}), 1.1),
    ],
    ids=str,
)
async def test_an_error_after_work_was_begun_is_paid_for_and_no_other(stub, trouble, cost, monkeypatch):
    monkeypatch.setattr(api_engine, "FIRST_WAIT", 0.001)
    stub.script = [trouble, "answer"]
    made = engine(stub, **PRICES)
    with contextlib.suppress(PlayerError, EngineClosedError):
        await made.complete(request())
    assert made._spend.spent == pytest.approx(cost + 0.11 * (len(stub.bodies) - 1))


async def test_what_was_never_sent_is_not_paid_for(stub, monkeypatch):
    monkeypatch.setattr(api_engine, "OUTAGE_SECONDS", 0.1)
    stub.server.shutdown()
    stub.server.server_close()
    made = engine(stub, **PRICES, spend_cap=1.0)
    with pytest.raises(EngineClosedError, match="no connection"):
        await made.complete(request())
    assert made._spend.spent == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("step", ["never", "hang up", completion(usage=None)], ids=["given up", "hung up", "no usage"])
async def test_what_does_not_tell_its_price_counts_with_the_most_it_may_cost(stub, step):
    stub.script = [step, "answer"]
    made = engine(stub, **PRICES, spend_cap=1.0, timeout_seconds=1.0 if step == "never" else 10.0)
    await made.complete(request())
    assert made._spend.spent == pytest.approx(most() + 0.05 + (0.11 if isinstance(step, str) else 0.0))


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ({"prompt_tokens": -500, "completion_tokens": 10}, most() + 0.01),
        ({"prompt_tokens": 100, "completion_tokens": -(10**6)}, 0.1 + 0.05),
        ({"prompt_tokens": "100", "completion_tokens": "10"}, most() + 0.05),
        ({"prompt_tokens": 1e308, "completion_tokens": True}, most() + 0.05),
        ({"prompt_tokens": 10**30, "completion_tokens": None}, most() + 0.05),
        ({"prompt_tokens": 0, "completion_tokens": 0}, most() + 0.05),
        ({"prompt_tokens": 100}, 0.1 + 0.05),
        ({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 140}, 0.1 + 0.04),
        ({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": -140}, 0.11),
        ([-5], most() + 0.05),
        ("-5", most() + 0.05),
        (None, most() + 0.05),
    ],
    ids=str,
)
async def test_nonsense_about_tokens_counts_with_the_most_it_may_cost(stub, usage, cost):
    stub.script = ["answer", completion(usage=usage)]
    made = engine(stub, **PRICES, spend_cap=10.0)
    assert (await made.complete(request())).cost == pytest.approx(0.11)
    reply = await made.complete(request())
    assert reply.cost == pytest.approx(cost)
    assert made._spend.spent == pytest.approx(0.11 + cost)
    assert reply.prompt_tokens >= 0 and reply.completion_tokens >= 0


async def test_an_answer_in_pieces_that_never_ends_is_paid_for(stub):
    def half(handler):
        handler.send_response(200)
        handler.send_header("content-length", "1000")
        handler.end_headers()
        handler.wfile.write(b"{")
        handler.wfile.flush()
        handler.connection.close()

    stub.script = [half, "answer"]
    made = engine(stub, **PRICES)
    assert (await made.complete(request())).cost == pytest.approx(most() + 0.05 + 0.11)


async def test_what_was_spent_elsewhere_counts_against_the_cap(stub):
    made = engine(stub, **PRICES, spend_cap=1.0)
    made.add_spent_elsewhere(0.95)
    made.add_spent_elsewhere(0.2)  # what was spent is never taken back
    await made.complete(request())
    with pytest.raises(EngineClosedError, match=r"1\.06 of 1\.00"):
        await made.complete(request())
    assert len(stub.bodies) == 1 and made._spend.spent == pytest.approx(0.11)


def test_a_cap_without_prices_is_refused_before_anything_is_started():
    asked = {"model": "stub", "spend_cap": 5.0, "prompt_price": 0.0, "completion_price": 0.0}
    with pytest.raises(ValueError, match="spend_cap: would never be reached"):
        OpenAIEngine.check_settings(asked)
    for price in ("prompt_price", "completion_price"):
        OpenAIEngine.check_settings({**asked, price: 1.0})
    OpenAIEngine.check_settings({**asked, "spend_cap": None})


async def test_a_request_that_no_minute_has_tokens_for_ends_the_run_with_their_number(stub):
    said, needed = "x" * 8, 53
    made = engine(stub, tokens_per_minute=needed - 1)
    for _ in range(2):
        with pytest.raises(EngineClosedError, match=f"=52: a request needs {needed} tokens, 50 of them for its reply"):
            await made.complete(request(said=said))
    assert stub.bodies == []
    made = engine(stub, tokens_per_minute=1e6)
    assert (await made.complete(request(said=said))).text == "hello"
