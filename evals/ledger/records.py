"""Finished episodes as ledger rows, and the plan as a table.

A chat is stored by what each turn adds to it, and a picture by its description, so that a multi-turn episode with
images takes a few kB and can still be shown exactly as the player saw it (``chat_of``).
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, get_type_hints

import pyarrow as pa
import pyarrow.compute as pc

from envs.picture import picture_from_description
from evals.conversation import PlayedTurn, Record
from evals.ledger.columns import (
    METADATA,
    SCHEMA_VERSION,
    EpisodeRow,
    LabelRow,
    MessageRow,
    PartRow,
    TurnRow,
    check_version,
    ledger_schema,
)
from evals.types import Chat, Episode, Message, Part

PARQUET_OPTIONS: Mapping[str, Any] = {"compression": "zstd", "write_page_checksum": True}
"""How parts are written (``pyarrow.parquet.write_table``); the checksums let reading notice a damaged page."""


def records_to_table(records: Iterable[Record], columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Finished episodes as ledger rows, in the order given; columns of other suites are null.

    Whoever commits the rows fills in ``session`` and ``attempt``: a runner knows neither.

    Raises:
        ValueError: an outcome names a column that no suite declares.
    """
    schema = ledger_schema(columns)
    rows = []
    for record in records:
        own = _own_values(record, columns)
        rows.append((*_episode_row(record), *own))
    # Without any row every column is empty.
    values: Iterable[tuple[Any, ...]] = itertools.repeat(())
    if rows:
        values = zip(*rows, strict=True)
    arrays = [_array(list(column), kind.type) for column, kind in zip(values, schema, strict=False)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _episode_row(record: Record) -> EpisodeRow:
    episode, outcome = record.episode, record.outcome
    replies = [played.reply for played in record.turns]
    return EpisodeRow(
        episode_id=episode.id,
        suite=episode.suite,
        task=episode.task,
        level=episode.level,
        mode=episode.mode,
        index=episode.index,
        repeat=episode.repeat,
        seed=episode.seed,
        player=episode.player,
        status="done" if outcome else "failed",
        error=record.error,
        error_kind=record.error_kind,
        success=outcome.success if outcome else None,
        score=outcome.credit if outcome else None,
        steps=outcome.steps if outcome else None,
        budget=episode.budget,
        prompt_tokens=sum(reply.prompt_tokens for reply in replies),
        completion_tokens=sum(reply.completion_tokens for reply in replies),
        reasoning_tokens=sum(reply.reasoning_tokens for reply in replies),
        cached_tokens=sum(reply.cached_tokens for reply in replies),
        seconds=record.seconds,
        cost=sum(reply.cost for reply in replies),
        cut_off=sum(reply.cut_off for reply in replies),
        session="",
        attempt=1,
        turns=list(_turn_rows(record.turns)),
    )


def _turn_rows(turns: Sequence[PlayedTurn]) -> Iterator[TurnRow]:
    """Each prompt without what it shares with the one before."""
    before: Chat = ()
    for played in turns:
        turn, reply, scores = played.turn, played.reply, played.reply.label_scores
        kept = shared(before, turn.chat)
        before = turn.chat
        yield TurnRow(
            kept=kept,
            prompt=[
                MessageRow(message.role, [_part_row(part) for part in message.parts]) for message in turn.chat[kept:]
            ],
            options=turn.options,
            reply=reply.text,
            reasoning=reply.reasoning,
            finish=reply.finish,
            action=played.action,
            rule=played.rule,
            labels=[LabelRow(*pair) for pair in zip(turn.labels, scores.logprobs, strict=True)] if scores else None,
            label_mass=scores.mass if scores else None,
            argmax_is_label=scores.argmax_is_label if scores else None,
            exact=scores.exact if scores else None,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            reasoning_tokens=reply.reasoning_tokens,
            cached_tokens=reply.cached_tokens,
            seconds=reply.seconds,
            cost=reply.cost,
        )


def _own_values(record: Record, columns: Collection[str]) -> list[Any]:
    """What an outcome says in each of the suites' columns; in those of other suites nothing."""
    stated: Mapping[str, Any] = {}
    if record.outcome:
        stated = record.outcome.extra
    own = {f"{record.episode.suite}.{name}": value for name, value in stated.items()}
    unknown = sorted(set(own) - set(columns))
    if unknown:
        raise ValueError(f"suite {record.episode.suite!r} does not declare the columns {', '.join(unknown)}")
    return [own.get(name) for name in columns]


def shared(before: Chat, chat: Chat) -> int:
    """Number of leading messages that two chats have in common."""
    for number, (old, new) in enumerate(zip(before, chat, strict=False)):
        if old is not new and old != new:  # most chats were appended to, and share the very messages
            return number
    return min(len(before), len(chat))


def _part_row(part: Part) -> PartRow:
    return PartRow(part, None) if isinstance(part, str) else PartRow(None, part.description)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values (structs as tuples in field order) as an array, column by column: ten times faster than row by row."""
    if pa.types.is_list(kind):
        return _list_array(values, kind)
    if pa.types.is_struct(kind):
        return _struct_array(values, kind)
    return pa.array(values, kind)


def _list_array(values: Sequence[Any], kind: pa.ListType[Any]) -> pa.Array:
    absent = pa.array([value is None for value in values], pa.bool_())
    lists = [() if value is None else value for value in values]
    offsets = pa.array(itertools.accumulate(map(len, lists), initial=0), pa.int32())
    items = _array(list(itertools.chain.from_iterable(lists)), kind.value_type)
    return pa.ListArray.from_arrays(offsets, items, type=kind, mask=absent)


def _struct_array(values: Sequence[Any], kind: pa.StructType) -> pa.Array:
    absent = pa.array([value is None for value in values], pa.bool_())
    nothing = (None,) * kind.num_fields
    # Without any value every field is an empty column.
    columns: Iterable[tuple[Any, ...]] = itertools.repeat(())
    if values:
        columns = zip(*(nothing if value is None else value for value in values), strict=True)
    arrays = [_array(column, item.type) for column, item in zip(columns, kind, strict=False)]
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=absent)


def chat_of(turns: Sequence[Mapping[str, Any]], number: int) -> Chat:
    """The full chat of one stored turn, pictures rebuilt.

    Args:
        turns: The ``turns`` of one row (``row["turns"]`` of ``table.to_pylist()``).
        number: Position in that list.

    Raises:
        ValueError: a picture can no longer be rendered as it was (see ``picture_from_description``).
    """
    chat: Chat = ()
    thought = ""
    for turn in turns[: number + 1] if number >= 0 else turns[: len(turns) + number + 1]:
        said = [_message(stored) for stored in turn["prompt"]]
        if said and said[0].role == "assistant":  # the reply to the turn before
            said[0] = dataclasses.replace(said[0], reasoning=thought)
        chat = (*chat[: turn["kept"]], *said)
        thought = turn.get("reasoning") or ""
    return chat


def _message(stored: Mapping[str, Any]) -> Message:
    return Message(
        stored["role"],
        tuple(
            picture_from_description(part["picture"]) if part["picture"] is not None else part["text"]
            for part in stored["parts"]
        ),
    )


# --- the plan --------------------------------------------------------------------------------------------------------

_PLAN_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64()}
_PLAN_NAMES = tuple(item.name for item in fields(Episode))

PLAN_SCHEMA = pa.schema(
    {"episode_id": pa.string(), **{name: _PLAN_TYPES[get_type_hints(Episode)[name]] for name in _PLAN_NAMES}},
    metadata=METADATA,
)
"""The fields of ``Episode`` and its id."""

_ROWS_AT_ONCE = 50_000


_DIGEST_KEY = b"raycade.plan_digest"
"""Where a plan's metadata holds a digest of its rows, whose ids its writer has computed: reading need not repeat that."""


def plan_to_table(episodes: Iterable[Episode]) -> pa.Table:
    """A plan as a table, one row per episode, in the order given."""
    planned = list(episodes)
    arrays = [
        pa.array(map(attrgetter(name), planned), kind.type)
        for name, kind in zip(("id", *_PLAN_NAMES), PLAN_SCHEMA, strict=True)
    ]
    table = pa.Table.from_arrays(arrays, schema=PLAN_SCHEMA)
    return table.replace_schema_metadata({**METADATA, _DIGEST_KEY: _digest(table)})


def _digest(table: pa.Table) -> bytes:
    """Of all rows, without the metadata."""
    sink = pa.BufferOutputStream()
    plain = table.replace_schema_metadata(None).combine_chunks()
    with pa.ipc.new_stream(sink, plain.schema) as writer:
        writer.write_table(plain)
    return hashlib.blake2b(sink.getvalue(), digest_size=16).hexdigest().encode()


def plan_from_table(table: pa.Table) -> list[Episode]:
    """The inverse of ``plan_to_table``.

    Raises:
        ValueError: see ``check_plan``.
    """
    return list(_planned(table, _is_unchanged(table)))


def check_plan(table: pa.Table) -> None:
    """See that a stored plan says what its ids say.

    Raises:
        ValueError: it has an unknown schema version, lacks a column, names an episode twice, or a row's id is not the id
            of what the row says.
    """
    for _ in _planned(table.slice(0, 1) if _is_unchanged(table) else table, unchanged=False):
        pass


def _is_unchanged(table: pa.Table) -> bool:
    """Whether a plan is as it was written, with an id once at most."""
    written = (table.schema.metadata or {}).get(_DIGEST_KEY)
    as_written = written == _digest(table) and table.schema.equals(PLAN_SCHEMA)
    return as_written and len(pc.unique(table["episode_id"])) == len(table)


def _check_columns(table: pa.Table) -> None:
    missing = [name for name in PLAN_SCHEMA.names if name not in table.column_names]
    if missing:
        raise ValueError(f"not a plan: it has no column {', '.join(missing)}")


def _planned(table: pa.Table, unchanged: bool) -> Iterator[Episode]:
    """The episodes of a plan, of which only the first one's id is computed if nothing has changed since it was written.

    That one tells whether this version makes the same ids.
    """
    check_version(table.schema.metadata, {SCHEMA_VERSION: None})
    _check_columns(table)
    seen: set[str] = set()
    for batch in table.select(PLAN_SCHEMA.names).to_batches(max_chunksize=_ROWS_AT_ONCE):
        for episode_id, *values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            episode = Episode(*values)
            if unchanged and seen:
                # Where ``cached_property`` keeps it.
                vars(episode)["id"] = episode_id
                yield episode
                continue
            if episode.id != episode_id:
                raise ValueError(
                    f"the plan's episode {episode_id} is not what its row says ({episode.id}): edited, or another version's"
                )
            if episode_id in seen:
                raise ValueError(f"the plan has episode {episode_id} twice")
            seen.add(episode_id)
            yield episode
