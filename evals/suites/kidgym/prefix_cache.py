"""Prefix-cache hit rates of KidGym's prompts; they depend on how requests were routed, so they are no scores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evals.ledger.run_data import RunData
from evals.tables import Cell, Table


@dataclass
class _Group:
    """What was sent for one player, task and mode."""

    episodes: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    calls: int = 0
    sent: int = 0
    distinct: set[int] = field(default_factory=set)

    def add(self, row: Mapping[str, Any]) -> None:
        self.episodes += 1
        self.prompt_tokens += row["prompt_tokens"] or 0
        self.cached_tokens += row["cached_tokens"] or 0
        for pictures in _pictures(row["turns"]):
            self.calls += 1
            self.sent += len(pictures)
            self.distinct.update(map(hash, pictures))

    def cells(self) -> tuple[Cell, ...]:
        repeats = 1 - len(self.distinct) / self.sent if self.sent else None
        share = self.cached_tokens / self.prompt_tokens
        counts = (self.calls, self.sent, len(self.distinct))
        return self.episodes, self.prompt_tokens, self.cached_tokens, share, *counts, repeats


def cache_table(run: RunData) -> Table | None:
    """Cache hit rates by player, task and mode; None if no player was sent a prompt whose tokens are known."""
    groups: defaultdict[tuple[str, str, str], _Group] = defaultdict(_Group)
    for batch in run.batches(["player", "task", "mode", "prompt_tokens", "cached_tokens", "turns"]):
        for row in batch.to_pylist():
            groups[row["player"], row["task"], row["mode"]].add(row)
    rows = [(*key, *group.cells()) for key, group in groups.items() if group.prompt_tokens]
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
        title="KidGym: cache hit rates",
        columns=columns,
        rows=tuple(sorted(rows, key=lambda row: tuple(map(str, row[:3])))),
        notes=notes,
    )


def _pictures(turns: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    """The descriptions of all pictures in each turn's prompt."""
    chat: list[list[str]] = []
    for turn in turns:
        chat = chat[: turn["kept"]]
        for message in turn["prompt"]:
            chat.append([part["picture"] for part in message["parts"] if part["picture"] is not None])
        yield [picture for pictures in chat for picture in pictures]
