"""The spend cap by itself: prices, what is reserved for requests that are out, and the end."""

import asyncio
import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.engines.api_errors import EndpointError
from cluster.engines.api_limited import LimitedEndpoint
from cluster.engines.base import SpendCapReachedError
from cluster.engines.limits import AdaptiveConcurrency, PerMinute
from cluster.engines.spend import Payment, Spend
from tests.cluster.providers.engines import request


def capped(cap: float | None = 10.0) -> Spend:
    """Of an endpoint that is not doubted before its first bill."""
    return Spend(prompt_price=1.0, completion_price=2.0, cap=cap, until_billed=1.0)


async def pay(spend: Spend, price: float, foretold: float = 0.0) -> None:
    async with spend.payment(foretold) as payment:
        payment.price = price


class Paying:
    """A request that is out until it is told what it cost."""

    def __init__(self, spend: Spend, foretold: float) -> None:
        self.inside = False
        self._cost = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._pay(spend, foretold))

    async def _pay(self, spend: Spend, foretold: float) -> None:
        async with spend.payment(foretold) as payment:
            self.inside = True
            payment.price, payment.priced = await self._cost

    async def end(self, price: float, priced: bool = True) -> None:
        self._cost.set_result((price, priced))
        await self._task
        await settle()

    async def refused(self) -> str:
        with pytest.raises(SpendCapReachedError) as refusal:
            await self._task
        return str(refusal.value)


async def settle() -> None:
    """Let everything happen that can."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    "prices", [(-1, 0), (0, -1), (math.inf, 0), (0, math.inf), (math.nan, 1), (1, math.nan), (-0.001, 1), (1, -0.001)]
)
def test_prices_are_numbers_from_0_up(prices):
    with pytest.raises(ValueError, match="price"):
        Spend(*prices)


@pytest.mark.parametrize("cap", [0, -1, math.nan])
def test_a_cap_is_above_0(cap):
    with pytest.raises(ValueError, match="spend_cap"):
        Spend(1.0, 1.0, cap)


@pytest.mark.parametrize("prices", [(0.5, 0.0), (0.0, 0.5), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)])
def test_a_cap_needs_one_price(prices):
    assert Spend(*prices, cap=0.5).cap == 0.5
    with pytest.raises(ValueError, match="spend_cap"):
        Spend(cap=1.0)


def test_by_default_nothing_costs_anything():
    spend = Spend()
    assert (spend.price(10, 10), spend.cap, spend.spent, spend.total) == (0, math.inf, 0, 0)
    assert Payment().price == 0


def test_prices_are_per_million_tokens():
    spend = capped()
    assert (spend.prompt_price, spend.completion_price) == (1.0, 2.0)
    assert spend.price(1_000_000, 0) == 1.0 and spend.price(0, 1_000_000) == 2.0
    assert spend.price(3, 4) == pytest.approx(11e-6)


def test_what_was_spent_elsewhere_counts_and_never_falls():
    spend = capped()
    spend.add_elsewhere(3.0)
    spend.add_elsewhere(2.0)
    spend.add_elsewhere(0)
    assert spend.total == 3.0 and spend.spent == 0
    for amount in (-1.0, -0.001, math.inf, math.nan):
        with pytest.raises(ValueError, match="elsewhere"):
            spend.add_elsewhere(amount)


async def test_payments_add_up_and_negative_ones_count_as_nothing():
    spend = capped()
    await pay(spend, 1.0)
    await pay(spend, 2.5)
    await pay(spend, -5.0)
    assert spend.spent == 3.5
    spend.add_elsewhere(1.0)
    assert spend.total == 4.5


async def test_a_request_that_fails_pays_what_it_noted():
    spend = capped()
    with pytest.raises(ZeroDivisionError):
        async with spend.payment(1.0) as payment:
            payment.price = 0.5
            raise ZeroDivisionError
    assert spend.spent == 0.5 and not spend._reserved


@pytest.mark.parametrize("price", [0.0, 1.0, 5.0])
async def test_what_was_counted_already_is_replaced_by_the_price(price):
    spend = capped()
    spend.add_elsewhere(6.0)  # 4 of these for a request that an earlier session has sent
    async with spend.payment(4.0, counted=4.0) as payment:
        payment.price = price
    assert spend.total == 2.0 + price


async def test_at_the_cap_nothing_more_is_paid_for():
    spend = capped(cap=2.0)
    await pay(spend, 1.5)
    await pay(spend, 0.5)  # may be sent, as there is something left
    with pytest.raises(SpendCapReachedError, match=r"2\.00.*2\.00"):
        await pay(spend, 0.0)
    spend = capped(cap=2.0)
    spend.add_elsewhere(2.0)
    with pytest.raises(SpendCapReachedError):
        await pay(spend, 0.0)


async def test_requests_wait_while_they_do_not_fit_beside_those_that_are_out():
    spend = capped(cap=12.0)
    spend.add_elsewhere(2.0)
    out = [Paying(spend, foretold) for foretold in (6.0, 4.0, 2.0)]
    await settle()
    assert [each.inside for each in out] == [True, True, False], "2, 6 and 4 fill the cap exactly"
    await out[0].end(5.0)  # 5 spent, and 4 out: another would be reserved at 5
    assert not out[2].inside
    await out[1].end(1.0)
    assert out[2].inside, "a single request may exceed the cap"
    last = Paying(spend, 0.0)
    await settle()
    assert not last.inside
    await out[2].end(4.0)
    assert "12.00" in await last.refused()
    assert (spend.spent, spend.total) == (10.0, 12.0)


async def test_the_dearest_price_so_far_is_reserved():
    spend = capped(cap=10.0)
    await pay(spend, 3.0)
    await pay(spend, 1.0)
    out = [Paying(spend, 0.5) for _ in range(3)]  # reserved at 3 each: 4 + 3 + 3 = 10
    await settle()
    assert [each.inside for each in out] == [True, True, False]
    await out[0].end(0.5)
    assert not out[2].inside, "4.5 + 3 + 3"
    await out[1].end(0.5)
    assert out[2].inside
    await out[2].end(0.0)
    assert spend.spent == 5.0 and not spend._reserved


@pytest.mark.parametrize("price", [0.5, 0.0])  # without a price: refused, or held and never sent
@pytest.mark.parametrize("told", [True, False, None])
async def test_prices_are_doubted_until_a_request_has_cost_what_its_answer_told(price, told):
    spend = Spend(prompt_price=1.0, completion_price=2.0, cap=10.0, until_billed=100.0)
    async with spend.payment(0.5) as payment:
        payment.price, payment.told = price, told
    out = [Paying(spend, 0.5) for _ in range(4)]
    await settle()
    is_billed = price > 0 and told is not False
    assert [each.inside for each in out] == [True] + [is_billed] * 3
    for each in out:
        await each.end(0.5)


@pytest.mark.parametrize("elsewhere", [(3.0, 1.0), (1.0, 3.0), (1.0, 0.0, 3.0, 1.0)])
@pytest.mark.parametrize("own", [2.0, 4.0])
async def test_the_dearest_price_of_all_sessions_and_engines_is_reserved(elsewhere, own):
    spend = capped(cap=100.0)
    for price in elsewhere:
        spend.add_elsewhere(0.0, price)
    await pay(spend, own)
    spend.add_elsewhere(0.0, min(elsewhere))
    out = Paying(spend, 0.5)
    await settle()
    account = await spend.settle(0, 0.0)
    assert account.in_flight == account.highest == max(own, *elsewhere)
    await out.end(0.5)


async def test_what_was_foretold_is_reserved_where_it_is_more_than_the_dearest():
    spend = capped(cap=10.0)
    await pay(spend, 1.0)
    first, second = Paying(spend, 5.0), Paying(spend, 4.5)
    await settle()
    assert (first.inside, second.inside) == (True, False)
    await first.end(1.0)
    assert second.inside
    await second.end(1.0)


async def test_requests_that_wait_are_told_when_the_cap_is_reached_by_others():
    spend = capped(cap=10.0)
    out = [Paying(spend, 9.0) for _ in range(2)]
    await settle()
    third = Paying(spend, 0.5)
    await settle()
    assert third.inside and not out[1].inside
    await out[0].end(10.0)
    assert "10.00" in await out[1].refused(), "although the third is still out"
    await third.end(0.5)


@pytest.mark.parametrize("told_by", ["another request", "another engine"])
@pytest.mark.parametrize("priced", [True, False])
async def test_a_bill_above_the_bound_is_reserved_for_requests_that_are_out_already(told_by, priced):
    spend = capped(cap=10.0)
    out = [Paying(spend, 0.5) for _ in range(2)]
    await settle()
    if told_by == "another request":
        await pay(spend, 4.0)
    else:
        spend.add_elsewhere(4.0, 4.0)
    account = await spend.settle(covered=9, seconds=0.0)
    assert account.in_flight == 8.0
    waits = Paying(spend, 0.5)
    await settle()
    assert not waits.inside, "4 + 4 + 4 + 4"
    for each in out:
        spend_before = spend.total
        await each.end(0.5, priced=priced)
        assert spend.total - spend_before == (0.5 if priced else 4.0)
    if priced:
        await waits.end(0.5)
    else:
        assert "12.00 of 10.00" in await waits.refused()


async def test_until_the_first_bill_all_that_is_in_flight_is_doubted():
    spend = Spend(1.0, 1.0, cap=10.0, until_billed=10.0)
    first, second = Paying(spend, 0.4), Paying(spend, 0.5)
    await settle()
    assert (first.inside, second.inside) == (True, True), "nine of ten"
    third = Paying(spend, 0.2)
    await settle()
    assert not third.inside, "eleven of ten"
    await first.end(0.3)
    assert third.inside, "a bill has shown what requests cost"
    await second.end(0.5)
    await third.end(0.2)


async def test_a_dear_bill_raises_what_is_reserved_for_others_and_a_cheap_one_lowers_nothing():
    spend = capped()
    first, second, third = (Paying(spend, most) for most in (5.0, 1.0, 0.5))
    await settle()

    async def in_flight():
        return (await spend.settle(9, 0.0)).in_flight

    assert await in_flight() == 6.5
    await second.end(0.75)
    assert await in_flight() == 5.75
    await third.end(2.0)
    assert await in_flight() == 5.0
    await first.end(6.0, priced=False)
    assert (spend.spent, await in_flight()) == (8.75, 0), "more than was reserved, where that is known"


async def test_what_is_left_is_reserved_while_no_price_is_known():
    spend = Spend(cap=10.0, cost_is_told=True)
    spend.add_elsewhere(4.0)
    only = Paying(spend, 0.0)
    await settle()
    assert (await spend.settle(9, 0.0)).in_flight == 6.0
    await only.end(1.0)


async def test_what_the_caller_wrote_down_is_not_raised_and_keeps_the_cap_as_if_it_were():
    spend = capped(14.0)
    async with spend.payment(1.0, noted=True) as written, spend.payment(1.0) as raised:
        async with spend.payment(1.0) as dear:
            dear.price = 4.0
        assert (written.most, raised.most) == (1.0, 4.0)
        assert (await spend.settle(9, 0.0)).in_flight == 5.0
        third = asyncio.ensure_future(spend._reserve(1.0, noted=False))
        await settle()
        assert not third.done(), "4 are spent, and either of the two may be billed 4"
        third.cancel()
        written.priced = raised.priced = False
    assert spend.spent == 4.0 + 1.0 + 4.0


@given(st.integers(1, 300), st.lists(st.sampled_from([0.0, 0.01, 0.4, 3.0, 90.0]), min_size=1, max_size=400))
def test_no_minute_has_more_requests_than_the_limit(budget, pauses):
    now, sent = 0.0, []
    limit = PerMinute(budget, clock=lambda: now)
    for pause in pauses:
        now += pause
        sent.append(now + limit.delay(1))
    assert sent == sorted(sent)
    for place, moment in enumerate(sent):
        later = [each for each in sent[place:] if each < moment + 60 - 1e-6]
        assert len(later) <= budget


def test_a_limit_is_used_to_nearly_all_that_it_allows():
    limit = PerMinute(120, clock=lambda: 0.0)
    sent = [limit.delay(1) for _ in range(1201)]
    assert sent[0] == 0.0 and sent[-1] <= 10.2 * 60


@pytest.mark.parametrize("notes", [False, True])
async def test_what_is_reserved_for_a_request_stays_where_its_connection_writes_it_down(notes):
    spend, noted, answered = capped(None), [], asyncio.Event()

    async def complete(body, name):
        await answered.wait()
        raise EndpointError("no answer", may_cost=True)  # what is reserved counts

    http = SimpleNamespace(
        notes_reserved=notes,
        counted_before=lambda body, name: None,
        note_reserved=lambda body, name, most: noted.append(most),
        complete=complete,
    )
    endpoint = LimitedEndpoint(http, AdaptiveConcurrency(1), PerMinute(None), PerMinute(None), spend)
    asked = asyncio.ensure_future(endpoint.send(request(), {"say": "Go."}, 100))
    await settle()
    await pay(spend, 50.0)
    answered.set()
    with pytest.raises(EndpointError, match="no answer"):
        await asked
    assert 0 < noted[0] < 1 and spend.spent == pytest.approx(50.0 + (noted[0] if notes else 50.0))


async def test_all_that_earlier_sessions_counted_is_told():
    spend = capped()
    for counted, price in ((2.0, 0.5), (3.0, 4.0)):
        async with spend.payment(1.0, counted) as payment:
            assert payment.price == counted
            payment.price = price
    account = await spend.settle(9, 0.0)
    assert (account.spent, account.counted_before, account.in_flight) == (-0.5, 5.0, 0)


@pytest.mark.parametrize(("told", "hinted"), [(True, False), (False, True), (None, False)])
async def test_where_only_answers_tell_prices_the_end_says_whether_one_did_not(told, hinted):
    spend = Spend(cap=1.0, cost_is_told=True)
    async with spend.payment(0.0) as payment:
        payment.price, payment.told = 1.0, told
    with pytest.raises(SpendCapReachedError) as reached:
        await pay(spend, 0.0)
    assert ("an answer did not say what it cost" in str(reached.value)) is hinted
