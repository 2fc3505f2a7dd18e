"""What a stage took and what came of it, before and after."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evals.ledger.run_data import RunData
from evals.suites.kumo.lab.pipeline.items import Estimate
from evals.tables import Cell, Table, rounded

_COLUMNS = (
    "mode",
    "status",
    "success",
    "continuations",
    "repairs",
    "prompt_tokens",
    "completion_tokens",
    "cost",
    "steps",
)
_SUMS = ("steps", "continuations", "repairs", "prompt_tokens", "completion_tokens")


def estimate_table(estimates: Sequence[Estimate], prompt_price: float, completion_price: float, longest: int) -> Table:
    """What stages are expected to take, and what at most.

    Args:
        estimates: One for each stage.
        prompt_price: For a million tokens; 0 if it is not known.
        completion_price: As that.
        longest: Most tokens of a reply.
    """
    priced = prompt_price + completion_price > 0
    rows: list[tuple[Cell, ...]] = []
    # What is never written is not paid: no more tokens than the limit allows, in each stage.
    written = [
        dataclasses.replace(each, completion_tokens=min(each.completion_tokens, each.most_calls * longest))
        for each in estimates
    ]
    for each in (*written, _total(written)) if len(written) > 1 else written:
        cost = (each.prompt_tokens * prompt_price + each.completion_tokens * completion_price) / 1e6
        row = (each.stage, each.items, round(each.calls), each.most_calls, round(each.prompt_tokens))
        most_tokens = each.most_calls * longest
        rows.append((*row, round(each.completion_tokens), most_tokens, *((rounded(cost, 2),) if priced else ())))
    columns = ("stage", "items", "calls", "most calls", "prompt tokens", "completion tokens", "most completion tokens")
    notes = ["Calls and tokens are estimates; of stages that others precede, for as many items as these can yield."]
    cut = [each.stage for each in estimates if each.completion_tokens > each.calls * longest]
    if cut:
        replies = ", ".join(cut)
        notes.append(
            f"Replies of {replies} are expected to be longer than model.sampling.max_tokens={longest}: raise it."
        )
    if not priced:
        notes.append("No prices are known: set model.engine.prompt_price and completion_price.")
    return Table(
        "kumo_pipeline_estimate",
        "Expected",
        (*columns, "cost") if priced else columns,
        tuple(rows),
        tuple(notes),
    )


def joined(tables: Sequence[Table]) -> Table:
    """Tables of several stages as one."""
    rows = tuple(row for table in tables for row in table.rows)
    return dataclasses.replace(tables[0], title="What came of it", rows=rows)


def _total(estimates: Sequence[Estimate]) -> Estimate:
    names = ("items", "calls", "most_calls", "prompt_tokens", "completion_tokens")
    return Estimate("all", *(sum(getattr(each, name) for each in estimates) for name in names))


def stage_table(name: str, run: RunData) -> Table:
    """Accepted, refused and failed items of a run's stage, with calls, tokens and cost."""
    planned = Counter(run.plan["mode"].to_pylist())
    rows: dict[str, list[Mapping[str, Any]]] = {mode: [] for mode in planned}
    for batch in run.batches([*_COLUMNS, "turns"]):
        for row in batch.to_pylist():
            # Of the turns their number is enough.
            rows.setdefault(row["mode"], []).append({**row, "turns": len(row["turns"])})
    found: list[tuple[Cell, ...]] = []
    for mode, count in planned.items():
        here = rows[mode]
        states = Counter(_state(row) for row in here)
        calls = sum(row["turns"] for row in here)
        sums = [sum(row[each] or 0 for row in here) for each in _SUMS[1:]]
        cost = sum(row["cost"] for row in here)
        shown_cost = rounded(cost, 4) if cost else None
        counts = (states["accepted"], states["refused"], states["failed"])
        found.append((mode, count, *counts, calls, *sums, shown_cost))
    return Table(
        name,
        "KUMO pipeline",
        (
            *("stage", "planned", "accepted", "refused", "failed", "calls", "continued", "sent back"),
            *("prompt tokens", "completion tokens", "cost"),
        ),
        tuple(found),
        (
            "Refused: the model's replies were read and did not pass the checks. Failed: the model could not be asked.",
            "Of write and revise, books that are whole count as accepted; check decides on them.",
        ),
        headline=True,
    )


def _state(row: Mapping[str, Any]) -> str:
    if row["status"] == "failed":
        return "failed"
    return "accepted" if row["success"] else "refused"
