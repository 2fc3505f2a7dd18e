"""A small copy of a model with random weights: its own config, template and processor, few layers, few numbers in each.

What tells a family apart stays as it is: kinds of layers, rope, norms, biases, caps, experts, the picture processor. Sizes
become small, so that building takes seconds. The tokenizer is one of ours with the family's special tokens, since the
published one lies with the weights.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.engines import torch_compat
from cluster.engines.tiny_model import THINKING_TOKENS, write_tokenizer
from cluster.models.hub import Files
from cluster.models.mistral_files import write_mistral_files, write_tekken

VOCABULARY = 1280
HIDDEN = 128
HEAD = 32
"""Numbers of a head; the CPU's kernels take no fewer."""
LONGEST = 32768
"""Positions, where the model has fewer: our tokenizer makes more tokens of a text."""
STATE_HEAD = 128
"""Numbers of a head of linear attention, for the same reason."""

TEXT: Mapping[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": 256,
    "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": HEAD,
    "global_head_dim": 2 * HEAD,
    "num_global_key_value_heads": 1,
    "query_pre_attn_scalar": HEAD,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "linear_key_head_dim": STATE_HEAD,
    "linear_value_head_dim": STATE_HEAD,
    "linear_num_key_heads": 1,
    "linear_num_value_heads": 2,
    "kv_lora_rank": 512,  # with 64 that turn: the CPU's kernel of latent attention takes no other sizes
    "qk_rope_head_dim": 64,
    "q_lora_rank": 32,
    "qk_nope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size_per_layer_input": VOCABULARY,
    "initializer_range": 0.1,  # next-token distributions about as far from uniform as those of a trained model
}
VISION: Mapping[str, Any] = {
    "depth": 2,
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "embed_dim": 64,
    "intermediate_size": 128,
    "num_heads": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "projection_dim": 64,
    "deepstack_visual_indexes": [0],
    "fullatt_block_indexes": [1],
    "insert_layer_id": 0,
}


def write_small_model(files: Files, home: Path) -> dict[str, Any]:
    """Write weights, tokenizer, template, processor and config into the folder ``home``; returns the config.

    Raises:
        Exception: transformers has no such class, or it rejects the config; of any kind.
    """
    torch_compat.apply()
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, GenerationConfig

    config = small_config(files.config)
    # Other sizes for weights that are transposed: a square one would not show it.
    config.get("text_config", config).update(files.copy.get("sizes", {}))
    if files.copy:
        ids = _write_words(files, home)
        for key, token in files.copy.get("ids", {}).items():
            config[key] = ids[token]
        end, pad = ids[files.copy["end"]], ids[files.copy["special"][0]]
        for part in (config, config.get("text_config", {})):
            part.update(vocab_size=VOCABULARY, bos_token_id=pad, eos_token_id=end, pad_token_id=pad)
        generation = GenerationConfig(bos_token_id=pad, eos_token_id=[end], pad_token_id=pad)
    else:
        _take_words(files, home)
        generation = GenerationConfig(**files.generation)
    made = AutoConfig.for_model(**config)
    kind = AutoModelForImageTextToText if files.sees else AutoModelForCausalLM
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = kind.from_config(made).to(torch.bfloat16)
    model.generation_config = generation
    weights = _as_published(model.state_dict(), files.copy)
    # transformers knows other names by itself; transposed weights it would only turn back
    model.save_pretrained(home, state_dict=weights, save_original_format="transposed" not in files.copy)
    if "tekken" in files.copy:
        write_mistral_files(model, home)
    return config


def small_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config with the sizes of ``TEXT`` and ``VISION`` in place of its own, and as many layers as show all kinds."""
    if "text_config" not in config:
        return _small_text(config)
    small = {**config, "text_config": _small_text(config["text_config"])}
    if "vision_config" in config:
        small["vision_config"] = _small_vision(config["vision_config"])
    if "insert_layer_id" in small:
        small["insert_layer_id"] = 0
    return small


def _small_vision(vision: Mapping[str, Any]) -> dict[str, Any]:
    small = _small(vision, VISION)
    if "out_hidden_size" in small:
        small["out_hidden_size"] = HIDDEN
    # Qwen2-VL: the size after merging.
    if "embed_dim" in small and small.get("hidden_size"):
        small["hidden_size"] = HIDDEN
    return small


def _first_kinds(layers: list[str]) -> list[str]:
    """The kinds of the first layers, as far as the first one with full attention."""
    if "full_attention" in layers:
        return layers[: layers.index("full_attention") + 1]
    return layers[:2]


def _small_text(text: Mapping[str, Any]) -> dict[str, Any]:
    small = _small(text, TEXT)
    # No head of the cache serves several.
    if text.get("num_key_value_heads") == text["num_attention_heads"]:
        small["num_key_value_heads"] = small["num_attention_heads"]
    small["max_position_embeddings"] = max(LONGEST, text.get("max_position_embeddings") or 0)
    layers = list(text.get("layer_types") or [])
    kinds = _first_kinds(layers)
    if len(kinds) > 1:
        small["layer_types"] = kinds
    small["num_hidden_layers"] = max(2, len(kinds))
    if text.get("first_k_dense_replace"):
        small["first_k_dense_replace"] = 1
    if text.get("kv_lora_rank") and text.get("head_dim"):
        small["head_dim"] = small["qk_nope_head_dim"] + small["qk_rope_head_dim"]
    # A quarter of a head turns, and vLLM's kernels want whole blocks of it.
    if "linear_attention" in layers:
        small["head_dim"] = 2 * HEAD
    rope = dict(small.get("rope_parameters") or {})
    if "mrope_section" in rope:
        turned = int(small.get("head_dim", HEAD) * rope.get("partial_rotary_factor", 1.0)) // 2
        rope["mrope_section"] = _shares(rope["mrope_section"], turned)
        small["rope_parameters"] = rope
    return small


def _small(part: Mapping[str, Any], sizes: Mapping[str, Any]) -> dict[str, Any]:
    """A part of a config with small values for the keys that it has."""
    small = {**part}
    for key, value in sizes.items():
        # The range is set where a config names none, too.
        if part.get(key) is not None or key == "initializer_range":
            small[key] = value
    return small


def _shares(parts: Sequence[int], total: int) -> list[int]:
    """Numbers in about the same proportions that add up to ``total``."""
    shares = [part * total // sum(parts) for part in parts]
    shares[0] += total - sum(shares)
    return shares


def _as_published(state: Mapping[str, Any], copy: Mapping[str, Any]) -> dict[str, Any]:
    """Weights with the names and the axes of the published files, where transformers saves them with others."""
    turned = tuple(copy.get("transposed", ()))
    published = {}
    for name, value in state.items():
        for old, new in copy.get("prefix", {}).items():
            if name.startswith(old) and not name.startswith(new):
                name = new + name.removeprefix(old)
        published[name] = value.transpose(-2, -1).contiguous() if turned and name.endswith(turned) else value
    return published


def _write_words(files: Files, home: Path) -> dict[str, int]:
    """Write tokenizer, template and processor; returns the ids of the special tokens."""
    copy = files.copy
    corpus = Path(torch_compat.__file__).parents[1].joinpath("tiny_corpus.txt").read_text(encoding="utf-8")
    words, named = tuple(copy.get("words", THINKING_TOKENS)), copy.get("named", {})
    ids = write_tokenizer(home, corpus, VOCABULARY, tuple(copy["special"]), copy["end"], words, named)
    if "tekken" in copy:  # a tokenizer that renders chats itself
        ids = write_tekken(home, VOCABULARY, copy["special"], copy["tekken"])
    else:
        (home / "chat_template.jinja").write_text(copy["template"], encoding="utf-8")
    for name in ("processor", "processor_config"):
        if name in copy:
            file = "preprocessor_config.json" if name == "processor" else "processor_config.json"
            (home / file).write_text(json.dumps(copy[name]), encoding="utf-8")
    return ids


def _take_words(files: Files, home: Path) -> None:
    """Take tokenizer, template and processor as they lie beside the config; they are fetched if they are on the hub only.

    Raises:
        Exception: they cannot be fetched.
    """
    folder = files.folder
    if folder is None or not (folder / "tokenizer_config.json").exists():
        from huggingface_hub import snapshot_download

        folder = Path(
            snapshot_download(files.id, allow_patterns=["*.json", "*.jinja", "tokenizer*", "*.model", "*.txt"])
        )
    for file in folder.iterdir():
        if file.is_file() and _holds_words(file):
            shutil.copyfile(file, home / file.name)


def _holds_words(file: Path) -> bool:
    """Whether a file beside the config is of the tokenizer, the template or the processor."""
    # The small model has configs of its own, and no index.
    if file.name in ("config.json", "generation_config.json"):
        return False
    if file.name.endswith("index.json"):
        return False
    return file.suffix in (".json", ".jinja", ".model", ".txt")
