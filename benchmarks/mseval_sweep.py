"""MSEval's sweep through the cluster, compared with bare vLLM and with transformers, on the same tiny model and prompts.

    python -m benchmarks.mseval_sweep [--sample N] [hydra overrides, default two puzzles of each configuration]

Plays the chain with its sweep on local Ray and vLLM; asks the same calls of bare vLLM in one offline batch; and recomputes
the labels' log-probabilities for an even sample of the prompts with transformers, one at a time, all in float32. Prints
calls/s, computed prompt tokens beside the least possible (every distinct prefix once), and the largest difference in
log-probability; the exit code is 1 if that exceeds the tolerance.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks.bare_vllm import Bare, ask_bare_vllm
from cluster.commands.run import run
from cluster.config.settings import load_settings
from cluster.console import show
from cluster.engines import torch_compat
from cluster.engines.tiny_model import ensure_tiny_model
from cluster.storage.stored_run import Run
from envs.picture import Picture
from evals.ledger.records import chat_of
from evals.tables import Table
from evals.types import Chat

SWEEP = ["suite=multistar", "suite.puzzles=2", "suite.priors=[model]", "model=tiny"]
TOLERANCE = 1e-3
"""In nats, between vLLM and transformers, whose kernels sum in different orders."""
WARM_UP = 5


@dataclass(frozen=True)
class Asked:
    """One call of the run: its prompt, and the labels with their log-probabilities."""

    chat: Chat
    labels: dict[str, float]


class OneAtATime:
    """The tiny model in transformers, as a script would use it: picture, template, tokens, one forward pass."""

    def __init__(self, threads: int) -> None:
        torch_compat.apply()
        import torch
        from transformers import AutoProcessor, Qwen2_5_VLForConditionalGeneration

        torch.set_num_threads(threads)
        home = ensure_tiny_model()
        self.torch = torch
        self.processor: Any = AutoProcessor.from_pretrained(home)
        self.model: Any = Qwen2_5_VLForConditionalGeneration.from_pretrained(home, dtype=torch.float32).eval()

    def label_logprobs(self, chat: Chat, labels: list[str]) -> dict[str, float]:
        """Log-probabilities of the labels as the next token."""
        content = [
            {
                "role": said.role,
                "content": [
                    {"type": "text", "text": p} if isinstance(p, str) else {"type": "image"} for p in said.parts
                ],
            }
            for said in chat
        ]
        pictures = [Image.fromarray(p.render()) for said in chat for p in said.parts if isinstance(p, Picture)]
        text = self.processor.tokenizer.apply_chat_template(content, tokenize=False, add_generation_prompt=True)
        inputs = self.processor(text=[text], images=pictures or None, return_tensors="pt")
        with self.torch.no_grad():
            logits = self.model(**inputs).logits[0, -1].double()
        logprobs = self.torch.log_softmax(logits, dim=-1)
        return {label: float(logprobs[self.processor.tokenizer.convert_tokens_to_ids(label)]) for label in labels}


def through_the_cluster(overrides: list[str]) -> tuple[dict[str, float], list[Asked], Bare]:
    """One run in a fresh directory: its timings, its calls, and the same calls in bare vLLM."""
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings([*SWEEP, f"run_dir={folder}/run", *overrides])
        code, _ = run(settings)
        assert code == 0
        timing = json.loads(Path(folder, "run", "timings.jsonl").read_text())
        rows = Run(settings.run_dir).episodes(["turns", "multistar.n_planned_calls"]).to_pylist()
        bare = ask_bare_vllm(settings.run_dir)
    assert sum(row["multistar.n_planned_calls"] for row in rows) == sum(len(row["turns"]) for row in rows) == bare.calls
    asked = [
        Asked(chat_of(row["turns"], number), {label["label"]: label["logprob"] for label in turn["labels"]})
        for row in rows
        for number, turn in enumerate(row["turns"])
    ]
    return timing, asked, bare


def one_at_a_time(asked: list[Asked], threads: int) -> tuple[float, list[dict[str, float]]]:
    """Calls per second, and the result of each call."""
    model = OneAtATime(threads)
    for each in asked[:WARM_UP]:
        model.label_logprobs(each.chat, list(each.labels))
    start = time.perf_counter()
    found = [model.label_logprobs(each.chat, list(each.labels)) for each in asked]
    return len(asked) / (time.perf_counter() - start), found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    timing, asked, bare = through_the_cluster(options.overrides)
    sample = asked[:: max(1, len(asked) // options.sample)][: options.sample]
    speeds = {threads: one_at_a_time(sample, threads) for threads in (1, 2)}
    alone, found = max(speeds.values(), key=lambda speed: speed[0])
    apart = max(
        abs(theirs[label] - value)
        for each, theirs in zip(sample, found, strict=True)
        for label, value in each.labels.items()
    )
    same = sum(max(each.labels, key=each.labels.__getitem__) == max(theirs, key=theirs.__getitem__)
               for each, theirs in zip(sample, found, strict=True))  # fmt: skip
    cluster = len(asked) / timing["playing_seconds"]
    computed = (timing["prompt_tokens"] - timing["cached_tokens"]) / len(asked)
    rows: list[tuple[str, str | int | float]] = [
        ("calls", len(asked)),
        ("calls sent to the engine", int(timing["turns"])),
        ("prompt tokens per call", bare.prompt_tokens / bare.calls),
        ("computed prompt tokens per call", computed),
        ("computed by bare vLLM", (bare.prompt_tokens - bare.cached_tokens) / bare.calls),
        ("least possible, each distinct prefix once", bare.least_prompt_tokens / bare.calls),
        ("calls/s through the cluster", cluster),
        ("calls/s of bare vLLM, one offline batch", bare.calls_per_second),
        ("ratio to bare vLLM", cluster / bare.calls_per_second),
        ("calls/s of transformers, one at a time, the faster of one and two threads", alone),
        ("ratio to transformers", cluster / alone),
        ("prompts compared", len(sample)),
        ("largest difference in log-probability", f"{apart:.2e} (tolerance {TOLERANCE:.0e})"),
        ("same most likely label", f"{same} of {len(sample)}"),
    ]
    show([Table("mseval_sweep", "MSEval's sweep on the tiny model", ("metric", "value"), tuple(rows))])
    return 0 if apart <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
