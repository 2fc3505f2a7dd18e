"""How much of KidGym's prompts the caches served; it depends on how requests were routed, so it is no score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from evals.tables import Cell, Table


def cache_table(ledger: pa.Table) -> Table | None:
    """Prefix-cache hits by player, task and mode; None if no player was sent a prompt whose tokens are known.

    Args:
        ledger: KidGym's part of a ledger, with its bulky ``turns`` (``read_ledger(run_dir, list(COLUMNS))``).
    """
    names = ["player", "task", "mode", "prompt_tokens", "cached_tokens", "turns"]
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in ledger.select(names).to_pylist():
        groups.setdefault((row["player"], row["task"], row["mode"]), []).append(row)
    rows: list[tuple[Cell, ...]] = []
    for key, members in groups.items():
        prompt, cached = (sum(row[name] or 0 for row in members) for name in ("prompt_tokens", "cached_tokens"))
        if prompt:
            rows.append((*key, len(members), prompt, cached, cached / prompt, *_sent(members)))
    if not rows:
        return None
    columns = (
        *("player", "task", "mode", "episodes", "prompt tokens", "cached tokens", "prefix cache"),
        *("calls", "pictures sent", "distinct pictures", "picture repeats"),
    )
    notes = (
        "prefix cache: cached over prompt tokens, as the engine reports them.",
        "picture repeats: share of the pictures in prompts that the same task and mode had sent before, in any episode: "
        "what an image cache that forgets nothing, on a single replica, would serve.",
    )
    return Table(
        name="kidgym_cache",
        title="KidGym: what the caches served",
        columns=columns,
        rows=tuple(sorted(rows, key=lambda row: tuple(map(str, row[:3])))),
        notes=notes,
    )


def _sent(rows: Sequence[Mapping[str, Any]]) -> tuple[Cell, ...]:
    """Calls, pictures sent in them, distinct ones, and the share of repeats."""
    calls = [pictures for row in rows for pictures in _pictures(row["turns"])]
    sent = sum(map(len, calls))
    distinct = len({picture for pictures in calls for picture in pictures})
    return len(calls), sent, distinct, 1 - distinct / sent if sent else None


def _pictures(turns: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    """The descriptions of all pictures in each turn's prompt."""
    chat: list[list[str]] = []
    for turn in turns:
        chat = chat[: turn["kept"]]
        for message in turn["prompt"]:
            chat.append([part["picture"] for part in message["parts"] if part["picture"] is not None])
        yield [picture for pictures in chat for picture in pictures]
