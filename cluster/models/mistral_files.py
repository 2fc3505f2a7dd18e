"""The files of Mistral's own format: params.json, consolidated.safetensors and tekken.json, made from those of transformers.

vLLM takes these wherever a repository has them, as Mistral's newer ones do, and no others for Mistral Small 4. Names are those
that vLLM's loaders of that format read (vllm/model_executor/models: mistral.py, mistral_large_3.py, pixtral.py).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# How Mistral's newer models split text before merging: words by their case, single digits, marks, line breaks.
SPLIT = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_NAMES: Mapping[str, str] = {
    "model.vision_tower.": "vision_encoder.",
    "model.multi_modal_projector.norm.": "pre_mm_projector_norm.",
    "model.multi_modal_projector.patch_merger.": "patch_merger.",
    "model.multi_modal_projector.linear_1.": "vision_language_adapter.w_in.",
    "model.multi_modal_projector.linear_2.": "vision_language_adapter.w_out.",
    "model.language_model.": "",
    "model.": "",
    "lm_head.": "output.",
    "embed_tokens.": "tok_embeddings.",
    ".self_attn.": ".attention.",
    ".input_layernorm.": ".attention_norm.",
    ".post_attention_layernorm.": ".ffn_norm.",
    ".q_a_layernorm.": ".q_a_norm.",
    ".kv_a_layernorm.": ".kv_a_norm.",
    ".mlp.experts.": ".experts.",
    ".mlp.shared_experts.": ".shared_experts.",
    ".mlp.gate.": ".gate.",
    ".mlp.": ".feed_forward.",
    ".gate_proj.": ".w1.",
    ".down_proj.": ".w2.",
    ".up_proj.": ".w3.",
    **{f".{part}_proj.": f".w{part}." for part in ("q", "k", "v", "o", "q_a", "q_b")},
    ".kv_a_proj_with_mqa.": ".wkv_a_with_mqa.",
    ".kv_b_proj.": ".wkv_b.",
}
"""Parts of names of weights, transformers' and Mistral's, in the order in which they are replaced."""
# Names of parameters, Mistral's and transformers'.
_SHARED: Mapping[str, str] = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "head_dim": "head_dim",
    "hidden_dim": "intermediate_size",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "norm_eps": "rms_norm_eps",
    "vocab_size": "vocab_size",
    "max_position_embeddings": "max_position_embeddings",
    "q_lora_rank": "q_lora_rank",
    "kv_lora_rank": "kv_lora_rank",
    "qk_rope_head_dim": "qk_rope_head_dim",
    "qk_nope_head_dim": "qk_nope_head_dim",
    "v_head_dim": "v_head_dim",
}
_EXPERTS: Mapping[str, str] = {
    "num_experts": "n_routed_experts",
    "num_experts_per_tok": "num_experts_per_tok",
    "num_shared_experts": "n_shared_experts",
    "expert_hidden_dim": "moe_intermediate_size",
    "first_k_dense_replace": "first_k_dense_replace",
    "routed_scale": "routed_scaling_factor",
    "num_expert_groups": "n_group",
    "num_expert_groups_per_tok": "topk_group",
}


def write_mistral_files(model: Any, home: Path) -> None:
    """Write configuration and weights of a model of transformers in Mistral's format into the folder ``home``."""
    from safetensors.torch import save_file

    config = model.config.to_dict()
    text, vision = config.get("text_config", config), config.get("vision_config")
    heads = {"vision_encoder": vision["head_dim"] if vision else 0, "layers": text["head_dim"]}
    weights: dict[str, Any] = {}
    for name, value in model.state_dict().items():
        for theirs, ours in _NAMES.items():
            name = name.replace(theirs, ours)
        weights |= _split_experts(name, _turned(name, value, heads))
    save_file({name: value.contiguous() for name, value in weights.items()}, home / "consolidated.safetensors")
    params = _text_parameters(text)
    if vision:
        params["vision_encoder"] = _vision_parameters(config, vision)
    (home / "params.json").write_text(json.dumps(params), encoding="utf-8")


def _text_parameters(text: Mapping[str, Any]) -> dict[str, Any]:
    params: dict[str, Any] = {name: text[key] for name, key in _SHARED.items() if text.get(key) is not None}
    rope = text["rope_parameters"]
    params["rope_theta"] = rope["rope_theta"]
    if rope.get("rope_type") == "yarn":
        begin = rope["original_max_position_embeddings"]
        params["yarn"] = {
            "original_max_position_embeddings": begin,
            "factor": rope["factor"],
            "beta": rope["beta_fast"],
            "alpha": rope["beta_slow"],
            "apply_scale": False,
        }
        params["llama_4_scaling"] = {
            "original_max_position_embeddings": begin,
            "beta": rope["llama_4_scaling_beta"],
        }
    if text.get("n_routed_experts"):
        experts = {name: text[key] for name, key in _EXPERTS.items()}
        params["moe"] = {**experts, "route_every_n": 1}
    return params


def _vision_parameters(config: Mapping[str, Any], vision: Mapping[str, Any]) -> dict[str, Any]:
    sizes = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "image_size", "patch_size")
    return {
        **{name: vision[name] for name in sizes},
        "num_channels": 3,
        "rope_theta": vision["rope_parameters"]["rope_theta"],
        "image_token_id": config["image_token_index"],
        "adapter_bias": config["multimodal_projector_bias"],
        "spatial_merge_size": config["spatial_merge_size"],
        "add_pre_mm_projector_layer_norm": True,
        "mm_projector_id": "patch_merge",
    }


def _turned(name: str, value: Any, heads: Mapping[str, int]) -> Any:
    """A weight with the numbers of each head in Mistral's order: pairs that turn together stand side by side."""
    if not name.endswith((".wq.weight", ".wk.weight")):
        return value
    head = heads[name.partition(".")[0]]
    rows, columns = value.shape
    return value.view(rows // head, 2, head // 2, columns).transpose(1, 2).reshape(rows, columns)


def _split_experts(name: str, value: Any) -> dict[str, Any]:
    """The weights of all experts, which transformers keeps in one, under a name for each."""
    before, found, kind = name.partition(".experts.")
    if not found:
        return {name: value}
    if kind == "down_proj":
        return {f"{before}.experts.{number}.w2.weight": one for number, one in enumerate(value)}
    halves = [(number, *one.chunk(2)) for number, one in enumerate(value)]
    gates = {f"{before}.experts.{number}.w1.weight": gate for number, gate, _ in halves}
    return gates | {f"{before}.experts.{number}.w3.weight": up for number, _, up in halves}


def write_tekken(home: Path, size: int, special: Sequence[str], given: Mapping[str, Any]) -> dict[str, int]:
    """Write tekken.json with the words of the tokenizer in ``home``, in its place; returns the ids of the special tokens.

    Args:
        home: The folder, with a byte-level BPE in tokenizer.json.
        size: Most tokens.
        special: Special tokens in the order of their ids.
        given: ``version`` of the format of chats, such as ``v13``, and further parts of the file, such as ``image``.
    """
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    byte_of = {letter: number for number, letter in bytes_to_unicode().items()}
    words = json.loads((home / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    in_order = sorted(words, key=lambda word: int(words[word]))
    merged = [bytes(byte_of[letter] for letter in word) for word in in_order if len(word) > 1]
    vocabulary = ([bytes([number]) for number in range(256)] + merged)[: size - len(special)]
    config = {
        "pattern": SPLIT,
        "num_vocab_tokens": len(vocabulary),
        "default_vocab_size": len(vocabulary) + len(special),
        "default_num_special_tokens": len(special),
        "version": given["version"],
    }
    tekken = {
        **given,
        "config": config,
        "vocab": [
            {"rank": rank, "token_bytes": base64.b64encode(word).decode(), "token_str": word.decode("utf-8", "replace")}
            for rank, word in enumerate(vocabulary)
        ],
        "special_tokens": [
            {"rank": rank, "token_str": token, "is_control": True} for rank, token in enumerate(special)
        ],
    }
    (home / "tekken.json").write_text(json.dumps(tekken), encoding="utf-8")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (home / name).unlink()
    return {token: rank for rank, token in enumerate(special)}
