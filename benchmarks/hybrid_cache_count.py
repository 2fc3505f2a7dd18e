"""Asks vLLM for the prompts of ``benchmarks.hybrid_cache``, in a process that has not loaded the libraries of suites."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cluster.engines.vllm_process import prepare_cpu, prepare_environment


def count(folder: Path, block: int, unit: int | None) -> None:
    """Ask vLLM for every suite's prompts, read from a file, and write what it reports as cached."""
    prepare_environment(local=True)
    prepare_cpu(1, enforce_eager=True)
    from vllm import LLM, SamplingParams

    home = folder / f"model-{block}"
    llm = LLM(
        str(home), dtype="bfloat16", enforce_eager=True, max_model_len=16384, max_num_batched_tokens=8192,
        kv_cache_memory_bytes=2**30, enable_prefix_caching=True, prefix_match_unit=unit, disable_log_stats=True,
    )  # fmt: skip
    asked = json.loads((folder / "prompts.json").read_text())
    counted: dict[str, list[int]] = {}
    for name, prompts in asked.items():
        llm.reset_prefix_cache()
        counted[name] = []
        for prompt in prompts:
            output = llm.generate({"prompt_token_ids": prompt}, SamplingParams(max_tokens=1), use_tqdm=False)[0]
            counted[name].append(output.num_cached_tokens)
    size = llm.llm_engine.vllm_config.cache_config.block_size
    (folder / "counted.json").write_text(json.dumps({"block": size, "counted": counted}))


if __name__ == "__main__":
    count(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) or None)
