"""Ledger rows that were carried inside another format (``evals.exchange.carried``): made anew and checked as any ledger is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from envs.files import FileError
from evals.exchange.carried import OF_THE_RUN, PLANNED, SAME
from evals.ledger.check import check_rows
from evals.ledger.columns import COLUMNS, ledger_schema
from evals.ledger.parts import check_values
from evals.ledger.records import PLAN_SCHEMA
from evals.suite import Suite, ledger_columns
from evals.types import Episode

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def planned_episode(carried: object, place: str) -> Episode:
    """An episode as it was planned.

    Raises:
        FileError: it is none.
    """
    if not isinstance(carried, dict) or set(carried) != set(PLANNED):
        raise FileError(place, f"is no planned episode: it must have {', '.join(PLANNED)}")
    values = {name: _planned_value(carried[name], name, place) for name in PLANNED}
    empty = [name for name, value in values.items() if value is None]
    if empty:
        raise FileError(place, f"is no planned episode: {', '.join(empty)} must not be empty")
    return Episode(**values)


def _planned_value(value: object, name: str, place: str) -> Any:
    kind = PLAN_SCHEMA.field(name).type
    try:
        return pa.scalar(value, kind).as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise FileError(place, f"is no planned episode: {name}: {_what_is_wrong(error)}") from error


def ledger_rows(suite: Suite, carried: Sequence[tuple[Episode, object]], place: str, session: str) -> pa.Table:
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
            raise FileError(
                place, f"episode {episode.id}: the suite {suite.name} here has no column {', '.join(unknown)}"
            )
        missing = sorted(set(COLUMNS) - set(row) - set(SAME) - set(OF_THE_RUN))
        if missing:
            raise FileError(place, f"episode {episode.id}: its row lacks {', '.join(missing)}")
        own = {short[name]: value for name, value in row.items()}
        identity = {name: getattr(episode, name) for name in SAME}
        rows.append({**own, **identity, "episode_id": episode.id, "session": session, "attempt": 1})
    arrays = []
    for column in schema:
        try:
            values = [_revived(row.get(column.name), column.type) for row in rows]
            arrays.append(pa.array(values, column.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise FileError(place, f"a row is none of the ledger: {column.name}: {_what_is_wrong(error)}") from error
    table = pa.Table.from_arrays(arrays, schema=schema)
    try:
        check_values(table)
    except ValueError as error:
        raise FileError(place, str(error)) from error
    problems = check_rows([table], [place], None).problems
    if problems:
        raise FileError(place, problems[0][1])
    return table


def _what_is_wrong(error: Exception) -> str:
    return "a number is too large" if isinstance(error, OverflowError) else str(error)


def _revived(value: Any, kind: pa.DataType) -> Any:
    """What ``carry_episode`` made a JSON value of, for a value of a type."""
    if value is None:
        return None
    # JSON has no number that is not finite: these are carried by name.
    if pa.types.is_floating(kind) and isinstance(value, str):
        return _NOT_FINITE.get(value, value)
    if pa.types.is_list(kind):
        return [_revived(each, kind.value_type) for each in value]
    if pa.types.is_struct(kind):
        return _revived_fields(value, kind)
    return value


def _revived_fields(value: Any, kind: pa.StructType) -> dict[str, Any]:
    types = {item.name: item.type for item in kind}
    unknown = sorted(set(value) - set(types))
    if unknown:
        raise ValueError(f"unknown fields {', '.join(unknown)}")
    return {name: _revived(each, types[name]) for name, each in value.items()}
