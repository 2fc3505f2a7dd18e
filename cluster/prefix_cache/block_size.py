"""Tokens in a block of a hybrid model's prefix cache, from the model's own config, by the rule of vLLM 0.32.

A hybrid model has layers of attention, which keep keys and values of every token, and layers of linear attention or Mamba,
which keep one state. vLLM gives both kinds pages of one size: it lengthens the block of attention until its keys and values
take as many bytes as a state (``Platform._align_hybrid_block_size``). Only whole blocks are shared between prompts.

    >>> block_tokens({"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "linear_num_key_heads": 4,
    ...     "linear_num_value_heads": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    ...     "linear_conv_kernel_dim": 4, "mamba_ssm_dtype": "float32"}, smallest=128)
    2176
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

GPU_BLOCK = 16
"""vLLM's block of attention on a GPU, where nothing else is set."""
CPU_BLOCK = 128
"""The same on a CPU."""


def block_tokens(
    config: Mapping[str, Any], *, smallest: int = GPU_BLOCK, gpus: int = 1, cache_bytes: int = 2
) -> int | None:
    """Tokens of a block; None for a model whose layers are all attention, or of a form that is not known here.

    Args:
        config: The model's ``config.json``.
        smallest: The block that attention would have alone; blocks are multiples of it.
        gpus: Over which the heads are divided (``tensor_parallel_size``).
        cache_bytes: Of one number in the cache of attention: 2 for bfloat16, 1 for fp8.
    """
    text = config.get("text_config") or config
    state = _delta_net_bytes(text, gpus) or _mamba2_bytes(text, gpus)
    if state is None:
        return None
    heads = int(text.get("num_key_value_heads") or text["num_attention_heads"])
    head_dim = int(text.get("head_dim") or text["hidden_size"] // text["num_attention_heads"])
    kept_heads = max(1, heads // gpus)  # fewer heads than GPUs are repeated
    token = 2 * kept_heads * head_dim * cache_bytes
    return smallest * math.ceil(state / (smallest * token))


def _delta_net_bytes(text: Mapping[str, Any], gpus: int) -> int | None:
    """The state of a gated delta net (Qwen3-Next, Qwen3.5): of its convolution, and a matrix for each head."""
    if "linear_num_value_heads" not in text:
        return None
    keys = text["linear_num_key_heads"] * text["linear_key_head_dim"]
    values = text["linear_num_value_heads"] * text["linear_value_head_dim"]
    convolution = (2 * keys + values) // gpus * (text.get("linear_conv_kernel_dim", 4) - 1) * 2
    matrices = values // gpus * text["linear_key_head_dim"]
    return int(convolution + matrices * _bytes_of(text.get("mamba_ssm_dtype")))


def _mamba2_bytes(text: Mapping[str, Any], gpus: int) -> int | None:
    """The state of a Mamba-2 layer (Nemotron-H): of its convolution, and a matrix for each head."""
    if "mamba_num_heads" not in text or "ssm_state_size" not in text:
        return None
    inner = text["mamba_num_heads"] * text["mamba_head_dim"]
    groups = max(int(text.get("n_groups", 1)), gpus)
    convolution = (inner + 2 * groups * text["ssm_state_size"]) // gpus * (text.get("conv_kernel", 4) - 1) * 2
    # vLLM keeps the matrices in float32 where the config says nothing (its NemotronHForCausalLMConfig).
    matrices = inner // gpus * text["ssm_state_size"]
    return int(convolution + matrices * _bytes_of(text.get("mamba_ssm_cache_dtype", "float32")))


def _bytes_of(dtype: object) -> int:
    return 4 if dtype == "float32" else 2
