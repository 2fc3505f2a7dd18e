"""Whether answers depend on what else is in a batch: the same prompts alone and in batches, on this machine's vLLM.

    python -m benchmarks.batch_invariance [--deterministic] [--model MODEL]

Asks for texts and for log-probabilities of labels one prompt at a time, then all at once, with the prefix cache switched off.
Prints how many texts differ and the largest difference in log-probability.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from cluster.console import show
from cluster.engines.base import Request, Sampling
from cluster.engines.vllm import VLLMEngine
from evals.tables import Table
from evals.types import Message, Reply

PROMPTS = 32
LABELS = ("A", "B", "C", "D")


def requests(kind: str, times: str) -> list[Request]:
    """Prompts of many lengths; their ids name when they are asked."""
    made = []
    for number in range(PROMPTS):
        words = " ".join(f"Row {number}, line {line}: choose." for line in range(1, 4 + 3 * number))
        chat = (Message("system", ("Be brief.",)), Message("user", (words,)))
        labels = LABELS if kind == "labels" else ()
        made.append(Request(f"{kind}-{times}-{number}", chat, labels=labels, seed=number))
    return made


async def asked(engine: VLLMEngine) -> tuple[list[Reply], list[Reply], list[Reply], list[Reply]]:
    """Texts alone and together, labels alone and together."""
    texts = [await engine.complete(request) for request in requests("text", "alone")]
    texts_at_once = await asyncio.gather(*map(engine.complete, requests("text", "together")))
    labels = [await engine.complete(request) for request in requests("labels", "alone")]
    labels_at_once = await asyncio.gather(*map(engine.complete, requests("labels", "together")))
    return texts, texts_at_once, labels, labels_at_once


def apart(alone: Sequence[Reply], together: Sequence[Reply]) -> float:
    """The largest difference between log-probabilities of the same label."""
    pairs = zip(alone, together, strict=True)
    scores = [(one.label_scores, other.label_scores) for one, other in pairs]
    return max(
        abs(left - right)
        for one, other in scores
        if one and other
        for left, right in zip(one.logprobs, other.logprobs, strict=True)
    )


async def measure(model: str, deterministic: bool) -> Table:
    """The table of one model."""
    engine = VLLMEngine(
        Sampling(temperature=0.0, max_tokens=64),
        model,
        dtype="float32" if model == "tiny" else "auto",
        max_model_len=8192,
        kv_cache_gib=0.5 if model == "tiny" else None,
        enforce_eager=model == "tiny",
        vllm={"enable_prefix_caching": False},
        deterministic=deterministic,
    )
    await engine.start()
    try:
        texts, texts_at_once, labels, labels_at_once = await asked(engine)
    finally:
        await engine.close()
    differ = sum(one.text != other.text for one, other in zip(texts, texts_at_once, strict=True))
    rows = (
        ("prompts", PROMPTS),
        ("texts that differ", differ),
        ("largest difference in log-probability", f"{apart(labels, labels_at_once):.1e}"),
    )
    return Table("batch_invariance", f"{model}, deterministic={str(deterministic).lower()}", ("what", "value"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--model", default="tiny")
    options = parser.parse_args()
    show([asyncio.run(measure(options.model, options.deterministic))])


if __name__ == "__main__":
    main()
