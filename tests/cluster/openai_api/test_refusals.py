"""Refusals: of one request, of a setting, and of all requests."""

import pickle

import pytest

from cluster.engines import api_endpoint
from cluster.engines.api_errors import EndpointError
from cluster.engines.base import EngineClosedError, Request, Sampling
from cluster.engines.openai_api import OpenAIEngine
from evals.types import PlayerError, message
from tests.cluster.openai_api.stub import engine, request
from tests.cluster.openai_api.test_requests import Dot
from tests.cluster.refusals import KINDS, check_refusals


@pytest.mark.parametrize("kind", KINDS)
async def test_a_refusal_is_known_by_its_status_whatever_becomes_of_its_body(stub, kind, monkeypatch):
    monkeypatch.setattr(api_endpoint, "REFUSAL_SECONDS", 0.05)
    await check_refusals(engine(stub)._endpoint.http, {"messages": []}, stub.script, kind)


async def test_a_request_that_got_no_connection_in_time_is_free(stub, deaf_url):
    made = OpenAIEngine(Sampling(max_tokens=50), "stub", deaf_url, timeout_seconds=1.5)
    with pytest.raises(EndpointError, match="no connection") as error:
        await made._endpoint.http.complete({"messages": []})
    assert not error.value.may_cost and error.value.meaning == "passing"


async def test_tokens_that_are_told_twice_are_not_believed(stub):
    twice = b'{"choices": [{"message": {"content": "A"}}], "usage": {"prompt_tokens": 9, "prompt_tokens": 1}}'
    stub.script = [twice, "answer"]
    reply = await engine(stub).complete(request())
    assert (reply.retries, reply.text) == (1, "hello")


@pytest.mark.parametrize("before", [[], ["answer"]])
async def test_what_refuses_each_request_in_the_same_words_ends_the_run_unless_it_has_answered_one(stub, before):
    words = [
        f"no use for request {number} (request id: 2026{letter}Fcd{number})"
        for number, letter in enumerate("abcdefghij")
    ]
    stub.script = [*before, *((400, each, {}) for each in words)]
    made = engine(stub)
    for _ in before:
        await made.complete(request())
    raised = []
    for _ in range(10):
        with pytest.raises((PlayerError, EngineClosedError)) as error:
            await made.complete(request())
        raised.append(error.type)
    assert raised == [PlayerError] * 9 + [PlayerError if before else EngineClosedError]


async def test_an_error_within_a_choice_is_told_in_the_endpoints_words(stub):
    error = {"code": 402, "message": "Insufficient credits"}
    message = {"role": "assistant", "content": ""}
    stub.script = [{"choices": [{"finish_reason": "error", "error": error, "message": message}]}]
    with pytest.raises(EngineClosedError, match="Insufficient credits"):
        await engine(stub).complete(request())
    assert len(stub.bodies) == 1


async def test_what_only_some_requests_hold_is_not_taken_for_granted_by_others_answers(stub):
    refusals = [(400, "'logprobs' is not supported", {}), (400, "image_url is only supported by certain models", {})]
    stub.script = ["answer", refusals[0], "answer", refusals[1]]
    for special, named in (
        (request(labels=("A", "B")), "logprobs"),
        (Request("r", (message("user", "?", Dot(7)),)), "image"),
    ):
        made = engine(stub)
        await made.complete(request())
        with pytest.raises(EngineClosedError, match=f"does not take {named}"):
            await made.complete(special)


async def test_a_refusal_is_the_endpoints_and_survives_the_way_to_another_process(stub):
    stub.script = [(400, "no", {})]
    with pytest.raises(PlayerError) as error:
        await engine(stub).complete(request())
    again = pickle.loads(pickle.dumps(error.value))
    assert (str(again), again.kind) == (str(error.value), "endpoint")
    assert (EngineClosedError("x").kind, PlayerError("x").kind) == ("engine", "model")
