"""Waiting for the first of several coroutines, and for all: nothing goes on that nobody waits for."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.concurrency import all_of, first_of, within


async def step(seen: list[tuple[int, str]], number: int, rounds: int, error: bool = False) -> int:
    """Give way ten times in each round, then finish or fail; notes how it ended."""
    try:
        for _ in range(10 * rounds):
            await asyncio.sleep(0)
    except asyncio.CancelledError:
        seen.append((number, "canceled"))
        raise
    seen.append((number, "failed" if error else "done"))
    if error:
        raise ValueError(number)
    return number


@given(st.lists(st.integers(0, 8), min_size=1, max_size=5), st.booleans())
def test_the_first_to_finish_counts_and_all_others_are_canceled(rounds, error):
    seen = []

    async def first():
        try:
            return await first_of(*(step(seen, number, many, error) for number, many in enumerate(rounds)))
        finally:
            assert asyncio.all_tasks() == {asyncio.current_task()}, "none goes on"

    if error:
        with pytest.raises(ValueError, match=r"\d") as failed:
            asyncio.run(first())
        found = failed.value.args[0]
    else:
        found = asyncio.run(first())
    assert rounds[found] == min(rounds)
    assert {how for number, how in seen if rounds[number] > min(rounds)} <= {"canceled"}


@given(st.lists(st.integers(0, 8), min_size=1, max_size=5), st.integers(0, 4))
def test_an_error_of_one_cancels_the_others_and_is_raised(rounds, failing):
    seen = []

    async def everything():
        try:
            await all_of(step(seen, number, many, number == failing) for number, many in enumerate(rounds))
        finally:
            assert asyncio.all_tasks() == {asyncio.current_task()}, "none goes on"

    if failing < len(rounds):
        with pytest.raises(ValueError, match=str(failing)):
            asyncio.run(everything())
        assert (failing, "failed") in seen
        assert {how for number, how in seen if rounds[number] > rounds[failing]} <= {"canceled"}
    else:
        asyncio.run(everything())
        assert {how for _, how in seen} == {"done"}
    assert len(seen) == len(rounds)


def test_canceling_all_leaves_none_behind():
    seen = []

    async def cancel():
        tasks = [asyncio.ensure_future(step(seen, number, 10**5)) for number in range(3)]
        await asyncio.sleep(0)
        await all_of(tasks, cancel=True)
        return tasks

    assert all(task.cancelled() for task in asyncio.run(cancel())) and len(seen) == 3


async def test_a_limit_of_time_is_kept_and_none_is_no_limit():
    assert await within(None, step([], 1, 3)) == 1
    with pytest.raises(TimeoutError):
        await within(0.001, asyncio.sleep(60))
