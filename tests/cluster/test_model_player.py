import asyncio
import itertools
from types import SimpleNamespace

import pytest

from cluster.engines.base import EngineClosedError, EngineDiedError, EngineError, EngineWaitsError
from cluster.runner import model_player
from cluster.runner.messages import PlayerCounts
from cluster.runner.model_player import EngineKilled, EpisodeAbandonedError, ModelPlayer
from cluster.runner.router import Router
from evals.types import PlayerError, PromptTooLong, Reply, Turn, message
from tests.fakes import FakeReplica, first_option
from tests.toy import OPTIONS, ToySuite

EPISODES = [episode.assigned("fake", "") for episode in ToySuite().plan()]


def turn(episode=0, number=0, **fields) -> Turn:
    return Turn(EPISODES[episode], number, (message("user", "?"),), options=OPTIONS, **fields)


def player(*replicas: FakeReplica, decoding="choice", batch=4) -> ModelPlayer:
    model = ModelPlayer(Router(), decoding)
    for number, replica in enumerate(replicas):
        model.add_replica(f"r{number}", replica, batch)
    return model


async def test_options_are_sent_only_where_decoding_is_constrained():
    for decoding, sent in (("choice", OPTIONS), ("free", ())):
        replica = FakeReplica()
        await player(replica, decoding=decoding).reply(turn(schema="{}"))
        assert replica.asked[0].options == sent and replica.asked[0].schema == ("{}" if sent else "")


async def test_a_turn_has_the_same_seed_in_every_try():
    replica = FakeReplica()
    model = player(replica)
    await model.reply(turn(number=3))
    await model.reply(turn(number=3))
    await model.reply(turn(number=4))
    seeds = [request.seed for request in replica.asked]
    assert seeds[0] == seeds[1] != seeds[2]


async def test_a_failing_request_is_retried():
    failures = iter([EngineError("busy"), EngineError("busy")])
    replica = FakeReplica(lambda request: next(failures, None) or Reply("red", retries=3))
    model = player(replica)
    assert (await model.reply(turn())).text == "red"
    assert model.counts.retries == 2 + 3, "the engine's own are among them"


async def test_a_turn_is_retried_when_its_replica_dies():
    dying = FakeReplica(lambda request: EngineDiedError("gone"))
    model = player(dying, FakeReplica())
    replies = await asyncio.gather(*(model.reply(turn(episode)) for episode in range(8)))
    assert all(reply.text == "red" for reply in replies)
    assert model.lost.get_nowait() == "r0" and model.lost.empty(), "each death is reported once"
    assert model.router.replicas == ["r1"]


async def test_a_rejected_turn_is_not_retried():
    replica = FakeReplica(lambda request: PromptTooLong("9 tokens, 8 fit"))
    with pytest.raises(PromptTooLong, match="9 tokens, 8 fit"):
        await player(replica).reply(turn())
    assert len(replica.asked) == 1


async def test_a_prompt_that_crashes_engines_is_isolated():
    def script(request):
        return EngineDiedError("killed") if request.id.startswith(EPISODES[5].id) else first_option(request)

    model = ModelPlayer(Router(), "choice")
    replicas = []

    async def replace():
        while True:
            replicas.append(FakeReplica(script, seconds=0.01))
            model.add_replica(f"r{len(replicas)}", replicas[-1], 4)
            await model.lost.get()

    replacing = asyncio.create_task(replace())
    replies = await asyncio.gather(*(model.reply(turn(episode)) for episode in range(12)), return_exceptions=True)
    replacing.cancel()
    assert isinstance(replies[5], EngineKilled)
    assert [type(reply) for number, reply in enumerate(replies) if number != 5] == [Reply] * 11
    assert model.counts.engine_deaths == 4
    killer = f"{EPISODES[5].id}-0"
    assert [replica.companions[killer] for replica in replicas if killer in replica.companions][2:] == [0, 0]


async def test_a_canceled_turn_frees_its_slot():
    model = player(FakeReplica(seconds=10), batch=1)
    tasks = [asyncio.create_task(model.reply(turn(episode))) for episode in range(4)]
    await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (model.router.sent, model.router.waiting) == (0, 0)


def hedging(*replicas: FakeReplica) -> ModelPlayer:
    """A player in the tail of its run, which knows that turns take 10 ms."""
    model = player(*replicas)
    model.hedging = True
    for _ in range(100):
        model._latency.sent(0.0)
        model._latency.returned(0.0, 0.01, answered=True)
    return model


async def test_a_late_request_is_hedged_on_an_idle_replica_and_the_first_reply_counts(monkeypatch):
    monkeypatch.setattr("cluster.runner.hedging.CHECK_SECONDS", 0.01)
    slow, quick = FakeReplica(seconds=30), FakeReplica()
    model = hedging(slow, quick)
    replies = await asyncio.wait_for(asyncio.gather(*(model.reply(turn(episode)) for episode in range(4))), 5)
    assert [reply.text for reply in replies] == ["red"] * 4
    assert (model.counts.hedges, model.counts.hedges_won, model.counts.turns) == (2, 2, 4)
    assert {request.seed for request in slow.asked} <= {request.seed for request in quick.asked}
    await asyncio.sleep(0.01)
    assert slow.inside == 0, "the late copy is canceled"
    assert (model.router.sent, model.router.waiting) == (0, 0)
    before = len(slow.asked)
    await asyncio.gather(*(model.reply(turn(episode, 1)) for episode in range(4)))
    assert len(slow.asked) == before, "the episodes stay with the quick replica"


async def test_a_hedged_turn_is_answered_as_soon_as_one_copy_is(monkeypatch):
    model = hedging(FakeReplica(seconds=30), FakeReplica())
    waits = iter([0.05, 60.0])
    monkeypatch.setattr(model._latency, "next_check", lambda sent, now: now + next(waits))
    assert (await asyncio.wait_for(model.reply(turn()), 5)).text == "red"
    assert model.counts.hedges_won == 1


async def test_no_request_is_hedged_before_it_is_late_however_often_that_is_checked(monkeypatch):
    model = hedging(FakeReplica(seconds=0.02), FakeReplica())
    model._latency.sent(0.0)
    model._latency.returned(0.0, 1000.0, answered=False)  # turns take 10 seconds on average
    checks = []
    monkeypatch.setattr(model._latency, "next_check", lambda sent, now: checks.append(now) or now)
    assert (await model.reply(turn())).text == "red"
    assert len(checks) > 2 and model.counts.hedges == 0


async def test_no_request_is_hedged_while_episodes_are_queued_or_no_slot_is_idle(monkeypatch):
    monkeypatch.setattr("cluster.runner.hedging.CHECK_SECONDS", 0.01)
    busy = hedging(FakeReplica(seconds=30), FakeReplica(seconds=30))
    asking = [asyncio.create_task(busy.reply(turn(episode))) for episode in range(8)]
    await asyncio.sleep(0.1)  # all are late, and every slot is taken
    for task in asking:
        task.cancel()
    early = hedging(FakeReplica(seconds=0.1), FakeReplica())
    early.hedging = False
    await early.reply(turn())
    assert busy.counts.hedges == early.counts.hedges == 0


async def test_one_of_two_copies_may_fail(monkeypatch):
    monkeypatch.setattr("cluster.runner.hedging.CHECK_SECONDS", 0.01)
    model = hedging(FakeReplica(seconds=0.2), FakeReplica(lambda request: EngineDiedError("gone")))
    assert (await model.reply(turn())).text == "red"
    assert (model.counts.hedges, model.counts.hedges_won, model.counts.retries) == (1, 0, 0)
    assert model.lost.get_nowait() == "r1"
    assert model.router.sent == 0


async def test_an_isolated_turn_has_a_replica_to_itself_and_is_not_hedged(monkeypatch):
    monkeypatch.setattr("cluster.runner.hedging.CHECK_SECONDS", 0.01)
    deaths = iter([EngineDiedError("killed"), EngineDiedError("killed")])
    model = hedging(*(FakeReplica(lambda request: next(deaths, None) or first_option(request)) for _ in range(2)))
    for number in range(2, 4):
        model.add_replica(f"r{number}", FakeReplica(seconds=0.2), 4)
    assert (await model.reply(turn())).text == "red"
    assert (model.counts.engine_deaths, model.counts.hedges) == (2, 0), "late in its third try, but a suspect"


@pytest.mark.slow
async def test_both_engines_that_die_with_a_hedged_turn_count_as_its_deaths(monkeypatch):
    monkeypatch.setattr("cluster.runner.hedging.CHECK_SECONDS", 0.01)
    killer = [FakeReplica(lambda request: EngineDiedError("killed"), 0.1) for _ in range(8)]
    model = hedging(*killer)
    with pytest.raises(EngineKilled, match="4 engines died"):
        await model.reply(turn())
    assert model.counts.engine_deaths == 4 and model.counts.hedges == 1
    assert sum(len(replica.asked) for replica in killer) == 4


async def test_a_turn_is_retried_if_its_replica_leaves_before_the_request_is_sent():
    model = player(FakeReplica(), FakeReplica())
    asking = asyncio.create_task(model.reply(turn()))
    await asyncio.sleep(0)  # granted, not asked yet
    model.remove_replica("r0")
    assert (await asking).text == "red"


async def test_a_request_carries_the_whole_turn():
    replica = FakeReplica()
    asked = turn(2, number=5, labels=("A", "B"))
    await player(replica).reply(asked)
    [request] = replica.asked
    assert request.id == f"{EPISODES[2].id}-5" and request.priority == -5
    assert (request.chat, request.options, request.labels) == (asked.chat, OPTIONS, ("A", "B"))
    assert request.seed == asked.seed


def test_a_player_begins_open_and_hedges_only_when_it_is_told_to():
    model = player()
    assert model.hedging is False and model.engine_closed == ""
    model.add_replica("r0", FakeReplica(), 4)
    model.remove_replica("r0")
    model.remove_replica("r0")
    assert model.ports == {} and model.router.replicas == []


@pytest.mark.parametrize(("kind", "resumable"), [(EngineClosedError, False), (EngineWaitsError, True)])
async def test_an_engine_that_closed_ends_the_play_with_its_reason(kind, resumable):
    model = player(FakeReplica(lambda request: kind("the key is refused")))
    with pytest.raises(EpisodeAbandonedError, match="the key is refused"):
        await model.reply(turn())
    assert model.engine_closed == "the key is refused" and model.counts.turns == 0
    assert model.resumable == resumable


async def test_a_turn_is_tried_eight_times_and_fails_as_its_engine_did():
    class RefusedError(EngineError):
        kind = "endpoint"

    replica = FakeReplica(lambda request: RefusedError("busy"))
    model = player(replica)
    with pytest.raises(PlayerError, match="failed 8 times, last: busy") as failed:
        await model.reply(turn())
    assert failed.value.kind == "endpoint" and len(replica.asked) == 8 and model.counts.retries == 7


async def test_all_that_replies_say_is_summed(monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(model_player, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    reply = Reply(
        "red", prompt_tokens=10, completion_tokens=4, reasoning_tokens=2, cached_tokens=3, cost=0.5, seconds=2.0
    )
    model = player(FakeReplica(lambda request: reply))
    took = [(await model.reply(turn(number=number))).seconds for number in range(3)]
    # each look at this clock takes a second: start, asked, sent, looked, latency, answered, end
    assert took == [6.0] * 3
    assert model.counts == PlayerCounts(
        turns=3,
        prompt_tokens=30,
        completion_tokens=12,
        reasoning_tokens=6,
        cached_tokens=9,
        cost=1.5,
        queueing_seconds=3.0,
        replica_seconds=9.0,
        engine_seconds=6.0,
    )


async def test_turns_of_a_group_go_to_one_replica():
    replicas = [FakeReplica(), FakeReplica(), FakeReplica()]
    model = player(*replicas)
    for number in range(2):
        await asyncio.gather(*(model.reply(turn(episode, number)) for episode in range(6)))
    for replica in replicas:
        first, second = ({r.id[:-2] for r in replica.asked if r.id.endswith(f"-{number}")} for number in range(2))
        assert first == second and len(first) == 2


async def test_a_later_turn_goes_before_a_first_one_and_a_suspect_before_all():
    replica = FakeReplica()
    model = player(replica, batch=1)
    holding = [model.router.request(str(n), lambda name: None) for n in range(2)]
    deaths = [EngineDiedError("killed")] * 2
    first = asyncio.create_task(model.reply(turn(0, 0)))
    later = asyncio.create_task(model.reply(turn(1, 3)))
    request = model_player.request_for(turn(2, 0), "choice")
    suspect = asyncio.create_task(model._try(request, "suspect", deaths))
    await asyncio.sleep(0)
    for ticket in holding:
        model.router.release(ticket)
    await asyncio.gather(first, later, suspect)
    assert [each.id for each in replica.asked] == [f"{EPISODES[2].id}-0", f"{EPISODES[1].id}-3", f"{EPISODES[0].id}-0"]


async def test_only_answers_tell_what_is_usual():
    failures = iter([EngineError("busy")])
    model = player(FakeReplica(lambda request: next(failures, None) or Reply("red")))
    await model.reply(turn())
    assert model._latency._answers == 1 and model._latency._in_flight == 0


async def test_an_answer_that_was_asked_before_took_only_its_own_time(monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(model_player, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    model = player(FakeReplica())
    first, again = [await model.reply(turn(number=number, labels=("A", "B"))) for number in range(2)]
    assert (first.seconds, again.seconds) == (6.0, 1.0) and model.counts.shared == 1
