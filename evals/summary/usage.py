"""What a run cost and where its time went: tokens, money and seconds by player and suite."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from evals.ledger.run_data import RunData, count_rows
from evals.tables import Cell, Table

_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
_AMOUNTS = ("cost", "seconds")


def usage_table(run: RunData) -> Table | None:
    """Sums over all played episodes, failed ones included; None where no player used a token."""
    counts, amounts = _used(run)
    rows: list[tuple[Cell, ...]] = []
    for key in count_rows(run.plan, ("player", "suite")):
        # Exact sums, so that they do not depend on the order of the rows.
        cost, seconds = (math.fsum(amounts[*key, name]) for name in _AMOUNTS)
        prompt, cached, completion, reasoning = (counts[key][name] for name in _TOKENS)
        if not any((prompt, cached, completion, reasoning, cost)):
            continue
        episodes = counts[key]["episodes"]
        share = cached / prompt if prompt else None
        tokens = (prompt, share, completion, reasoning)
        rows.append((*key, episodes, *tokens, cost or None, seconds / episodes, seconds / 3600))
    if not rows:
        return None
    return Table(
        name="usage",
        title="Tokens, cost and time",
        columns=(
            *("player", "suite", "episodes", "prompt tokens", "cached", "completion tokens", "of these reasoning"),
            *("cost", "seconds per episode", "episode hours"),
        ),
        rows=tuple(rows),
        notes=(
            "cached: share of prompt tokens that the prefix cache served. cost: in the currency of the configured prices, "
            "– without prices. seconds per episode: from its beginning to its end, waiting for the engine included; "
            "episode hours: their sum, of episodes that ran side by side.",
        ),
        section="performance",
        headline=True,
        brief=("player", "suite", "prompt tokens", "completion tokens", "of these reasoning", "cost"),
    )


_SUMMED: list[tuple[Any, str]] = [
    ([], "count_all"),
    *((name, "sum") for name in _TOKENS),
    *((name, "list") for name in _AMOUNTS),
]
"""What Arrow makes of the rows of one player and suite."""

_Counts = defaultdict[tuple[str, str], Counter[str]]
"""Episodes and tokens by player and suite."""
_Amounts = defaultdict[tuple[str, str, str], list[float]]
"""Of each episode, by player, suite and which amount."""


def _used(run: RunData) -> tuple[_Counts, _Amounts]:
    counts, amounts = _Counts(Counter), _Amounts(list)
    for batch in run.batches(["player", "suite", *_TOKENS, *_AMOUNTS]):
        sums = batch.group_by(["player", "suite"]).aggregate(_SUMMED)
        for row in sums.to_pylist():
            _add(row, counts, amounts)
    return counts, amounts


def _add(row: Mapping[str, Any], counts: _Counts, amounts: _Amounts) -> None:
    key = row["player"], row["suite"]
    counts[key]["episodes"] += row["count_all"]
    for name in _TOKENS:
        counts[key][name] += row[f"{name}_sum"] or 0
    for name in _AMOUNTS:
        amounts[*key, name] += [value for value in row[f"{name}_list"] if value is not None]
