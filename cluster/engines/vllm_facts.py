"""What is on record of a started vLLM engine, and vLLM's own statistics without a server that nobody asks."""

from __future__ import annotations

import contextlib
import math
from typing import Any

WORKER_FACTS = "cluster.engines.vllm_worker.WorkerFacts"


async def facts_of(engine: Any) -> dict[str, str | float]:
    """Facts of an ``AsyncLLM``, by names that mean the same for every version of vLLM; what it does not tell is left out.

    Returns:
        ``model_runner`` (V1 or V2), ``attention_backend``, ``step_tokens``, ``batch_slots``, ``cache_blocks``,
        ``cache_tokens``, ``largest_concurrency`` (requests of full length for which the cache has room), ``compile_seconds``,
        ``graph_seconds``.
    """
    config = engine.vllm_config
    cache, scheduler = config.cache_config, config.scheduler_config
    found: dict[str, Any] = {
        "model_runner": "V2" if getattr(config, "use_v2_model_runner", False) else "V1",
        "step_tokens": scheduler.max_num_batched_tokens,
        "batch_slots": scheduler.max_num_seqs,
        "cache_blocks": cache.num_gpu_blocks,
        "cache_tokens": getattr(cache, "kv_cache_size_tokens", None),
        "largest_concurrency": getattr(cache, "kv_cache_max_concurrency", None),
    }
    with contextlib.suppress(Exception):  # a worker of another version or device may lack one of them
        workers = await engine.collective_rpc("raycade_facts")
        found["attention_backend"] = workers[0]["attention_backend"]
        for name in ("compile_seconds", "graph_seconds"):
            found[name] = max(worker[name] for worker in workers)
    return {name: value for name, value in found.items() if value is not None and value != math.inf}


class PictureCounts:
    """Hits and queries of vLLM's cache of preprocessed pictures since they were last taken."""

    def __init__(self) -> None:
        """None yet."""
        self.hits = self.queries = 0

    def add(self, statistics: Any) -> None:
        """Add what vLLM hands out once, or None."""
        if statistics is not None:
            self.hits, self.queries = self.hits + statistics.hits, self.queries + statistics.queries

    def take(self) -> tuple[int, int]:
        """Return them, and begin again."""
        taken = self.hits, self.queries
        self.hits = self.queries = 0
        return taken


def silent_statistics(pictures: PictureCounts) -> type:
    """A logger of vLLM that has it count each request's preemptions and publishes nothing.

    vLLM adds its Prometheus metrics, some fifty for each step, unless a logger is one of that class.
    """
    from vllm.v1.metrics.loggers import PrometheusStatLogger

    class Silent(PrometheusStatLogger):  # type: ignore[misc]
        def __init__(self, vllm_config: Any, engine_indexes: Any = None) -> None:
            pass

        def record(
            self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0
        ) -> None:
            pictures.add(mm_cache_stats)

        def log_engine_initialized(self) -> None:
            pass

        def record_sleep_state(self, is_awake: int = 0, level: int = 0) -> None:
            pass

        def record_admission_rejection(self, reason: str) -> None:
            pass

    return Silent
