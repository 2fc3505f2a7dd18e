"""Each provider's client against its format: replies, thoughts that go back with their signatures, costs, label scores."""

import itertools
import json
import re

import pytest

from cluster.engines.base import EngineClosedError, Request, Sampling
from cluster.engines.providers.openai_clients import OpenAIClientEngine
from cluster.engines.providers.thoughts import Thoughts
from cluster.runner.model_player import request_for
from evals.suite import plan_for, play_episode
from evals.suites.kidgym import KidGymSuite
from evals.suites.kumo import KumoSuite
from evals.suites.multistar import MultiStarSuite
from evals.types import PlayerError, message
from tests.cluster.providers.engines import SETTINGS, THINKING, engine, request
from tests.cluster.providers.stub import KEY, TOP, anthropic_blocks, gemini_reply

SUITES = {
    "kumo": KumoSuite(domains=["medical"], difficulties=["easy"], tasks_per_domain=2, repeats=1),
    "kidgym": KidGymSuite(tasks=["CL", "MA"], levels=[1], modes=["zero_shot", "icl"], episodes=1),
    "multistar": MultiStarSuite(configurations=["center_single"], puzzles=1, reply="text", sweep=False),
}

COST = {
    # 100 plain, 2,000 written, 3,000 read, 50 of the reply, by hand from prices.yaml
    "anthropic": (100 * 5 + 2000 * 6.25 + 3000 * 0.5 + 50 * 25) / 1e6,
    "responses": (100 * 5 + 2000 * 6.25 + 3000 * 0.5 + 50 * 30) / 1e6,
    "chat": (100 * 5 + 2000 * 6.25 + 3000 * 0.5 + 50 * 30) / 1e6,
    # 2,100 plain, 3,000 read
    "gemini": (2100 * 1.5 + 3000 * 0.15 + 50 * 7.5) / 1e6,
    "openrouter": 0.0123,
}


class Oracle:
    """Says through the stub what perfect play would, so that games go on over several turns."""

    def __init__(self, made, stub):
        self.made, self.stub = made, stub
        self.cost = 0.0

    async def reply(self, turn):
        self.stub.say = turn.oracle()
        reply = await self.made.complete(request_for(turn, "free"))
        assert (reply.text, reply.finish) == (self.stub.say, "stop")
        self.cost += reply.cost
        return reply


@pytest.mark.slow
@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("name", SETTINGS)
async def test_all_suites_are_played(stub, name, suite):
    made = engine(name, stub)
    player = Oracle(made, stub)
    turns = 0
    for episode in plan_for(SUITES[suite], {"m": ""})[:3]:
        record = await play_episode(SUITES[suite], episode, player)
        assert record.done, record.error
        turns += len(record.turns)
    assert stub.wrong == [] and len(stub.bodies) == turns > 0
    assert player.cost == pytest.approx(COST.get(name, 0.0) * turns, abs=1e-9)
    pictures = json.dumps(stub.bodies).count("iVBORw0KGgo")  # how a PNG begins in base64
    assert (pictures > 0) == (suite != "kumo")
    assert not any(KEY in json.dumps(body) for body in stub.bodies)
    await made.close()


@pytest.mark.parametrize("name", THINKING)
async def test_thoughts_go_back_with_their_signatures_unless_they_are_to_be_dropped(stub, name):
    first = request()
    chat = (*first.chat, message("assistant", "A"), message("user", "More."))
    for keep in (True, False):
        made = engine(name, stub, keeps_reasoning=keep)
        await made.complete(first)
        marks = [mark for mark in ("EqoB", "gAAA", "c2lnbmF0dXJl") if mark in json.dumps(stub.issued)]
        await made.complete(request(turn=1, chat=chat))
        assert any(mark in json.dumps(stub.bodies[-1]) for mark in marks) is keep
        assert keep is False or stub.wrong == []
        stub.wrong.clear()


async def test_a_signature_on_a_thought_goes_back_too(stub):
    """Gemini signs a thought where it answers with nothing else that could carry the signature."""
    first = request()
    made = engine("gemini", stub)
    signed = {"text": "Hm.", "thought": True, "thoughtSignature": "c2lnbmVk"}
    answer = {"content": {"role": "model", "parts": [signed, {"text": "A"}]}, "finishReason": "STOP", "index": 0}
    stub.script = [(200, {"candidates": [answer], "usageMetadata": {"promptTokenCount": 1}})]
    await made.complete(first)
    await made.complete(request(turn=1, chat=(*first.chat, message("assistant", "A"), message("user", "More."))))
    assert "c2lnbmVk" in json.dumps(stub.bodies[-1])


@pytest.mark.parametrize("name", THINKING)
async def test_an_engine_that_did_not_receive_the_thoughts_does_not_go_on_without_them(stub, name):
    chat = (*request().chat, message("assistant", "A"), message("user", "More."))
    with pytest.raises(PlayerError, match="thoughts"):
        await engine(name, stub).complete(request(turn=1, chat=chat))
    assert stub.bodies == []


async def test_two_repeats_with_equal_words_keep_thoughts_of_their_own(stub):
    made = engine("anthropic", stub)
    for number in (1, 2):
        await made.complete(request(number))
        stub.issued.clear()
    chat = (*request().chat, message("assistant", "A"), message("user", "More."))
    for number in (1, 2):
        await made.complete(request(number, turn=1, chat=chat))
        assert f"Hm {number}." in json.dumps(stub.bodies[-1])


async def test_worked_examples_are_sent_as_they_stand(stub):
    stub.thinks = False
    chat = (message("user", "One?"), message("assistant", "Example."), message("user", "Two?"))
    for name in SETTINGS:
        await engine(name, stub).complete(request(chat=chat))
        assert "Example." in json.dumps(stub.bodies[-1])


async def test_the_growing_prompt_is_marked_for_anthropics_cache(stub):
    made = engine("anthropic", stub)
    chat = request().chat
    for turn in range(4):
        reply = await made.complete(request(turn=turn, chat=chat))
        stub.say = f"Reply {turn}"
        chat = (*chat, message("assistant", reply.text), message("user", f"Question {turn}"))
    body = stub.bodies[-1]
    marked = [block["text"] for said in body["messages"] for block in said["content"] if "cache_control" in block]
    assert marked == ["Question 1", "Question 2"] and "cache_control" in body["system"][-1]
    await engine("anthropic", stub, cache="off").complete(request())
    assert "cache_control" not in json.dumps(stub.bodies[-1])


def test_thoughts_of_the_latest_episodes_are_kept():
    thoughts = Thoughts(2)
    asked = [Request(f"e{n}-0", (message("user", "?"),)) for n in range(3)]
    for each in asked:
        thoughts.keep(each, "A", {"of": each.id})
    later = [Request(f"e{n}-1", (*asked[n].chat, message("assistant", "A"), message("user", "?"))) for n in range(3)]
    for each in later[1:]:
        assert thoughts.earlier(each) == [None, {"of": f"{each.id[:-1]}0"}, None]
    with pytest.raises(PlayerError, match="lost"):
        thoughts.earlier(later[0])


@pytest.mark.parametrize("effort", [None, "none", "low"])
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_only_chats_of_models_that_do_not_think_score_labels(api, effort):
    can = OpenAIClientEngine.capabilities({"api": api, "effort": effort})
    assert can.label_scores == (api == "chat" and effort != "low")


@pytest.mark.parametrize("name", SETTINGS)
def test_seeds_fit_the_31_bits_that_endpoints_take(name, stub):
    body = json.dumps(engine(name, stub).body(request(number=2**63 - 1)))
    seeds = [int(seed) for seed in re.findall(r'"seed": (-?\d+)', body)]
    assert seeds == [2**31 - 1] * (name in ("azure_dated", "chat", "gemini", "openrouter"))


@pytest.mark.parametrize(("name", "settings"), [("chat", {}), ("gemini", {"thinking_tokens": 0, "effort": None})])
async def test_label_scores_come_from_the_most_likely_tokens(stub, name, settings):
    stub.thinks = False
    reply = await engine(name, stub, **settings).complete(request(labels=("A", "B", "C")))
    scores = reply.label_scores
    assert (reply.text, scores.exact, scores.argmax_is_label) == ("A", False, True)
    assert scores.logprobs[:2] == (TOP["A"], TOP["B"]) and scores.logprobs[2] != scores.logprobs[2]


def test_gemini_is_told_any_budget_of_thoughts_and_asked_for_them_unless_it_is_0(stub):
    made = engine("gemini", stub)
    for made.thinking_tokens, made.effort in itertools.product((None, -1, 0, 512), (None, "low")):
        told = made.body(request())["config"]["thinking_config"]
        assert told.pop("thinking_budget", None) == made.thinking_tokens
        assert told.pop("thinking_level", None) == (made.effort and "LOW")
        assert told == ({} if made.thinking_tokens == 0 else {"include_thoughts": True})


@pytest.mark.parametrize("name", ["anthropic", "responses", "gemini", "bedrock"])
async def test_a_provider_without_label_scores_is_asked_for_none(stub, name):
    with pytest.raises(EngineClosedError, match="probabilities"):
        await engine(name, stub).complete(request(labels=("A", "B")))
    assert stub.bodies == []


def refused_anthropic(stub):
    head = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": anthropic_blocks(stub)[1:]}
    return {**head, "stop_reason": "refusal", "usage": {"input_tokens": 5, "output_tokens": 1}}


@pytest.mark.parametrize(
    ("name", "answer", "finish"),
    [
        ("anthropic", refused_anthropic, "refusal"),
        ("gemini", lambda stub: {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}}, "content_filter"),
        (
            "gemini",
            lambda stub: {"candidates": [{"finishReason": "SAFETY"}], "usageMetadata": {"promptTokenCount": 5}},
            "content_filter",
        ),
        (
            "gemini",
            lambda stub: {**gemini_reply(stub, {}), "candidates": [{"finishReason": "MAX_TOKENS"}]},
            "length",
        ),
        (
            "responses",
            lambda stub: {
                "status": "incomplete",
                "incomplete_details": {"reason": "max_output_tokens"},
                "output": [],
                "usage": {"input_tokens": 5, "output_tokens": 50, "total_tokens": 55},
            },
            "length",
        ),
        (
            "responses",
            lambda stub: {
                "status": "completed",
                "output": [{"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}],
                "usage": {"input_tokens": 5, "output_tokens": 50, "total_tokens": 55},
            },
            "refusal",
        ),
        (
            "bedrock",
            lambda stub: {
                "output": {"message": {"role": "assistant", "content": []}},
                "stopReason": "guardrail_intervened",
                "usage": {"inputTokens": 1, "outputTokens": 0, "totalTokens": 1},
            },
            "content_filter",
        ),
    ],
)
async def test_refusals_and_filters_are_told_from_answers(stub, name, answer, finish):
    made = engine(name, stub)
    if name == "anthropic":  # what a batch returns: no stream
        assert made.read_answer(answer(stub), False).finish == finish
        return
    stub.script = [(200, answer(stub))]
    assert (await made.complete(request())).finish == finish


def test_thoughts_of_several_blocks_are_told_apart_and_texts_go_on(stub):
    kinds = [("thinking", "one"), ("text", "B"), ("thinking", "two"), ("text", "ut")]
    blocks = [{"type": kind, kind: text, **({"signature": "s"} if kind == "thinking" else {})} for kind, text in kinds]
    answer = {"content": blocks, "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 2}}
    found = engine("anthropic", stub).read_answer(answer, False)
    assert (found.reasoning, found.text) == ("one\ntwo", "But") and len(found.kept) == 4


def test_what_a_provider_does_not_take_is_refused_before_anything_is_sent(stub):
    for name, sampling, said in (
        ("anthropic", Sampling(temperature=0.0), "temperature"),
        ("anthropic", Sampling(temperature=1.0, min_p=0.1), "min_p"),
        ("responses", Sampling(temperature=1.0, stop=("x",)), "stop"),
        ("bedrock", Sampling(temperature=1.0, top_k=5, max_tokens=4000), "top_k"),
        ("chat", Sampling(temperature=0.0, repetition_penalty=1.1), "repetition_penalty"),
    ):
        with pytest.raises(ValueError, match=said):
            engine(name, stub, sampling)
    with pytest.raises(ValueError, match="thinking_tokens"):
        engine("anthropic", stub, Sampling(temperature=1.0, max_tokens=1500), thinking_tokens=2000)
