"""``raycade kumo lab token-masks``: trajectories as the tokens of a model, with a mask that marks what it writes itself."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from cluster.engines.tiny_model import ensure_tiny_model
from cluster.errors import UserError
from evals.suites.kumo.lab.trajectories import file as trajectory_file
from evals.suites.kumo.lab.trajectories.plays import Row

_SCHEMA = pa.schema([("input_ids", pa.list_(pa.int64())), ("assistant_masks", pa.list_(pa.int64()))])
_BATCH = 100
Messages = Sequence[dict[str, str]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``raycade kumo lab token-masks``."""
    parser.description = (
        "Writes trajectories as tokens of a model (input_ids), with assistant_masks: 1 for the tokens of replies and the one "
        "that ends each of them, 0 for all others. TRL trains on such a file as it is."
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="of raycade kumo lab trajectories")
    parser.add_argument("out", type=Path, metavar="OUT", help="a new .parquet or .jsonl file")
    parser.add_argument("--tokenizer", required=True, metavar="MODEL", help="a model's folder or name, or tiny")


def main(options: argparse.Namespace) -> int:
    """Write the file.

    Raises:
        UserError: a file or the tokenizer cannot be read, or the tokenizer's chat template changes earlier messages.
    """
    try:
        trajectory_file.check_new(options.out)
        tokenizer = _load(options.tokenizer)
        counts = _Counts()
        trajectory_file.write(options.out, _masked(options.file, tokenizer, counts), _SCHEMA)
    except (ValueError, OSError) as error:
        raise UserError(str(error)) from error
    print(
        f"{options.out}: {counts.rows:,} trajectories of {counts.tokens:,} tokens, {counts.trained:,} of them in replies"
    )
    return 0


class _Counts:
    """Of what has been written."""

    rows = tokens = trained = 0


def _load(name: str) -> Any:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(ensure_tiny_model() if name == "tiny" else name)
    except Exception as error:  # whatever somebody's files make of it
        raise ValueError(f"--tokenizer {name}: cannot be loaded: {error}") from error
    if not tokenizer.is_fast or not tokenizer.chat_template:
        raise ValueError(f"--tokenizer {name}: needs a fast tokenizer with a chat template")
    return tokenizer


def _masked(path: Path, tokenizer: Any, counts: _Counts) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in trajectory_file.read(path):
        ids, mask = token_mask(tokenizer, row["messages"])
        counts.rows, counts.tokens, counts.trained = (
            counts.rows + 1,
            counts.tokens + len(ids),
            counts.trained + sum(mask),
        )
        batch.append({"input_ids": ids, "assistant_masks": mask})
        if len(batch) == _BATCH:
            yield batch
            batch = []
    yield batch


def token_mask(tokenizer: Any, messages: Messages) -> tuple[list[int], list[int]]:
    """The tokens of a chat, and for each of them 1 where the model itself writes it, else 0.

    A model writes its replies and the token that ends each; what the template puts before and after them it does not.

    Args:
        tokenizer: A fast one of transformers, with a chat template.
        messages: The chat, without a request for another reply.

    Raises:
        ValueError: the template shows earlier messages otherwise once later ones follow.
    """
    text = _shown(tokenizer, messages)
    spans = [
        _written(tokenizer, messages, place, text) for place, each in enumerate(messages) if each["role"] == "assistant"
    ]
    tokens = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    mask = []
    for start, _ in tokens["offset_mapping"]:
        said_by_model = any(first <= start < last for first, last in spans)
        mask.append(int(said_by_model))
    return tokens["input_ids"], mask


def _written(tokenizer: Any, messages: Messages, place: int, text: str) -> tuple[int, int]:
    """From which character of the text to which one the model writes the reply at a place."""
    asked = _shown(tokenizer, messages[:place], add_generation_prompt=True)
    answered = _shown(tokenizer, messages[: place + 1])
    if not answered.startswith(asked) or not text.startswith(answered):
        raise ValueError(f"the chat template of {tokenizer.name_or_path} shows message {place + 1} otherwise later on")
    return len(asked), len(answered.rstrip())


def _shown(tokenizer: Any, messages: Messages, **options: bool) -> str:
    return str(tokenizer.apply_chat_template(list(messages), tokenize=False, **options))
