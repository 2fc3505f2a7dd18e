"""How requests reach vLLM and what becomes of its answers and errors, with stand-ins for vLLM's own classes."""

import contextlib
import dataclasses
import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from cluster.engines import vllm as module
from cluster.engines import vllm_chat as module_chat
from cluster.engines import vllm_facts, vllm_process
from cluster.engines.base import EngineClosedError, EngineDiedError, EngineError, HubBusyError, Request, Sampling
from cluster.engines.prompt_check import BlankPicture
from cluster.engines.vllm import VLLMEngine
from cluster.engines.vllm_chat import VLLMChat, brief, room_for_reply
from cluster.engines.vllm_facts import PictureCounts
from cluster.engines.vllm_sampling import label_parameters, reply_parameters
from evals.types import LabelScores, Message, PlayerError, PromptTooLong, Reply
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
    engine.asked, engine.max_model_len, engine.cached = [], 30, 4
    shown = {"text": "red", "token_ids": [8, 9], "finish_reason": "stop", "logprobs": None}

    async def generate(prompt, parameters, id, **more):
        engine.asked.append((prompt, parameters, id, more))
        if error is not None:
            raise error
        if answer != "nothing":
            yield None
            yield SimpleNamespace(
                prompt_token_ids=[1] * 12,
                num_cached_tokens=engine.cached,
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
    marked = ready(skip_special_tokens=False)
    assert (await marked.complete(Request("a", "p"))).text == "red", "special tokens are in the text alone"
    warm = ready()
    for length in (29, 3):
        await warm._complete(Request("warm-up", "p" * length), 0.0, 16)
    assert [parameters["max_tokens"] for _, parameters, *_ in warm.asked] == [1, 16], "no more than there is room for"


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
    engine.cached = None  # vLLM does not know
    reply = await engine.complete(Request("game-4", "prompt"))
    assert reply.cached_tokens == 0 and seen[1:] == [(12, 0)]


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
    workers[:] = [{"attention_backend": "FLASH", "compile_seconds": 0.0, "graph_seconds": 0.0}]
    assert (await vllm_facts.facts_of(engine))["graph_seconds"] == 0.0, "known, and none"
    del config.use_v2_model_runner, cache.kv_cache_size_tokens, cache.kv_cache_max_concurrency
    workers.clear()
    assert await vllm_facts.facts_of(engine) == {"model_runner": "V1", **told}


def test_pictures_that_a_cache_served_are_counted_since_they_were_last_taken():
    counts = PictureCounts()
    for hits, queries in ((1, 3), (2, 4)):
        counts.add(SimpleNamespace(hits=hits, queries=queries))
    counts.add(None)
    assert counts.take() == (3, 7) and counts.take() == (0, 0)


# --- chats -----------------------------------------------------------------------------------------------------------


class Renderer:
    """As vLLM's, with a template that writes roles and words one after the other."""

    def __init__(self, drops=(), opening="<|assistant|>"):
        self.asked, self.drops, self.opening = [], drops, opening
        self.model_config = SimpleNamespace(multimodal_config=SimpleNamespace(interleave_mm_strings=None))

    def get_tokenizer(self):
        return None

    def render_messages(self, messages, settings):
        self.asked.append((messages, settings))
        text = ""
        for message in messages:
            if message["role"] in self.drops:
                raise ValueError(f"no  {message['role']}\nhere")
            words = [part["text"] if part["type"] == "text" else "<image>" for part in message["content"]]
            text += f"<|{message['role']}|>{''.join(words)}"
        return None, {"prompt": text + self.opening, "multi_modal_data": "pictures"}

    async def process_for_engine_async(self, prompt, arrival):
        if "refused" in prompt:
            raise ValueError("too large")
        return {**prompt, "ready": True}


@pytest.fixture
def chat_of(monkeypatch):
    """A chat's prompts for a model with this template."""

    def make(renderer=None, multimodal=True, arrange=True, keeps_reasoning=False, **arguments):
        params = SimpleNamespace(
            ChatParams=lambda **given: given,
            hf=SimpleNamespace(HfRenderer=Renderer, resolve_chat_template=lambda *_, **__: None),
        )
        monkeypatch.setitem(sys.modules, "vllm.renderers", params)
        tokens = SimpleNamespace(
            encode=lambda text: [*map(ord, text)],
            label_token=lambda text, label: ord(label[0]) if len(label) == 1 and label != "8" else None,
        )
        made = VLLMChat("m", renderer or Renderer(), tokens, multimodal, arguments)
        if arrange:
            made.arrange("auto", 3, keeps_reasoning)
        return made

    return make


SAID = (Message("system", ("Be brief.",)), Message("user", ("Hello.", "\nWhat?")))


def test_a_chat_is_rendered_by_the_template_with_the_arguments_of_the_model(chat_of):
    renderer = Renderer()
    made = chat_of(renderer, enable_thinking=False)
    assert made.rendered(SAID)["prompt"] == "<|system|>Be brief.<|user|>Hello.\nWhat?<|assistant|>"
    messages, settings = renderer.asked[-1]
    assert [message["role"] for message in messages] == ["system", "user"]
    given = settings["chat_template_kwargs"]
    assert given["enable_thinking"] is False and given["add_generation_prompt"] is True and given["tokenize"] is False
    assert settings["chat_template"] is None and settings["chat_template_content_format"] == "auto"


def test_a_template_without_a_system_turn_gets_its_words_in_the_first_question(chat_of):
    made = chat_of(Renderer(drops=("system",)))
    prompt = made.rendered(SAID)["prompt"]
    assert "<|system|>" not in prompt and "Be brief." in prompt and prompt.index("Be brief.") < prompt.index("Hello.")


def test_a_chat_that_the_model_cannot_read_is_refused_and_a_template_that_cannot_pass_any_ends_the_start(chat_of):
    shown = (Message("user", (BlankPicture(), "Look.")),)
    with pytest.raises(PlayerError, match="m reads text only, but the prompt contains a picture"):
        chat_of(multimodal=False).rendered(shown)
    assert "<image>Look." in chat_of().rendered(shown)["prompt"]
    with pytest.raises(PlayerError, match="m cannot read this chat: no assistant here"):
        chat_of(Renderer(drops=("assistant",)), arrange=False).rendered((*SAID, Message("assistant", ("Hi.",))))
    with pytest.raises(EngineError, match="does not pass chats on as they are"):
        chat_of(Renderer(drops=("user",)))


async def test_pictures_are_rendered_once_and_told_apart_by_their_keys(chat_of, monkeypatch):
    renderer, drawn = Renderer(), []
    made = chat_of(renderer, arrange=False)
    monkeypatch.setattr(BlankPicture, "render", lambda self: drawn.append(1) or np.zeros((2, 2, 3), np.uint8))
    one = BlankPicture()
    for _ in range(2):
        made._template((Message("user", (one, "Look.")),), module_chat.Arrangement())
    first, second = renderer.asked[-1][0][0]["content"]
    assert len(drawn) == 1 and (first["type"], first["uuid"]) == ("image_pil", one.key) and second["text"] == "Look."


async def test_the_engine_gets_ids_in_place_of_text(chat_of):
    made = chat_of()
    ready = await made.engine_input({"prompt": "AB", "multi_modal_data": "pictures"})
    assert ready == {"prompt_token_ids": [65, 66], "multi_modal_data": "pictures", "ready": True}
    with pytest.raises(PlayerError, match="m cannot read this chat: too large"):
        await made.engine_input({"prompt": "AB", "refused": 1})


def test_labels_that_are_no_single_tokens_are_named(chat_of, caplog):
    made = chat_of()
    assert made.label_tokens("p", ["B", "A"]) == [66, 65]
    with pytest.raises(PlayerError, match=r"the label 'AB' is not a single token of m after its chat template"):
        made.label_tokens("p", ["A", "AB"])
    with pytest.raises(PlayerError, match=r"the labels 'AB', 'CD' are not single tokens"):
        made.label_tokens("p", ["AB", "A", "CD"])
    assert len(made.label_tokens("p", ["A"] * 128)) == 128
    with pytest.raises(PlayerError, match="129 labels in one turn; vLLM scores 128 at most"):
        made.label_tokens("p", ["A"] * 129)
    made.check_choices("p")
    assert "the label '8' is not a single token" in caplog.text


def test_errors_are_quoted_on_one_short_line():
    assert brief(ValueError("a \n b")) == "a b" and brief(ValueError()) == "ValueError"
    assert brief(ValueError("x" * 400)) == "x" * 400 and brief(ValueError("x" * 401)) == "x" * 400 + " ..."
    assert room_for_reply(29, 30, 5) == 1
    with pytest.raises(PromptTooLong):
        room_for_reply(30, 30, 5)


# --- the start -------------------------------------------------------------------------------------------------------


@pytest.fixture
def started(monkeypatch, tmp_path):
    """What vLLM was started with, where it starts or raises what is put into ``fails``."""
    seen = SimpleNamespace(done=[], fails=None, cuda=True, cpu=False, answer=None)

    def from_engine_args(arguments, stat_loggers):
        seen.done.append(arguments)
        if seen.fails is not None:
            raise seen.fails
        return "an engine"

    platform = SimpleNamespace(is_cuda_alike=lambda: seen.cuda, is_cpu=lambda: seen.cpu)
    for name, stub in {
        "vllm.engine.arg_utils": SimpleNamespace(AsyncEngineArgs=lambda **given: given),
        "vllm.platforms": SimpleNamespace(current_platform=platform),
        "vllm.v1.engine.async_llm": SimpleNamespace(AsyncLLM=SimpleNamespace(from_engine_args=from_engine_args)),
    }.items():
        monkeypatch.setitem(sys.modules, name, stub)
    for name, stub in {
        "prepare_environment": lambda **given: seen.done.append(given),
        "fetch_small_files": lambda *given: seen.done.append(given),
        "prepare_cpu": lambda *given: seen.done.append(("cpu", *given)),
        "silent_statistics": lambda counts: "silent",
        "hub_answer": lambda error, lines: seen.answer,
        "ensure_tiny_model": lambda: tmp_path,
    }.items():
        monkeypatch.setattr(module if hasattr(module, name) else vllm_process, name, stub)

    async def prepare(engine):
        if isinstance(seen.prepared, Exception):
            raise seen.prepared

    async def close(engine):
        seen.done.append("close")

    seen.prepared = None
    monkeypatch.setattr(VLLMEngine, "_prepare", prepare)
    monkeypatch.setattr(VLLMEngine, "close", close)
    return seen


async def test_files_of_a_model_on_the_hub_are_fetched_first_and_those_of_a_folder_are_there(started, tmp_path):
    engine = VLLMEngine(Sampling(), "org/m", revision="r")
    await engine.start()
    environment, fetched, arguments = started.done
    assert environment == {"local": False, "deterministic": False} and fetched == ("org/m", "r")
    assert arguments == {"model": "org/m", **engine.arguments} and engine._engine == "an engine"
    for model in (str(tmp_path), "tiny"):
        started.done.clear()
        started.cpu = True
        engine = VLLMEngine(Sampling(), model, enforce_eager=True)
        await engine.start()
        environment, cpu, arguments = started.done
        assert environment["local"] and cpu == ("cpu", 1, True) and arguments["model"] == str(tmp_path)


@pytest.mark.parametrize("cuda", [True, False])
async def test_batch_invariance_is_kept_where_the_device_has_kernels_for_it(
    cuda, started, tmp_path, monkeypatch, caplog
):
    monkeypatch.setenv(vllm_process.BATCH_INVARIANT, "1")
    started.cuda = cuda
    await VLLMEngine(Sampling(), str(tmp_path), deterministic=True).start()
    assert (vllm_process.BATCH_INVARIANT in vllm_process.os.environ) is cuda
    assert ("no batch-invariant kernels" in caplog.text) is not cuda


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (None, EngineError, "vLLM cannot start m: no such file"),
        (SimpleNamespace(busy=False, text="404"), EngineError, "vLLM cannot start m: no such file (404)"),
        (
            *(SimpleNamespace(busy=True, text="429", retry_after=7.0), HubBusyError),
            "the hub is busy (429): vLLM cannot start m: no such file",
        ),
    ],
)
async def test_a_start_that_fails_says_why_and_whether_the_hub_is_busy(answer, kind, said, started):
    started.fails, started.answer = OSError("no such\nfile"), answer
    with pytest.raises(EngineError) as failed:
        await VLLMEngine(Sampling(), "m").start()
    assert (type(failed.value), str(failed.value)) == (kind, said)
    assert getattr(failed.value, "retry_after", 7.0) == 7.0


@pytest.mark.parametrize("error", [EngineError("no template"), PlayerError("no template"), KeyError("no template")])
async def test_a_model_whose_chats_cannot_be_written_is_ended_again(error, started, tmp_path):
    started.prepared = error
    with pytest.raises(EngineError, match="no template") as failed:
        await VLLMEngine(Sampling(), str(tmp_path)).start()
    assert type(failed.value) is EngineError and started.done[-1] == "close"
    assert ("cannot be used: KeyError" in str(failed.value)) is isinstance(error, KeyError)


@pytest.mark.parametrize(
    ("logged", "said"), [("CUDA out of memory", "CUDA out of memory"), ("", "See root cause above")]
)
def test_the_cause_of_a_failed_start_is_what_its_processes_have_logged(monkeypatch, logged, said):
    class Log(contextlib.nullcontext):
        cause = staticmethod(lambda: logged)
        lines = staticmethod(lambda: [])

    def fails(*_, **__):
        raise RuntimeError("Engine core initialization failed. See root cause above.")

    modules = {
        "vllm.engine.arg_utils": SimpleNamespace(AsyncEngineArgs=lambda **_: None),
        "vllm.v1.engine.async_llm": SimpleNamespace(AsyncLLM=SimpleNamespace(from_engine_args=fails)),
    }
    for name in ("vllm", "vllm.engine", "vllm.v1", "vllm.v1.engine"):
        modules[name] = SimpleNamespace()
    for name, stand_in in modules.items():
        monkeypatch.setitem(sys.modules, name, stand_in)
    monkeypatch.setattr(vllm_process, "silent_statistics", lambda pictures: None)
    with pytest.raises(EngineError, match=f"vLLM cannot start m: .*{said}"):
        vllm_process.started("m", "/m", {}, Log(), None)
