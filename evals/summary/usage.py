"""What a run cost and where its time went: tokens, money and seconds by player and suite."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping

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
        cost, seconds = (math.fsum(amounts[key][name]) for name in _AMOUNTS)
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


def _used(
    run: RunData,
) -> tuple[Mapping[tuple[str, str], Counter[str]], Mapping[tuple[str, str], dict[str, list[float]]]]:
    """By player and suite: how many episodes and tokens there are, and the amounts of each episode, which may be fractions."""
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    amounts: defaultdict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: {name: [] for name in _AMOUNTS})
    wanted = [([], "count_all"), *((name, "sum") for name in _TOKENS), *((name, "list") for name in _AMOUNTS)]
    for batch in run.batches(["player", "suite", *_TOKENS, *_AMOUNTS]):
        for row in batch.group_by(["player", "suite"]).aggregate(wanted).to_pylist():
            key = row["player"], row["suite"]
            counts[key]["episodes"] += row["count_all"]
            for name in _TOKENS:
                counts[key][name] += row[f"{name}_sum"] or 0
            for name in _AMOUNTS:
                amounts[key][name] += [value for value in row[f"{name}_list"] if value is not None]
    return counts, amounts
