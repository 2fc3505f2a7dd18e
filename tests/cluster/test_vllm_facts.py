"""What a started vLLM engine tells for the record, and that it counts the requests it puts back."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from pathlib import Path

import pytest

from cluster.engines import vllm_worker
from cluster.engines.base import Request
from tests.cluster.test_vllm_engine import ask, make_engine


def test_the_time_of_capturing_graphs_is_read_from_the_message_of_both_model_runners():
    folder = Path(importlib.util.find_spec("vllm").submodule_search_locations[0])
    before = vllm_worker._CAPTURE_TIME.seconds
    for module in vllm_worker.RUNNERS:
        source = folder.parent.joinpath(*module.split(".")).with_suffix(".py").read_text()
        assert vllm_worker.CAPTURED in source
        logging.getLogger(module).info("Graph capturing finished in %.0f secs, took %.2f GiB", 7.25, 0.5)
        logging.getLogger(module).info("Something else took %.0f secs", 99.0)
    assert vllm_worker._CAPTURE_TIME.seconds - before == 14.5


@pytest.mark.vllm
@pytest.mark.slow
async def test_an_engine_tells_its_cache_runner_and_steps_and_counts_what_it_puts_back():
    blocks = 48
    engine = make_engine(max_model_len=1024, max_num_seqs=16, block_size=32, vllm={"num_gpu_blocks_override": blocks})
    await engine.start()
    try:
        facts = engine.facts
        assert facts["model_runner"] in ("V1", "V2") and facts["attention_backend"]
        assert (facts["step_tokens"], facts["batch_slots"]) == (8192, 16)
        assert facts["cache_blocks"] == blocks and facts["cache_tokens"] == pytest.approx(32 * blocks, rel=0.1)
        assert facts["largest_concurrency"] == pytest.approx(facts["cache_tokens"] / 1024)
        assert facts["compile_seconds"] >= 0 and facts["graph_seconds"] == 0.0
        option = "x" * 300
        asked = [
            engine.complete(Request(f"request {number}", ask(f"{number}: go on."), options=(option,)))
            for number in range(16)
        ]
        replies = await asyncio.gather(*asked)
        assert sum(reply.preemptions for reply in replies) > 0 and all(reply.text == option for reply in replies)
        alone = await engine.complete(Request("alone", ask("Go on."), options=(option,)))
        assert alone.preemptions == 0
    finally:
        await engine.close()
