"""What a ledger stores: each row type declares its columns once, with type, unit and meaning.

The Arrow schema, the writer (``evals.ledger.records``), the reader (``evals.ledger.parts``) and docs/ledger.md all
come from these declarations. Change them only together with ``SCHEMA_VERSION``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, get_type_hints

import pyarrow as pa

SCHEMA_VERSION = 1
"""Raise it when a column below changes its name, type or meaning, and teach ``evals.ledger.parts.READERS`` the old version."""

VERSION_KEY = b"raycade.schema"
"""Where plans and parts state their version in the Parquet metadata."""

METADATA: Mapping[bytes, bytes] = {VERSION_KEY: str(SCHEMA_VERSION).encode()}


@dataclass(frozen=True)
class Column:
    """A column of the ledger. Those that a suite adds are stored as ``SUITE.NAME``."""

    type: pa.DataType
    help: str
    """One sentence: what the value is."""
    unit: str = ""
    better: Literal["higher", "lower", ""] = ""
    stable: bool = True
    """Whether outsiders may rely on it: a stable column changes only with the schema version (a suite's: the suite's)."""


def columns_of(row: type[tuple[object, ...]]) -> dict[str, Column]:
    """The columns that a row type declares, in the order of its fields."""
    hints = get_type_hints(row, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


def struct_of(row: type[tuple[object, ...]]) -> pa.StructType:
    """A row type as an Arrow struct, to be nested in another row."""
    return pa.struct({name: column.type for name, column in columns_of(row).items()})


class PartRow(NamedTuple):
    """One part of a message: a text or a picture; the other one is null."""

    text: Annotated[str | None, Column(pa.string(), "The text; null for a picture.")]
    picture: Annotated[str | None, Column(pa.string(), "The picture's description, from which it is rendered again.")]


class MessageRow(NamedTuple):
    """One chat message."""

    role: Annotated[str, Column(pa.string(), "`system`, `user` or `assistant`.")]
    parts: Annotated[list[PartRow], Column(pa.list_(struct_of(PartRow)), "Texts and pictures in reading order.")]


class LabelRow(NamedTuple):
    """One scored label of a turn."""

    label: Annotated[str, Column(pa.string(), "The label.")]
    logprob: Annotated[
        float, Column(pa.float64(), "Its log-probability as the next token; nan where the engine gives none.", "nats")
    ]


class TurnRow(NamedTuple):
    """One question to the player and its answer."""

    kept: Annotated[
        int, Column(pa.int32(), "Leading messages equal to the previous turn's; they are not stored again.", "messages")
    ]
    prompt: Annotated[list[MessageRow], Column(pa.list_(struct_of(MessageRow)), "The messages after those.")]
    options: Annotated[tuple[str, ...], Column(pa.list_(pa.string()), "Replies that the game offers; empty for any.")]
    reply: Annotated[str, Column(pa.string(), "What was answered, without reasoning.")]
    reasoning: Annotated[str, Column(pa.string(), "What was thought before the reply; never decoded.")]
    finish: Annotated[str, Column(pa.string(), "Why the reply ended: `stop`, `length`, `content_filter` or `refusal`.")]
    action: Annotated[str | None, Column(pa.string(), "What the suite decoded; null if nothing could be.")]
    rule: Annotated[str, Column(pa.string(), "The decoding rule that applied, or why none did.")]
    labels: Annotated[
        list[LabelRow] | None,
        Column(pa.list_(struct_of(LabelRow)), "Scored labels; null unless the turn asked for them."),
    ]
    label_mass: Annotated[float | None, Column(pa.float64(), "Sum of the labels' probabilities.", "probability")]
    argmax_is_label: Annotated[bool | None, Column(pa.bool_(), "Whether the most likely next token is a label.")]
    exact: Annotated[bool | None, Column(pa.bool_(), "False where the engine gives only its top few tokens.")]
    prompt_tokens: Annotated[int, Column(pa.int64(), "Tokens of the whole prompt.", "tokens")]
    completion_tokens: Annotated[int, Column(pa.int64(), "Tokens written, reasoning included.", "tokens")]
    reasoning_tokens: Annotated[
        int, Column(pa.int64(), "Of these, reasoning; 0 where the engine does not say.", "tokens")
    ]
    cached_tokens: Annotated[int, Column(pa.int64(), "Prompt tokens that the prefix cache served.", "tokens")]
    seconds: Annotated[
        float, Column(pa.float64(), "From question to answer, queueing and retries included.", "seconds")
    ]
    cost: Annotated[
        float, Column(pa.float64(), "Price of the reply and of the failed tries before it.", "currency of the prices")
    ]


class EpisodeRow(NamedTuple):
    """One attempt at an episode, done or failed."""

    episode_id: Annotated[str, Column(pa.string(), "Hash of what defines the episode; joins the ledger with the plan.")]
    suite: Annotated[str, Column(pa.string(), "Name of the suite.")]
    task: Annotated[str, Column(pa.string(), "The suite's task, such as a KidGym task or a KUMO domain.")]
    level: Annotated[str, Column(pa.string(), "Difficulty within the task.")]
    mode: Annotated[str, Column(pa.string(), "How the model is prompted, such as `zero_shot` or `cot`.")]
    # hides tuple.index, which nobody calls
    index: Annotated[  # type: ignore[assignment]
        int, Column(pa.int32(), "Number of the game within its cell, from 0.")
    ]
    repeat: Annotated[int, Column(pa.int32(), "Number of the run of one game, from 0.")]
    seed: Annotated[int, Column(pa.int64(), "Seed of the environment; equal for all players and repeats.")]
    player: Annotated[str, Column(pa.string(), "Name of the model or built-in player.")]
    status: Annotated[str, Column(pa.string(), "`done` or `failed`.")]
    error: Annotated[str, Column(pa.string(), "Cause of failure, its kind before the first colon; empty when done.")]
    error_kind: Annotated[
        str,
        Column(pa.string(), "Whose failure: `endpoint`, `engine`, `model` or `suite`; empty when done.", stable=False),
    ]
    success: Annotated[bool | None, Column(pa.bool_(), "Whether the game was won; null when failed.", better="higher")]
    score: Annotated[
        float | None, Column(pa.float64(), "Partial credit, from 0 to 1; null when failed.", better="higher")
    ]
    steps: Annotated[int | None, Column(pa.int32(), "Steps taken in the game; null when failed.", "steps")]
    budget: Annotated[int, Column(pa.int32(), "Most steps that the game allows.", "steps")]
    prompt_tokens: Annotated[int, Column(pa.int64(), "Sum over all turns.", "tokens")]
    completion_tokens: Annotated[int, Column(pa.int64(), "Sum over all turns, reasoning included.", "tokens")]
    reasoning_tokens: Annotated[int, Column(pa.int64(), "Of these, reasoning, where the engine says so.", "tokens")]
    cached_tokens: Annotated[int, Column(pa.int64(), "Prompt tokens that the prefix cache served.", "tokens")]
    seconds: Annotated[
        float,
        Column(
            pa.float64(), "From the episode's beginning to its end; in a study with people, those in sight.", "seconds"
        ),
    ]
    cost: Annotated[float, Column(pa.float64(), "Sum over all turns.", "currency of the prices", better="lower")]
    cut_off: Annotated[int, Column(pa.int32(), "Replies that ended before the model was done.", "replies")]
    session: Annotated[str, Column(pa.string(), "Which session of the run played the row: its `id` in versions.json.")]
    attempt: Annotated[
        int, Column(pa.int32(), "From 1; more where failed episodes were played again. The latest attempt counts.")
    ]
    turns: Annotated[list[TurnRow], Column(pa.list_(struct_of(TurnRow)), "The episode turn by turn.")]


COLUMNS: Mapping[str, Column] = columns_of(EpisodeRow)
"""The columns of every ledger, whatever the suite."""


def ledger_schema(columns: Mapping[str, pa.DataType]) -> pa.Schema:
    """The schema of a ledger whose suites add ``columns``.

    Raises:
        ValueError: a suite's column has the name of a common one.
    """
    taken = [name for name in columns if name in COLUMNS]
    if taken:
        raise ValueError(f"a suite may not redefine the ledger's own columns: {', '.join(taken)}")
    types = {name: column.type for name, column in COLUMNS.items()}
    return pa.schema({**types, **columns}, metadata=METADATA)


def check_version(metadata: Mapping[bytes, bytes] | None, known: Mapping[int, object]) -> int:
    """The schema version that a plan or part states.

    Args:
        metadata: of its Parquet schema.
        known: versions that can be read.

    Raises:
        ValueError: it states none, or one that this version of raycade cannot read.
    """
    stated = (metadata or {}).get(VERSION_KEY, b"").decode(errors="replace")
    if not stated.isdecimal():
        raise ValueError("it states no schema version: not written by raycade, or rewritten by something else")
    if int(stated) not in known:
        versions = ", ".join(map(str, sorted(known)))
        raise ValueError(
            f"it has schema version {stated}, and this version of raycade reads {versions}: update raycade"
        )
    return int(stated)
