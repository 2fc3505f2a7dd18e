"""What a run cost: money of the answers that count, of all that was asked, and of the plan."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.summary.cost import money


@given(st.floats(1e-7, 1e6))
def test_no_amount_is_shown_as_nothing_and_none_is_off_by_more_than_a_twentieth(amount):
    shown = float(money(amount).replace(",", ""))
    assert shown == pytest.approx(amount, rel=0.051)
    assert len(money(amount).partition(".")[2]) >= 2
