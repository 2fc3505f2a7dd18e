"""Each provider's client against its format: replies, thoughts that go back with their signatures, costs, label scores."""

import dataclasses
import json

import pytest

from cluster.engines.base import Sampling
from cluster.engines.providers.bedrock import _with_bytes
from cluster.runner.model_player import request_for
from evals.replies.reasoning import separate_reasoning
from evals.suite import plan_for, play_episode
from evals.suites.kidgym import KidGymSuite
from evals.suites.kumo import KumoSuite
from evals.suites.multistar import MultiStarSuite
from evals.types import PlayerError, message
from tests.cluster.providers.engines import SETTINGS, THINKING, engine, request
from tests.cluster.providers.stub import KEY, TOP

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


@pytest.mark.parametrize("thinks", [True, False])
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("name", SETTINGS)
async def test_a_chat_goes_on_after_a_reply_that_was_cut_off_before_its_first_word(stub, name, keep, thinks):
    stub.say, stub.thinks = "", thinks
    made = engine(name, stub, keeps_reasoning=keep and name in THINKING)
    first = request()
    assert (await made.complete(first)).text == ""
    stub.issued.clear()
    await made.complete(request(turn=1, chat=(*first.chat, message("assistant", ""), message("user", "More."))))
    assert stub.wrong == []
    assert [word in json.dumps(stub.bodies[-1]) for word in ("Go.", "More.")] == [True, True]


@pytest.mark.parametrize(("asked", "goes_back"), [({}, True), ({"extra_body": {"include": []}}, False)])
@pytest.mark.parametrize("name", ["responses", "azure"])
async def test_thoughts_of_a_model_that_thinks_by_itself_go_back_encrypted_or_not_at_all(stub, name, asked, goes_back):
    made = engine(name, stub, effort=None, **asked)
    first = request()
    await made.complete(first)
    stub.issued.clear()
    await made.complete(request(turn=1, chat=(*first.chat, message("assistant", "A"), message("user", "More."))))
    assert ("gAAA1" in json.dumps(stub.bodies[-1])) is goes_back
    assert stub.wrong == []


DRAWN = {
    "temperature": 0.37,
    "top_p": 0.83,
    "top_k": 17,
    "min_p": 0.07,
    "presence_penalty": 0.21,
    "frequency_penalty": 0.31,
    "repetition_penalty": 1.29,
    "stop": ("END OF REPLY",),
}


@pytest.mark.parametrize("name", SETTINGS)
async def test_whatever_changes_how_a_model_draws_reaches_it_or_is_refused(stub, name):
    def values(data):
        if isinstance(data, dict):
            data = list(data.values())
        return [value for part in data for value in values(part)] if isinstance(data, list) else [data]

    unthinking = {setting: None for setting in ("effort", "thinking_tokens") if setting in SETTINGS[name][1]}
    taken = {}
    for setting, value in DRAWN.items():
        try:
            made = engine(name, stub, Sampling(**{"temperature": 1.0, setting: value}), **unthinking)
        except ValueError as refused:
            assert setting in str(refused)
            continue
        assert (await made.complete(request())).text == "A"
        sent = value[0] if setting == "stop" else value
        taken[setting] = sent in values(stub.bodies[-1])
    assert {"temperature", "top_p"} <= taken.keys() and all(taken.values()), taken
    assert set(DRAWN) == {field.name for field in dataclasses.fields(Sampling)} - {"max_tokens", "extra"}


async def test_a_model_that_does_not_think_is_asked_for_thoughts_only_once(stub):
    stub.thinks = False
    words = "Encrypted content is not supported with this model."
    stub.script = [(400, {"error": {"message": words, "type": "invalid_request_error", "param": "include"}})]
    made = engine("responses", stub, effort=None)
    replies = [await made.complete(request(number)) for number in (1, 2)]
    assert [reply.text for reply in replies] == ["A", "A"]
    assert ["include" in body for body in stub.bodies] == [True, False, False]


@pytest.mark.parametrize("name", THINKING)
async def test_thoughts_go_back_though_the_model_writes_marks_of_thinking(stub, name):
    stub.say = "<thinking>So.</thinking>B"
    made = engine(name, stub)
    first = request()
    reply = separate_reasoning(await made.complete(first))
    assert reply.text == "B"
    signed = json.dumps(stub.issued[stub.say])
    await made.complete(request(turn=1, chat=(*first.chat, message("assistant", "B"), message("user", "More."))))
    sent = json.dumps(stub.bodies[-1])
    assert any(mark in sent for mark in ("EqoB1", "gAAA1", "c2lnbmF0dXJl") if mark in signed)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("responses", ("reasoning",)),
        ("azure", ("reasoning",)),
        ("bedrock", ("additionalModelRequestFields", "output_config")),
        ("anthropic", ("output_config",)),
    ],
)
async def test_that_a_model_is_not_to_think_is_said(stub, name, where):
    settings = {"thinking_tokens": None} if name in ("bedrock", "anthropic") else {}
    found = engine(name, stub, effort="none", **settings).body(request())
    for place in where:
        found = found[place]
    assert found == {"effort": "none"}


async def test_openrouter_answers_by_the_responses_api_too(stub):
    reply = await engine("openrouter", stub, api="responses").complete(request())
    assert (reply.text, reply.prompt_tokens) == ("A", 5100)


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


@pytest.mark.parametrize(("name", "settings"), [("chat", {}), ("gemini", {"thinking_tokens": 0, "effort": None})])
async def test_label_scores_come_from_the_most_likely_tokens(stub, name, settings):
    stub.thinks = False
    reply = await engine(name, stub, **settings).complete(request(labels=("A", "B", "C")))
    scores = reply.label_scores
    assert (reply.text, scores.exact, scores.argmax_is_label) == ("A", False, True)
    assert scores.logprobs[:2] == (TOP["A"], TOP["B"]) and scores.logprobs[2] != scores.logprobs[2]


def test_pictures_and_encrypted_thoughts_are_bytes_for_bedrock():
    sent = {"a": [{"redactedContent": "YWI="}, {"image": {"source": {"bytes": "YWI="}}}, {"text": "YWI="}]}
    told = {"a": [{"redactedContent": b"ab"}, {"image": {"source": {"bytes": b"ab"}}}, {"text": "YWI="}]}
    assert _with_bytes(sent) == told
