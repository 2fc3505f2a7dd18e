"""What the API engine reads, and does not read, in answers."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.engines import api_engine
from cluster.engines.api_answer import Usage, read_usage, usage_in_parts
from cluster.engines.base import EngineClosedError
from envs.kidgym import make
from evals.types import PlayerError
from tests.cluster.openai_api.stub import completion, engine, request

FRAME = make("CL", 1, 0).frame


async def test_a_reply_carries_text_and_tokens(stub):
    reply = await engine(stub).complete(request())
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens) == ("hello", 100, 10, 64)
    sent = stub.bodies[0]
    assert (sent["model"], sent["max_tokens"], sent["temperature"]) == ("stub", 50, 0.0)


@pytest.mark.parametrize("error", [FileNotFoundError("no such puzzle"), ValueError("has changed")], ids=repr)
async def test_a_picture_whose_file_is_damaged_is_no_failure_of_the_endpoint(stub, monkeypatch, error):
    def torn(_):
        raise error

    monkeypatch.setattr(type(FRAME), "render", torn)
    with pytest.raises(PlayerError, match=str(error)) as raised:
        await engine(stub).complete(request(said=FRAME))
    assert raised.value.kind == "suite" and not stub.bodies


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
        ({"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": "none"}, (5, 1)),
        ({"prompt_tokens": -5, "completion_tokens": "1"}, (0, 0)),
        ({}, (0, 0)),
        (None, (0, 0)),
    ],
)
async def test_an_endpoint_may_tell_little_of_what_it_used(stub, usage, tokens):
    stub.script = [completion(usage=usage)]
    reply = await engine(stub).complete(request())
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens) == ("hello", *tokens, 0)


async def test_label_scores_are_partial_and_say_so(stub):
    stub.script = ["logprobs"]
    reply = await engine(stub).complete(request(labels=("A", "B", "C")))
    scores = reply.label_scores
    assert reply.text == "B" and scores.logprobs[:2] == (-1.5, -0.5) and math.isnan(scores.logprobs[2])
    assert not scores.exact and scores.argmax_is_label
    assert scores.mass == pytest.approx(math.exp(-1.5) + math.exp(-0.5))


def scored(*entries, **choice) -> dict:
    """An answer to a question about labels, with these top_logprobs."""
    answer = completion(logprobs=True)
    answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"] = list(entries)
    answer["choices"][0].update(choice)
    return answer


def without(answer, *path):
    inner = answer
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    return answer


UNREADABLE = {
    "number": completion(content=5),
    "object": completion(content={"text": "hello"}),
    "list of numbers": completion(content=[1, 2]),
    "list of pictures": completion(content=[{"type": "image_url"}]),
    "no choices": without(completion(), "choices"),
    "choices empty": {**completion(), "choices": []},
    "choices null": {**completion(), "choices": None},
    "choices a text": {**completion(), "choices": "hello"},
    "choice a number": {**completion(), "choices": [7]},
    "no message": without(completion(), "choices", 0, "message"),
    "message null": {**completion(), "choices": [{"message": None, "finish_reason": "stop"}]},
    "finish a number": completion(finish_reason=3),
    "broken off": completion(finish_reason="error"),
    "a list": json.dumps([completion()]).encode(),
    "a number": b"5",
    "null": b"null",
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deep content": b'{"choices": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
}


@pytest.mark.parametrize("answer", UNREADABLE.values(), ids=UNREADABLE)
async def test_a_malformed_answer_is_retried_and_then_fails_its_episode_in_plain_words(stub, answer):
    stub.script = [answer, "answer"]
    assert (await engine(stub).complete(request())).text == "hello"
    stub.script, sent = [answer], len(stub.bodies)
    with pytest.raises(PlayerError) as error:
        await engine(stub, max_tries=3).complete(request())
    assert len(stub.bodies) == sent + 3
    assert error.value.kind == "endpoint"
    words = str(error.value)
    assert not any(
        name in words for name in ("Error", "NoneType", "dict", "'int'", "recursion", "attribute", "object of")
    )


UNSCORED = {
    "null logprobs of a refusal": completion(content=None, message={"refusal": "No."}),
    "no text": completion(content=""),
    "logprobs a list": {**completion(), "choices": [{**completion()["choices"][0], "logprobs": [1]}]},
    "no tokens": {**completion(), "choices": [{**completion()["choices"][0], "logprobs": {"content": []}}]},
    "token a number": {**completion(), "choices": [{**completion()["choices"][0], "logprobs": {"content": [1]}}]},
    "null": scored({"token": "A", "logprob": None}),
    "text": scored({"token": "A", "logprob": "-1"}),
    "true": scored({"token": "A", "logprob": True}),
    "huge": scored({"token": "A", "logprob": 1e308}),
    "probability": scored({"token": "A", "logprob": 0.7}),
    "all certain": scored({"token": "A", "logprob": 0.0}, {"token": "B", "logprob": 0.0}),
    "more than one together": scored({"token": "A", "logprob": -0.5}, {"token": "x", "logprob": -0.6}),
    "endless": scored({"token": "A", "logprob": -(10**400)}),
    "no token": scored({"logprob": -1.0}),
    "token a list": scored({"token": ["A"], "logprob": -1.0}),
    "entry a number": scored(-1.0),
}


@pytest.mark.parametrize("answer", UNSCORED.values(), ids=UNSCORED)
async def test_malformed_probabilities_are_no_probabilities(stub, answer):
    stub.script = [answer, "logprobs"]
    assert (await engine(stub).complete(request(labels=("A", "B")))).text == "B"
    stub.script = [answer]
    with pytest.raises(PlayerError, match=r"logprob|token probabilities") as error:
        await engine(stub, max_tries=2).complete(request(labels=("A", "B")))
    assert "Error" not in str(error.value)


@pytest.mark.parametrize("answer", [completion(), scored()], ids=["no logprobs", "none at the top"])
async def test_the_first_answer_without_probabilities_stops_the_run(stub, answer):
    stub.script = [answer]
    made = engine(stub)
    for _ in range(2):
        with pytest.raises(EngineClosedError, match="gives no token probabilities"):
            await made.complete(request(labels=("A", "B")))
    assert len(stub.bodies) == 1
    stub.script = ["logprobs", answer, "logprobs"]  # it gave some before: another try may do so again
    made = engine(stub)
    for _ in range(2):
        assert (await made.complete(request(labels=("A", "B")))).text == "B"


async def test_a_probability_may_be_rounded_to_a_little_more_than_one(stub):
    stub.script = [scored({"token": "A", "logprob": 1e-7}, {"token": "B", "logprob": -9999.0})]
    scores = (await engine(stub).complete(request(labels=("A", "B")))).label_scores
    assert scores.logprobs == (0.0, -9999.0) and scores.mass == 1.0


async def test_probabilities_may_be_rounded_to_a_little_more_than_one_together(stub):
    stub.script = [scored({"token": "A", "logprob": -0.69}, {"token": "B", "logprob": -0.69})]
    assert (await engine(stub).complete(request(labels=("A", "B")))).label_scores.mass == 1.0


async def test_a_scored_question_is_not_cut_off(stub):
    stub.script = [scored({"token": "A", "logprob": -1.0}, finish_reason="length")]
    assert not (await engine(stub).complete(request(labels=("A", "B")))).cut_off


async def test_the_most_probable_token_is_found_wherever_it_stands(stub):
    stub.script = [scored({"token": "A", "logprob": -3.0}, {"token": "x", "logprob": -0.1})]
    reply = await engine(stub).complete(request(labels=("A", "B")))
    assert reply.text == "A" and not reply.label_scores.argmax_is_label


async def test_when_no_answer_can_be_read_the_run_stops_before_much_is_spent(stub, monkeypatch):
    monkeypatch.setattr(api_engine, "UNREADABLE_REQUESTS", 3)
    stub.script = [completion(content=5)]
    made = engine(stub, max_tries=2)
    for _ in range(2):
        with pytest.raises(PlayerError):
            await made.complete(request())
    with pytest.raises(EngineClosedError, match="3 requests in a row"):
        await made.complete(request())
    with pytest.raises(EngineClosedError):
        await made.complete(request())
    assert len(stub.bodies) == 6


async def test_unreadable_answers_between_others_stop_nothing(stub, monkeypatch):
    monkeypatch.setattr(api_engine, "UNREADABLE_REQUESTS", 2)
    made = engine(stub, max_tries=1)
    for _ in range(3):
        stub.script = [completion(content=5), "answer"]
        with pytest.raises(PlayerError):
            await made.complete(request())
        assert (await made.complete(request())).text == "hello"


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("content_filter", "content_filter"),
        ("SAFETY", "content_filter"),
        ("refusal", "refusal"),
        ("tool_calls", "stop"),
        (None, "stop"),
    ],
)
async def test_why_a_reply_ended_is_recorded(stub, reason, finish):
    stub.script = [completion(content="half of", finish_reason=reason)]
    reply = await engine(stub).complete(request())
    assert (reply.text, reply.finish) == ("half of", finish)
    assert reply.cut_off == (finish in ("length", "content_filter"))


@pytest.mark.parametrize(("content", "text"), [(None, "No."), ("Well:", "Well:\nNo.")])
async def test_a_refusal_is_recorded_as_one(stub, content, text):
    stub.script = [completion(content=content, message={"refusal": "No."})]
    reply = await engine(stub).complete(request())
    assert (reply.text, reply.finish) == (text, "refusal")


FILTERS = [
    (400, {"message": "The response was filtered", "code": "content_filter"}, {}),
    (400, {"message": "policy", "code": "content_policy_violation"}, {}),
    (403, {"message": "flagged", "code": 403, "metadata": {"reasons": ["x"], "flagged_input": "y"}}, {}),
]


@pytest.mark.parametrize("refusal", FILTERS, ids=str)
async def test_a_prompt_that_a_filter_stopped_is_a_reply_that_says_so(stub, refusal):
    stub.script = [refusal]
    made = engine(stub, prompt_price=1000.0, spend_cap=1.0)
    reply = await made.complete(request())
    assert (reply.text, reply.finish, reply.completion_tokens, made._spend.spent) == ("", "content_filter", 0, 0.0)
    assert len(stub.bodies) == 1


async def test_a_question_about_labels_that_a_filter_stopped_fails(stub):
    for answer in (FILTERS[0], completion(content=None, finish_reason="content_filter")):
        stub.script = [answer]
        with pytest.raises(PlayerError, match="filter"):
            await engine(stub).complete(request(labels=("A", "B")))


THOUGHTS = {
    "DeepSeek": completion(message={"reasoning_content": "hmm"}),
    "vLLM": completion(message={"reasoning": "hmm", "reasoning_content": None}),
    "OpenRouter": completion(
        message={"reasoning": "hmm", "reasoning_details": [{"type": "reasoning.text", "text": "hmm"}]}
    ),
    "details": completion(
        message={
            "reasoning": None,
            "reasoning_details": [
                {"type": "reasoning.summary", "summary": "h"},
                {"type": "reasoning.encrypted", "data": "xxx"},
                {"type": "reasoning.text", "text": "mm"},
            ],
        }
    ),
    "Mistral": completion(
        content=[
            {"type": "thinking", "thinking": [{"type": "text", "text": "h"}, {"type": "text", "text": "mm"}]},
            {"type": "text", "text": "hello"},
        ]
    ),
    "Anthropic": completion(content=[{"type": "thinking", "thinking": "hmm"}, {"type": "text", "text": "hello"}]),
}


@pytest.mark.parametrize("answer", THOUGHTS.values(), ids=THOUGHTS)
async def test_reasoning_is_kept_apart_in_all_dialects(stub, answer):
    answer["usage"] = {
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "completion_tokens_details": {"reasoning_tokens": 7},
    }
    stub.script = [answer]
    reply = await engine(stub).complete(request())
    assert (reply.text, reply.reasoning, reply.reasoning_tokens) == ("hello", "hmm", 7)


async def test_a_reply_that_was_cut_in_thought_has_no_text(stub):
    stub.script = [completion(content=None, finish_reason="length", message={"reasoning_content": "hmm, I"})]
    reply = await engine(stub).complete(request())
    assert (reply.text, reply.finish, reply.reasoning) == ("", "length", "hmm, I")


@pytest.mark.parametrize("odd", [5, ["hmm"], {"text": "hmm"}, [5], "", None])
async def test_reasoning_in_no_known_form_is_left_out(stub, odd):
    stub.script = [completion(message={"reasoning": odd, "reasoning_content": odd if odd != [5] else 5})]
    reply = await engine(stub).complete(request())
    assert (reply.text, reply.reasoning) == ("hello", "")


@pytest.mark.parametrize("total", [150, None, 1.5])
async def test_billed_thoughts_that_completion_tokens_leave_out_count(stub, total):
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": total}
    stub.script = [completion(usage={**usage, "completion_tokens_details": {"reasoning_tokens": 40}})]
    reply = await engine(stub).complete(request())
    assert (reply.completion_tokens, reply.reasoning_tokens) == (50, 40)


@given(counts=st.fixed_dictionaries({name: st.integers(0, 60) | st.none() for name in ("p", "c", "t", "r", "w", "k")}))
def test_parts_of_a_usage_add_up_to_no_more_than_the_whole(counts):
    prompt = {"cached_tokens": counts["r"], "cache_write_tokens": counts["w"]}
    usage = {"prompt_tokens": counts["p"], "completion_tokens": counts["c"], "total_tokens": counts["t"]}
    usage |= {"prompt_tokens_details": prompt, "completion_tokens_details": {"reasoning_tokens": counts["k"]}}
    found = read_usage({"usage": usage})
    read = counts["r"] or 0
    assert found.cached == (read if read <= (found.prompt or 0) else 0), "more than there was is not believed"
    assert found.cached + found.written == min(found.cached + (counts["w"] or 0), found.prompt or 0)
    assert found.reasoning == min(counts["k"] or 0, found.completion or 0)


@pytest.mark.parametrize("place", range(3))
def test_a_sum_of_which_a_part_is_no_count_is_not_told(place):
    wrong = [-1 if n == place else 5 for n in range(3)]
    assert usage_in_parts([5, 5, 5], wrong, 0, wrote=True) == Usage(15, None, cached=5, written=5)
    assert usage_in_parts(wrong, [5, None], 0, wrote=True) == Usage(None, 5)


def test_a_whole_that_is_less_than_its_thoughts_is_not_told():
    assert usage_in_parts([5, 0, 0], [9], 10, wrote=True) == Usage(5, None)
    assert usage_in_parts([5, 0, 0], [9], 9, wrote=True) == Usage(5, 9, reasoning=9)


async def test_an_error_sent_as_an_answer_is_an_error(stub):
    def within(**error):
        return {"error": error, "id": "x"}

    stub.script = [within(code=502, message="overloaded"), within(message="odd"), "answer"]
    assert (await engine(stub).complete(request())).text == "hello"
    stub.script = [within(code=402, message="no money")]
    with pytest.raises(EngineClosedError, match="no money"):
        await engine(stub).complete(request())
