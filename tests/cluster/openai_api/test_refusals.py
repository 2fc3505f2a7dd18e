"""Refusals: of one request, of a setting, and of all requests."""

import json
import pickle

import pytest

from cluster.engines import api_errors
from cluster.engines.api_errors import EndpointError, error_from
from cluster.engines.base import EngineClosedError, Request
from evals.types import PlayerError, PromptTooLong, message
from tests.cluster.openai_api.stub import engine, request
from tests.cluster.openai_api.test_requests import Dot

LASTING = [
    (
        429,
        {"message": "You exceeded your current quota", "code": "insufficient_quota"},
        {},
    ),
    (402, "Insufficient Balance", {}),
    (400, "Your credit balance is too low", {}),
    (401, "no such key", {}),
    (403, "not in your country", {}),
    (404, "no such model", {}),
    (307, "moved", {"location": "http://127.0.0.1:9/v1"}),
]


@pytest.mark.parametrize("trouble", LASTING, ids=lambda trouble: trouble[0])
async def test_what_would_meet_every_request_stops_the_run_at_once(stub, trouble):
    stub.script = ["answer", trouble, "answer"]
    made = engine(stub)
    await made.complete(request())
    for _ in range(2):
        with pytest.raises(
            EngineClosedError, match=str(trouble[1] if isinstance(trouble[1], str) else "current quota")
        ):
            await made.complete(request())
    assert len(stub.bodies) == 2


UNSUPPORTED = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
)


@pytest.mark.parametrize(
    ("status", "error", "named"),
    [
        (400, UNSUPPORTED, "max_tokens.*reasoning=true.*Use 'max_completion_tokens'"),
        (400, {"message": "Only the default (1) value is supported.", "param": "temperature"}, "temperature"),
        (422, {"detail": [{"loc": ["body", "top_p"], "msg": "Extra inputs are not permitted"}]}, "top_p"),
        (400, "temperature: range: 0..1", "temperature"),
        (400, {"message": "unknown", "param": "model"}, "model"),
    ],
    ids=str,
)
async def test_a_setting_that_the_endpoint_does_not_take_stops_the_run_before_the_first_answer(
    stub, status, error, named
):
    stub.script = [(status, error, {})]
    with pytest.raises(EngineClosedError, match=f"does not take {named}"):
        await engine(stub).complete(request())
    stub.script = ["answer", (status, error, {})]
    made = engine(stub)
    await made.complete(request())
    with pytest.raises(PlayerError):  # it took the setting before: something is wrong with this request
        await made.complete(request())


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("'top(k' is unknown", ["top(k"]),
        ("body: $size: extra inputs", ["$size"]),
        ("temp[: extra inputs", ["temp["]),
        ("'axb' is unknown", []),
        ("mytop(k: extra inputs", []),
    ],
)
def test_names_of_parameters_stand_for_themselves(words, named):
    assert EndpointError("refused", 400, words=words).named(["top(k", "$size", "temp[", "a.b"]) == named


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


async def test_a_refused_request_is_not_repeated_and_an_over_long_one_is_named(stub):
    stub.script = [(400, "content filter", {}), (400, {"message": "too much", "code": "context_length_exceeded"}, {})]
    with pytest.raises(PlayerError, match="content filter"):
        await engine(stub).complete(request())
    with pytest.raises(PromptTooLong, match="too much"):
        await engine(stub).complete(request())
    stub.script = [(400, "'max_tokens' is too large: the maximum context length is 100 tokens", {})]
    with pytest.raises(PromptTooLong, match="maximum context length is 100"):
        await engine(stub).complete(request())
    assert len(stub.bodies) == 3


TOO_LONG = [
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
    "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
    "the request exceeds the available context size",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "The input token count (9000) exceeds the maximum number of tokens allowed (8192).",
    "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8192.",
    "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
]


@pytest.mark.parametrize("words", TOO_LONG)
async def test_all_endpoints_words_for_a_prompt_that_is_too_long_are_known(stub, words):
    stub.script = ["answer", (400, words, {})]
    made = engine(stub)
    await made.complete(request())
    with pytest.raises(PromptTooLong) as error:
        await made.complete(request())
    assert error.value.kind == "model"


async def test_a_refusal_is_the_endpoints_and_survives_the_way_to_another_process(stub):
    stub.script = [(400, "no", {})]
    with pytest.raises(PlayerError) as error:
        await engine(stub).complete(request())
    again = pickle.loads(pickle.dumps(error.value))
    assert (str(again), again.kind) == (str(error.value), "endpoint")
    assert (EngineClosedError("x").kind, PlayerError("x").kind) == ("engine", "model")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>Bad request</html>",
        b'{"error": null}',
        b'{"error": "plain"}',
        b'{"error": {"message": 5, "code": [1], "param": {}}}',
        b'{"detail": [{"loc": 5}, 7, {"loc": ["body", "x"], "msg": null}]}',
        b"[" * 100_000,
        b"\xff\xfe\x00",
        b"5",
    ],
    ids=range(9),
)
async def test_refusals_in_any_form_are_told_in_plain_words(stub, body):
    stub.script = [lambda handler: handler.send(400, body)]
    with pytest.raises(PlayerError, match="status 400") as error:
        await engine(stub).complete(request())
    assert "Error" not in str(error.value) and len(str(error.value)) < 600 and str(error.value).isprintable()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "no", "code": 7, "type": "t", "param": "p"}}, "no 7 t"),
        ({"error": {"message": "no", "code": None, "metadata": {"flagged_input": "x"}}}, "no flagged_input"),
        (
            {"detail": [{"loc": ["body", 0], "msg": "is wrong"}, {"loc": ["x"], "msg": "bad"}]},
            "body.0: is wrong; x: bad",
        ),
        ({"detail": []}, '{"detail": []}'),
        ({"detail": "not found"}, '{"detail": "not found"}'),
        ({"other": 1}, '{"other": 1}'),
    ],
)
def test_the_words_of_a_refusal_are_what_it_says_however_it_is_written(body, words):
    error = error_from(400, {}, json.dumps(body), ())
    assert error.words == words and error.status == 400 and error.param == (body.get("error") or {}).get("param", "")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"retry-after": "-7"}, 0.0),
        ({"retry-after": "nan"}, 0.0),
        ({"retry-after": "inf"}, 0.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 60.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:10 GMT"}, 0.0),
        ({"retry-after": "tomorrow"}, 0.0),
        ({}, 0.0),
    ],
)
def test_the_wait_that_a_refusal_asks_for_is_seconds_milliseconds_or_a_date(headers, seconds, monkeypatch):
    monkeypatch.setattr(api_errors.time, "time", lambda: 40.0)
    assert error_from(429, headers, "{}", ()).retry_after == seconds
