"""Whether a GPU's answers are right, under one of vLLM's two model runners: labels, choices, schemas, seeds.

Runs in a process of its own, whose ``VLLM_USE_V2_MODEL_RUNNER`` chooses the runner. The model is the tiny one in float32, whose
probabilities transformers computes as well, by code that shares nothing with vLLM.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.plays import end_in_time
from cluster.engines.base import Request, Sampling
from cluster.engines.tiny_model import ensure_tiny_model
from cluster.engines.vllm import VLLMEngine
from evals.types import Chat, message

RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
"""vLLM's variable: 0 for its V1 model runner, 1 for its V2."""
LABELS = tuple("ABCDEFGHIJKLMNOP")
OPTIONS = ('say "no"', "it's (A|B)*", "back\\slash \\n", "two\nlines", "naïve 北京 – 🙂", " leading and trailing ", "7")
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"move": {"enum": ["left", "right"]}, "steps": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["move", "steps"],
        "additionalProperties": False,
    }
)
TOLERANCE = 2e-3
"""Natural-log units: float32 on a GPU may multiply in TF32, of 10 bits."""
CHATS = 12
DRAWN = {"temperature": 1.0, "top_p": 0.95, "top_k": 50, "min_p": 0.01, "presence_penalty": 0.1}
"""Sampling with every step that a runner has code of its own for."""


def chat(number: int) -> Chat:
    """Prompts of different lengths, so that rows of a batch that were mixed up would show."""
    return (message("user", f"Puzzle {number}. " + "Look again. " * number, "Which panel completes the matrix?"),)


async def ask() -> dict[str, Any]:
    """Ask everything at once, as a run does, then some of it again alone.

    Returns:
        ``runner``, ``attention_backend``, figures, and ``wrong``: what is not as it must be.
    """
    engine = VLLMEngine(
        Sampling(max_tokens=64),
        "tiny",
        dtype="float32",
        max_model_len=2048,
        max_num_seqs=16,
        block_size=32,
        kv_cache_gib=0.25,
        gpu_memory_utilization=0.2,
        enforce_eager=True,
        # A model with random weights would fill its replies with the white space that JSON allows.
        vllm={"structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True}},
    )
    await engine.start()
    try:
        return await _asked(engine)
    finally:
        await engine.close()


async def _asked(engine: VLLMEngine) -> dict[str, Any]:
    numbers = range(CHATS)
    scored = [Request(f"labels {n}", chat(n), labels=LABELS) for n in numbers]
    chosen = [Request(f"choice {n}", chat(n), options=OPTIONS) for n in numbers]
    formed = [Request(f"schema {n}", chat(n), schema=SCHEMA) for n in numbers]
    replies = await asyncio.gather(*map(engine.complete, [*scored, *chosen, *formed]))
    labels, choices, schemas = replies[:CHATS], replies[CHATS : 2 * CHATS], replies[2 * CHATS :]
    expected = full_softmax([chat(n) for n in numbers])
    apart = [
        abs(said - rows[label])
        for reply, rows in zip(labels, expected, strict=True)
        if reply.label_scores is not None
        for label, said in zip(LABELS, reply.label_scores.logprobs, strict=True)
    ]
    best = [max(LABELS, key=rows.__getitem__) for rows in expected]
    engine.sampling = dataclasses.replace(engine.sampling, **DRAWN)
    alone = [[(await engine.complete(drawn(n, seed, copy))).text for n in range(3)] for seed, copy in SEEDS]
    together = await asyncio.gather(*(engine.complete(drawn(n, 1, "together")) for n in range(3)))
    facts = {
        "labels_compared": len(apart),
        "largest_difference_to_full_softmax": max(apart, default=math.inf),
        "same_best_label": sum(reply.text == label for reply, label in zip(labels, best, strict=True)),
        "choices_among_options": sum(reply.text in OPTIONS for reply in choices),
        "replies_of_the_schema": sum(map(fits_schema, (reply.text for reply in schemas))),
        "equal_with_the_same_seed": alone[0] == alone[1],
        "different_with_another_seed": alone[0] != alone[2],
        "equal_with_the_same_seed_in_a_batch": alone[0] == [reply.text for reply in together],
    }
    return {
        "runner": engine.facts["model_runner"],
        "attention_backend": engine.facts.get("attention_backend", ""),
        **facts,
        "wrong": wrong(facts),
    }


SEEDS = ((1, "first"), (1, "again"), (2, "other"))
"""Of three rounds of the same prompts, and what tells their requests apart."""


def drawn(number: int, seed: int, copy: str) -> Request:
    """A free reply at a temperature."""
    return Request(f"seed {number} {copy}", chat(number), seed=seed)


def wrong(facts: dict[str, Any]) -> list[str]:
    """What must hold on any device and does not; equal texts in a batch of another size are no such thing."""
    must = {
        f"label scores differ from the full softmax by more than {TOLERANCE}": facts["labels_compared"]
        == CHATS * len(LABELS)
        and facts["largest_difference_to_full_softmax"] <= TOLERANCE,
        "a constrained reply is none of its options": facts["choices_among_options"] == CHATS,
        "a reply is not of its schema": facts["replies_of_the_schema"] == CHATS,
        "the same seed gave another text": facts["equal_with_the_same_seed"],
        "another seed gave the same texts": facts["different_with_another_seed"],
    }
    return [text for text, holds in must.items() if not holds]


def fits_schema(text: str) -> bool:
    """Whether a reply is JSON of ``SCHEMA``."""
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return (
        isinstance(found, dict)
        and found.keys() == {"move", "steps"}
        and found["move"] in ("left", "right")
        and isinstance(found["steps"], int)
        and 1 <= found["steps"] <= 9
    )


def full_softmax(chats: Sequence[Chat]) -> list[dict[str, float]]:
    """Log-probability of every token as the next one, by its text, by transformers on the CPU."""
    import torch
    from transformers import AutoTokenizer, Qwen2_5_VLForConditionalGeneration

    home = ensure_tiny_model()
    tokenizer: Any = AutoTokenizer.from_pretrained(home)
    model: Any = Qwen2_5_VLForConditionalGeneration.from_pretrained(home, dtype=torch.float32).eval()
    found = []
    for each in chats:
        said = [{"role": part.role, "content": "".join(map(str, part.parts))} for part in each]
        text = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
        with torch.no_grad():
            logits = model(**tokenizer(text, return_tensors="pt", add_special_tokens=False)).logits[0, -1]
        row = torch.log_softmax(logits.double(), dim=-1).tolist()
        found.append({tokenizer.decode([number]): value for number, value in enumerate(row)})
    return found


def under(runner: str, result: Path, timeout: float) -> dict[str, Any]:
    """What a process of its own finds under a model runner (``V1`` or ``V2``); its error where it did not start.

    Its output is kept beside ``result``, as a ``.log``.
    """
    environment = {**os.environ, RUNNER: str(int(runner == "V2"))}
    log = result.with_suffix(".log")
    code = end_in_time([sys.executable, "-m", "benchmarks.gpu.answers", str(result)], log, timeout, environment)
    if code is None:
        return {"not_started": f"not done within {timeout:.0f} seconds; see {log}"}
    if code:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        return {"not_started": lines[-1][:500] if lines else f"exit code {code}"}
    found: dict[str, Any] = json.loads(result.read_text())
    if found["runner"] != runner:
        found["wrong"].append(f"vLLM took its model runner {found['runner']}")
    return found


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(asyncio.run(ask())))
