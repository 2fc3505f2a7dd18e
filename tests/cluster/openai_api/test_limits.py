"""Concurrency, and limits per minute."""

import asyncio

import pytest

from cluster.engines.limits import AdaptiveConcurrency
from tests.cluster.openai_api.stub import engine, request


@pytest.mark.slow
async def test_no_more_requests_at_once_than_asked_for(stub):
    stub.script = ["slow"]
    made = engine(stub, max_num_seqs=2)
    await asyncio.gather(*(made.complete(request(n)) for n in range(6)))
    assert stub.most_inside == 2


@pytest.mark.slow
async def test_fewer_requests_at_once_after_too_many(stub):
    stub.script = [(429, "slow down", {})] * 4 + ["slow"]
    made = engine(stub, max_num_seqs=8)
    await asyncio.gather(*(made.complete(request(n)) for n in range(6)))
    assert stub.most_inside <= 8
    assert made._endpoint.concurrency.limit < 8


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
