"""Trajectories as tokens, and which of them are replies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from examples.small_model.vocabulary import END, ROLES

PADDING, PROMPT, REPLY = range(3)
"""What a token belongs to; a reply's end belongs to it."""
Example = tuple[np.ndarray, np.ndarray]
"""Token ids, and what each belongs to."""


def encode(row: Mapping[str, Any], tokenizer: PreTrainedTokenizerFast) -> Example:
    """A trajectory's tokens as the chat template writes them, and which of them are replies."""
    ids: list[int] = []
    kinds: list[int] = []
    end = tokenizer.convert_tokens_to_ids(END)
    for entry, counts in zip(row["messages"], row["loss_mask"], strict=True):
        text = [*tokenizer.encode(entry["content"], add_special_tokens=False), end]
        ids += [tokenizer.convert_tokens_to_ids(ROLES[entry["role"]]), *text]
        kinds += [PROMPT, *([REPLY if counts else PROMPT] * len(text))]
    return np.array(ids, np.int32), np.array(kinds, np.int8)


def batches(
    examples: Sequence[Example], size: int, rng: np.random.Generator, pad: int
) -> Iterator[dict[str, torch.Tensor]]:
    """Batches without end, each epoch in a new order; games of nearly the same length stand together."""
    size = min(size, len(examples))
    while True:
        order = rng.permutation(len(examples))
        for start in range(0, len(order) - size + 1, size * 50):
            pool = sorted(order[start : start + size * 50], key=lambda place: len(examples[place][0]))
            groups = [pool[first : first + size] for first in range(0, len(pool) - size + 1, size)]
            for group in rng.permutation(len(groups)):
                yield _padded([examples[place] for place in groups[group]], pad)


def _padded(examples: Sequence[Example], pad: int) -> dict[str, torch.Tensor]:
    longest = max(len(ids) for ids, _ in examples)
    tokens = np.full((len(examples), longest), pad, np.int64)
    kinds = np.full((len(examples), longest), PADDING, np.int64)
    for place, (ids, of) in enumerate(examples):
        tokens[place, : len(ids)] = ids
        kinds[place, : len(ids)] = of
    return {"input_ids": torch.from_numpy(tokens), "kinds": torch.from_numpy(kinds)}
