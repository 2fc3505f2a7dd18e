"""Throughput of the whole pipeline on the tiny model, relative to bare vLLM with the same prompts in one offline batch.

    python -m benchmarks.pipeline [hydra overrides, default 400 KUMO episodes]

The pipeline plays turn by turn through driver, runner, router and replica and writes a ledger; the bare engine gets all
prompts of that ledger at once. Both are warmed up, with the same settings and prefix caching.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

KUMO = ["suite=kumo", "suite.domains=[medical,music]", "suite.difficulties=[easy,hard]", "suite.tasks_per_domain=20"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    if options.bare:
        bare(options.bare)
    else:
        compare([*(options.overrides or KUMO), "model=tiny", "baselines=[]"])


def compare(overrides: list[str]) -> None:
    """Play, run the same prompts on a bare engine in a separate process, and print both."""
    from cluster.config.settings import load_settings
    from cluster.console import show
    from cluster.storage.stored_run import read_episodes
    from evals.records import chat_of
    from evals.tables import Table

    with tempfile.TemporaryDirectory() as folder:
        run_dir, work = Path(folder, "run"), Path(folder, "work.json")
        command = [sys.executable, "-m", "cluster", "run", *overrides, f"run_dir={run_dir}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        timing = json.loads((run_dir / "timings.jsonl").read_text())
        settings = load_settings(overrides)
        prompts: list[dict[str, Any]] = []
        for turns in read_episodes(run_dir, ["turns"])["turns"].to_pylist():
            for number, turn in enumerate(turns):
                chat = chat_of(turns, number)
                messages = [{"role": each.role, "content": "".join(map(str, each.parts))} for each in chat]
                prompts.append({"messages": messages, "options": turn["options"]})
        work.write_text(
            json.dumps(
                {"engine": settings.model.engine, "max_tokens": settings.model.sampling.max_tokens, "prompts": prompts}
            )
        )
        subprocess.run([sys.executable, __file__, "--bare", str(work)], check=True)
        theirs = json.loads(work.with_suffix(".result").read_text())
    ours = len(prompts) / timing["playing_seconds"]
    bare_rate = len(prompts) / theirs["seconds"]
    share = timing["cached_tokens"] / timing["prompt_tokens"]
    rows = (
        ("raycade", len(prompts), ours, timing["completion_tokens"], share, ours / bare_rate),
        ("bare vLLM, one offline batch", len(prompts), bare_rate, theirs["tokens"], theirs["cached"], 1.0),
    )
    columns = ("system", "requests", "requests/s", "completion tokens", "prefix-cache hit rate", "ratio")
    show([Table("pipeline", "Whole pipeline and bare vLLM, tiny model", columns, rows)])


def bare(work: Path) -> None:
    """One offline batch; writes seconds, completion tokens and prefix-cache hit rate next to ``work``."""
    from cluster.engines.tiny_model import ensure_tiny_model
    from cluster.engines.vllm import prepare_cpu, prepare_environment

    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1"  # vLLM's default, so that tokenization overlaps with the model
    prepare_environment(local=True)
    prepare_cpu(1, True)
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    given = json.loads(work.read_text())
    engine = given["engine"]
    llm = LLM(
        model=str(ensure_tiny_model()),
        dtype=engine["dtype"],
        max_model_len=engine["max_model_len"],
        max_num_seqs=engine["max_num_seqs"],
        kv_cache_memory_bytes=int(engine["kv_cache_gib"] * 2**30),
        enforce_eager=engine["enforce_eager"],
        block_size=engine["block_size"],
        limit_mm_per_prompt={"video": 0, **engine["limit_mm_per_prompt"]},
    )
    sampling = [
        SamplingParams(
            temperature=0.0,
            max_tokens=given["max_tokens"],
            structured_outputs=StructuredOutputsParams(choice=prompt["options"]),
        )
        for prompt in given["prompts"]
    ]
    llm.chat([[{"role": "user", "content": f"Warm up {n}."}] for n in range(4)], sampling[:4], use_tqdm=False)
    start = time.monotonic()
    outputs = llm.chat([prompt["messages"] for prompt in given["prompts"]], sampling, use_tqdm=False)
    seconds = time.monotonic() - start
    prompt_tokens = sum(len(output.prompt_token_ids) for output in outputs)
    cached = sum(output.num_cached_tokens or 0 for output in outputs)
    tokens = sum(len(output.outputs[0].token_ids) for output in outputs)
    result = {"seconds": seconds, "tokens": tokens, "cached": cached / prompt_tokens}
    work.with_suffix(".result").write_text(json.dumps(result))


if __name__ == "__main__":  # vLLM starts its core in a separate process, which imports this file again
    main()
