"""What a run has used altogether: tokens, and money where the prices are known."""

from __future__ import annotations

from evals.ledger.run_data import RunData

SUMS = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cost")
"""Columns of the ledger that add up; reasoning tokens are among the completion tokens."""


def total_usage(run: RunData) -> dict[str, float]:
    """The sums over all players, failed episodes included; those that are 0 are left out."""
    totals = dict.fromkeys(SUMS, 0.0)
    for rows in run.batches(SUMS):
        sums = rows.group_by([]).aggregate([(name, "sum") for name in SUMS]).to_pylist()[0]
        for name in SUMS:
            totals[name] += sums[f"{name}_sum"] or 0
    return {name: total if name == "cost" else int(total) for name, total in totals.items() if total}
