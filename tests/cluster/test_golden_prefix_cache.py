"""What prefix caches of hybrid models serve, and what is sent ahead for them, as on record in ``tests/golden``."""

import asyncio
import itertools
import logging
from types import SimpleNamespace

from cluster.prefix_cache import beginnings
from cluster.prefix_cache.beginnings import HitWatch, SharedBeginnings, beginning_of, pictures_of, tokens_of
from cluster.prefix_cache.block_size import block_tokens
from cluster.prefix_cache.predict import AttentionCache, HybridCache, prefixes
from tests.said import Said


def prompt(*parts):
    """Tokens: each part is a number and how often it comes."""
    return [token for token, count in parts for _ in range(count)]


PROMPTS = [
    *(prompt((1, 20), (2, 5)), prompt((1, 20), (3, 5)), prompt((1, 20), (4, 5)), prompt((1, 16)), prompt((1, 17))),
    *(prompt((1, 20), (2, 5), (5, 30)), prompt((1, 20), (2, 5), (6, 1)), prompt((7, 8)), prompt((7, 8), (8, 1))),
    *(prompt((1, 6)), prompt((9, 1)), prompt((1, 20), (3, 5), (1, 3)), prompt((1, 20), (2, 5), (5, 30), (6, 9))),
]


def test_what_is_served(capsys):
    said = Said(capsys)
    for block, unit, step in (
        (8, None, 100),
        (8, 4, 100),
        (8, 2, 12),
        (8, None, 8),
        (8, 4, 5),
        (16, 4, 20),
        (4, None, 9),
    ):
        attention, hybrid = AttentionCache(block), HybridCache(block, unit, step)
        said(f"--- block {block}, unit {unit}, step {step}: {hybrid.block} {hybrid.unit} {hybrid.step}")
        for number, tokens in enumerate(PROMPTS):
            before = [range(3, 7), range(14, 19)] if number % 2 else []
            ahead = hybrid.missing(tokens, before)
            written = tokens[-2:] * 3 if number % 3 == 2 else ()
            served = attention.ask(tokens, written), hybrid.ask(tokens, written)
            said(number, len(tokens), "ahead", ahead, "served", *served, "size", attention.size, hybrid.size)
        said([hybrid.missing(tokens) for tokens in PROMPTS])
        lengths = itertools.product((1, 8, 9, 25, 40), (0, 4, 8, 12), (0, 8, 20))
        said([hybrid._stops(length, start, shared) for length, start, shared in lengths if start < length])
    said(*(len(prefixes([1] * length, 4)) for length in (0, 3, 4, 7, 8)))
    said(prefixes([1, 2, 3, 4], 2)[:1] == prefixes([1, 2, 9], 2), prefixes([1, 2], 2) == prefixes([2, 1], 2))
    said.check("prefixes_served")


def test_sizes_of_blocks(capsys):
    said = Said(capsys)
    delta = {"linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128}
    delta |= {"linear_value_head_dim": 64, "num_attention_heads": 16, "hidden_size": 2048}
    mamba = {"mamba_num_heads": 128, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4}
    mamba |= {"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128}
    for config in (
        *(delta, {**delta, "mamba_ssm_dtype": "float32"}, {**delta, "linear_conv_kernel_dim": 3, "head_dim": 256}),
        *({**delta, "num_key_value_heads": 2}, mamba, {**mamba, "mamba_ssm_cache_dtype": "bfloat16"}),
        *({name: value for name, value in mamba.items() if name not in ("n_groups", "conv_kernel")},),
        *({"mamba_num_heads": 8, "num_attention_heads": 8}, {"ssm_state_size": 8}, {"num_attention_heads": 8}),
    ):
        sizes = [
            block_tokens(config),
            block_tokens({"text_config": config}, smallest=128),
            block_tokens(config, gpus=2),
        ]
        said(sorted(config.items()), sizes, block_tokens(config, gpus=16), block_tokens(config, cache_bytes=1, gpus=4))
    said.check("prefixes_blocks")


async def test_what_is_sent_ahead(capsys, monkeypatch, caplog):
    said = Said(capsys)
    places = {"image": [SimpleNamespace(offset=2, length=3), SimpleNamespace(offset=6, length=2)]}
    places["video"] = [SimpleNamespace(offset=8, length=4)]
    shown = {"prompt_token_ids": list(range(100, 114)), "mm_placeholders": places, "other": "kept"}
    shown |= {"mm_hashes": {"image": ["a", "b"], "video": ["c"]}, "mm_kwargs": {"image": [1, 2], "video": [3]}}
    tokens = tokens_of(shown)
    said([token if token in range(100, 114) else "picture" for token in tokens], pictures_of(shown))
    assert [tokens[place] for place in (2, 6, 8)] == [hash(name) for name in "abc"]
    for length in (1, 2, 4, 5, 7, 8, 11, 12, 14):
        short = beginning_of(shown, length)
        lengths = {kind: len(each) for kind, each in short["mm_placeholders"].items()}
        said(length, short["prompt_token_ids"], lengths, short["mm_hashes"], short["mm_kwargs"], short["other"])
    said(beginning_of({"prompt_token_ids": [5, 6, 7]}, 2), tokens_of({"prompt_token_ids": [5]}), pictures_of({}))
    release = asyncio.Event()

    async def send(prompt):
        said("sent", prompt["prompt_token_ids"])
        await release.wait()
        if prompt["prompt_token_ids"][0] == 7:
            raise ValueError("the engine fails")

    shared = SharedBeginnings(8, 4, 100)
    waiting = [asyncio.ensure_future(shared.store({"prompt_token_ids": tokens}, send)) for tokens in PROMPTS[:5]]
    for _ in range(5):
        await asyncio.sleep(0)
    said([each.done() for each in waiting], len(shared._under_way))
    release.set()
    await asyncio.gather(*waiting)
    said(len(shared._under_way))
    for most in (beginnings.MOST_PREFIXES, 9, 2):
        monkeypatch.setattr(beginnings, "MOST_PREFIXES", most)
        for tokens in PROMPTS:
            await shared.store({"prompt_token_ids": tokens}, send)
        said("size", shared._cache.size)
    monkeypatch.setattr(beginnings, "PROMPTS_WITHOUT_HITS", 3)
    for hybrid, seen in (
        (True, [(10, 0)] * 9),
        (False, [(10, 0), (20, 0), (31, 0), (5, 0)]),
        (True, [(9, 1), *[(9, 0)] * 9]),
    ):
        caplog.clear()
        watch = HitWatch(528, hybrid=hybrid)
        with caplog.at_level(logging.WARNING):
            for given in seen:
                watch.saw(*given)
                said(given, len(caplog.messages))
        said(hybrid, *caplog.messages)
    said.check("prefixes_ahead")
