"""Short requests are sent in groups; each gets its own reply or error, and an error of the group reaches all."""

import asyncio

import pytest

from cluster.engines.base import Engine, EngineDiedError, EngineError, Request
from cluster.engines.replica import Replica
from cluster.ray_backend.groups import MOST, Groups
from evals.types import PlayerError, Reply


def requests(count):
    return [Request(str(number), ()) for number in range(count)]


async def test_requests_of_one_moment_go_together_and_each_gets_its_own_reply():
    sent = []

    async def send(group):
        sent.append(len(group))
        await asyncio.sleep(0.01)
        return [Reply(request.id) if request.id != "3" else PlayerError("too long") for request in group]

    groups = Groups(send)
    answers = await asyncio.gather(*map(groups.complete, requests(MOST + 2)), return_exceptions=True)
    assert sent == [MOST, 2]
    assert [each.text for each in answers if isinstance(each, Reply)] == [str(n) for n in range(MOST + 2) if n != 3]
    assert isinstance(answers[3], PlayerError)
    assert (await groups.complete(Request("later", ()))).text == "later" and sent == [MOST, 2, 1]


async def test_an_error_of_the_group_reaches_all_of_it():
    async def send(group):
        raise EngineDiedError("gone")

    answers = await asyncio.gather(*map(Groups(send).complete, requests(3)), return_exceptions=True)
    assert [str(each) for each in answers] == ["gone"] * 3


async def test_a_canceled_request_does_not_disturb_the_others():
    async def send(group):
        await asyncio.sleep(0.01)
        return [Reply(request.id) for request in group]

    groups = Groups(send)
    first, *others = (asyncio.create_task(groups.complete(request)) for request in requests(3))
    await asyncio.sleep(0.005)
    first.cancel()
    async with asyncio.timeout(5):
        assert [(await other).text for other in others] == ["1", "2"]
        with pytest.raises(asyncio.CancelledError):
            await first


class Picky(Engine):
    async def complete(self, request):
        if request.id == "bad":
            raise ValueError("bad request")
        return Reply("fine")


async def test_a_replica_answers_a_group_reply_by_reply():
    replica = Replica("replica", Picky)
    await replica.start()
    answers = await replica.complete_group([Request("good", ()), Request("bad", ())])
    assert answers[0] == Reply("fine") and isinstance(answers[1], EngineError)
    await replica.close()
