"""One small vLLM engine with random weights, asked for one label: ``python -m cluster.doctor.small_engine JSON``.

Prints what it saw as one line of JSON; a failed start is an error on standard error and exit code 1.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from cluster.engines.base import Request, Sampling
from cluster.engines.tiny_model import ensure_tiny_model
from cluster.engines.vllm import VLLMEngine
from evals.types import Message


async def ask(step: int | None) -> dict[str, Any]:
    """Start the engine, ask, and end it.

    Args:
        step: Tokens a step that the run's engine asks for; None for vLLM's own.

    Returns:
        ``label``, ``seconds`` until it was there, ``runner`` (vLLM's model runner) and ``step``.
    """
    began = time.monotonic()
    chosen: dict[str, Any] = {} if step is None else {"max_num_batched_tokens": step}
    engine = VLLMEngine(
        Sampling(max_tokens=4),
        "tiny",
        dtype="float32",
        max_model_len=2048,
        max_num_seqs=4,
        gpu_memory_utilization=0.1,
        kv_cache_gib=0.05,
        block_size=32,
        enforce_eager=True,
        mm_processor_cache_gb=0.0,
        **chosen,
    )
    await engine.start()
    try:
        chat = (Message("user", ("Which letter comes first?\n\nAnswer A or B.",)),)
        reply = await engine.complete(Request("doctor", chat, labels=("A", "B")))
        config = engine._engine.vllm_config
        return {
            "label": reply.text,
            "seconds": time.monotonic() - began,
            "runner": "V2" if config.use_v2_model_runner else "V1",
            "step": int(config.scheduler_config.max_num_batched_tokens),
        }
    finally:
        await engine.close()


def main() -> int:
    """See the module's docstring."""
    asked = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    try:
        ensure_tiny_model()
        print(json.dumps(asyncio.run(ask(asked.get("step")))), flush=True)
    except Exception as error:
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
