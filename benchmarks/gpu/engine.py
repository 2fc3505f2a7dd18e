"""One engine by itself: start-up, picture cache, memory before, during and after. Runs in a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.gpu.device import memory_in_use
from benchmarks.gpu.plays import model_overrides
from cluster.config.settings import load_settings
from cluster.engines.base import Request
from cluster.engines.vllm import VLLMEngine
from envs.kidgym import make
from evals.types import Chat, message

TURNS = 8
"""Of a chat that grows by a picture and a reply at each turn."""


async def measure(size: str, reply_tokens: int) -> dict[str, Any]:
    """Start an engine, play a growing chat, close it."""
    settings = load_settings([*model_overrides(size, reply_tokens), "suite=kumo", "suite.domains=[medical]"])
    engine = settings.model.make_engine()
    assert isinstance(engine, VLLMEngine)
    before, start = memory_in_use(), time.monotonic()
    await engine.start()
    started, loaded = time.monotonic() - start, memory_in_use()
    turns, hits, queries = await _growing_chat(engine)
    start = time.monotonic()
    await engine.close()
    closed = time.monotonic() - start
    await asyncio.sleep(2)
    return {
        "start_seconds": started,
        "close_seconds": closed,
        "memory_before": before,
        "memory_loaded": loaded,
        "memory_after_close": memory_in_use(),
        "seconds_per_turn": turns,
        "picture_cache_hits": hits,
        "picture_cache_queries": queries,
    }


async def _growing_chat(engine: VLLMEngine) -> tuple[list[float], int, int]:
    """Seconds of each turn of a KidGym-like chat, and hits and queries of the picture cache."""
    world, chat, seconds = make("CL", level=1, seed=7), Chat(), list[float]()
    engine.picture_cache()
    for number in range(TURNS):
        chat = (*chat, message("user", world.frame, "What do you do?"))
        start = time.monotonic()
        reply = await engine.complete(Request(f"turn-{number}", chat))
        seconds.append(time.monotonic() - start)
        chat = (*chat, message("assistant", reply.text))
        if not world.done:
            world.step(number % len(world.actions))
    hits, queries = engine.picture_cache()
    return seconds, hits, queries


if __name__ == "__main__":
    Path(sys.argv[3]).write_text(json.dumps(asyncio.run(measure(sys.argv[1], int(sys.argv[2])))))
