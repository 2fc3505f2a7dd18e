"""What a run cost and where its time went: tokens, money and seconds by player and suite."""

from __future__ import annotations

from collections import defaultdict

from evals.ledger.run_data import RunData, count_rows
from evals.tables import Cell, Table

_SUMS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "cost", "seconds")


def usage_table(run: RunData) -> Table | None:
    """Sums over all played episodes, failed ones included; None where no player used a token."""
    totals: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0] * (len(_SUMS) + 1))
    for batch in run.batches(["player", "suite", *_SUMS]):
        summed = batch.group_by(["player", "suite"]).aggregate([([], "count_all"), *((name, "sum") for name in _SUMS)])
        for row in summed.to_pylist():
            values = [row["count_all"], *(row[f"{name}_sum"] or 0 for name in _SUMS)]
            total = totals[row["player"], row["suite"]]
            totals[row["player"], row["suite"]] = [a + b for a, b in zip(total, values, strict=True)]
    rows: list[tuple[Cell, ...]] = []
    for key in count_rows(run.plan, ("player", "suite")):
        if any(totals[key][1:-1]):
            episodes, prompt, cached, completion, reasoning, cost, seconds = totals[key]
            tokens = (int(prompt), cached / prompt if prompt else None, int(completion), int(reasoning))
            rows.append((*key, int(episodes), *tokens, cost or None, seconds / episodes, seconds / 3600))
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
