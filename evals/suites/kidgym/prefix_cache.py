"""Prefix-cache hit rates of KidGym's prompts; they depend on how requests were routed, so they are no scores."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evals.ledger.run_data import RunData, count_rows
from evals.tables import Cell, Table

KEY = ("player", "task", "mode")


@dataclass
class _Group:
    """What was sent for one player, task and mode."""

    episodes: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    calls: int = 0
    sent: int = 0
    distinct: set[int] = field(default_factory=set)

    def add(self, rows: pa.Table) -> None:
        """Count rows by their columns: a row as a Python object takes ten times as long, and a run has many."""
        self.episodes += len(rows)
        self.prompt_tokens += pc.sum(rows["prompt_tokens"]).as_py() or 0
        self.cached_tokens += pc.sum(rows["cached_tokens"]).as_py() or 0
        turns = pc.list_flatten(rows["turns"].combine_chunks())
        prompts = turns.field("prompt")
        parts = pc.list_flatten(pc.list_flatten(prompts).field("parts"))
        self.calls += len(turns)
        self.sent += sum(_pictures_sent(turns.field("kept"), prompts))
        # Each picture of a chat is new in one of its prompts.
        self.distinct.update(map(hash, pc.unique(parts.field("picture").drop_null()).to_pylist()))

    def cells(self) -> tuple[Cell, ...]:
        repeats = 1 - len(self.distinct) / self.sent if self.sent else None
        share = self.cached_tokens / self.prompt_tokens
        counts = (self.calls, self.sent, len(self.distinct))
        return self.episodes, self.prompt_tokens, self.cached_tokens, share, *counts, repeats


def cache_table(run: RunData) -> Table | None:
    """Cache hit rates by player, task and mode; None if no player was sent a prompt whose tokens are known."""
    if not pc.sum(run.episodes(["prompt_tokens"])["prompt_tokens"]).as_py():
        return None  # before all turns of the run are read
    groups: defaultdict[tuple[str, str, str], _Group] = defaultdict(_Group)
    for batch in run.batches([*KEY, "prompt_tokens", "cached_tokens", "turns"]):
        for key in count_rows(batch, KEY):
            mine = (pc.equal(batch[name], value) for name, value in zip(KEY, key, strict=True))
            groups[key].add(batch.filter(functools.reduce(pc.and_, mine)))
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


def _pictures_sent(kept: pa.Array, prompts: pa.Array) -> Iterator[int]:
    """The number of pictures in each turn's chat: of the messages that it keeps, and of those that its prompt adds.

    Args:
        kept: Messages of the chat before that each turn keeps; 0 for the first of an episode.
        prompts: The messages that each turn adds.
    """
    messages = pc.list_flatten(prompts)
    pictures = pc.list_flatten(messages.field("parts")).field("picture")
    lengths = pc.list_value_length(messages.field("parts")).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths, dtype=np.int64)
    before = np.concatenate([[0], np.cumsum(np.asarray(pictures.is_valid()), dtype=np.int64)])
    of_message = (before[ends] - before[ends - lengths]).tolist()
    totals = [0]  # pictures in the chat's first 0, 1, 2, ... messages
    start = 0
    for number, added in zip(kept.to_pylist(), pc.list_value_length(prompts).to_pylist(), strict=True):
        del totals[number + 1 :]
        for count in of_message[start : start + added]:
            totals.append(totals[-1] + count)
        start += added
        yield totals[-1]
