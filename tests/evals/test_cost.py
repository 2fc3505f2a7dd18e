"""What a run cost: money of the answers that count, of all that was asked, and of the plan."""

import dataclasses
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.players import BUILT_IN_PLAYERS
from evals.summary.cost import Costs, cost_table, costs_of, money, money_digits
from tests.runs import Often, run_of
from tests.toy import ToySuite

PRICED = {"name": "model", "engine": {"prompt_price": 2.0, "completion_price": 8.0}, "sampling": {"max_tokens": 100}}


@given(st.floats(1e-7, 1e6))
def test_no_amount_is_shown_as_nothing_and_none_is_off_by_more_than_a_twentieth(amount):
    shown = float(money(amount).replace(",", ""))
    assert shown == pytest.approx(amount, rel=0.051)
    assert len(money(amount).partition(".")[2]) >= 2


def test_the_smallest_amount_decides_the_digits_of_all():
    assert (money_digits([]), money_digits([0.0, None, 12.0])) == (2, 2)
    assert money_digits([0.0091, 0.0138, 5.0]) == 4
    (row,) = cost_table(Costs(0.0091, 0.0138, None)).rows
    assert row == (Decimal("0.0091"), Decimal("0.0138"), None)


def test_scored_spent_and_planned_are_three_amounts():
    players = {"model": Often(1.0, cost=0.25), "oracle": BUILT_IN_PLAYERS["oracle"]}
    run = run_of(ToySuite(episodes=4), players, most=3, model=PRICED)
    turns = sum(run.episodes(["steps"])["steps"].to_pylist())
    costs = costs_of(dataclasses.replace(run, spent=9.0))
    plan = [row for row in run.plan.to_pylist() if row["player"] == "model"]
    planned = sum(2.0 * row["prompt_tokens"] + 8.0 * 100 * row["calls"] for row in plan) / 1e6
    assert (costs.scored, costs.spent, costs.planned) == (0.25 * turns, 9.0, pytest.approx(planned))
    dear = {**PRICED, "engine": {**PRICED["engine"], "cache_write_price": 3.0}}
    written = costs_of(run_of(ToySuite(episodes=4), players, most=3, model=dear))
    more = sum(row["prompt_tokens"] for row in plan) / 1e6
    assert written.planned == pytest.approx(planned + more), "all of a prompt may be written into a cache, at its price"
    assert costs.to_json() == {"cost_spent": 9.0, "cost_planned": costs.planned}
    assert costs_of(run_of(ToySuite(episodes=2))) is None, "a run without prices says nothing of money"
