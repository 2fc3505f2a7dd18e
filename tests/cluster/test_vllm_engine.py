"""The real engine with the tiny model: texts, pictures, choices, exact label scores, limits, and its end."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import signal
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import pytest_asyncio

from cluster.engines.base import EngineDiedError, EngineError, Request, Sampling
from cluster.engines.tiny_model import ensure_tiny_model
from cluster.engines.vllm import VLLMEngine
from cluster.engines.vllm_chat import VLLMChat
from cluster.prefix_cache.beginnings import SharedBeginnings
from envs.picture import Picture
from evals.types import Chat, PlayerError, PromptTooLong, Reply, message

pytestmark = [pytest.mark.vllm, pytest.mark.asyncio(loop_scope="module")]

CONTEXT = 1024
MAX_TOKENS = 16
TOLERANCE = 1e-4
"""Natural-log units between vLLM and transformers, both in float32, whose kernels add in other orders."""


@dataclass(frozen=True)
class Stripes(Picture):
    """A striped square; the tiny model's processor makes at most 64 tokens of it."""

    kind = "test_stripes"
    width: int = 8
    pixels: int = 224

    @property
    def size(self) -> tuple[int, int]:
        return self.pixels, self.pixels

    def render(self) -> np.ndarray:
        on = (np.arange(self.pixels) // self.width % 2).astype(np.uint8) * 255
        return np.ascontiguousarray(np.broadcast_to(on[None, :, None], (self.pixels, self.pixels, 3)))


def make_engine(**settings: object) -> VLLMEngine:
    defaults: dict[str, object] = {
        "model": "tiny",
        "dtype": "float32",
        "max_model_len": CONTEXT,
        "max_num_seqs": 16,
        "kv_cache_gib": 0.25,
        "enforce_eager": True,
        "limit_mm_per_prompt": {"image": 32},
        "mm_processor_cache_gb": 0.1,
    }
    return VLLMEngine(sampling=Sampling(max_tokens=MAX_TOKENS), **{**defaults, **settings})  # type: ignore[arg-type]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[VLLMEngine]:
    engine = make_engine()
    await engine.start()
    yield engine
    await engine.close()


def engine_cores() -> list[psutil.Process]:
    """Children of this process that are vLLM's."""
    return [child for child in psutil.Process().children(recursive=True) if "EngineCore" in child.name()]


def ask(*parts: str | Picture) -> Chat:
    return (message("system", "You answer briefly."), message("user", *parts))


async def test_a_text_is_answered(engine: VLLMEngine) -> None:
    reply = await engine.complete(Request("text", ask("Which test do you choose?")))
    assert reply.text
    assert reply.finish == "length"
    assert reply.completion_tokens == MAX_TOKENS
    assert 20 < reply.prompt_tokens < 60
    assert 0 < reply.seconds < 60


async def test_the_same_question_gets_the_same_answer_at_temperature_zero(engine: VLLMEngine) -> None:
    replies = [await engine.complete(Request("again", ask("Which way?"), seed=seed)) for seed in (1, 2)]
    assert replies[0].text == replies[1].text


async def test_a_picture_takes_tokens_and_decides_the_answer(engine: VLLMEngine) -> None:
    labels = tuple("ABCD")
    without = await engine.complete(Request("none", ask("What is it?"), labels=labels))
    first = await engine.complete(Request("wide", ask(Stripes(56), "What is it?"), labels=labels))
    other = await engine.complete(Request("thin", ask(Stripes(4), "What is it?"), labels=labels))
    again = await engine.complete(Request("wide again", ask(Stripes(56), "What is it?"), labels=labels))
    assert first.prompt_tokens == without.prompt_tokens + 64 + 2  # 8 x 8 patches between two marks
    assert difference(first, other) > 1e-2, "different pictures must be told apart"
    assert difference(first, again) < TOLERANCE, "the same picture must look the same from the cache"


def difference(one: Reply, other: Reply) -> float:
    """Largest difference between two replies' label scores."""
    assert one.label_scores and other.label_scores
    return max(abs(a - b) for a, b in zip(one.label_scores.logprobs, other.label_scores.logprobs, strict=True))


NASTY = (
    'say "no"',
    "it's (A|B)*",
    "back\\slash \\n",
    "two\nlines",
    "naïve 北京 – 🙂",
    "<ANSWER> Blood Test </ANSWER>",
    " leading and trailing ",
    "::= root",
    "tab\there",
    "7",
)


@pytest.mark.parametrize("option", NASTY)
async def test_a_constrained_reply_is_exactly_the_option(engine: VLLMEngine, option: str) -> None:
    reply = await engine.complete(Request("only", ask("Choose."), options=(option,)))
    assert reply.text == option
    assert reply.finish == "stop"


async def test_a_constrained_reply_is_one_of_many_options(engine: VLLMEngine) -> None:
    chats = [ask(f"Choose number {number}.") for number in range(24)]
    replies = await asyncio.gather(*(engine.complete(Request(str(i), c, options=NASTY)) for i, c in enumerate(chats)))
    assert {reply.text for reply in replies} <= set(NASTY)


async def test_an_option_may_be_longer_than_free_replies(engine: VLLMEngine) -> None:
    option = "a very long option: " + "every word of it counts " * 10
    assert (await engine.complete(Request("long", ask("Choose."), options=(option,)))).text == option


async def test_label_scores_are_the_models_own_probabilities(engine: VLLMEngine) -> None:
    labels = tuple("ABCDEFGHIJKLMNOP")
    for parts in (("Which panel completes the matrix?",), ("Look:", Stripes(14), "Which panel?", Stripes(28))):
        reply = await engine.complete(Request("labels", ask(*parts), labels=labels))
        scores, reference = reply.label_scores, reference_logprobs(ask(*parts))
        assert scores is not None and scores.exact
        expected = [reference[label] for label in labels]
        np.testing.assert_allclose(scores.logprobs, expected, atol=TOLERANCE)
        assert reply.text == labels[int(np.argmax(expected))]
        assert math.isclose(scores.mass, sum(map(math.exp, expected)), rel_tol=TOLERANCE)
        assert scores.argmax_is_label == (max(expected) > max(reference.values()) - TOLERANCE)


async def test_the_most_probable_token_is_recognized_as_a_label(engine: VLLMEngine) -> None:
    reference = reference_logprobs(ask("Say it."))
    best = max(reference, key=reference.__getitem__)
    reply = await engine.complete(Request("best", ask("Say it."), labels=("A", best)))
    assert reply.label_scores is not None
    assert reply.label_scores.argmax_is_label
    assert reply.text == best


def reference_logprobs(chat: Chat, home: Path | None = None) -> dict[str, float]:
    """Log-probability of every token as the next one, by transformers, keyed by the token's text."""
    import torch
    from PIL import Image
    from transformers import AutoProcessor, Qwen2_5_VLForConditionalGeneration

    home = home or ensure_tiny_model()
    processor = AutoProcessor.from_pretrained(home)
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(home, dtype=torch.float32)
    content = [
        {
            "role": said.role,
            "content": [
                {"type": "text", "text": part} if isinstance(part, str) else {"type": "image"} for part in said.parts
            ],
        }
        for said in chat
    ]
    pictures = [Image.fromarray(p.render()) for said in chat for p in said.parts if isinstance(p, Picture)]
    text = processor.tokenizer.apply_chat_template(content, tokenize=False, add_generation_prompt=True)
    inputs = processor(text=[text], images=pictures or None, return_tensors="pt")
    with torch.no_grad():
        logits = model(**inputs).logits[0, -1].double()
    logprobs = torch.log_softmax(logits, dim=-1).tolist()
    return {processor.tokenizer.decode([number]): value for number, value in enumerate(logprobs)}


async def test_new_weights_answer_as_a_new_engine_would_also_where_prompts_and_pictures_were_seen_before(
    engine: VLLMEngine, tmp_path: Path
) -> None:
    chat, labels = ask("Look. " * 60, Stripes(28), "Which panel?"), tuple("ABCDEFGH")

    async def answer() -> Reply:
        return await engine.complete(Request("weights", chat, labels=labels))

    fresh, cached = await answer(), await answer()
    assert cached.cached_tokens > 0 and difference(fresh, cached) < TOLERANCE
    other = perturbed(tmp_path / "checkpoint-7", seed=7)
    assert await engine.load_weights(str(other))
    changed = await answer()
    assert difference(fresh, changed) > 1e-2 and changed.label_scores and not changed.cached_tokens
    reference = reference_logprobs(chat, other)
    np.testing.assert_allclose(changed.label_scores.logprobs, [reference[label] for label in labels], atol=TOLERANCE)
    assert await engine.load_weights(str(ensure_tiny_model()))
    assert difference(fresh, await answer()) < 1e-6, "as when the engine was started with these weights"


def perturbed(home: Path, seed: int) -> Path:
    """The tiny model with noise on every weight."""
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(ensure_tiny_model(), home)
    noise = torch.Generator().manual_seed(seed)
    weights = load_file(home / "model.safetensors")
    for name, each in weights.items():
        moved = each.float() + 0.3 * each.float().std() * torch.randn(each.shape, generator=noise)
        weights[name] = moved.to(each.dtype)
    save_file(weights, home / "model.safetensors", {"format": "pt"})
    return home


async def test_a_label_of_several_tokens_is_refused_by_name(engine: VLLMEngine) -> None:
    with pytest.raises(PlayerError, match="'Abracadabra' is not a single token"):
        await engine.complete(Request("labels", ask("Choose."), labels=("A", "Abracadabra")))


class Tokens:
    """A tokenizer to which some labels are several tokens."""

    def __init__(self, *split: str) -> None:
        self.split = split

    def label_token(self, text: str, label: str) -> int | None:
        return None if label in self.split else ord(label[0])


def chat_with(*split: str, multimodal: bool = True) -> VLLMChat:
    """Prompts without an engine, of a model that has several tokens for some labels."""
    return VLLMChat("tiny", None, Tokens(*split), multimodal, {})  # type: ignore[arg-type]


async def test_labels_that_cannot_be_scored_are_named_when_the_engine_starts(caplog: pytest.LogCaptureFixture) -> None:
    chat_with().check_choices("Answer:")
    assert not caplog.messages
    chat = chat_with("C", "7", "8")
    chat.check_choices("Answer:")
    assert caplog.messages == [
        "the labels 'C', '7', '8' are not single tokens of tiny after its chat template; turns that ask for their scores "
        "will fail"
    ]
    assert chat.label_tokens("Answer:", ("A", "B")) == [65, 66]
    with pytest.raises(PlayerError, match="the labels '7', '8' are not single tokens"):
        chat.label_tokens("Answer:", tuple("12345678"))


async def test_a_prompt_that_leaves_no_room_is_too_long(engine: VLLMEngine) -> None:
    word = " the"
    base = (await engine.complete(Request("base", ask("Go" + word)))).prompt_tokens
    fits = ask("Go" + word * (CONTEXT - base))
    reply = await engine.complete(Request("fits", fits))
    assert (reply.prompt_tokens, reply.completion_tokens, reply.finish) == (CONTEXT - 1, 1, "length")
    with pytest.raises(PromptTooLong, match=rf"{CONTEXT} tokens.*max_model_len={CONTEXT}.*max_tokens={MAX_TOKENS}"):
        await engine.complete(Request("long", ask("Go" + word * (CONTEXT - base + 1))))


async def test_pictures_count_towards_the_prompts_length(engine: VLLMEngine) -> None:
    pictures = [Stripes(width) for width in range(1, 17)]
    with pytest.raises(PromptTooLong, match=r"\d{4} tokens, pictures included"):
        await engine.complete(Request("long", ask(*pictures)))


async def test_too_many_pictures_fail_that_request_only(engine: VLLMEngine) -> None:
    with pytest.raises(PlayerError, match="32"):
        await engine.complete(Request("many", ask(*[Stripes(2)] * 33)))
    assert (await engine.complete(Request("next", ask("Still there?")))).text


async def test_an_option_that_the_context_cuts_short_is_an_error(engine: VLLMEngine) -> None:
    base = (await engine.complete(Request("base", ask("Go the")))).prompt_tokens
    with pytest.raises(PlayerError, match="none of the options"):
        nearly_full = ask("Go" + " the" * (CONTEXT - base - 1))
        await engine.complete(Request("cut", nearly_full, options=("an option of many words",)))


async def test_earlier_messages_hit_the_prefix_cache(engine: VLLMEngine) -> None:
    book = "In each round choose exactly one action. " * 30
    first = await engine.complete(Request("first", ask(book)))
    longer = (*ask(book), message("assistant", first.text), message("user", "And now?"))
    second = await engine.complete(Request("second", longer))
    assert first.cached_tokens < 128
    assert second.cached_tokens >= first.prompt_tokens // 128 * 128 - 128 > 0  # whole blocks of 128 tokens
    assert second.prompt_tokens > first.prompt_tokens


async def test_further_sampling_parameters_of_vllm_have_their_effect(engine: VLLMEngine) -> None:
    usual, (letter,) = engine.sampling, engine._tokens.encode("Q")
    chat, options = ask("Say it."), ("go left", "go right")
    try:
        engine.sampling = Sampling(max_tokens=4, extra={"logit_bias": {str(letter): 100.0}})
        assert (await engine.complete(Request("bias", chat))).text == "QQQQ"
        engine.sampling = Sampling(max_tokens=4, extra={"logit_bias": {letter: 100.0}, "stop_token_ids": [letter]})
        stopped = await engine.complete(Request("stop", chat))
        assert (stopped.completion_tokens, stopped.finish) == (1, "stop")
        engine.sampling = Sampling(max_tokens=4, extra={"allowed_token_ids": [letter], "ignore_eos": True})
        assert (await engine.complete(Request("allowed", chat))).text == "QQQQ"
        engine.sampling = Sampling(max_tokens=16, extra={"min_tokens": 16, "stop_token_ids": [letter]})
        assert (await engine.complete(Request("choice", chat, options=options))).text in options
    finally:
        engine.sampling = usual


async def test_closing_leaves_no_child_process(engine: VLLMEngine) -> None:
    await engine.check_health()
    assert len(engine_cores()) == 1
    await engine.close()
    assert engine_cores() == []
    with pytest.raises(EngineError, match="not running"):
        await engine.complete(Request("late", ask("Anyone?")))


async def test_an_unresponsive_core_fails_the_health_check_and_a_killed_one_is_a_dead_engine() -> None:
    engine = make_engine()
    await engine.start()
    core = engine_cores()[0].pid
    try:
        os.kill(core, signal.SIGSTOP)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(engine.check_health(), 1)
        os.kill(core, signal.SIGCONT)
        await asyncio.wait_for(engine.check_health(), 10)
        waiting = asyncio.create_task(engine.complete(Request("victim", ask("Wait."), options=("x" * 900,))))
        await asyncio.sleep(0.05)
        os.kill(core, signal.SIGKILL)
        with pytest.raises(EngineDiedError, match="died"):
            await waiting
        with pytest.raises(EngineDiedError):
            await engine.check_health()
        with pytest.raises(EngineDiedError):
            await engine.complete(Request("next", ask("Anyone?")))
    finally:
        await engine.close()
    assert engine_cores() == []


async def test_a_model_that_cannot_start_says_why() -> None:
    with pytest.raises(EngineError, match=r"cannot start tiny: .*max_model_len \(99999\) is greater"):
        await make_engine(max_model_len=99999).start()


async def test_cut_weights_are_named_with_tensor_parallelism_too(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "0|1")
    model = tmp_path / "model"
    shutil.copytree(ensure_tiny_model(), model)
    (weights,) = model.glob("*.safetensors")
    os.truncate(weights, weights.stat().st_size // 2)
    with pytest.raises(EngineError, match="SafetensorError"):
        await make_engine(model=str(model), tensor_parallel_size=2).start()


@dataclass(frozen=True)
class Torn(Stripes):
    """A picture whose file is gone, say."""

    kind = "test_torn"

    def render(self) -> np.ndarray:
        raise FileNotFoundError("no such puzzle")


async def test_a_picture_that_cannot_be_rendered_fails_that_request_only() -> None:
    with pytest.raises(PlayerError, match=r"cannot be rendered: no such puzzle.*test_torn"):
        chat_with().rendered(ask(Torn()))


async def test_a_model_that_reads_text_only_says_so() -> None:
    with pytest.raises(PlayerError, match="tiny reads text only"):
        chat_with(multimodal=False).rendered(ask(Stripes()))


async def test_beginnings_with_pictures_sent_on_their_own_change_no_answer() -> None:
    def requests(times: str) -> list[Request]:
        words = "Both pictures show stripes, and one of the letters below says which are the wider ones. " * 3
        chats = [ask(Stripes(8), Stripes(16), words, f"Question {number}:") for number in range(4)]
        return [Request(f"{times} {number}", chat, labels=("A", "B")) for number, chat in enumerate(chats)]

    engine = make_engine()
    await engine.start()
    alone = [await engine.complete(request) for request in requests("alone")]
    await engine._engine.reset_prefix_cache()
    sent: list[int] = []
    begin = engine._begin

    async def counted(request: Request, beginning: Mapping[str, Any]) -> None:
        sent.append(len(beginning["mm_hashes"]["image"]))
        await begin(request, beginning)

    engine._begin = counted  # type: ignore[method-assign]
    engine._beginnings = SharedBeginnings(128, 16, 8192)
    try:
        together = await asyncio.gather(*map(engine.complete, requests("together")))
    finally:
        await engine.close()
    assert sent == [2]
    assert all(reply.cached_tokens >= 128 for reply in together[1:])
    for one, other in zip(alone, together, strict=True):
        assert one.label_scores and other.label_scores
        assert other.label_scores.logprobs == pytest.approx(one.label_scores.logprobs, abs=TOLERANCE)
