"""The API engine against a stub server that answers, refuses, stumbles, talks nonsense, dawdles and never answers."""

import asyncio
import base64
import email.utils
import io
import json
import math
import threading
import time
import traceback
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import numpy as np
import pytest
from PIL import Image

from cluster.engines import openai_api
from cluster.engines.base import EngineClosedError, Request, Sampling
from cluster.engines.limits import AdaptiveConcurrency, PerMinute, Spend, SpendCapReachedError
from cluster.engines.openai_api import OpenAIEngine, chat_to_json
from envs.picture import Picture
from evals.types import PlayerError, PromptTooLong, Reply, message

KEY = "sk-test-abcdefgh-secret-9876"


class Stub:
    """A server whose behaviour is a list of steps; the last one repeats."""

    def __init__(self) -> None:
        self.script = ["answer"]
        self.poison = ""
        """A request that holds this breaks the server."""
        self.bodies: list[dict] = []
        self.headers: list[dict] = []
        self.times: list[float] = []
        self.inside = self.most_inside = 0
        self.lock = threading.Lock()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with stub.lock:
                    stub.bodies.append(body)
                    stub.headers.append(dict(self.headers))
                    stub.times.append(time.monotonic())
                    stub.inside += 1
                    stub.most_inside = max(stub.most_inside, stub.inside)
                    step = stub.script.pop(0) if len(stub.script) > 1 else stub.script[0]
                    if stub.poison and stub.poison in json.dumps(body):
                        step = (500, "broken", {})
                try:
                    self._do(step)
                except (BrokenPipeError, ConnectionResetError):
                    pass
                finally:
                    with stub.lock:
                        stub.inside -= 1

            def _do(self, step):
                if step == "hang up":
                    self.connection.close()
                elif step == "never":
                    time.sleep(3)
                elif step == "garbage":
                    self._send(200, b"<html>not what you think</html>", "application/json")
                elif step == "no message":
                    self._send(200, json.dumps({"id": "x", "object": "chat.completion", "choices": []}).encode())
                elif isinstance(step, tuple):
                    status, error, headers = step
                    error = error if isinstance(error, dict) else {"message": error, "code": None}
                    self._send(
                        status, json.dumps({"error": error} if status != 422 else error).encode(), headers=headers
                    )
                else:
                    if step == "slow":
                        time.sleep(0.3)
                    answer = step if isinstance(step, dict) else completion(logprobs=step == "logprobs")
                    self._send(200, json.dumps(answer).encode())

            def _send(self, status, body, kind="application/json", headers=()):
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                for name, value in dict(headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"


def completion(logprobs=False, content="hello", **fields) -> dict:
    top = [{"token": "B", "logprob": -0.5, "bytes": None}, {"token": "A", "logprob": -1.5, "bytes": None}]
    scored = [{"token": "B", "logprob": -0.5, "bytes": None, "top_logprobs": top}]
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "stub",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": content},
                "logprobs": {"content": scored} if logprobs else None,
            }
        ],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 10,
            "total_tokens": 110,
            "prompt_tokens_details": {"cached_tokens": 64},
        },
        **fields,
    }


@pytest.fixture
def stub(monkeypatch):
    monkeypatch.setattr(openai_api, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(openai_api, "LONGEST_WAIT", 0.05)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    made = Stub()
    yield made
    made.server.shutdown()


def engine(stub, sampling=None, **settings) -> OpenAIEngine:
    return OpenAIEngine(sampling or Sampling(max_tokens=50), model="stub", base_url=stub.url, **settings)


def request(number=0, said="Go.", **fields) -> Request:
    return Request(f"r{number}", (message("system", "Play."), message("user", said)), seed=number, **fields)


@dataclass(frozen=True)
class Dot(Picture):
    kind: ClassVar[str] = "dot"
    grey: int

    @property
    def size(self):
        return (4, 3)

    def render(self):
        return np.full((3, 4, 3), self.grey, np.uint8)


async def test_a_reply_carries_text_and_tokens(stub):
    reply = await engine(stub).complete(request())
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens) == ("hello", 100, 10, 64)
    sent = stub.bodies[0]
    assert (sent["model"], sent["max_tokens"], sent["temperature"]) == ("stub", 50, 0.0)


def test_pictures_are_sent_as_png_with_the_very_pixels():
    (sent,) = chat_to_json((message("user", "look", Dot(77)),))
    url = sent["content"][1]["image_url"]["url"]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(url.removeprefix("data:image/png;base64,")))))
    assert (pixels == Dot(77).render()).all()


@pytest.mark.parametrize(
    "trouble",
    [(429, "slow down", {}), (500, "oops", {}), (503, "later", {}), "garbage", "no message", "hang up"],
    ids=str,
)
async def test_passing_trouble_is_retried(stub, trouble):
    stub.script = [trouble, trouble, "answer"]
    assert (await engine(stub).complete(request())).text == "hello"
    assert len(stub.bodies) == 3


@pytest.mark.parametrize(
    "trouble", [(500, "oops", {}), (429, "check your plan and billing details", {}), (408, "", {})]
)
async def test_an_outage_costs_no_request_however_many_tries_it_takes(stub, trouble):
    stub.script = [trouble] * 30 + ["answer"]
    made = engine(stub, max_tries=2)
    replies = await asyncio.gather(*(made.complete(request(n)) for n in range(3)))
    assert [reply.text for reply in replies] == ["hello"] * 3 and len(stub.bodies) == 33


@pytest.mark.parametrize(
    "trouble", [(503, f"key {KEY}", {}), (429, "slow down", {}), "hang up", "never", "garbage"], ids=str
)
async def test_an_endpoint_that_answers_nobody_for_long_stops_the_run(stub, monkeypatch, trouble):
    monkeypatch.setattr(openai_api, "REPORT_SECONDS", 0.3)
    stub.script = [trouble]
    made = engine(stub, timeout_seconds=0.2, max_tries=2)
    ends = await asyncio.gather(*(made.complete(request(n)) for n in range(3)), return_exceptions=True)
    assert {type(end) for end in ends} == {EngineClosedError}
    assert "answered nobody for 0.3 s" in str(ends[0])
    for end in ends:
        assert KEY not in "".join(traceback.format_exception(end))  # with all that it was raised from
    sent = len(stub.bodies)
    with pytest.raises(EngineClosedError, match="answered nobody"):
        await made.complete(request())
    assert len(stub.bodies) == sent


async def test_an_endpoint_that_is_down_stops_the_run(stub, monkeypatch):
    monkeypatch.setattr(openai_api, "REPORT_SECONDS", 0.1)
    stub.server.server_close()
    with pytest.raises(EngineClosedError, match=r"answered nobody for 0\.1 s, last: APIConnectionError"):
        await engine(stub, max_tries=2).complete(request())


async def test_a_request_that_fails_while_others_are_answered_fails_alone(stub):
    stub.poison = "poison"
    made = engine(stub, max_tries=3)
    bad = asyncio.create_task(made.complete(request(said="poison")))
    while not bad.done():
        assert (await made.complete(request())).text == "hello"
    with pytest.raises(PlayerError, match=r"failed 3 times, last: .*broken"):
        await bad


async def test_a_request_that_fails_with_nobody_beside_it_fails_alone_too(stub, monkeypatch):
    monkeypatch.setattr(openai_api, "REPORT_SECONDS", 0.1)
    stub.poison = "poison"
    made = engine(stub, max_tries=3)
    with pytest.raises(PlayerError, match="broken"):
        await made.complete(request(said="poison"))
    assert sum("poison" not in json.dumps(body) for body in stub.bodies) == 1
    assert (await made.complete(request())).text == "hello"


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


async def test_models_that_think_first_are_sent_what_they_take(stub):
    thinking = Sampling(max_tokens=50, temperature=1.0)
    await engine(stub, thinking, reasoning=True).complete(request())
    assert stub.bodies[0]["max_completion_tokens"] == 50
    assert not {"max_tokens", "temperature", "top_p"} & set(stub.bodies[0])
    with pytest.raises(ValueError, match=r"model\.sampling\.temperature=1"):
        engine(stub, reasoning=True)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("asked", [{"retry-after": "0.7"}, {"retry-after-ms": "700", "retry-after": "90"}], ids=str)
async def test_retry_after_is_honoured(stub, status, asked):
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


@pytest.mark.parametrize("spelling", [str, in_seconds], ids=["seconds", "date"])
async def test_one_refusal_holds_back_all_requests_for_as_long_as_it_asks(stub, spelling):
    stub.script = [(429, "slow down", {"retry-after": spelling(240)}), "answer"]
    made = engine(stub)
    first = asyncio.create_task(made.complete(request()))
    await until(lambda: made._concurrency.held)
    assert 200 < made._concurrency.held <= 240
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.gather(first, *(made.complete(request(n)) for n in range(1, 9))), 0.3)
    assert len(stub.bodies) == 1


async def test_requests_that_wait_for_their_turn_are_held_back_too(stub):
    made = engine(stub, requests_per_minute=60)
    made._requests._left = 0.0  # a turn comes in a second
    waiting = asyncio.create_task(made.complete(request()))
    await until(lambda: made._concurrency.inside)
    made._concurrency.hold(240)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(waiting, 1.5)
    assert not stub.bodies and made._concurrency.inside == 0


async def test_after_the_wait_all_go_on(stub):
    stub.script = [(429, "slow down", {"retry-after": "0.4"}), "answer"]
    made = engine(stub, max_num_seqs=2)
    replies = await asyncio.gather(*(made.complete(request(n)) for n in range(6)))
    assert len(replies) == 6 and len(stub.bodies) == 7


async def test_who_asks_to_wait_for_hours_stops_the_run(stub):
    stub.script = [(429, "daily limit", {"retry-after": "7200"})]
    with pytest.raises(EngineClosedError, match=r"asks to wait 2\.0 hours.*daily limit"):
        await engine(stub).complete(request())
    assert len(stub.bodies) == 1


@pytest.mark.parametrize("nonsense", ["soon", "", "nan", "inf", "-5", "0", in_seconds(-99)])
async def test_nonsense_in_retry_after_is_no_wait_of_its_own(stub, nonsense):
    stub.script = [(429, "slow down", {"retry-after": nonsense}), "answer"]
    assert (await engine(stub).complete(request())).text == "hello"


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


@pytest.mark.parametrize("shown", [KEY, KEY[:20] + "*******", "sk-*******" + KEY[-4:], KEY[3:12]])
async def test_a_refused_key_stops_everything_and_is_not_repeated_in_words(stub, shown):
    stub.script = [(401, f"Incorrect API key provided: {shown}.", {})]
    with pytest.raises(EngineClosedError, match="Incorrect API key") as error:
        await engine(stub).complete(request())
    assert not any(KEY[start : start + 6] in str(error.value) for start in range(len(KEY) - 5))
    assert KEY[-4:] not in str(error.value)
    assert stub.headers[0]["authorization"] == f"Bearer {KEY}"


async def test_blanks_around_a_key_do_no_harm(stub, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\n")
    await engine(stub).complete(request())
    assert stub.headers[0]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("key", ["sk-one\nsk-two", "sk-one two", "sk-schlüssel"])
def test_what_can_be_no_key_is_refused_and_not_shown(stub, monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ValueError, match="OPENAI_API_KEY holds no key") as error:
        engine(stub)
    assert "sk-" not in str(error.value)


@pytest.mark.parametrize("key", [None, "", "\n"])
async def test_only_an_endpoint_of_ones_own_does_without_a_key(stub, monkeypatch, key):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("MY_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("MY_KEY", key)
    with pytest.raises(ValueError, match="MY_KEY is not set"):
        OpenAIEngine(Sampling(), model="stub", api_key_env="MY_KEY")
    assert (await engine(stub, api_key_env="MY_KEY").complete(request())).text == "hello"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("half a pair: \ud83d", "half a pair: ?"),
        (None, ""),
        ([{"type": "text", "text": "in "}, {"text": "parts"}], "in parts"),
    ],
)
async def test_a_reply_is_text_that_a_file_can_hold(stub, content, text):
    stub.script = [completion(content=content)]
    assert (await engine(stub).complete(request())).text == text


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 1}, (5, 1)),
        ({"prompt_tokens": 5, "completion_tokens": None, "total_tokens": None}, (5, 0)),
        ({"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": None}}, (5, 1)),
        ({}, (0, 0)),
        (None, (0, 0)),
    ],
)
async def test_an_endpoint_may_tell_little_of_what_it_used(stub, usage, tokens):
    stub.script = [completion(usage=usage)]
    reply = await engine(stub).complete(request())
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens) == ("hello", *tokens, 0)


async def test_no_more_requests_at_once_than_asked_for(stub):
    stub.script = ["slow"]
    made = engine(stub, max_num_seqs=2)
    await asyncio.gather(*(made.complete(request(n)) for n in range(6)))
    assert stub.most_inside == 2


@pytest.mark.parametrize("limit", [{"requests_per_minute": 0.5}, {"tokens_per_minute": 60.0}], ids=str)
async def test_limits_per_minute_hold_requests_back(stub, limit):
    made = engine(stub, **limit)  # at these, the first request waits for most of a minute
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(made.complete(request()), 0.3)
    assert not stub.bodies
    assert (await engine(stub, **dict.fromkeys(limit, 1000000.0)).complete(request())).text == "hello"


async def test_tokens_per_minute_learn_what_a_request_really_took(stub):
    made = engine(stub, tokens_per_minute=100_000.0)
    await made.complete(request())
    assert made._tokens._left == pytest.approx(10_000 - 110)  # a tenth of a minute's, less what was used


async def test_fewer_requests_at_once_after_too_many(stub):
    stub.script = [(429, "slow down", {})] * 4 + ["slow"]
    made = engine(stub, max_num_seqs=8)
    await asyncio.gather(*(made.complete(request(n)) for n in range(6)))
    assert stub.most_inside <= 8
    assert made._concurrency.limit < 8


PRICES = {"prompt_price": 1000.0, "completion_price": 1000.0}
"""At these the stub's answers cost 0.11 each, and are thought to cost 0.05 until the first one is back."""


async def test_the_spend_cap_stops_the_run(stub):
    made = engine(stub, **PRICES, spend_cap=0.2)
    await made.complete(request())
    await made.complete(request())
    with pytest.raises(EngineClosedError, match=r"spend cap of this replica and session is reached: 0\.22 of 0\.20"):
        await made.complete(request())
    assert len(stub.bodies) == 2


@pytest.mark.parametrize(("places", "cap", "most"), [(1, 0.11, 1), (1, 0.30, 3), (12, 0.30, 6), (12, 0.04, 1)])
async def test_the_spend_cap_holds_for_requests_that_wait_and_are_out(stub, places, cap, most):
    stub.script = ["slow"]
    made = engine(stub, **PRICES, spend_cap=cap, max_num_seqs=places)
    ends = await asyncio.gather(*(made.complete(request(n)) for n in range(12)), return_exceptions=True)
    # the first requests go out at the price they are thought to have: 0.30 pays for five of 0.051, and one may exceed it
    assert 1 <= len(stub.bodies) <= most
    assert made._spend.spent == pytest.approx(0.11 * len(stub.bodies)) and made._spend.spent >= cap
    assert {type(end) for end in ends} == {EngineClosedError, Reply}


async def test_once_a_price_is_known_the_cap_holds_within_one_request(stub):
    stub.script = ["answer", "slow"]
    made = engine(stub, **PRICES, spend_cap=0.5, max_num_seqs=12)
    await made.complete(request())
    await asyncio.gather(*(made.complete(request(n)) for n in range(12)), return_exceptions=True)
    assert len(stub.bodies) == 5 and made._spend.spent == pytest.approx(0.55)


@pytest.mark.parametrize("trouble", [(500, "oops", {}), (429, "slow down", {}), "hang up"], ids=str)
async def test_what_failed_is_not_paid_for(stub, trouble):
    stub.script = [trouble, "answer"]
    made = engine(stub, **PRICES, spend_cap=1.0)
    await made.complete(request())
    assert made._spend.spent == pytest.approx(0.11) and not made._spend._reserved


@pytest.mark.parametrize("step", ["never", completion(usage=None)], ids=["given up", "no usage"])
async def test_what_does_not_tell_its_price_counts_with_the_most_it_may_cost(stub, step):
    stub.script = [step, "answer"]
    made = engine(stub, **PRICES, spend_cap=1.0, timeout_seconds=0.2)
    await made.complete(request())
    assert made._spend.spent == pytest.approx(0.051 + (0.11 if step == "never" else 0.0))


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"spend_cap": 5.0}, "would never be reached: give prompt_price"),
        ({**PRICES, "spend_cap": -1.0}, "spend_cap=-1.0: must be above 0"),
        ({**PRICES, "spend_cap": 0.0}, "spend_cap=0.0: must be above 0"),
        ({**PRICES, "spend_cap": math.nan}, "spend_cap=nan: must be above 0"),
        ({"prompt_price": -1.0}, "must not be below 0"),
        ({"requests_per_minute": 0.0}, "must be above 0"),
        ({"tokens_per_minute": -5.0}, "must be above 0"),
        ({"max_num_seqs": 0}, "must be 1 at least"),
        ({"max_tries": 0}, "must be 1 at least"),
    ],
    ids=str,
)
def test_limits_that_make_no_sense_are_refused_before_anything_is_sent(stub, settings, cause):
    with pytest.raises(ValueError, match=cause):
        engine(stub, **settings)


async def test_label_scores_are_partial_and_say_so(stub):
    stub.script = ["logprobs"]
    reply = await engine(stub).complete(request(labels=("A", "B", "C")))
    scores = reply.label_scores
    assert reply.text == "B" and scores.logprobs[:2] == (-1.5, -0.5) and math.isnan(scores.logprobs[2])
    assert not scores.exact and scores.argmax_is_label
    assert scores.mass == pytest.approx(math.exp(-1.5) + math.exp(-0.5))


async def test_constrained_replies_need_a_server_that_can(stub):
    with pytest.raises(EngineClosedError, match="decoding=free"):
        await engine(stub).complete(request(options=("a", "b")))
    await engine(stub, choices="vllm").complete(request(options=("a", "b")))
    assert stub.bodies[0]["structured_outputs"] == {"choice": ["a", "b"]}


def test_limits_per_minute_spread_requests_evenly():
    now = [0.0]
    limit = PerMinute(60, clock=lambda: now[0])
    waits = [limit.delay(1) for _ in range(12)]
    assert waits[:6] == [0.0] * 6 and waits[6:] == pytest.approx([1, 2, 3, 4, 5, 6])
    now[0] = 6.0
    assert limit.delay(1) == pytest.approx(1.0)
    limit.correct(-2)
    assert limit.delay(1) == 0.0
    assert PerMinute(None).delay(1e9) == 0.0


async def test_no_more_places_than_the_limit_are_given():
    limit, most, free = AdaptiveConcurrency(8), 0, asyncio.Event()

    async def hold_a_place():
        nonlocal most
        async with limit.place():
            most = max(most, limit.inside)
            await free.wait()

    limit.limit = 3.7
    holders = [asyncio.create_task(hold_a_place()) for _ in range(10)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert limit.inside == 3
    free.set()
    await asyncio.gather(*holders)
    assert (limit.inside, most) == (0, 3)


def test_concurrency_halves_once_for_requests_that_fail_together_and_grows_back():
    now = [0.0]
    limit = AdaptiveConcurrency(16, clock=lambda: now[0])
    for _ in range(5):
        limit.too_many()
    assert limit.limit == 8
    now[0] = 2.0
    limit.too_many()
    assert limit.limit == 4
    for _ in range(200):
        limit.success()
    assert limit.limit == 16


async def test_spend_counts_both_prices():
    spend = Spend(prompt_price=2.0, completion_price=8.0, cap=1.0)
    assert spend.price(250_000, 50_000) == pytest.approx(0.9)
    for price in (0.9, 0.1):
        async with spend.payment(0.5) as payment:
            payment.price = price
    assert spend.spent == pytest.approx(1.0)
    with pytest.raises(SpendCapReachedError, match=r"1\.00 of 1\.00"):
        async with spend.payment(0.0):
            pass


async def test_near_the_cap_requests_wait_for_each_other_instead_of_stopping():
    spend, out, free = Spend(prompt_price=1.0, cap=1.0), 0, asyncio.Event()

    async def pay():
        nonlocal out
        async with spend.payment(0.4) as payment:
            out += 1
            await free.wait()
            payment.price = 0.1

    requests = [asyncio.create_task(pay()) for _ in range(6)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert out == 2  # a third might cost 1.2 in all
    free.set()
    await asyncio.gather(*requests)
    assert spend.spent == pytest.approx(0.6)
