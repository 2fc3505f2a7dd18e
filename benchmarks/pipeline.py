"""Throughput of the whole pipeline on the tiny model, relative to bare vLLM with the same prompts in one offline batch.

    python -m benchmarks.pipeline [hydra overrides, default 400 KUMO episodes]

The pipeline plays turn by turn through driver, runner, router and replica and writes a ledger; the bare engine gets all
prompts of that ledger at once. Both are warmed up, with the same settings and prefix caching, and with equal steps: the table
shows the most tokens of a step as each engine told it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.bare_vllm import ask_bare_vllm, step_tokens_of
from cluster.console import show
from cluster.storage.stored_run import Run
from evals.tables import Table

KUMO = ["suite=kumo", "suite.domains=[medical,music]", "suite.difficulties=[easy,hard]", "suite.tasks_per_domain=20"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*")
    overrides = [*(parser.parse_args().overrides or KUMO), "model=tiny", "baselines=[]"]
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder, "run")
        command = [sys.executable, "-m", "cluster", "run", *overrides, f"run_dir={run_dir}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (timing,) = Run(run_dir).timings
        bare = ask_bare_vllm(run_dir)
        (steps,) = step_tokens_of(run_dir)
    ours = timing["turns"] / timing["playing_seconds"]
    share = timing["cached_tokens"] / timing["prompt_tokens"]
    cached = bare.cached_tokens / bare.prompt_tokens
    rows = (
        ("raycade", timing["turns"], steps, ours, timing["completion_tokens"], share, ours / bare.calls_per_second),
        (
            "bare vLLM, one offline batch",
            bare.calls,
            bare.step_tokens,
            bare.calls_per_second,
            bare.completion_tokens,
            cached,
            1.0,
        ),
    )
    columns = ("system", "requests", "step tokens", "requests/s", "completion tokens", "prefix-cache hit rate", "ratio")
    show([Table("pipeline", "Whole pipeline and bare vLLM, tiny model", columns, rows)])


if __name__ == "__main__":
    main()
