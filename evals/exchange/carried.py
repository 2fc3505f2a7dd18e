"""A ledger row inside another format: as JSON values, from which the very same row is made again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import pyarrow as pa

from envs.files import FileError
from evals.exchange.source import Source
from evals.ledger.check import check_rows
from evals.ledger.columns import COLUMNS, SCHEMA_VERSION, ledger_schema
from evals.ledger.parts import check_turns
from evals.ledger.records import PLAN_SCHEMA
from evals.suite import Suite, ledger_columns
from evals.types import Episode

NAME = "raycade"
"""Under which a row, and what it needs besides, is carried along."""
_PLANNED = tuple(item.name for item in fields(Episode))
_SAME = ("suite", "task", "level", "mode", "index", "repeat", "seed", "player", "budget")
"""Columns of the ledger that say what the plan says; of the tokens, the plan has those expected."""
_OF_THE_RUN = ("episode_id", "session", "attempt")
"""Columns that the plan, or the run that a row is imported into, says."""
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def carry_episode(source: Source, row: Mapping[str, Any]) -> dict[str, Any]:
    """An episode as planned and as played.

    Args:
        source: Whose episode it is.
        row: Of ``Source.rows``, with its turns.
    """
    planned = source.planned(row["episode_id"])
    own = {name: value for name, value in row.items() if name not in (*_SAME, *_OF_THE_RUN)}
    return {"episode": {name: planned[name] for name in _PLANNED}, "row": _carried(own)}


def carry_source(source: Source) -> dict[str, Any]:
    """What all episodes of a source share, and those that were not played."""
    return {
        "schema": SCHEMA_VERSION,
        "suite": dict(source.section),
        "suite_version": source.suite.version,
        "model": dict(source.model),
        "player": source.player,
        "decoding": source.decoding,
        "began": source.began,
        "versions": dict(source.versions),
        "withheld": list(source.withheld),
        "unplayed": [{name: row[name] for name in _PLANNED} for row in source.unplayed()],
    }


def _carried(value: Any) -> Any:
    """JSON values; numbers that JSON does not know become texts, and so does what is no JSON value at all."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _carried(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_carried(each) for each in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def planned_episode(carried: object, place: str) -> Episode:
    """An episode as it was planned.

    Raises:
        FileError: it is none.
    """
    types = {name: PLAN_SCHEMA.field(name).type for name in _PLANNED}
    if not isinstance(carried, dict) or set(carried) != set(_PLANNED):
        raise FileError(place, f"is no planned episode: it must have {', '.join(_PLANNED)}")
    try:
        values = {name: pa.scalar(carried[name], kind).as_py() for name, kind in types.items()}
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise FileError(place, f"is no planned episode: {error}") from error
    empty = [name for name, value in values.items() if value is None]
    if empty:
        raise FileError(place, f"is no planned episode: {', '.join(empty)} must not be empty")
    return Episode(**values)


def ledger_rows(
    suite: Suite, carried: Sequence[tuple[Episode, object]], place: str, session: str
) -> pa.Table:
    """Carried rows as rows of a ledger, checked as any ledger of others is.

    Args:
        suite: Whose episodes they are.
        carried: Each episode, and the ``row`` that ``carry_episode`` made of it.
        place: Where they are from, for errors.
        session: The session that imports them.

    Raises:
        FileError: a row is none of this suite, or is damaged.
    """
    schema = ledger_schema(ledger_columns(suite))
    prefix = f"{suite.name}."
    short = {name.removeprefix(prefix): name for name in schema.names}
    rows = []
    for episode, row in carried:
        if not isinstance(row, dict):
            raise FileError(place, f"episode {episode.id}: its row is no mapping")
        unknown = sorted(set(row) - set(short))
        if unknown:
            raise FileError(place, f"episode {episode.id}: the suite {suite.name} here has no column {', '.join(unknown)}")
        missing = sorted(set(COLUMNS) - set(row) - set(_SAME) - set(_OF_THE_RUN))
        if missing:
            raise FileError(place, f"episode {episode.id}: its row lacks {', '.join(missing)}")
        own = {short[name]: value for name, value in row.items()}
        identity = {name: getattr(episode, name) for name in _SAME}
        rows.append({**own, **identity, "episode_id": episode.id, "session": session, "attempt": 1})
    try:
        arrays = [
            pa.array([_revived(row.get(column.name), column.type) for row in rows], column.type) for column in schema
        ]
        table = pa.Table.from_arrays(arrays, schema=schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise FileError(place, f"a row is none of the ledger: {error}") from error
    try:
        check_turns(table)
    except ValueError as error:
        raise FileError(place, str(error)) from error
    problems = check_rows([table], [place], None).problems
    if problems:
        raise FileError(place, problems[0][1])
    return table


def _revived(value: Any, kind: pa.DataType) -> Any:
    """The inverse of ``_carried`` for a value of a type."""
    if value is None:
        return None
    if pa.types.is_floating(kind):
        return _NOT_FINITE.get(value, value) if isinstance(value, str) else value
    if pa.types.is_list(kind):
        return [_revived(each, kind.value_type) for each in value]
    if pa.types.is_struct(kind):
        types = {item.name: item.type for item in kind}
        unknown = sorted(set(value) - set(types))
        if unknown:
            raise ValueError(f"unknown fields {', '.join(unknown)}")
        return {name: _revived(each, types[name]) for name, each in value.items()}
    return value


def row_json(value: object) -> str:
    """A carried value as text, for formats whose values are texts."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
