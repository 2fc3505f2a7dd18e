"""Caches of hybrid models: the size of their blocks, what they serve, and beginnings that are sent on their own."""

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.models.cached_share import cached_table
from cluster.prefix_cache.beginnings import SharedBeginnings, beginning_of, tokens_of
from cluster.prefix_cache.block_size import CPU_BLOCK, block_tokens
from cluster.prefix_cache.predict import AttentionCache, HybridCache
from evals.questions import Question, QuestionSuite

SHRUNKEN = {
    "num_attention_heads": 2,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "mamba_ssm_dtype": "float32",
}


@pytest.mark.parametrize(("heads", "size", "block"), [(1, 32, 2176), (2, 64, 640)])
def test_blocks_are_as_long_as_vllm_made_them_on_a_cpu(heads, size, block):
    config = {**SHRUNKEN, "num_key_value_heads": heads, "head_dim": size}
    assert block_tokens({"text_config": config}, smallest=CPU_BLOCK) == block
    assert block_tokens({"num_attention_heads": 8, "hidden_size": 512}) is None


def test_blocks_of_full_size_are_as_long_as_vllm_says_on_gpus():
    full = {
        **SHRUNKEN,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 256,
    }
    assert block_tokens(full) == 528
    assert block_tokens(full, cache_bytes=1) == 1056
    assert block_tokens(full, gpus=2) == 528, "heads and states are divided alike"
    assert block_tokens(full, gpus=8) == 272, "from here on each GPU keeps a whole head"


prompts = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=40), min_size=1, max_size=12)


@pytest.mark.slow
@given(prompts, st.sampled_from([4, 8]), st.sampled_from([2, 4]), st.sampled_from([5, 16, 100]))
def test_a_hybrid_cache_serves_what_attention_would_at_most_and_never_the_last_token(asked, block, unit, step):
    attention, hybrid = AttentionCache(unit), HybridCache(block, unit, step)
    for prompt in asked:
        most, served = attention.ask(prompt), hybrid.ask(prompt)
        assert served <= most < len(prompt) and served % unit == 0


@pytest.mark.slow
@given(prompts, st.sampled_from([4, 8]))
def test_a_beginning_sent_first_makes_a_hybrid_cache_serve_what_attention_would(asked, unit):
    attention, hybrid = AttentionCache(unit), HybridCache(8, unit)
    for prompt in asked:
        if end := hybrid.missing(prompt):
            hybrid.ask(prompt[: end + 1])
        assert hybrid.ask(prompt) == attention.ask(prompt)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(2, 20))
def test_a_beginning_sent_first_is_whole_units_of_what_is_shared_and_parts_no_picture(shared, start, length):
    hybrid = HybridCache(8, 4)
    hybrid.ask([*range(shared), *range(50, 80)])
    end = hybrid.missing([*range(shared), *range(100, 150)], [range(start, start + length)])
    assert end % 4 == 0 and end <= shared and end not in range(start + 1, start + length)
    assert end or shared < 4 or start < shared, "all that is shared, if no picture is in the way"


@pytest.mark.parametrize(("unit", "after_reply"), [(None, 0), (32, 608)])
def test_states_are_kept_where_vllm_kept_them(unit, after_reply):
    """vLLM 0.32 reported these numbers for such prompts (Qwen3.5 with blocks of 640, 2,048 tokens a step)."""
    cache = HybridCache(640, unit, 2048)
    first, reply, more = range(620), range(1000, 1060), range(2000, 2200)
    second = [*first, *reply, *more]
    third = [*second[:700], *range(3000, 3100)]
    # No state is kept at an end of a block that is passed while a reply is written.
    assert [cache.ask([*first], [*reply]), cache.ask(second), cache.ask(third)] == [0, after_reply, 640]
    long = range(10_000, 15_000)
    # Nor at the ends of steps (1,920 and 3,840).
    cut = [cache.ask([*long[:length], *range(50)]) for length in (5000, 1000, 2000, 3000, 4500)]
    assert cut == [0, 0, 640, 1920, 4480]


@dataclass(frozen=True)
class Place:
    offset: int
    length: int


def prompt(shared, own, pictures=()):
    ids = [*shared, *own]
    places = {"image": [Place(offset, 8) for offset, _ in pictures]}
    names = {"image": [name for _, name in pictures]}
    return {
        "prompt_token_ids": ids,
        "mm_placeholders": places,
        "mm_hashes": names,
        "mm_kwargs": {"image": list(names["image"])},
    }


async def sent(prompts, **settings):
    beginnings, seen = SharedBeginnings(64, 4, 8192), []

    async def send(short):
        seen.append(short)
        await asyncio.sleep(0)
        raise RuntimeError("of the engine")

    await asyncio.gather(*(beginnings.store(each, send) for each in prompts))
    return seen


def test_prompts_that_share_a_beginning_wait_for_one_request():
    asked = [prompt(range(18), [100 + number] * 9) for number in range(5)]
    assert [len(short["prompt_token_ids"]) for short in asyncio.run(sent(asked))] == [17]


def test_a_picture_is_not_cut_and_another_picture_is_another_beginning():
    def asked(names, end):
        return prompt(range(30), [end] * 9, [(4, names[0]), (14, names[1])])

    same = [asked("ab", 100), asked("ab", 101)]
    assert [len(short["mm_hashes"]["image"]) for short in asyncio.run(sent(same))] == [2]
    second = asyncio.run(sent([asked("ab", 100), asked("ac", 101)]))
    assert [(len(short["prompt_token_ids"]), short["mm_kwargs"]) for short in second] == [(13, {"image": ["a"]})]
    third = asyncio.run(sent([asked("ab", 100), asked("cb", 101)]))
    assert [(short["prompt_token_ids"], short["mm_kwargs"]) for short in third] == [([0, 1, 2, 3, 0], {})]
    assert tokens_of(asked("ab", 1)) != tokens_of(asked("cb", 1))
    assert beginning_of({"prompt_token_ids": (1, 2, 3)}, 2) == {"prompt_token_ids": [1, 2, 1]}


QWEN = {"type": "vllm", "model": "Qwen/Qwen3.5-9B"}


class Questions(QuestionSuite):
    """Questions of 5 + ``shared`` + 190 + 5 tokens, those of message turns included."""

    name = "questions"

    def __init__(self, shared):
        self.shared = shared

    def questions(self):
        beginning = "".join(f"{number:04}" for number in range(self.shared))
        return [Question(beginning + f"{number:04}" * 190, "A") for number in range(5)]


def share(suite, **engine):
    table = cached_table({**QWEN, **engine}, suite, suite.plan())
    return [row[1:] for row in table.rows], " ".join(table.notes)


def test_a_plan_says_what_whole_blocks_of_a_shared_beginning_are():
    suite = Questions(1000)
    assert share(suite, model="Qwen/Qwen3-VL-8B-Instruct")[0] == [(1, 1200, f"{992 / 1200:.0%}")]
    rows, notes = share(suite)
    assert rows == [(1, 1200, f"{528 / 1200:.0%}", f"{992 / 1200:.0%}")] and "Warning" not in notes
    set_already = {"vllm": {"prefix_match_unit": 32}, "shared_beginnings": True}
    assert share(suite, **set_already)[0] == [(1, 1200, f"{992 / 1200:.0%}")]
    assert share(suite, vllm={"enable_prefix_caching": False})[0] == []


def test_a_plan_warns_where_a_hybrid_model_is_served_nothing():
    rows, notes = share(Questions(200))
    assert rows == [(1, 400, "0%", f"{192 / 400:.0%}")]
    assert "serves nothing of questions; try model.engine.vllm.prefix_match_unit=32" in notes


class Elsewhere(Questions):
    """Games of another program."""

    async def first_turn(self, episode):
        return None

    async def play(self, episode, conversation):
        raise AssertionError("must not be played when planning")


def test_games_of_another_program_are_not_played_when_planning():
    assert share(Elsewhere(200))[0] == []
    assert cached_table({"type": "simulated"}, Questions(1), []) is None
