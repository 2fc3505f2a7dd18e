"""What endpoints say of tokens and money is checked: nonsense counts with the most that the request may cost."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.engines.api_answer import MOST_TOKENS, Usage
from cluster.engines.api_errors import EndpointError
from cluster.engines.base import EngineClosedError, SpendCapReachedError
from cluster.engines.providers.bedrock import _mark
from cluster.engines.spend import Payment
from evals.types import Reply
from tests.cluster.providers.engines import engine, request
from tests.cluster.providers.stub import KEY, sse

TEXT = {"type": "text", "text": "A"}
ANSWERS = {
    "anthropic": lambda prompt, written: {
        "content": [TEXT],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": prompt, "output_tokens": written, "cache_read_input_tokens": None},
    },
    "bedrock": lambda prompt, written: {
        "output": {"message": {"content": [TEXT]}},
        "usage": {"inputTokens": prompt, "outputTokens": written},
    },
    "gemini": lambda prompt, written: {
        "candidates": [{"content": {"parts": [{"text": "A"}]}}],
        "usage_metadata": {"prompt_token_count": prompt, "candidates_token_count": written},
    },
    "responses": lambda prompt, written: {"output": [], "usage": {"input_tokens": prompt, "output_tokens": written}},
    "chat": lambda prompt, written: {"usage": {"prompt_tokens": prompt, "completion_tokens": written}},
}
"""By provider: an answer with a reply of some tokens."""

NONSENSE = st.one_of(
    st.integers(max_value=0), st.integers(min_value=MOST_TOKENS), st.floats(), st.booleans(), st.text(), st.none()
)
READ_AND_WRITTEN = {"cached_tokens": 500, "cache_write_tokens": 30}
PRICES = {"prompt_price": 1000.0, "completion_price": 1000.0}


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERS)
@given(prompt=NONSENSE, written=NONSENSE)
def test_tokens_that_are_none_count_with_the_most_that_they_may_be(made_engines, name, prompt, written):
    made = made_engines[name]
    most = Usage(700, 50)
    price = [
        made._endpoint._price(made._usage_or_nothing(ANSWERS[name](*told)), most, Payment())
        for told in ((prompt, 5), (10, written), (prompt, written), (10, 5))
    ]
    assert price == pytest.approx([0.705, 0.06, 0.75, 0.015])


@pytest.mark.parametrize(
    ("told", "prompt", "completion"),
    [
        ({}, 1000, 100),
        ({"tool_use_prompt_token_count": 20_000, "total_token_count": 21_100}, 21_000, 100),
        ({"total_token_count": 6_100}, 1000, 5_100),
        ({"total_token_count": 5}, 1000, 100),
        ({"total_token_count": "many"}, 1000, 100),
        ({"tool_use_prompt_token_count": -1, "total_token_count": 6_100}, None, 100),
    ],
)
def test_what_gemini_counts_in_total_or_for_tools_is_paid(made_engines, told, prompt, completion):
    answer = ANSWERS["gemini"](1000, 100)
    answer["usage_metadata"] |= told
    usage = made_engines["gemini"].read_usage(answer)
    assert (usage.prompt, usage.completion) == (prompt, completion)


@pytest.mark.parametrize(("turns", "marked"), [(1, [0]), (3, [0, 2]), (5, [2, 4]), (9, [6, 8])])
def test_bedrock_keeps_the_prompt_up_to_the_last_two_questions(turns, marked):
    chat = [{"role": ("user", "assistant")[turn % 2], "content": [{"text": "x"}]} for turn in range(turns)]
    rules = [{"text": "rules"}]
    _mark(rules, chat)
    assert [turn for turn, said in enumerate(chat) if len(said["content"]) > 1] == marked


@pytest.fixture(scope="module")
def made_engines():
    """Engines by name; nothing is sent."""

    class Nowhere:
        url = "http://127.0.0.1:9"

    with pytest.MonkeyPatch.context() as patch:
        for name in ("ANTHROPIC", "OPENAI", "GEMINI"):
            patch.setenv(f"{name}_API_KEY", KEY)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, KEY)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield {name: engine(name, Nowhere, **PRICES) for name in ANSWERS}


def costs(dollars):
    """OpenRouter's answer with its price, or with all that it tells of it."""
    told = dollars if isinstance(dollars, dict) else {} if dollars is None else {"cost": dollars}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, **told}
    message = {"role": "assistant", "content": "A"}
    return 200, {"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}


def own_key(paid_there, is_byok=True):
    """What OpenRouter tells of an answer that a provider has charged to one's own key."""
    return {"cost": 0.25, "is_byok": is_byok, "cost_details": paid_there and {"upstream_inference_cost": paid_there}}


@pytest.mark.parametrize(
    ("told", "cap", "asked", "spent"),
    [
        ([1.0] * 20, 2.5, 3, 3.0),
        ([None] * 20, 2.5, 1, 2.5),
        ([1.0] + [None] * 19, 2.5, 3, 3.0),
        ([-1.0] * 20, 2.5, 1, 2.5),
        ([True] * 20, 2.5, 1, 2.5),
        ([1e300] * 20, 2.5, 1, 2.5),
        ([0] * 20, 2.5, 20, 0.0),
        ([own_key(1.0)] * 20, 2.5, 2, 2.5),
        ([own_key(0.25, is_byok=False)] * 20, 2.5, 10, 2.5),
        ([own_key(None)] * 20, 2.5, 1, 2.5),
        ([own_key("much")] * 20, 2.5, 1, 2.5),
    ],
)
async def test_the_cap_holds_where_only_answers_tell_what_they_cost(stub, told, cap, asked, spent):
    stub.script = [costs(dollars) for dollars in told]
    made = engine("openrouter", stub, spend_cap=cap)
    ends = await asyncio.gather(*(made.complete(request(n)) for n in range(20)), return_exceptions=True)
    assert (len(stub.bodies), made._spend.spent) == (asked, spent)
    assert {type(end) for end in ends} <= {Reply, SpendCapReachedError}
    hints = [str(end) for end in ends if "did not say what it cost" in str(end)]
    assert bool(hints) == (asked == 1 or told[1] is None)


@pytest.mark.parametrize(
    ("name", "served", "goes_on"),
    [
        ("responses", {"service_tier": "priority"}, False),
        ("chat", {"service_tier": "priority"}, False),
        ("anthropic", {"inference_geo": "us"}, False),
        ("anthropic", {"service_tier": "standard", "inference_geo": "global"}, True),
        ("responses", {"service_tier": "flex"}, True),
        ("openrouter", {"service_tier": "priority"}, True),  # it tells what it cost
    ],
)
async def test_an_account_whose_requests_cost_more_than_the_table_says_stops_the_run(stub, name, served, goes_on):
    stub.served = served
    made = engine(name, stub)
    assert (await made.complete(request())).text == "A", "the answer is paid for"
    if goes_on:
        await made.complete(request(1))
        return
    told = "{}={}".format(*next(iter(served.items())))
    with pytest.raises(EngineClosedError, match=f"served a request with {told}, which costs more .*set model"):
        await made.complete(request(1))
    assert len(stub.bodies) == 1
    by_hand = engine(name, stub, **PRICES)
    for number in range(2):
        await by_hand.complete(request(number))


async def test_a_response_that_failed_is_paid_for_and_its_words_hold_no_key(stub):
    failed = {"code": "server_error", "message": f"the key {KEY} broke"}
    usage = {"input_tokens": 100, "output_tokens": 50, "total_tokens": 150}
    stub.script = [(200, {"error": failed, "output": [], "status": "failed", "usage": usage})]
    made = engine("responses", stub, **PRICES)
    with pytest.raises(EndpointError, match=r"the key \[redacted\] broke") as error:
        await made._endpoint.send(request(), made.body(request()), 100)
    assert KEY not in error.value.words
    assert (made._spend.spent, error.value.price) == (pytest.approx(0.15), pytest.approx(0.15))


FAILED = {"error": {"code": 502, "message": "it broke"}}
BEGAN = {"output": [{"type": "reasoning"}], "choices": [{"error": FAILED["error"], "message": {}}]}


@pytest.mark.parametrize("name", ["responses", "chat"])
@pytest.mark.parametrize(
    ("answer", "is_free"),
    [
        ({**FAILED, "output": [], "choices": []}, True),
        ({**FAILED, "usage": None}, True),
        (
            {**FAILED, "usage": {"prompt_tokens": 0, "completion_tokens": 0, "input_tokens": 0, "output_tokens": 0}},
            True,
        ),
        ({"error": {"code": 504, "message": "gateway timeout"}}, None),
        ({**FAILED, **BEGAN}, False),
    ],
)
async def test_an_error_in_place_of_a_reply_is_free_unless_one_had_begun(stub, name, answer, is_free):
    stub.script = [(200, answer)]
    made = engine(name, stub, **PRICES)
    with pytest.raises(EndpointError, match=answer["error"]["message"]) as error:
        await made._endpoint.send(request(), made.body(request()), 100)
    if is_free is None:  # a server behind the gateway may have answered; responses tell no such status
        is_free = name == "responses"
    assert (error.value.price == 0) == is_free and made._spend.spent == error.value.price


HEAD = {
    "type": "message_start",
    "message": {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
    | {"usage": {"input_tokens": 500, "output_tokens": 1}},
}
BEGUN = [
    HEAD,
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "A or"}},
]
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}


@pytest.mark.parametrize(
    ("events", "least", "at_most"),
    [([*BEGUN, OVERLOADED], 4.0, 9.0), ([OVERLOADED], 0.0, 0.0), (BEGUN, 4.5, 4.5), ([HEAD], 4.5, 4.5)],
)
async def test_a_message_that_breaks_off_is_paid_for_and_is_no_reply(stub, events, least, at_most):
    stub.script = [lambda handler: handler.send(200, sse(events), {"content-type": "text/event-stream"})]
    reply = await engine("anthropic", stub, **PRICES).complete(request())
    assert (reply.text, reply.retries) == ("A", 1)
    assert least <= round(reply.cost - 5.15, 6) <= at_most


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("responses", {"error": {"message": "x"}, "usage": {"input_tokens": 10, "output_tokens": 5}}),
        ("chat", {"error": {"message": "x"}, "usage": {"prompt_tokens": 10, "completion_tokens": 5}}),
        ("anthropic", {"type": "error", "error": {"type": "api_error"}, "usage": {"input_tokens": 1}}),
        ("gemini", {"error": {"code": 500, "message": "x"}, "usageMetadata": {"promptTokenCount": 1}}),
    ],
)
async def test_a_refusal_that_tells_tokens_is_paid_for(stub, name, told):
    stub.script = [(500, told)]
    made = engine(name, stub, **PRICES)
    await made.complete(request())
    stub.script = []
    whole = made._spend.spent
    await made.complete(request(1))
    assert whole > made._spend.spent - whole + 0.01


CHAT_USAGE = {"prompt_tokens": 20, "completion_tokens": 1, "total_tokens": 21}
RESPONSES_USAGE = {"input_tokens": 20, "output_tokens": 1, "total_tokens": 21}
TOLD_BY_ERRORS = [
    ("chat", {"usage": CHAT_USAGE}, 0.021),
    ("responses", {"usage": RESPONSES_USAGE}, 0.021),
    ("anthropic", {"usage": {"input_tokens": 20, "output_tokens": 1}}, 0.021),
    ("anthropic", {"usage": {"input_tokens": 20, "output_tokens": 0}}, 0.02),
    ("anthropic", {"usage": {"input_tokens": 20}}, 4.02),
    ("anthropic", {"usage": {"output_tokens": "much"}}, None),
    ("gemini", {"usageMetadata": {"promptTokenCount": 20, "candidatesTokenCount": 1, "totalTokenCount": 21}}, 0.021),
    ("gemini", {"usageMetadata": {"promptTokenCount": 20, "candidatesTokenCount": 0}}, 0.02),
    ("gemini", {"usageMetadata": {"promptTokenCount": 20}}, 4.02),
    ("gemini", {"usageMetadata": [20]}, None),
    ("openrouter", {"usage": {**CHAT_USAGE, "cost": 0.0002}}, 0.0002),
]
"""What an error tells, and what it costs; None for the most that the request may cost."""


@pytest.mark.parametrize(("name", "told", "cost"), TOLD_BY_ERRORS, ids=str)
async def test_an_error_costs_what_it_tells_in_its_providers_own_names(stub, name, told, cost):
    stub.script = [(500, {"error": {"message": "x", "code": 500}, **told})]
    prices = {"spend_cap": 1.0} if name == "openrouter" else PRICES
    made = engine(name, stub, **prices)
    with pytest.raises(EndpointError) as error:
        await made._endpoint.send(request(), made.body(request()), 4000)
    if cost is None:
        assert error.value.price > 4.0
    else:
        assert error.value.price == pytest.approx(cost)
    assert made._spend.spent == error.value.price


def test_a_gemini_answer_that_its_client_drops_may_have_cost_a_reply(made_engines):
    for answer, completion in (
        ({}, None),
        ({"candidates": None}, None),
        ({"prompt_feedback": {"block_reason": "OTHER"}}, 0),
    ):
        assert made_engines["gemini"].read_usage(answer).completion == completion


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"inputTokens": 1000, "outputTokens": 10, "totalTokens": 1010}, Usage(1000, 10)),
        ({"inputTokens": 1000, "outputTokens": 10, "totalTokens": 3010}, Usage(1000, 2010)),
        (
            {"inputTokens": 100, "outputTokens": 10, "totalTokens": 110, "cacheReadInputTokens": 900},
            Usage(1000, 10, 900),
        ),
        (None, Usage()),
    ],
)
def test_bedrocks_total_counts_where_it_is_more_than_its_parts(stub, usage, expected):
    answer = {"output": {"message": {"content": [{"text": "A"}]}}, "stopReason": "end_turn"}
    if usage is not None:
        answer["usage"] = usage
    assert engine("bedrock", stub).read_answer(answer, scored=False).usage == expected
