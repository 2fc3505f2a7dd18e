"""Equal calls for label probabilities are asked once, whoever asks; a call that failed is asked again."""

import asyncio

import pytest

from cluster.engines.base import EngineError, Request
from cluster.runner.model_player import ModelPlayer
from cluster.runner.router import Router
from cluster.runner.shared_calls import KEPT, SharedCalls
from evals.types import Episode, LabelScores, PlayerError, Reply, Turn, message


def turn(number=0, text="A or B?", labels=("A", "B"), episode="one"):
    planned = Episode("s", "t", "l", "m", 0, 0, 1, fingerprint=episode, budget=1, group="puzzle", player="p")
    return Turn(planned, number, (message("user", text),), labels=labels)


class Port:
    def __init__(self):
        self.asked: list[Request] = []
        self.errors: list[Exception] = []

    async def complete(self, request):
        self.asked.append(request)
        await asyncio.sleep(0.01)
        if self.errors:
            raise self.errors.pop()
        scores = LabelScores((-1.0, -2.0), 0.5, True) if request.labels else None
        return Reply("A", prompt_tokens=10, completion_tokens=1, cached_tokens=4, label_scores=scores, cost=2.0)


@pytest.fixture
def player():
    player = ModelPlayer(Router(), "free")
    player.add_replica("replica-0", Port(), 8)
    return player


async def test_equal_calls_of_two_episodes_are_asked_once(player):
    turns = [turn(), turn(3, episode="other"), turn(4)]
    first, *others = await asyncio.gather(*map(player.reply, turns))
    others.append(await player.reply(turn(9)))
    assert len(player.ports["replica-0"].asked) == player.counts.turns == 1
    assert (first.cached_tokens, first.cost, player.counts.shared) == (4, 2.0, 3)
    assert all(each.label_scores == first.label_scores for each in others)
    assert all((each.prompt_tokens, each.cached_tokens, each.cost) == (10, 10, 0) for each in others)
    assert player.counts.prompt_tokens == 10


@pytest.mark.parametrize("other", [turn(text="B or A?"), turn(labels=("A", "C"))])
async def test_other_prompts_and_labels_are_other_calls(player, other):
    await asyncio.gather(player.reply(turn()), player.reply(other))
    assert (player.counts.turns, player.counts.shared) == (2, 0)


async def test_texts_are_never_shared(player):
    await asyncio.gather(player.reply(turn(labels=())), player.reply(turn(labels=())))
    assert (player.counts.turns, player.counts.shared) == (2, 0)


async def test_whoever_waits_for_a_call_that_fails_asks_itself(player):
    player.ports["replica-0"].errors = [PlayerError("no")]
    results = await asyncio.gather(player.reply(turn()), player.reply(turn(1)), return_exceptions=True)
    assert isinstance(results[0], PlayerError) and results[1].text == "A"
    player.ports["replica-0"].errors = [EngineError("later")]
    assert (await player.reply(turn(text="new"))).text == "A"


async def test_whoever_waits_for_a_call_that_is_canceled_asks_itself(player):
    first = asyncio.create_task(player.reply(turn()))
    second = asyncio.create_task(player.reply(turn(1)))
    await asyncio.sleep(0.005)
    first.cancel()
    assert (await second).text == "A" and len(player.ports["replica-0"].asked) == 2


async def test_only_recent_answers_are_remembered():
    shared, asked = SharedCalls(), []

    async def ask():
        asked.append(1)
        return Reply("A")

    for number in range(KEPT + 1):
        await shared.answer(number, ask)
    assert (await shared.answer(KEPT, ask))[1] and not (await shared.answer(0, ask))[1]
    assert len(asked) == KEPT + 2
