"""What a run has used altogether: tokens, and money where the prices are known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from evals.ledger.run_data import RunData
from evals.tables import Table, rounded

SUMS = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cost")
"""Columns of the ledger that add up; reasoning tokens are among the completion tokens."""


def total_usage(run: RunData) -> dict[str, float]:
    """The sums over all players, failed episodes included; those that are 0 are left out."""
    totals: dict[str, float] = dict.fromkeys(SUMS, 0)
    costs: list[list[float]] = []
    for rows in run.batches(SUMS):
        for name in SUMS[:-1]:
            totals[name] += pc.sum(rows[name]).as_py() or 0
        costs.append(rows["cost"].drop_null().to_pylist())
    totals["cost"] = math.fsum(itertools.chain.from_iterable(costs))  # exact, so the same in any order of the rows
    return {name: total for name, total in totals.items() if total}


@dataclass(frozen=True)
class Costs:
    """Money of one run, in the currency of the configured prices."""

    scored: float
    """Of the answers of the episodes that count."""
    spent: float | None
    """By all sessions, earlier attempts and answers that were lost included; None where nothing was noted."""
    planned: float | None
    """Of the model's whole plan: expected prompts, and replies as long as they may be; None without prices."""

    def to_json(self) -> dict[str, float]:
        """What ``summary.json`` says beside ``cost``, the scored one; amounts that are not known are left out."""
        amounts = {"cost_spent": self.spent, "cost_planned": self.planned}
        return {name: amount for name, amount in amounts.items() if amount is not None}


def costs_of(run: RunData, label_suites: Collection[str] = ()) -> Costs | None:
    """The three amounts; None for a run without prices that has cost nothing.

    Args:
        run: Plan, ledger and configuration.
        label_suites: Names of suites whose labels the model only scores, which takes one token a call.
    """
    scored = float(total_usage(run).get("cost", 0.0))
    planned = planned_cost(run, label_suites)
    if not scored and not run.spent and planned is None:
        return None
    return Costs(scored, run.spent, planned)


HIGHEST_PRICE: Final = 1e12
"""Per million tokens; sums of larger ones could not be told."""


def planned_cost(run: RunData, label_suites: Collection[str] = ()) -> float | None:
    """What the plan costs at the engine's prices, with expected calls and full-length replies; None where it has none."""
    model: Mapping[str, Any] = run.settings.get("model") or {}
    prices = model.get("engine") or {}
    # As if every reply were as long as it may be.
    prompt_price = highest_prompt_price(prices)
    completion_price = _price(prices, "completion_price")
    if not prompt_price and not completion_price:
        return None
    sampling = model.get("sampling") or {}
    longest_reply = sampling.get("max_tokens") or 0
    # Built-in players cost nothing.
    plan = run.plan if run.with_not_needed is None else run.with_not_needed
    episodes = plan.filter(pc.equal(plan["player"], model.get("name")))
    prompt_tokens = pc.sum(episodes["prompt_tokens"], min_count=0).as_py()
    calls = pc.sum(episodes["calls"], min_count=0).as_py()
    label_calls = 0.0
    if label_suites:
        of_labels = episodes.filter(pc.is_in(episodes["suite"], pa.array(sorted(label_suites), pa.string())))
        label_calls = pc.sum(of_labels["calls"], min_count=0).as_py()
    completion_tokens = label_calls + (calls - label_calls) * longest_reply
    per_million = prompt_tokens * prompt_price + completion_tokens * completion_price
    return float(per_million) / 1e6


def highest_prompt_price(engine: Mapping[str, Any]) -> float:
    """Per million prompt tokens, by an engine's settings: as if all were written into a cache, where one is in use."""
    prompt_price = _price(engine, "prompt_price")
    if engine.get("cache") in ("off", False):
        return prompt_price
    return max(prompt_price, _price(engine, "cache_write_price"))


def _price(prices: Mapping[str, Any], name: str) -> float:
    return float(prices.get(name) or 0)


def money_digits(amounts: Iterable[float | None]) -> int:
    """Digits behind the point of which the smallest amount above 0 fills two; at least two, at most twelve."""
    smallest = min((amount for amount in amounts if amount), default=1.0)
    return min(max(2, 1 - math.floor(math.log10(smallest))), 12)


def money(amount: float) -> str:
    """An amount on a line of text, with two digits that say something."""
    return f"{amount:,.{money_digits([amount])}f}"


def cost_table(costs: Costs) -> Table:
    """The three amounts side by side."""
    amounts = (costs.scored, costs.spent, costs.planned)
    digits = money_digits(amounts)
    return Table(
        name="cost",
        title="Cost",
        columns=("scored", "spent", "planned"),
        rows=(tuple(rounded(amount, digits) for amount in amounts),),
        notes=(
            "In the currency of the configured prices. scored: of the answers of the episodes that count. spent: by all "
            "sessions, those of merged runs too, with earlier attempts and answers that were lost. planned: of the model's "
            "whole plan, with as many calls and as long prompts as expected, and replies as long as they may be; longer games "
            "and repeated tries cost more.",
        ),
        section="performance",
        headline=True,
    )
