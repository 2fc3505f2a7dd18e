"""A two-layer Qwen2.5-VL with random weights, created locally: the real architecture at about a megabyte.

Its answers are nonsense, but they go through the same code as those of a large model: processor, chat template, prefix cache
and sampler. So the whole program runs, and is tested, without a GPU and without a network.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cluster.engines import torch_compat
from cluster.errors import UserError
from envs.files import home_folder

VERSION = 2
"""Raised whenever the files that ``ensure_tiny_model`` writes change."""

VOCABULARY = 1280
SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
THINKING_TOKENS = ("<think>", "</think>")
"""Not special: they are part of a reply's text, as Qwen3's are."""
# How Qwen splits text before merging: contractions, words with their space, single digits, marks, line breaks.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CHAT_TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}
{%- else %}{% for part in message.content -%}
{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}
{%- endfor %}{% endif %}<|im_end|>
{% endfor -%}
{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking %}<think>
{% endif %}{% endif %}"""
"""``model.chat_template_kwargs={enable_thinking: true}`` opens a thought, as the templates of thinking models do."""


def cache_directory() -> Path:
    """The cache directory: ``RAYCADE_CACHE``, or ``~/.cache/raycade``.

    Raises:
        UserError: the variable is not set, and the user has no home.
    """
    given = os.environ.get("RAYCADE_CACHE")
    if given:
        return Path(given)
    home = home_folder()
    if home is None:
        raise UserError("there is no folder for caches, as this user has no home: export RAYCADE_CACHE=FOLDER")
    return home / ".cache" / "raycade"


def ensure_tiny_model() -> Path:
    """Return the folder of the tiny model, which is created on first use (a few seconds).

    The folder is created under a temporary name and renamed when complete, so concurrent processes may all create it.
    """
    home = cache_directory() / f"tiny-qwen2.5-vl-v{VERSION}"
    if home.exists():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f"{home.name}-", dir=home.parent))
    try:
        write_tiny_model(draft)
        draft.chmod(0o755)
        draft.rename(home)
    except OSError:
        if not home.exists():
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return home


def write_tiny_model(home: Path) -> None:
    """Write weights, tokenizer, processor and configuration into the folder ``home``."""
    torch_compat.apply()
    import torch
    from transformers import GenerationConfig, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
    from transformers.utils import logging

    corpus = Path(__file__).with_name("tiny_corpus.txt").read_text(encoding="utf-8")
    ids = write_tokenizer(home, corpus, VOCABULARY)
    write_processor(home, smallest=56 * 56, largest=64 * 28 * 28)
    end, pad = ids["<|im_end|>"], ids["<|endoftext|>"]
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": VOCABULARY,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "max_position_embeddings": 32768,
            # Next-token distributions about as far from uniform as those of a trained model.
            "initializer_range": 0.1,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [4, 6, 6]},
            "bos_token_id": pad,
            "eos_token_id": end,
            "pad_token_id": pad,
        },
        vision_config={
            "depth": 2,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_heads": 2,
            "out_hidden_size": 64,
            "fullatt_block_indexes": [1],
            "tokens_per_second": 2,
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        bos_token_id=pad,
        eos_token_id=end,
        pad_token_id=pad,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Qwen2_5_VLForConditionalGeneration(config).to(torch.bfloat16)
    # The default ids lie outside the tiny vocabulary, and structured outputs would fail in the sampler.
    model.generation_config = GenerationConfig(bos_token_id=pad, eos_token_id=[end, pad], pad_token_id=pad)
    logging.disable_progress_bar()
    model.save_pretrained(home)
    logging.enable_progress_bar()


def write_tokenizer(
    home: Path,
    corpus: str,
    size: int,
    special: Sequence[str] = SPECIAL_TOKENS,
    end: str = "<|im_end|>",
    words: Sequence[str] = THINKING_TOKENS,
    named: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, int]:
    """Write a byte-level BPE of at most ``size`` tokens, trained on a text; returns the ids of the special tokens.

    Args:
        home: The folder that gets the tokenizer and its chat template.
        corpus: The text.
        size: Most tokens.
        special: Special tokens; the first one pads.
        end: The one that ends a turn.
        words: Further tokens, which are not special.
        named: Special tokens that a processor knows by a name: ``{"image_token": "<image>"}``.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(SPLIT), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(special) - len(words),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([corpus], trainer)
    tokenizer.add_special_tokens(list(special))
    tokenizer.add_tokens(list(words))
    tokenizer.save(str(home / "tokenizer.json"))
    _write_json(
        home / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": end,
            "pad_token": special[0],
            "additional_special_tokens": [token for token in special[1:] if token != end],
            **named,
            "clean_up_tokenization_spaces": False,
        },
    )
    (home / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    vocabulary = tokenizer.get_vocab()
    return {token: vocabulary[token] for token in special}


def write_processor(home: Path, smallest: int, largest: int) -> None:
    """Write Qwen2.5-VL's image processor, which scales pictures to between ``smallest`` and ``largest`` pixels."""
    image_processor = {
        "image_processor_type": "Qwen2VLImageProcessor",
        "patch_size": 14,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "size": {"shortest_edge": smallest, "longest_edge": largest},
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.25, 0.25, 0.25],
    }
    _write_json(home / "preprocessor_config.json", {**image_processor, "processor_class": "Qwen2_5_VLProcessor"})


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
