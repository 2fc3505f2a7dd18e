"""Concurrency, and limits per minute."""

import asyncio

import pytest

from cluster.engines.limits import AdaptiveConcurrency, PerMinute
from tests.cluster.openai_api.stub import engine, request


@pytest.mark.slow
async def test_no_more_requests_at_once_than_asked_for(stub):
    stub.script = ["slow"]
    made = engine(stub, max_num_seqs=2)
    await asyncio.gather(*(made.complete(request(n)) for n in range(6)))
    assert stub.most_inside == 2


@pytest.mark.parametrize("limit", [{"requests_per_minute": 0.5}, {"tokens_per_minute": 60.0}], ids=str)
async def test_limits_per_minute_hold_requests_back(stub, limit):
    made = engine(stub, **limit)  # at these, the first request waits for most of a minute
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(made.complete(request()), 0.3)
    assert not stub.bodies
    assert (await engine(stub, **dict.fromkeys(limit, 1000000.0)).complete(request())).text == "hello"


async def test_tokens_per_minute_learn_what_a_request_really_took(stub):
    made = engine(stub, tokens_per_minute=100_000.0)
    await made.complete(request())
    assert made._endpoint._tokens._left == pytest.approx(10_000 - 110)  # a tenth of a minute's, less what was used


@pytest.mark.slow
async def test_fewer_requests_at_once_after_too_many(stub):
    stub.script = [(429, "slow down", {})] * 4 + ["slow"]
    made = engine(stub, max_num_seqs=8)
    await asyncio.gather(*(made.complete(request(n)) for n in range(6)))
    assert stub.most_inside <= 8
    assert made._endpoint.concurrency.limit < 8


def test_limits_per_minute_spread_requests_evenly():
    now = [0.0]
    limit = PerMinute(60, clock=lambda: now[0])
    waits = [limit.delay(1) for _ in range(12)]
    assert waits[:6] == [0.0] * 6 and waits[6:] == pytest.approx([1, 2, 3, 4, 5, 6])
    now[0] = 6.0
    assert limit.delay(1) == pytest.approx(1.0)
    limit.correct(-2)
    assert limit.delay(1) == 0.0
    assert PerMinute(None).delay(1e9) == 0.0


async def test_no_more_places_than_the_limit_are_given():
    limit, most, free = AdaptiveConcurrency(8), 0, asyncio.Event()

    async def hold_a_place():
        nonlocal most
        async with limit.slot():
            most = max(most, limit.in_flight)
            await free.wait()

    limit.limit = 3.7
    holders = [asyncio.create_task(hold_a_place()) for _ in range(10)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert limit.in_flight == 3
    free.set()
    await asyncio.gather(*holders)
    assert (limit.in_flight, most) == (0, 3)


@pytest.mark.parametrize("pauses", [(60, 1), (1, 60)])
def test_of_two_pauses_the_longer_one_holds(pauses):
    now = [0.0]
    limit = AdaptiveConcurrency(8, clock=lambda: now[0])
    for pause in pauses:
        limit.hold(pause)
    now[0] = 10.0
    assert limit.held == 50


def test_concurrency_halves_once_for_requests_that_fail_together_and_grows_back():
    now = [0.0]
    limit = AdaptiveConcurrency(16, clock=lambda: now[0])
    for _ in range(5):
        limit.too_many()
    assert limit.limit == 8
    now[0] = 2.0
    limit.too_many()
    assert limit.limit == 4
    for _ in range(200):
        limit.success()
    assert limit.limit == 16
