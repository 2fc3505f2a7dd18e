"""Prefix caches of hybrid models in the three suites: what blocks of each size serve, predicted and counted.

    python -m benchmarks.hybrid_cache [--count]

Perfect play asks a few games of each suite, one prompt after another. Pictures are replaced by words, as many tokens long as a
picture of Qwen3.5, so that one tokenizer (the tiny model's) and one shrunken model (a Qwen3.5 with random weights, whose blocks
are 640 or 2,176 tokens) serve all suites. Rows called padded are what it would buy to lengthen the beginning that all
prompts share to the end of a block, which raycade does not do: it changes what a model reads. ``--count`` asks vLLM as well, a
process for each size of block, and compares what it reports as cached with the prediction; the exit code is 1 if they differ.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cluster.console import show
from cluster.engines import torch_compat
from cluster.engines.template_files import find_template
from cluster.engines.tiny_model import SPECIAL_TOKENS, ensure_tiny_model, write_tokenizer
from cluster.prefix_cache.block_size import CPU_BLOCK, block_tokens
from cluster.prefix_cache.predict import AttentionCache, HybridCache
from envs.picture import Picture
from evals.players import OraclePlayer
from evals.suite import Suite, play_episode
from evals.suites.kidgym import KidGymSuite
from evals.suites.kumo import KumoSuite
from evals.suites.multistar import MultiStarSuite
from evals.tables import Table
from evals.types import Chat, Message, Reply, Turn, stable_seed

PICTURE_WORDS = 324
"""Tokens of a picture of 576 x 576 pixels."""
UNIT = 32
"""Tokens that prompts are compared by where this is finer than a block."""
SHAPES = {640: (2, 64), 2176: (1, 32)}
"""Heads of keys and values and their size, by the block that they lead to."""
SUITES: dict[str, Suite] = {
    "kumo": KumoSuite(domains=["medical"], difficulties=["easy"], tasks_per_domain=2, repeats=2),
    "kidgym": KidGymSuite(tasks=["MMA"], levels=[1], modes=["zero_shot", "icl"], episodes=2),
    "multistar": MultiStarSuite(
        subtask="chain", configurations=["center_single"], puzzles=1, priors=["model"], sweep=False
    ),
}

Row = tuple[str, str, int, int, int, int | None, int]
"""Suite, cache, prompts, tokens, predicted, counted, computed."""


class Listener:
    """Perfect play that notes the chats."""

    def __init__(self) -> None:
        self.chats: list[Chat] = []

    async def reply(self, turn: Turn) -> Reply:
        """Answer as the oracle does."""
        self.chats.append(tuple(Message(said.role, tuple(map(in_words, said.parts))) for said in turn.chat))
        return await OraclePlayer().reply(turn)


def in_words(part: str | Picture) -> str:
    """A picture as words that are its own."""
    return (
        part
        if isinstance(part, str)
        else " ".join(f"{stable_seed(part.key) % 10**9}" for _ in range(PICTURE_WORDS // 10))
    )


def prompts_of(suite: Suite, tokenizer: Any) -> list[list[int]]:
    """The prompts of a suite's games, in the order in which they are asked."""
    listener = Listener()
    for episode in suite.plan():
        asyncio.run(play_episode(suite, episode, listener))
    template = find_template({"model": "tiny"})
    assert template is not None
    return [tokenizer.encode(template.render(chat), add_special_tokens=False).ids for chat in listener.chats]


def in_order(prompts: Sequence[list[int]], cache: HybridCache) -> Iterator[list[int]]:
    """The prompts, each after its beginning alone where a state is missing at the end of what it shares."""
    for prompt in prompts:
        end = cache.missing(prompt)
        if end:
            yield prompt[: end + 1]
        yield prompt


def padded(prompts: Sequence[list[int]], block: int) -> list[list[int]]:
    """The prompts with the beginning that all of them share lengthened to the end of a block: other words for the model."""
    shared = 0
    while len({tuple(prompt[: shared + 1]) for prompt in prompts}) == 1:
        shared += 1
    filling = [0] * (-shared % block)
    return [[*prompt[:shared], *filling, *prompt[shared:]] for prompt in prompts]


def shrunken_config(heads: int, head_dim: int) -> dict[str, Any]:
    """A Qwen3.5 of four layers, one of them attention."""
    return {
        "vocab_size": 1280,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 2,
        "num_key_value_heads": heads,
        "head_dim": head_dim,
        "linear_num_key_heads": 4,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "layer_types": ["linear_attention"] * 3 + ["full_attention"],
        "max_position_embeddings": 32768,
        "mamba_ssm_dtype": "float32",
        "tie_word_embeddings": True,
    }


def write_shrunken(home: Path, block: int) -> None:
    """Write the model whose blocks are of this size."""
    torch_compat.apply()
    import torch
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

    import cluster.engines.tiny_model as tiny

    corpus = Path(tiny.__file__).with_name("tiny_corpus.txt").read_text(encoding="utf-8")
    ids = write_tokenizer(home, corpus, tiny.VOCABULARY)
    end = ids[SPECIAL_TOKENS[2]]
    config = Qwen3_5TextConfig(**shrunken_config(*SHAPES[block]), bos_token_id=end, eos_token_id=end, pad_token_id=end)
    torch.manual_seed(0)
    Qwen3_5ForCausalLM(config).to(torch.bfloat16).save_pretrained(home)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", action="store_true", help="ask vLLM too")
    options = parser.parse_args()
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(ensure_tiny_model() / "tokenizer.json"))
    asked = {name: prompts_of(suite, tokenizer) for name, suite in SUITES.items()}
    rows: list[Row] = []
    wrong = 0
    for name, prompts in asked.items():
        attention = AttentionCache(16)
        served = sum(attention.ask(prompt) for prompt in prompts)
        rows.append((name, "attention, 16", len(prompts), total(prompts), served, None, total(prompts) - served))
    for block in SHAPES:
        for name, prompts in asked.items():
            longer = padded(prompts, block)
            served = sum(sent(longer, block, None, ordered=False)[1])
            tokens = total(longer)
            rows.append((name, f"hybrid, {block}, padded", len(longer), tokens, served, None, tokens - served))
        for unit in (None, UNIT):
            more, different = rows_of(asked, block, unit, options.count)
            rows += more
            wrong += different
    columns = ("suite", "cache", "prompts", "tokens", "predicted", "counted", "computed")
    rows.sort(key=lambda row: row[0])
    show([Table("hybrid_cache", "Prefix caches", columns, tuple(rows))])
    return int(wrong > 0)


def total(prompts: Sequence[list[int]]) -> int:
    """Tokens of all prompts."""
    return sum(map(len, prompts))


def label(block: int, unit: int | None, ordered: bool) -> str:
    """What a row is called."""
    return f"hybrid, {block}" + (f", unit {unit}" if unit else "") + (", shared beginnings first" if ordered else "")


def sent(
    prompts: Sequence[list[int]], block: int, unit: int | None, ordered: bool
) -> tuple[list[list[int]], list[int]]:
    """What is sent, and the tokens of each that are predicted as cached."""
    cache = HybridCache(block, unit)
    source = in_order(prompts, cache) if ordered else iter(prompts)
    pairs = [(prompt, cache.ask(prompt)) for prompt in source]
    return [prompt for prompt, _ in pairs], [hit for _, hit in pairs]


def rows_of(asked: dict[str, list[list[int]]], block: int, unit: int | None, counting: bool) -> tuple[list[Row], int]:
    """A row for each suite, as it asks and with shared beginnings first, and how many prompts were predicted wrongly."""
    cases = [(name, ordered) for name in asked for ordered in (False, True)]
    each = {f"{name} {ordered}": sent(asked[name], block, unit, ordered) for name, ordered in cases}
    counted = counted_by_vllm({case: prompts for case, (prompts, _) in each.items()}, block, unit) if counting else {}
    rows: list[Row] = []
    wrong = 0
    for name, ordered in cases:
        prompts, hits = each[f"{name} {ordered}"]
        served = counted.get(f"{name} {ordered}", hits)
        different = [pair for pair in zip(hits, served, strict=True) if pair[0] != pair[1]]
        if different:
            print(f"{name}, {label(block, unit, ordered)}: predicted, counted: {different[:8]}", file=sys.stderr)
        wrong += len(different)
        found = sum(served) if counting else None
        tokens = total(prompts)
        rows.append((name, label(block, unit, ordered), len(prompts), tokens, sum(hits), found, tokens - sum(served)))
    return rows, wrong


def counted_by_vllm(prompts: dict[str, list[list[int]]], block: int, unit: int | None) -> dict[str, list[int]]:
    """What vLLM reports as cached for each prompt, each list asked of an empty cache."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home = folder / f"model-{block}"
        home.mkdir()
        write_shrunken(home, block)
        (folder / "prompts.json").write_text(json.dumps(prompts))
        command = [sys.executable, "-m", "benchmarks.hybrid_cache_count", name, str(block), str(unit or 0)]
        subprocess.run(command, check=True)
        found = json.loads((folder / "counted.json").read_text())
    assert found["block"] == block == block_tokens(shrunken_config(*SHAPES[block]), smallest=CPU_BLOCK), found["block"]
    return dict(found["counted"])


if __name__ == "__main__":
    sys.exit(main())
