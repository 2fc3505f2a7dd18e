"""A ledger row inside another format: as JSON values, from which the very same row is made again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from evals.exchange.source import Source
from evals.ledger.columns import SCHEMA_VERSION
from evals.types import Episode, stable_hash

NAME = "raycade"
"""Under which a row, and what it needs besides, is carried along."""
PLANNED = tuple(item.name for item in fields(Episode))
SAME = ("suite", "task", "level", "mode", "index", "repeat", "seed", "player", "budget")
"""Columns of the ledger that say what the plan says; of the tokens, the plan has those expected."""
OF_THE_RUN = ("episode_id", "session", "attempt")
"""Columns that the plan, or the run that a row is imported into, says."""


def carry_episode(source: Source, row: Mapping[str, Any]) -> dict[str, Any]:
    """An episode as planned and as played.

    Args:
        source: Whose episode it is.
        row: Of ``Source.rows``, with its turns.
    """
    planned = source.planned(row["episode_id"])
    own = {name: value for name, value in row.items() if name not in (*SAME, *OF_THE_RUN)}
    episode = {name: planned[name] for name in PLANNED}
    return {"episode": episode, "row": _carried(own), "check": check_of(Episode(**episode), own)}


def check_of(episode: Episode, row: Mapping[str, Any]) -> str:
    """A hash of what replies do not tell when they are scored again: which game it was, whose, and whether it failed."""
    return stable_hash(episode.id, *(row.get(name) for name in ("status", "error", "error_kind")))


def carry_source(source: Source) -> dict[str, Any]:
    """What all episodes of a source share, and those that were not played."""
    unplayed = source.unplayed()
    return {
        "schema": SCHEMA_VERSION,
        "suite": dict(source.section),
        "suite_version": source.suite.version,
        "model": dict(source.model),
        "player": source.player,
        "decoding": source.decoding,
        **source.asked,
        "began": source.began,
        "versions": dict(source.versions),
        "withheld": list(source.withheld),
        "stopping": list(source.run.stopping),
        "unplayed": [{name: row[name] for name in PLANNED} for row in unplayed],
        "played": len(source.plan) - len(unplayed),
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


def row_json(value: object) -> str:
    """A carried value as text, for formats whose values are texts."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
