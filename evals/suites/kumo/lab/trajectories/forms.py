"""Trajectories in the forms that trainers read: TRL, verl and axolotl."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from envs.kumo import OptimalSearch, Task
from evals.suites.kumo.lab.trajectories.file import KINDS, SCHEMA
from evals.suites.kumo.lab.trajectories.plays import Row

_CHAT = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))


@dataclass(frozen=True)
class Form:
    """One form of a file.

    Attributes:
        help: What it is, in a line.
        schema: Its columns.
        rows: What it makes of a trajectory.
        kinds: Endings that a file of it may have.
    """

    help: str
    schema: pa.Schema
    rows: Callable[[Row], Iterator[Row]]
    kinds: tuple[str, ...] = KINDS


def _whole(row: Row) -> Iterator[Row]:
    yield row


def _chat(row: Row) -> Iterator[Row]:
    yield {"messages": row["messages"]}


def _steps(row: Row) -> Iterator[Row]:
    """For each reply the chat before it, and the reply."""
    messages = row["messages"]
    for place, counts in enumerate(row["loss_mask"]):
        if counts:
            yield {"prompt": messages[:place], "completion": [messages[place]]}


def _rewarded_steps(row: Row) -> Iterator[Row]:
    """For each decision the chat before it, and all moves that are best there."""
    task = Task.from_json(json.loads(row["task"]))
    search = OptimalSearch(task)
    for number, step in enumerate(_steps(row)):
        observed = task.shown(row["actions"][:number])
        best = search.best_tests(observed) or (search.best(observed),)
        truth = {"best": list(best), "tests": row["tests"], "truths": row["truths"]}
        yield {
            "data_source": "raycade/kumo",
            "prompt": step["prompt"],
            "ability": "reasoning",
            "reward_model": {"style": "rule", "ground_truth": json.dumps(truth, ensure_ascii=False)},
            "extra_info": {
                **{name: row[name] for name in ("domain", "level", "seed", "index", "play")},
                "step": number,
            },
        }


_REWARDED = pa.schema(
    [
        ("data_source", pa.string()),
        ("prompt", _CHAT),
        ("ability", pa.string()),
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
        (
            "extra_info",
            pa.struct(
                [
                    *((name, pa.string()) for name in ("domain", "level")),
                    *((name, pa.int64()) for name in ("seed", "index", "play", "step")),
                ]
            ),
        ),
    ]
)
_MESSAGES = pa.schema([("messages", _CHAT)])
FORMS: Mapping[str, Form] = {
    "raycade": Form("all columns", SCHEMA, _whole),
    "trl": Form("TRL's SFTTrainer: conversations", _MESSAGES, _chat),
    "trl-steps": Form(
        "TRL's SFTTrainer: a prompt and its completion for each reply",
        pa.schema([("prompt", _CHAT), ("completion", _CHAT)]),
        _steps,
    ),
    "verl": Form("verl's MultiTurnSFTDataset", _MESSAGES, _chat, (".parquet",)),
    "verl-steps": Form(
        "verl's RLHFDataset: a prompt for each decision, with the moves that are best",
        _REWARDED,
        _rewarded_steps,
        (".parquet",),
    ),
    "axolotl": Form("axolotl's chat_template", _MESSAGES, _chat, (".jsonl",)),
}


def in_form(form: Form, batches: Iterator[list[Row]]) -> Iterator[list[dict[str, Any]]]:
    """The batches of a file in this form."""
    for batch in batches:
        yield [made for row in batch for made in form.rows(row)]
