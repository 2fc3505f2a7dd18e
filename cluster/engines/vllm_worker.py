"""What vLLM's workers alone know of a started engine; vLLM mixes the class into its worker, in the worker's process."""

from __future__ import annotations

import logging
from typing import Any

RUNNERS = ("vllm.v1.worker.gpu_model_runner", "vllm.v1.worker.gpu.model_runner")
"""Modules of vLLM's two model runners, V1 and V2, by which they log."""
CAPTURED = "Graph capturing finished in %.0f secs"
"""The message with the seconds of capturing CUDA graphs, which vLLM keeps nowhere else."""


class _CaptureTime(logging.Handler):
    """Adds up the seconds of graph captures."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.seconds = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg).startswith(CAPTURED) and isinstance(record.args, tuple):
            self.seconds += float(str(record.args[0]))


_CAPTURE_TIME = _CaptureTime()
for _module in RUNNERS:
    logging.getLogger(_module).addHandler(_CAPTURE_TIME)
    logging.getLogger(_module).setLevel(logging.INFO)  # what vLLM writes is still decided by its own handlers


class WorkerFacts:
    """Called through ``collective_rpc``."""

    def raycade_facts(self) -> dict[str, Any]:
        """``attention_backend``, and the seconds that compiling and capturing graphs took."""
        worker: Any = self
        times = worker.vllm_config.compilation_config
        groups = [group for several in worker.model_runner.attn_groups for group in several]
        return {
            "attention_backend": " ".join(sorted({group.backend.get_name() for group in groups})),
            "compile_seconds": times.compilation_time + getattr(times, "encoder_compilation_time", 0.0),
            "graph_seconds": _CAPTURE_TIME.seconds,
        }
