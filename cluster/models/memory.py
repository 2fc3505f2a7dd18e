"""What a model needs: bytes of weights and cache, sequences that fit a GPU, parallel sizes, and time at the GPU's peaks.

    >>> from cluster.models.table import rows
    >>> round(cache_bytes(rows()["qwen2_5_7b"].shape, 1000) / 1e6, 1)
    57.3
    >>> parallel_sizes(rows()["qwen2_5_7b"].shape)
    [1, 2, 4]

Times are bounds by the vendor's peaks, with an assumed range of what serving reaches of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cluster.models.table import GIB, Gpu, Model, Shape

NUMBER = 2
"""Bytes of a number in the cache (bfloat16)."""
RESERVED = 2.0
"""GiB of each GPU for activations, CUDA graphs and the runtime; an estimate."""
USED = 0.9
"""Share of a GPU's memory that vLLM takes by default."""
NODE = 8
"""GPUs of a node."""
REACHED = (0.2, 0.6)
"""The share of a GPU's peak that serving reaches, at worst and at best: an assumption, from published runs of vLLM."""


def cache_bytes(shape: Shape, tokens: int) -> float:
    """Bytes that one sequence of so many tokens takes in the cache, on all GPUs together without copies."""
    if shape.latent:  # one latent vector a token and layer, for keys and values together
        return shape.layers * shape.latent * NUMBER * tokens
    whole = shape.layers if shape.whole is None else shape.whole
    kv_heads, head_dim = shape.whole_kv or shape.kv_heads, shape.whole_dim or shape.head_dim
    found = whole * 2 * kv_heads * head_dim * NUMBER * tokens
    if shape.window:
        kept = min(tokens, shape.window)
        found += (shape.layers - whole) * 2 * shape.kv_heads * shape.head_dim * NUMBER * kept
    return found + shape.state * 2**20


def parallel_sizes(shape: Shape) -> list[int]:
    """Tensor-parallel sizes that split the heads evenly, within a node; more GPUs than KV heads hold copies of them."""
    sizes = [size for size in (1, 2, 4, 8) if shape.heads % size == 0]
    if shape.latent:
        return sizes
    return [size for size in sizes if shape.kv_heads % size == 0 or size % shape.kv_heads == 0]


@dataclass(frozen=True)
class Fit:
    """How a model fits GPUs of one kind."""

    gpus: int
    """Of one replica."""
    free: float
    """GiB for the cache, of all its GPUs together."""
    sequences: int
    """Of the asked length, at once."""

    @property
    def replicas(self) -> int:
        """On one node; 0 for a replica that needs several."""
        return NODE // self.gpus


def fit_on(model: Model, gpu: Gpu, tokens: int, number: int | None = None, precision: str = "") -> Fit | None:
    """How many GPUs a replica needs for at least one sequence, or how it fits a given number of them.

    Args:
        model: A row of the table.
        gpu: The kind.
        tokens: Of one sequence, prompt and reply.
        number: GPUs of a replica; the fewest that do by default.
        precision: Of the weights, one of ``table.BYTES``; as published by default.

    Returns:
        None where it does not fit: two nodes are the most that are tried.
    """
    room = gpu.memory * 1e9 / GIB * USED - RESERVED
    counts = [number] if number else [*parallel_sizes(model.shape), 2 * NODE]
    for count in counts:
        free = count * room - model.weights(precision)
        within = min(count, NODE)
        copies = 1.0
        if model.shape.latent:
            copies = within  # every GPU holds the whole latent cache
        elif model.shape.kv_heads:
            copies = max(1.0, within / model.shape.kv_heads)
        sequences = math.floor(free * GIB / (cache_bytes(model.shape, tokens) * copies))
        if sequences >= 1:
            return Fit(count, free, sequences)
    return None


@dataclass(frozen=True)
class Hours:
    """GPU-hours of some tokens: the bound that the GPU's peaks set, and what to expect."""

    bound: float
    low: float
    high: float


def gpu_hours(model: Model, gpu: Gpu, prompt_tokens: float, reply_tokens: float, batch: int, length: float) -> Hours:
    """GPU-hours by the roofline: prompts by operations, replies by operations or by reading weights and cache.

    Args:
        model: A row of the table.
        gpu: The kind.
        prompt_tokens: Of all calls, those that are computed (not cached).
        reply_tokens: Of all calls.
        batch: Sequences that are answered at once.
        length: Tokens of a sequence halfway, whose cache is read for each token of its reply.
    """
    operations = gpu.tflops * 1e12
    reads = gpu.bandwidth * 1e12
    each = 2e9 * model.active
    prefill = prompt_tokens * each / operations
    # One step answers a token of each sequence: it reads the weights once, and the cache of each sequence.
    bytes_of_weights = model.weights() * GIB
    if model.active < model.total:  # a large batch visits every expert, a small one its own
        bytes_of_weights *= min(1.0, batch * model.active / model.total)
    step = max(batch * each / operations, (bytes_of_weights + batch * cache_bytes(model.shape, int(length))) / reads)
    bound = (prefill + reply_tokens / batch * step) / 3600
    return Hours(bound, bound / REACHED[1], bound / REACHED[0])
