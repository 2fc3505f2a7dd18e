"""How requests reach vLLM and what becomes of its answers and errors, with stand-ins for vLLM's own classes."""

import dataclasses
import math
import sys
from types import SimpleNamespace

import pytest

from cluster.engines import vllm as module
from cluster.engines import vllm_facts
from cluster.engines.base import EngineClosedError, EngineDiedError, EngineError, Request, Sampling
from cluster.engines.vllm import VLLMEngine
from cluster.engines.vllm_facts import PictureCounts
from cluster.engines.vllm_sampling import label_parameters, reply_parameters
from evals.types import LabelScores, PlayerError, PromptTooLong, Reply
from tests.cluster.test_vllm_sampling import ESCAPED_GRAMMAR, VLLM


class DeadError(Exception):
    """As ``EngineDeadError``."""


class ClientError(Exception):
    """As ``VLLMClientError``."""


class Parameters(dict):
    """As ``SamplingParams``."""

    __getattr__ = dict.__getitem__


@pytest.fixture(autouse=True)
def vllm(monkeypatch):
    detects = {"RepetitionDetectionParams": lambda **given: ("detection", given), "SamplingParams": Parameters}
    detection = SimpleNamespace(**vars(VLLM) | detects)
    for name, stub in {
        "vllm": SimpleNamespace(exceptions=SimpleNamespace(VLLMClientError=ClientError)),
        "vllm.sampling_params": detection,
        "vllm.v1.structured_output.utils": ESCAPED_GRAMMAR,
        "vllm.v1.engine.exceptions": SimpleNamespace(EngineDeadError=DeadError),
    }.items():
        monkeypatch.setitem(sys.modules, name, stub)


# --- parameters ------------------------------------------------------------------------------------------------------

FREE = {"lossless": True, "skip_special_tokens": True, "reasons": False}
GREEDY = {"temperature": 0.0, "presence_penalty": 0.1, "frequency_penalty": 0.2, "repetition_penalty": 1.3}
DRAWN = {"top_p": 0.9, "top_k": 7, "min_p": 0.05}


@pytest.mark.parametrize(
    ("sampling", "room", "how", "sent"),
    [
        ({}, 50, {}, {"detokenize": False, "max_tokens": 20, "stop": None}),
        ({}, 5, {"lossless": False}, {"detokenize": True, "max_tokens": 5, "stop": None}),
        ({"stop": ("a", "b")}, 50, {}, {"detokenize": True, "max_tokens": 20, "stop": ["a", "b"]}),
        ({"temperature": 0.7}, 50, {}, {**DRAWN, "seed": 3, "detokenize": False, "max_tokens": 20, "stop": None}),
        (
            {"extra": {"min_tokens": 9, "logit_bias": {"5": 1}, "repetition_detection": {"size": 2}}},
            8,
            {"skip_special_tokens": False},
            {
                **{"detokenize": True, "max_tokens": 8, "stop": None, "min_tokens": 8, "skip_special_tokens": False},
                **{"logit_bias": {5: 1.0}, "repetition_detection": ("detection", {"size": 2})},
            },
        ),
    ],
)
def test_a_free_reply_is_drawn_as_the_settings_say_within_the_room(sampling, room, how, sent):
    settings = Sampling(**{"max_tokens": 20, **GREEDY, **DRAWN, **sampling})
    found = reply_parameters(settings, Request("id", (), seed=3), room, **{**FREE, **how})
    expected = {**GREEDY, "skip_special_tokens": True, "output_kind": 2, **sent}
    assert found == {**expected, "temperature": settings.temperature}


def test_a_constrained_reply_is_cut_by_nothing_but_the_room():
    extra = {"min_tokens": 9, "ignore_eos": True, "stop_token_ids": [1], "bad_words": ["x"]}
    settings = Sampling(max_tokens=20, stop=("a",), extra=extra)
    found = reply_parameters(settings, Request("id", (), schema="{}"), 50, **FREE)
    assert found["structured_outputs"] == {"json": "{}"} and (found["max_tokens"], found["detokenize"]) == (20, False)
    assert found["bad_words"] == ["x"] and not {"stop", "min_tokens", "ignore_eos", "stop_token_ids"} & found.keys()
    assert reply_parameters(settings, Request("id", (), schema="{}"), 9, **FREE)["max_tokens"] == 9


def test_labels_are_scored_by_their_tokens():
    asked = {"detokenize": False, "max_tokens": 1, "temperature": 0.0, "logprob_token_ids": [5, 3], "output_kind": 2}
    assert label_parameters((5, 3)) == asked


# --- answers ---------------------------------------------------------------------------------------------------------


def ready(answer=None, error=None, **reasoning):
    """An engine that has started, whose vLLM gives this answer or error; what it is asked is in ``asked``."""
    engine = VLLMEngine(Sampling(max_tokens=20), "m")
    engine.asked, engine.max_model_len = [], 30
    shown = {"text": "red", "token_ids": [8, 9], "finish_reason": "stop", "logprobs": None}

    async def generate(prompt, parameters, id, **more):
        engine.asked.append((prompt, parameters, id, more))
        if error is not None:
            raise error
        if answer != "nothing":
            yield None
            yield SimpleNamespace(
                prompt_token_ids=[1] * 12,
                num_cached_tokens=4,
                metrics=SimpleNamespace(num_preemptions=2),
                outputs=[SimpleNamespace(**{**shown, **(answer or {})})],
            )

    async def engine_input(rendered):
        return {"prompt_token_ids": [1] * len(rendered["prompt"])}

    engine._engine = SimpleNamespace(generate=generate)
    engine._chat = SimpleNamespace(
        rendered=lambda chat: {"prompt": chat},
        label_tokens=lambda text, labels: [ord(label) for label in labels],
        engine_input=engine_input,
    )
    engine._tokens = SimpleNamespace(lossless=True, decode=lambda ids: f"decoded {[*ids]}")
    told = {"opened": lambda text: "<think>" if text.endswith("<think>") else "", "parsed": False}
    told |= {
        "skip_special_tokens": True,
        "separate": lambda reply, ids, opened: dataclasses.replace(reply, reasoning="why"),
    }
    engine._reasoning = SimpleNamespace(**{**told, **reasoning})
    engine._hits = None
    return engine


async def test_an_answer_is_a_reply_with_its_counts():
    engine = ready()
    reply = await engine.complete(Request("game-3", "prompt", seed=3, priority=7))
    expected = Reply("decoded [8, 9]", "stop", 12, 2, 4, reply.seconds, reasoning="why", preemptions=2)
    assert reply == expected and reply.seconds >= 0
    ((prompt, parameters, id, more),) = engine.asked
    assert (len(prompt["prompt_token_ids"]), id, more) == (6, "game-3", {"priority": 7})
    assert (parameters["max_tokens"], parameters["detokenize"]) == (20, False)
    cut = ready({"finish_reason": "length"})
    assert (await cut.complete(Request("a", "p" * 29))).finish == "length" and cut.asked[0][1]["max_tokens"] == 1
    with pytest.raises(PromptTooLong, match="30 tokens"):
        await cut.complete(Request("a", "p" * 30))
    whole = ready()
    whole._tokens.lossless = False
    assert (await whole.complete(Request("a", "p"))).text == "red" and whole.asked[0][1]["detokenize"]


async def test_a_reply_after_a_parsed_thought_is_whole_text_with_the_template_s_arguments():
    engine = ready(parsed=True)
    engine._template_arguments = {"enable_thinking": True}
    assert (await engine.complete(Request("a", "p"))).text == "red"
    kwargs = {"chat_template_kwargs": {"enable_thinking": True}}
    assert engine.asked[0][3] == {"priority": 0, "reasoning_parser_kwargs": kwargs}


async def test_labels_are_answered_by_the_most_probable_one_and_nothing_is_separated():
    rows = [{ord(label): SimpleNamespace(logprob=math.log(p)) for label, p in (("A", 0.2), ("B", 0.5), ("C", 0.1))}]
    engine = ready({"logprobs": rows, "finish_reason": "length", "token_ids": [ord("B")]})
    reply = await engine.complete(Request("a", "p", labels=("A", "B", "C")))
    assert (reply.text, reply.finish, reply.reasoning, reply.completion_tokens) == ("B", "stop", "", 1)
    assert reply.label_scores == LabelScores(
        tuple(map(math.log, (0.2, 0.5, 0.1))), pytest.approx(0.8), argmax_is_label=True
    )
    assert engine.asked[0][1] == label_parameters([65, 66, 67])
    other = ready({"logprobs": rows, "token_ids": [ord("X")]})
    assert not (await other.complete(Request("a", "p", labels=("A", "B")))).label_scores.argmax_is_label
    with pytest.raises(PlayerError, match="no log-probabilities"):
        await ready().complete(Request("a", "p", labels=("A", "B")))


@pytest.mark.parametrize(
    ("text", "reasoning", "parsed", "fits"),
    [("red", "", False, True), ("re", "", False, False), ("", "thought", True, True), ("re", "thought", True, False)],
)
async def test_a_constrained_reply_is_one_of_the_options_or_a_thought_that_found_no_end(text, reasoning, parsed, fits):
    separate = lambda reply, ids, opened: dataclasses.replace(reply, text=text, reasoning=reasoning)  # noqa: E731
    engine = ready({"text": text}, parsed=parsed, separate=separate)
    engine._tokens.decode = lambda ids: text
    if fits:
        reply = await engine.complete(Request("a", "p", options=("red", "green")))
        assert (reply.text, reply.reasoning) == (text, reasoning)
    else:
        with pytest.raises(PlayerError, match="none of the options"):
            await engine.complete(Request("a", "p", options=("red", "green")))


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "raised", "said"),
    [
        (DeadError("x"), EngineDiedError, "vLLM died: its process is gone"),
        (ClientError("too many pictures"), PlayerError, "vLLM refused the request: too many pictures"),
        (ValueError("bad grammar"), PlayerError, "vLLM refused the request: bad grammar"),
        (caused(RuntimeError("x"), ValueError("bad bias")), PlayerError, "vLLM refused the request: bad bias"),
        (RuntimeError("CUDA error"), EngineError, "vLLM failed: RuntimeError: CUDA error"),
        (caused(RuntimeError("x"), KeyError("y")), EngineError, "vLLM failed: KeyError: 'y'"),
    ],
    ids=str,
)
async def test_an_error_is_of_the_request_or_of_the_engine(error, raised, said):
    with pytest.raises(raised) as found:
        await ready(error=error).complete(Request("a", "p"))
    assert str(found.value) == said and type(found.value) is raised


@pytest.mark.parametrize(
    ("finish", "whole"), [("stop", True), ("length", True), ("repetition", True), ("abort", False)]
)
async def test_a_reply_that_vllm_gave_up_is_asked_again(finish, whole):
    engine = ready({"finish_reason": finish})
    if whole:
        assert (await engine.complete(Request("a", "p"))).finish == ("length" if finish == "length" else "stop")
    else:
        with pytest.raises(EngineError, match="aborted the request: abort"):
            await engine.complete(Request("a", "p"))
    with pytest.raises(EngineError, match="aborted the request: None"):
        await ready("nothing").complete(Request("a", "p"))


@pytest.mark.parametrize(
    ("prompt", "asked", "parsed", "said"),
    [
        ("p<think>", {}, False, ""),
        ("p<think>", {"options": ("red",)}, False, "a constrained reply could not end"),
        ("p<think>", {"schema": "{}"}, False, "a constrained reply could not end"),
        ("p<think>", {"schema": "{}"}, True, ""),
        ("p<think>", {"labels": ("A",)}, True, "opens a thought, so the next token is no label"),
        ("p", {"options": ("red",)}, False, ""),
    ],
)
async def test_what_a_thought_makes_meaningless_is_refused_for_all_requests(prompt, asked, parsed, said):
    engine = ready({"text": "red"}, parsed=parsed)
    engine._tokens.decode = lambda ids: "red"
    if said:
        with pytest.raises(EngineClosedError, match=said):
            await engine.complete(Request("a", prompt, **asked))
        assert engine.asked == []
    else:
        assert (await engine.complete(Request("a", prompt, **asked))).text == "red"


async def test_beginnings_are_computed_first_and_hits_are_watched():
    engine, seen = ready(), []

    async def store(prompt, compute):
        await compute({"prompt_token_ids": [1, 2]})

    engine._beginnings = SimpleNamespace(store=store)
    engine._hits = SimpleNamespace(saw=lambda *given: seen.append(given))
    await engine.complete(Request("game-3", "prompt", priority=2))
    first, second = engine.asked
    assert first == ({"prompt_token_ids": [1, 2]}, label_parameters([0]), "game-3-beginning", {"priority": 2})
    assert second[2] == "game-3" and seen == [(12, 4)]


# --- the engine ------------------------------------------------------------------------------------------------------


async def test_other_weights_forget_what_the_old_ones_computed_before_anything_is_asked(monkeypatch):
    engine, done = ready(), []

    def noting(name, answer=True):
        async def call(*given, **more):
            done.append((name, *given, *more.values()))
            return answer

        return call

    for name in ("collective_rpc", "reset_prefix_cache", "reset_mm_cache", "reset_encoder_cache"):
        setattr(engine._engine, name, noting(name))
    monkeypatch.setattr(engine, "_prepare", noting("prepare"))
    assert await engine.load_weights("/new") and engine.model == "/new"
    assert done == [
        ("collective_rpc", "reload_weights", {"weights_path": "/new"}),
        *(("reset_prefix_cache",), ("reset_mm_cache",), ("reset_encoder_cache",), ("prepare",)),
    ]
    engine._engine.reset_prefix_cache = noting("reset_prefix_cache", answer=False)
    with pytest.raises(EngineError, match="in use"):
        await engine.load_weights("/newer")
    assert engine.model == "/new"


async def test_health_goes_through_the_process_and_after_the_end_nothing_is_asked(monkeypatch):
    engine, done = ready(), []
    children = [
        SimpleNamespace(name=name, join=lambda seconds, name=name: done.append((name, seconds)))
        for name in ("EngineCore_0", "other")
    ]
    monkeypatch.setattr(module.multiprocessing, "active_children", lambda: children)

    def say(name, error=None):
        async def call():
            done.append(name)
            if error is not None:
                raise error

        return call

    engine._engine = SimpleNamespace(
        check_health=say("check"), is_sleeping=say("round trip"), shutdown=lambda timeout: done.append(timeout)
    )
    await engine.check_health()
    assert done == ["check", "round trip"]
    engine._engine.is_sleeping = say("round trip", DeadError())
    with pytest.raises(EngineDiedError):
        await engine.check_health()
    done.clear()
    await engine.close()
    await engine.close()
    assert done == [module.CLOSE_SECONDS, ("EngineCore_0", module.CLOSE_SECONDS)]
    for asked in (engine.check_health(), engine.complete(Request("a", "p"))):
        with pytest.raises(EngineError, match="not running"):
            await asked


async def test_facts_are_those_that_every_version_tells():
    cache = SimpleNamespace(num_gpu_blocks=9, kv_cache_size_tokens=144, kv_cache_max_concurrency=1.5)
    scheduler = SimpleNamespace(max_num_batched_tokens=8192, max_num_seqs=16)
    workers = [
        {"attention_backend": "FLASH", "compile_seconds": seconds, "graph_seconds": 7 - seconds}
        for seconds in (2.0, 3.0)
    ]

    async def asked(name):
        assert name == "raycade_facts"
        return workers

    config = SimpleNamespace(cache_config=cache, scheduler_config=scheduler, use_v2_model_runner=True)
    engine = SimpleNamespace(vllm_config=config, collective_rpc=asked)
    told = {"step_tokens": 8192, "batch_slots": 16, "cache_blocks": 9}
    of_cache = {"cache_tokens": 144, "largest_concurrency": 1.5}
    of_workers = {"attention_backend": "FLASH", "compile_seconds": 3.0, "graph_seconds": 5.0}
    assert await vllm_facts.facts_of(engine) == {"model_runner": "V2", **told, **of_cache, **of_workers}
    del config.use_v2_model_runner, cache.kv_cache_size_tokens, cache.kv_cache_max_concurrency
    workers.clear()
    assert await vllm_facts.facts_of(engine) == {"model_runner": "V1", **told}


def test_pictures_that_a_cache_served_are_counted_since_they_were_last_taken():
    counts = PictureCounts()
    for hits, queries in ((1, 3), (2, 4)):
        counts.add(SimpleNamespace(hits=hits, queries=queries))
    counts.add(None)
    assert counts.take() == (3, 7) and counts.take() == (0, 0)
