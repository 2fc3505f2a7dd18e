"""The ledger's schema and reading: one row per finished episode, its turns nested in it; and the plan as a table.

A chat is stored by what each turn adds to it, and a picture by its description, so that a multi-turn episode with
images takes a few kB and can still be shown exactly as the player saw it (``chat_of``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from envs.picture import picture_from_description
from evals.conversation import PlayedTurn, Record
from evals.types import Chat, Episode, Message, Part

PARQUET_OPTIONS: Mapping[str, Any] = {"compression": "zstd", "write_page_checksum": True}
"""How parts are written (``pyarrow.parquet.write_table``); the checksums let reading notice a damaged page."""

PART = pa.struct({"text": pa.string(), "picture": pa.string()})
"""A text, or a picture's description; the other one is null."""

MESSAGE = pa.struct({"role": pa.string(), "parts": pa.list_(PART)})

TURN = pa.struct(
    {
        "kept": pa.int32(),  # so many leading messages equal the previous turn's and are not repeated
        "prompt": pa.list_(MESSAGE),  # the messages after those
        "options": pa.list_(pa.string()),
        "reply": pa.string(),
        "reasoning": pa.string(),  # what was thought before the reply; no part of it
        "finish": pa.string(),
        "action": pa.string(),
        "rule": pa.string(),
        "labels": pa.list_(pa.struct({"label": pa.string(), "logprob": pa.float64()})),
        "label_mass": pa.float64(),
        "argmax_is_label": pa.bool_(),
        "exact": pa.bool_(),
        "prompt_tokens": pa.int64(),
        "completion_tokens": pa.int64(),
        "reasoning_tokens": pa.int64(),
        "cached_tokens": pa.int64(),
        "seconds": pa.float64(),
    }
)

COLUMNS: Mapping[str, pa.DataType] = {
    "episode_id": pa.string(),
    "suite": pa.string(),
    "task": pa.string(),
    "level": pa.string(),
    "mode": pa.string(),
    "index": pa.int32(),
    "repeat": pa.int32(),
    "seed": pa.int64(),
    "player": pa.string(),
    "status": pa.string(),  # done | failed
    "error": pa.string(),
    "success": pa.bool_(),  # null when failed, as are steps
    "score": pa.float64(),  # 0 to 1
    "steps": pa.int32(),
    "budget": pa.int32(),
    "prompt_tokens": pa.int64(),
    "completion_tokens": pa.int64(),
    "reasoning_tokens": pa.int64(),
    "cached_tokens": pa.int64(),
    "seconds": pa.float64(),
    "cut_off": pa.int32(),  # replies that ended at the token limit
    "turns": pa.list_(TURN),
}
"""The columns of every ledger, whatever the suite."""


def ledger_schema(columns: Mapping[str, pa.DataType]) -> pa.Schema:
    """The schema of a ledger whose suites add ``columns``.

    Raises:
        ValueError: a suite's column has the name of a common one.
    """
    taken = [name for name in columns if name in COLUMNS]
    if taken:
        raise ValueError(f"a suite may not redefine the ledger's own columns: {', '.join(taken)}")
    return pa.schema({**COLUMNS, **columns})


def records_to_table(records: Iterable[Record], columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Finished episodes as ledger rows, in the order given; columns of other suites are null.

    Raises:
        ValueError: an outcome names a column that no suite declares.
    """
    schema = ledger_schema(columns)
    rows = []
    for record in records:
        extra = record.outcome.extra if record.outcome else {}
        extra = {f"{record.episode.suite}.{name}": value for name, value in extra.items()}
        unknown = sorted(set(extra) - set(columns))
        if unknown:
            raise ValueError(f"suite {record.episode.suite!r} does not declare the columns {', '.join(unknown)}")
        rows.append(_common_values(record) + tuple(extra.get(name) for name in columns))
    values = zip(*rows, strict=True) if rows else itertools.repeat(())
    return pa.Table.from_arrays(
        [_array(list(column), kind.type) for column, kind in zip(values, schema, strict=False)], schema=schema
    )


def _common_values(record: Record) -> tuple[Any, ...]:
    """One row in the order of ``COLUMNS``."""
    episode, outcome = record.episode, record.outcome
    replies = [played.reply for played in record.turns]
    return (
        episode.id,
        episode.suite,
        episode.task,
        episode.level,
        episode.mode,
        episode.index,
        episode.repeat,
        episode.seed,
        episode.player,
        "done" if outcome else "failed",
        record.error,
        outcome.success if outcome else None,
        outcome.credit if outcome else None,
        outcome.steps if outcome else None,
        episode.budget,
        sum(reply.prompt_tokens for reply in replies),
        sum(reply.completion_tokens for reply in replies),
        sum(reply.reasoning_tokens for reply in replies),
        sum(reply.cached_tokens for reply in replies),
        record.seconds,
        sum(reply.cut_off for reply in replies),
        list(_turn_values(record.turns)),
    )


def _turn_values(turns: Sequence[PlayedTurn]) -> Iterator[tuple[Any, ...]]:
    """Turns in the order of ``TURN``; each prompt without what it shares with the one before."""
    before: Chat = ()
    for played in turns:
        turn, reply, scores = played.turn, played.reply, played.reply.label_scores
        kept = _shared(before, turn.chat)
        before = turn.chat
        yield (
            kept,
            [(message.role, [_part_values(part) for part in message.parts]) for message in turn.chat[kept:]],
            turn.options,
            reply.text,
            reply.reasoning,
            reply.finish,
            played.action,
            played.rule,
            list(zip(turn.labels, scores.logprobs, strict=True)) if scores else None,
            scores.mass if scores else None,
            scores.argmax_is_label if scores else None,
            scores.exact if scores else None,
            reply.prompt_tokens,
            reply.completion_tokens,
            reply.reasoning_tokens,
            reply.cached_tokens,
            reply.seconds,
        )


def _shared(before: Chat, chat: Chat) -> int:
    """Number of leading messages that two chats have in common."""
    for number, (old, new) in enumerate(zip(before, chat, strict=False)):
        if old != new:
            return number
    return min(len(before), len(chat))


def _part_values(part: Part) -> tuple[str | None, str | None]:
    return (part, None) if isinstance(part, str) else (None, part.description)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values (structs as tuples in field order) as an array, column by column: ten times faster than row by row."""
    if pa.types.is_list(kind):
        absent = [value is None for value in values]
        lengths = (0 if value is None else len(value) for value in values)
        offsets = pa.array(itertools.accumulate(lengths, initial=0), pa.int32())
        items = _array([item for value in values if value is not None for item in value], kind.value_type)
        return pa.ListArray.from_arrays(offsets, items, type=kind, mask=pa.array(absent, pa.bool_()))
    if pa.types.is_struct(kind):
        columns = zip(*values, strict=True) if values else itertools.repeat(())
        arrays = [_array(column, item.type) for column, item in zip(columns, kind, strict=False)]
        return pa.StructArray.from_arrays(arrays, fields=list(kind))
    return pa.array(values, kind)


# --- reading ---------------------------------------------------------------------------------------------------------


@dataclass
class LedgerContents:
    """All sound rows of a ledger, and what could not be read: whoever reads a ledger reports ``damaged``."""

    table: pa.Table
    damaged: list[tuple[Path, str]] = field(default_factory=list)
    """Parts that are no sound ledger parts, and rows that repeat an episode (the first one counts), with the reason."""


def read_ledger(run_dir: Path | str, columns: Sequence[str] | None = None) -> LedgerContents:
    """Read every part of a run's ledger, in the order of their names.

    Args:
        run_dir: The run directory; its parts lie in ``episodes/*.parquet``. Without any, the ledger is empty.
        columns: The columns to read; all but the bulky ``turns`` if not given. A column that some part lacks is null
            there.
    """
    damaged: list[tuple[Path, str]] = []
    tables: list[tuple[Path, pa.Table]] = []
    schema = pa.schema(
        {name: kind for name, kind in COLUMNS.items() if (name in columns if columns else name != "turns")}
    )
    for path in sorted((Path(run_dir) / "episodes").glob("*.parquet")):
        try:
            table = _read_part(path, columns)
            schema = pa.unify_schemas([schema, table.schema.remove_metadata()])
        except (pa.ArrowException, OSError, ValueError) as error:
            damaged.append((path, " ".join(str(error).split())))
        else:
            tables.append((path, table))
    seen: dict[str, Path] = {}
    kept = [_without_repeats(path, table, seen, damaged) for path, table in tables]
    table = pa.concat_tables([schema.empty_table(), *kept], promote_options="default")
    return LedgerContents(
        table.select([name for name in columns if name in table.column_names]) if columns else table, damaged
    )


def _read_part(path: Path, columns: Sequence[str] | None) -> pa.Table:
    """One part's wanted columns and its episode ids.

    Raises:
        pyarrow.ArrowException, OSError: not a sound Parquet file.
        ValueError: not a part of a ledger.
    """
    with pq.ParquetFile(path, page_checksum_verification=True) as part:
        schema = part.schema_arrow
        for name, kind in COLUMNS.items():
            if name not in schema.names:
                raise ValueError(f"not a ledger part: it has no column {name!r}")
            if schema.field(name).type != kind:
                raise ValueError(f"not a ledger part: column {name!r} is {schema.field(name).type}, not {kind}")
        wanted = [
            name for name in schema.names if name == "episode_id" or (name in columns if columns else name != "turns")
        ]
        return part.read(columns=wanted).replace_schema_metadata(None)


def _without_repeats(path: Path, table: pa.Table, seen: dict[str, Path], damaged: list[tuple[Path, str]]) -> pa.Table:
    """The part without rows of episodes seen before; each of those is noted as damage."""
    fresh = []
    for episode_id in table["episode_id"].to_pylist():
        fresh.append(episode_id not in seen)
        if not fresh[-1]:
            damaged.append((path, f"episode {episode_id} occurs a second time (first in {seen[episode_id].name})"))
        seen.setdefault(episode_id, path)
    return table if all(fresh) else table.filter(pa.array(fresh, pa.bool_()))


def chat_of(turns: Sequence[Mapping[str, Any]], number: int) -> Chat:
    """The full chat of one stored turn, pictures rebuilt.

    Args:
        turns: The ``turns`` of one row (``row["turns"]`` of ``table.to_pylist()``).
        number: Position in that list.

    Raises:
        ValueError: a picture can no longer be rendered as it was (see ``picture_from_description``).
    """
    chat: Chat = ()
    for turn in turns[: number + 1] if number >= 0 else turns[: len(turns) + number + 1]:
        chat = chat[: turn["kept"]] + tuple(_message(stored) for stored in turn["prompt"])
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

PLAN_SCHEMA = pa.schema(
    {
        "episode_id": pa.string(),
        **{item.name: _PLAN_TYPES[get_type_hints(Episode)[item.name]] for item in fields(Episode)},
    }
)
"""The fields of ``Episode`` and its id."""


def plan_to_table(episodes: Iterable[Episode]) -> pa.Table:
    """A plan as a table, one row per episode, in the order given."""
    names = [item.name for item in fields(Episode)]
    rows = [{"episode_id": episode.id, **{name: getattr(episode, name) for name in names}} for episode in episodes]
    return pa.Table.from_pylist(rows, schema=PLAN_SCHEMA)


def plan_from_table(table: pa.Table) -> list[Episode]:
    """The inverse of ``plan_to_table``.

    Raises:
        ValueError: a column is missing, or a row's id is not the id of what the row says.
    """
    missing = [name for name in PLAN_SCHEMA.names if name not in table.column_names]
    if missing:
        raise ValueError(f"not a plan: it has no column {', '.join(missing)}")
    episodes = []
    for row in table.select(PLAN_SCHEMA.names).to_pylist():
        episode_id = row.pop("episode_id")
        episode = Episode(**row)
        if episode.id != episode_id:
            raise ValueError(
                f"the plan's episode {episode_id} is not what its row says ({episode.id}): edited, or another version's"
            )
        episodes.append(episode)
    return episodes
