"""Caches of hybrid models: the size of their blocks, what they serve, and beginnings that are sent on their own."""

import asyncio
import logging
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.prefix_cache.beginnings import PROMPTS_WITHOUT_HITS, HitWatch, SharedBeginnings, beginning_of, tokens_of
from cluster.prefix_cache.block_size import CPU_BLOCK, block_tokens
from cluster.prefix_cache.predict import AttentionCache, HybridCache

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


@given(prompts, st.sampled_from([4, 8]), st.sampled_from([2, 4]), st.sampled_from([5, 16, 100]))
def test_a_hybrid_cache_serves_what_attention_would_at_most_and_never_the_last_token(asked, block, unit, step):
    attention, hybrid = AttentionCache(unit), HybridCache(block, unit, step)
    for prompt in asked:
        most, served = attention.ask(prompt), hybrid.ask(prompt)
        assert served <= most < len(prompt) and served % unit == 0


@given(prompts, st.sampled_from([4, 8]))
def test_a_beginning_sent_first_makes_a_hybrid_cache_serve_what_attention_would(asked, unit):
    attention, hybrid = AttentionCache(unit), HybridCache(8, unit)
    for prompt in asked:
        if end := hybrid.missing(prompt):
            hybrid.ask(prompt[: end + 1])
        assert hybrid.ask(prompt) == attention.ask(prompt)


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


def test_prompts_without_hits_are_told_once(caplog):
    watch = HitWatch(2176, hybrid=True)
    with caplog.at_level(logging.WARNING):
        for _ in range(3 * PROMPTS_WITHOUT_HITS):
            watch.saw(400, 0)
    assert [record.getMessage() for record in caplog.records] == [
        "the prefix cache served none of 100 prompts of 400 tokens on average; its blocks have 2176; try "
        "model.engine.vllm.prefix_match_unit=32 with model.engine.shared_beginnings=true"
    ]
    caplog.clear()
    served = HitWatch(16, hybrid=False)
    for number in range(3 * PROMPTS_WITHOUT_HITS):
        served.saw(400, 16 if number == 50 else 0)
    assert not caplog.records
