"""The process that hosts vLLM: environment variables, CPU settings, the executor, and its start."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from cluster.engines import torch_compat
from cluster.engines.base import EngineError, HubBusyError
from cluster.engines.child_log import ChildLog
from cluster.engines.hub_answers import hub_answer
from cluster.engines.vllm_chat import brief
from cluster.engines.vllm_facts import PictureCounts, silent_statistics

logger = logging.getLogger(__name__)

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


def prepare_device(arguments: Mapping[str, Any], deterministic: bool) -> None:
    """Set what depends on the device, which vLLM tells once it is imported."""
    from vllm.platforms import current_platform

    if deterministic and not current_platform.is_cuda_alike():
        os.environ.pop(BATCH_INVARIANT, None)
        logger.warning("deterministic=true: vLLM has no batch-invariant kernels for this device")
    if current_platform.is_cpu():
        prepare_cpu(arguments["tensor_parallel_size"], arguments["enforce_eager"])


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


def started(model: str, home: str, arguments: Mapping[str, Any], log: ChildLog, pictures: PictureCounts) -> Any:
    """VLLM's engine, with the model loaded.

    Args:
        model: As the settings name it.
        home: Its folder, or its name on the hub.
        arguments: Of vLLM's engine.
        log: What its processes write while they start.
        pictures: What its cache of pictures counts.

    Raises:
        HubBusyError: the hub that has its files is busy.
        EngineError: the model cannot be loaded.
    """
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    try:
        with log:
            settings = AsyncEngineArgs(model=home, **arguments)
            return AsyncLLM.from_engine_args(settings, stat_loggers=[silent_statistics(pictures)])
    except Exception as error:
        said, answer = log.cause() or brief(error), hub_answer(error, log.lines())
        failed = f"vLLM cannot start {model}: {said}"
        if answer is None:
            raise EngineError(failed) from error
        if answer.busy:
            raise HubBusyError(f"the hub is busy ({answer.text}): {failed}", answer.retry_after) from error
        raise EngineError(f"{failed} ({answer.text})") from error
