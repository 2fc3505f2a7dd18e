"""What a run cost: money of the answers that count, of all that was asked, and of the plan."""

import dataclasses

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.ledger.run_data import RunData
from evals.summary.cost import highest_prompt_price, money, planned_cost
from evals.tables import format_cell, rounded


def test_amounts_are_written_without_an_exponent():
    told = [format_cell(rounded(amount, 12)) for amount in (3.3e-10, 0.0, 2.5)]
    assert told == ["0.000000000330", "0.000000000000", "2.500000000000"]
    assert money(3.3e-10) == "0.00000000033"


@pytest.mark.parametrize(
    ("cache", "price"),
    [({}, 4), ({"cache": "5m"}, 4), ({"cache": True}, 4), ({"cache": "off"}, 3), ({"cache": False}, 3)],
)
def test_prompts_are_planned_to_be_written_into_a_cache_only_where_one_is_in_use(cache, price):
    engine = {"prompt_price": 3, "cache_write_price": 4, **cache}
    assert highest_prompt_price(engine) == price
    assert highest_prompt_price({**engine, "cache_write_price": None}) == 3
    assert highest_prompt_price({**engine, "cache_write_price": 1}) == 3, "a part may not be written"


def test_games_that_a_stopping_rule_did_not_need_were_planned_too():
    def of(*players):
        count = len(players)
        return pa.table({"player": list(players), "prompt_tokens": [1e6] * count, "calls": [2.5] * count})

    engine = {"prompt_price": 3, "cache_write_price": 4, "completion_price": 10}
    settings = {"model": {"name": "m", "engine": engine, "sampling": {"max_tokens": 100_000}}}
    run = RunData.of_tables(of("m", "oracle"), pa.table({}), settings)
    assert planned_cost(run) == pytest.approx(4 + 2.5)
    whole = dataclasses.replace(run, with_not_needed=of("m", "m", "m", "oracle"))
    assert planned_cost(whole) == pytest.approx(3 * 6.5)


@given(st.floats(1e-11, 1e6))
def test_no_amount_is_shown_as_nothing_and_none_is_off_by_more_than_a_twentieth(amount):
    shown = float(money(amount).replace(",", ""))
    assert shown == pytest.approx(amount, rel=0.051)
    assert len(money(amount).partition(".")[2]) >= 2
