"""Settings and sampling parameters of the installed vLLM, read from its source; importing vLLM would take many seconds."""

from __future__ import annotations

import ast
import importlib.util
import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

OPERATIONAL: frozenset[str] = frozenset(
    {
        "aggregate_engine_logging",
        "all2all_backend",
        "async_scheduling",
        "cpu_offload_gb",
        "cudagraph_capture_sizes",
        "dcp_kv_cache_interleave_size",
        "decode_context_parallel_size",
        "disable_cascade_attn",
        "disable_chunked_mm_input",
        "disable_custom_all_reduce",
        "disable_hybrid_kv_cache_manager",
        "distributed_timeout_seconds",
        "download_dir",
        "enable_chunked_prefill",
        "enable_dbo",
        "enable_eplb",
        "enable_expert_parallel",
        "enable_mamba_shared_prefix_checkpoint",
        "enable_prefix_caching",
        "expert_placement_strategy",
        "long_prefill_token_threshold",
        "max_cudagraph_capture_size",
        "mamba_block_size",
        "mamba_cache_mode",
        "max_parallel_loading_workers",
        "mm_encoder_tp_mode",
        "mm_processor_cache_type",
        "mm_shm_cache_max_object_size_mb",
        "num_gpu_blocks_override",
        "numa_bind",
        "offload_group_size",
        "offload_num_in_group",
        "offload_prefetch_step",
        "prefill_context_parallel_size",
        "prefix_cache_retention_interval",
        "prefix_caching_hash_algo",
        "prefix_match_unit",
        "renderer_num_workers",
        "safetensors_load_strategy",
        "scheduler_reserve_full_isl",
        "skip_mm_profiling",
        "stream_interval",
    }
)
"""Settings that concern speed and memory only. All others are part of an episode's id, those of later versions too."""

_CODE = "it names Python code to load"
_FILES = "it can name Python code to load"
_COPIES = "set cluster.replicas: each is a copy of the model, and raycade gives each its requests"
_NODES = "set model.replica.nodes: raycade places the workers of a replica"
REFUSED: Mapping[str, str] = {
    "data_parallel_address": _COPIES,
    "data_parallel_backend": _COPIES,
    "data_parallel_external_lb": _COPIES,
    "data_parallel_hybrid_lb": _COPIES,
    "data_parallel_multi_port_external_lb": _COPIES,
    "data_parallel_rank": _COPIES,
    "data_parallel_rpc_port": _COPIES,
    "data_parallel_size": _COPIES,
    "data_parallel_size_local": _COPIES,
    "data_parallel_start_rank": _COPIES,
    "disable_log_stats": "nothing reads vLLM's own statistics",
    "distributed_executor_backend": "raycade chooses it by model.replica.nodes and the GPUs of a replica",
    "ec_manager_config": _FILES,
    "ec_transfer_config": _FILES,
    "hf_token": "it is a secret; vLLM reads the environment variable HF_TOKEN",
    "io_processor_plugin": _CODE,
    "kv_cache_memory_bytes": "set model.engine.kv_cache_gib",
    "kv_transfer_config": _FILES,
    "log_config_file": _FILES,
    "logging_config": _FILES,
    "logits_processors": _CODE,
    "logprobs_mode": "label scores need raw log-probabilities",
    "master_addr": _NODES,
    "master_port": _NODES,
    "model": "set model.engine.model",
    "model_class_overrides": _CODE,
    "nnodes": _NODES,
    "node_rank": _NODES,
    "reasoning_parser_plugin": _CODE,
    "runner": "raycade asks for text",
    "scheduler_cls": _CODE,
    "scheduling_policy": "raycade gives every request a priority",
    "skip_tokenizer_init": "raycade tokenizes prompts",
    "worker_cls": _CODE,
    "worker_extension_cls": _CODE,
}
"""Settings that cannot be passed through, with the reason: a downloaded configuration must not run code."""

REFUSED_WITHIN: Mapping[str, frozenset[str]] = {"compilation_config": frozenset({"backend", "inductor_passes"})}
"""Keys of mappings that may name Python code to load."""

OWN_SAMPLING: frozenset[str] = frozenset(
    {
        "detokenize",
        "flat_logprobs",
        "logprob_token_ids",
        "logprobs",
        "n",
        "output_kind",
        "output_text_buffer_length",
        "prompt_logprob_start",
        "prompt_logprob_token_ids",
        "prompt_logprobs",
        "routed_experts_prompt_start",
        "seed",
        "skip_clone",
        "skip_reading_prefix_cache",
        "stream_interval",
        "structured_outputs",
    }
)
"""Sampling parameters that raycade sets itself."""

_PLAIN: Mapping[str, Any] = {
    f"{name}{optional}": kind | None
    for name, kind in (("bool", bool), ("int", int), ("float", float), ("str", str))
    for optional in ("", " | None")
}


@lru_cache(maxsize=1)
def engine_fields() -> Mapping[str, Any]:
    """Fields of the installed ``AsyncEngineArgs`` with their types (``Any`` unless plain); empty without vLLM."""
    return _fields("engine/arg_utils.py", ("EngineArgs", "AsyncEngineArgs"))


@lru_cache(maxsize=1)
def sampling_fields() -> Mapping[str, Any]:
    """Fields of the installed ``SamplingParams`` that a user may set, as ``engine_fields``."""
    fields = _fields("sampling_params.py", ("SamplingParams",))
    return {name: kind for name, kind in fields.items() if name not in OWN_SAMPLING}


def gpus_of(arguments: Mapping[str, Any]) -> int:
    """GPUs of one engine with these arguments of vLLM."""
    sizes = ("tensor_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size")
    return math.prod(int(arguments.get(size) or 1) for size in sizes)


def check_passed_through(passed: Mapping[str, Any], named: Mapping[str, Any]) -> None:
    """Reject settings that cannot be passed through.

    Args:
        passed: The ``model.engine.vllm`` section.
        named: Settings that ``model.engine`` has itself.

    Raises:
        ValueError: one of them has another place, is a secret, or may load code; its value is not quoted.
    """
    for name, value in passed.items():
        if name in named:
            raise ValueError(f"model.engine.vllm.{name}: set model.engine.{name}")
        if name in REFUSED:
            raise ValueError(f"model.engine.vllm.{name}: cannot be set: {REFUSED[name]}")
        if not isinstance(value, Mapping):
            continue
        within = REFUSED_WITHIN.get(name, frozenset()) & value.keys()
        if within:
            raise ValueError(f"model.engine.vllm.{name}.{min(within)}: cannot be set: {_FILES}")


def _fields(file: str, classes: tuple[str, ...]) -> Mapping[str, Any]:
    spec = importlib.util.find_spec("vllm")
    if spec is None or not spec.submodule_search_locations:
        return {}
    tree = ast.parse(Path(spec.submodule_search_locations[0], file).read_text(encoding="utf-8"))
    found: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in classes:
            found |= _fields_of(node)
    return found


def _fields_of(node: ast.ClassDef) -> dict[str, Any]:
    """The public fields that a class states, with their types as far as they are plain."""
    found: dict[str, Any] = {}
    for statement in node.body:
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        name, annotation = statement.target.id, ast.unparse(statement.annotation)
        if not name.startswith("_") and "ClassVar" not in annotation:
            found[name] = _PLAIN.get(annotation, Any)
    return found
