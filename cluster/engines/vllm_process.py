"""The process that hosts vLLM: environment variables, CPU settings and the executor."""

from __future__ import annotations

import os

from cluster.engines import torch_compat

BATCH_INVARIANT = "VLLM_BATCH_INVARIANT"
"""vLLM's variable for kernels whose results do not depend on the size of a batch (its module ``determinism``)."""


def executor(gpus: int) -> str:
    """The executor backend of vLLM: in this process or on this node, or Ray for a multi-node replica.

    Set explicitly, because in a Ray actor vLLM would otherwise place its workers itself.
    """
    import ray

    if ray.is_initialized() and ray.util.get_current_placement_group() is not None:
        return "ray"
    return "uni" if gpus == 1 else "mp"


def prepare_environment(local: bool, deterministic: bool = False) -> None:
    """Set vLLM's environment variables that the user has not set; call this before importing vllm.

    Args:
        local: Whether the model is a folder on this machine.
        deterministic: Whether answers must not depend on what else is in a batch.
    """
    torch_compat.apply()
    if deterministic:
        os.environ[BATCH_INVARIANT] = "1"
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if local:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")


def prepare_cpu(tensor_parallel_size: int, enforce_eager: bool) -> None:
    """Settings for CPUs, measured with the tiny model on two cores.

    A worker inside the EngineCore process starts 6 s sooner than one in a separate process (10 s instead of 16 s). With one
    thread it answers as many requests as with two on an idle machine (38 and 35 per second, 3,000 tokens each), and several
    times as many on a busy one, where two threads wait for each other. Ray sets OMP_NUM_THREADS to the actor's CPUs.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if tensor_parallel_size == 1:
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    if enforce_eager:
        # The sampler would still compile a kernel, which takes 20 s at the first label request.
        os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
