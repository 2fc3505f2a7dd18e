"""Folders of models without weights: the published sizes as configurations, with a tokenizer and image processor of ours.

vLLM fills such a model with random weights (``load_format=dummy``). The tokenizer is trained on the texts of the suites, so
that prompts have about as many tokens as with the published one, and padded to the published vocabulary with words of two
tokens each, so that random replies are texts.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.engines import torch_compat
from cluster.engines.tiny_model import cache_directory, write_processor, write_tokenizer

ROOT = Path(__file__).resolve().parents[2]
VERSION = 2
LEARNED = 24_000
"""Tokens learned from the suites' texts, and no more than nine tenths of the vocabulary; the rest is padding."""


@dataclass(frozen=True)
class Size:
    """Dimensions of a Qwen2.5 model; with ``vision``, of a Qwen2.5-VL."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    tied: bool = False
    sections: tuple[int, int, int] = (16, 24, 24)
    vision: Mapping[str, Any] | None = None


_VISION = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "window_size": 112}
_VISION |= {"fullatt_block_indexes": [7, 15, 23, 31], "tokens_per_second": 2}
_TINY_VISION = {"depth": 2, "hidden_size": 64, "intermediate_size": 128, "num_heads": 2, "fullatt_block_indexes": [1]}

SIZES: Mapping[str, Size] = {
    "vision_3b": Size(2048, 11008, 36, 16, 2, 151936, tied=True, vision={**_VISION, "out_hidden_size": 2048}),
    "vision_7b": Size(3584, 18944, 28, 28, 4, 152064, vision={**_VISION, "out_hidden_size": 3584}),
    "text_7b": Size(3584, 18944, 28, 28, 4, 152064),
    "vision_tiny": Size(64, 128, 2, 2, 1, 4096, sections=(4, 6, 6), vision={**_TINY_VISION, "out_hidden_size": 64}),
    "text_tiny": Size(64, 128, 2, 2, 1, 4096),
}
"""Those of Qwen2.5-VL 3B and 7B, of Qwen2.5 7B, and tiny ones for ``--dry``."""


def model_folder(name: str) -> Path:
    """The folder of a model of ``SIZES``, written on first use (some seconds)."""
    home = cache_directory() / f"sizes-v{VERSION}" / name
    if not home.exists():
        draft = home.with_name(f"{name}-draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        _write(draft, SIZES[name])
        draft.rename(home)
    return home


def _write(home: Path, size: Size) -> None:
    torch_compat.apply()
    from transformers import GenerationConfig, Qwen2_5_VLConfig, Qwen2Config

    ids = write_tokenizer(home, _corpus(), min(LEARNED, size.vocabulary * 9 // 10))
    _pad_vocabulary(home / "tokenizer.json", size.vocabulary)
    end, pad = ids["<|im_end|>"], ids["<|endoftext|>"]
    ends = {"bos_token_id": pad, "eos_token_id": end, "pad_token_id": pad}
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": 1e6}
    text = {
        "vocab_size": size.vocabulary,
        "hidden_size": size.hidden,
        "intermediate_size": size.intermediate,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.kv_heads,
        "max_position_embeddings": 32768,
        **ends,
    }
    config: Any
    if size.vision:
        write_processor(home, smallest=56 * 56, largest=1280 * 28 * 28)
        text["rope_parameters"] = {**rope, "mrope_section": list(size.sections)}
        config = Qwen2_5_VLConfig(
            text_config=text,
            vision_config=dict(size.vision),
            image_token_id=ids["<|image_pad|>"],
            video_token_id=ids["<|video_pad|>"],
            vision_start_token_id=ids["<|vision_start|>"],
            vision_end_token_id=ids["<|vision_end|>"],
            tie_word_embeddings=size.tied,
            architectures=["Qwen2_5_VLForConditionalGeneration"],
            dtype="bfloat16",
            **ends,
        )
    else:
        text["rope_parameters"] = rope
        config = Qwen2Config(
            **text, tie_word_embeddings=size.tied, architectures=["Qwen2ForCausalLM"], dtype="bfloat16"
        )
    config.save_pretrained(home)
    GenerationConfig(**{**ends, "eos_token_id": [end, pad]}).save_pretrained(home)


def _corpus() -> str:
    """All texts that the suites draw on."""
    files = sorted(path for part in ("envs", "evals") for path in (ROOT / part).rglob("*.*"))
    return "\n".join(
        path.read_text(encoding="utf-8") for path in files if path.suffix in (".yaml", ".md", ".txt", ".py")
    )


def _pad_vocabulary(path: Path, size: int) -> None:
    """Give every id below ``size`` a text: two learned tokens, of which the first begins a word."""
    data = json.loads(path.read_text(encoding="utf-8"))
    vocabulary: dict[str, int] = data["model"]["vocab"]
    taken = {token["id"] for token in data["added_tokens"]} | set(vocabulary.values())
    plain = [token for token in vocabulary if token.isascii() and token.isalpha() and len(token) < 6]
    words = (f"Ġ{first}{second}" for first, second in itertools.product(plain, plain))
    free = (number for number in range(size) if number not in taken)
    for number in free:
        vocabulary[next(word for word in words if word not in vocabulary)] = number
    path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
