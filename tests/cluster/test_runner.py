import asyncio

import pytest

from cluster.engines.base import EngineDiedError
from cluster.runner import runner as module
from cluster.runner.messages import Assignment, NewReplica, ReplicaUse
from cluster.runner.model_player import ModelPlayer
from cluster.runner.router import Router
from cluster.runner.runner import Runner
from evals.players import OraclePlayer
from evals.suite import play_episode
from evals.types import CannotPlayNow, PromptTooLong, Reply
from tests.fakes import FakeReplica, first_option
from tests.toy import ToySuite


def episodes(suite: ToySuite, player="fake"):
    return tuple(episode.assigned(player, "") for episode in suite.plan())


async def play(runner: Runner, orders: Assignment, count: int) -> dict[str, str]:
    """Exchange until ``count`` rows are reported; episode id -> error."""
    rows: dict[str, str] = {}
    while len(rows) < count:
        report = await runner.exchange(orders)
        orders = Assignment()
        if report.finished is not None:
            for episode_id, error in zip(
                *(report.finished[c].to_pylist() for c in ("episode_id", "error")), strict=True
            ):
                assert episode_id not in rows
                rows[episode_id] = error
    return rows


async def test_every_episode_given_comes_back_once():
    suite = ToySuite(episodes=50)
    runner = Runner(suite, ModelPlayer(Router(), "choice"))
    plan = episodes(suite)
    rows = await play(runner, Assignment(plan, (NewReplica("r", FakeReplica(), 8),)), 50)
    assert rows == {episode.id: "" for episode in plan}


@pytest.mark.slow
async def test_replicas_get_full_batches_without_flooding():
    suite = ToySuite(episodes=100, turns=4)
    replica = FakeReplica(seconds=0.005)
    runner = Runner(suite, ModelPlayer(Router(), "choice"))
    await play(runner, Assignment(episodes(suite), (NewReplica("r", replica, 10),)), 100)
    assert replica.most_inside == 11


@pytest.mark.slow
async def test_the_runner_requests_as_many_episodes_as_its_replicas_have_room_for():
    runner = Runner(ToySuite(), ModelPlayer(Router(), "choice"))
    assert (await runner.exchange(Assignment())).room == 0
    report = await runner.exchange(Assignment(replicas=(NewReplica("r", FakeReplica(), 40),)))
    assert report.room == 44 + 11


async def test_a_rejected_episode_is_a_failed_row_and_the_others_continue():
    suite = ToySuite(episodes=10)
    plan = episodes(suite)

    def script(request):
        return PromptTooLong("too long by 3") if request.id == f"{plan[4].id}-1" else first_option(request)

    runner = Runner(suite, ModelPlayer(Router(), "choice"))
    rows = await play(runner, Assignment(plan, (NewReplica("r", FakeReplica(script), 4),)), 10)
    assert rows.pop(plan[4].id) == "PromptTooLong: too long by 3"
    assert set(rows.values()) == {""}


async def test_a_bug_in_a_suite_fails_only_its_episodes_and_leaves_their_slots_to_others():
    class Broken(ToySuite):
        async def play(self, episode, conversation):
            if episode.index % 2:
                raise ZeroDivisionError("oops")
            return await super().play(episode, conversation)

    suite = Broken(episodes=40)
    runner = Runner(suite, ModelPlayer(Router(), "choice"))
    plan = episodes(suite)
    rows = await asyncio.wait_for(play(runner, Assignment(plan, (NewReplica("r", FakeReplica(), 4),)), 40), 20)
    assert rows == {one.id: "ZeroDivisionError: oops" if one.index % 2 else "" for one in plan}


async def test_a_game_that_cannot_be_played_now_stops_the_run_and_leaves_no_row():
    class Unplugged(ToySuite):
        async def play(self, episode, conversation):
            if episode.index == 3:
                raise CannotPlayNow("the cable is out")
            return await super().play(episode, conversation)

    suite = Unplugged(episodes=30, turns=1)
    runner, finished = Runner(suite, None), set()
    plan = episodes(suite, "oracle")
    report = await runner.exchange(Assignment(plan))
    while not report.cannot_play or report.running:
        if report.finished is not None:
            finished |= set(report.finished["index"].to_pylist())
        report = await runner.exchange(Assignment(draining=True))
    assert report.cannot_play == "the cable is out"
    assert 3 not in finished and not {20, 29} & finished, "it is left for another time, and nothing else began"
    record = await play_episode(suite, plan[3], OraclePlayer())
    assert (record.error, record.error_kind) == ("CannotPlayNow: the cable is out", "suite"), (
        "elsewhere it is a failed episode"
    )
    runner.end()


@pytest.mark.slow
async def test_a_lost_replica_is_reported_and_its_successor_finishes_the_work():
    suite = ToySuite(episodes=10)
    calls = iter(range(10_000))

    def dies_on_the_fifth(request):
        return EngineDiedError("gone") if next(calls) >= 5 else first_option(request)

    runner = Runner(suite, ModelPlayer(Router(), "choice"))
    plan = episodes(suite)
    report = await runner.exchange(Assignment(plan, (NewReplica("r.0", FakeReplica(dies_on_the_fifth, 0.01), 2),)))
    while not report.lost:
        report = await runner.exchange(Assignment())
    assert report.lost == ("r.0",)
    already = 0 if report.finished is None else report.finished.num_rows
    rows = await play(runner, Assignment((), (NewReplica("r.1", FakeReplica(), 2),)), 10 - already)
    assert set(rows.values()) == {""}


async def test_built_in_players_need_no_replica():
    suite = ToySuite(episodes=30)
    rows = await play(Runner(suite, None), Assignment(episodes(suite, "oracle")), 30)
    assert set(rows.values()) == {""}


async def test_episodes_start_in_the_order_in_which_the_driver_gives_them(monkeypatch):
    monkeypatch.setattr("cluster.runner.runner.BUILT_IN_AT_ONCE", 1)
    suite = ToySuite()  # even numbers take twice as long: a balanced order has them after odd ones, too
    given = episodes(suite, "oracle")[::-1]
    rows = await play(Runner(suite, None), Assignment(given), len(given))
    assert list(rows) == [episode.id for episode in given]


async def test_an_idle_runner_sends_heartbeats():
    report = await asyncio.wait_for(Runner(ToySuite(), None).exchange(Assignment()), 5)
    assert (report.finished, report.running) == (None, 0)


async def test_a_draining_runner_starts_no_episode_and_finishes_running_ones():
    suite = ToySuite(episodes=40, turns=3)
    runner = Runner(suite, ModelPlayer(Router(), "choice"))
    report = await runner.exchange(Assignment(episodes(suite), (NewReplica("r", FakeReplica(seconds=0.02), 4),)))
    finished = 0 if report.finished is None else report.finished.num_rows
    running = report.running
    assert 0 < running + finished < 40
    while report.running:
        report = await runner.exchange(Assignment(draining=True))
        finished += 0 if report.finished is None else report.finished.num_rows
    assert running <= finished <= running + 6


async def test_episodes_that_finish_while_rows_are_made_still_run_for_the_driver(monkeypatch):
    """A driver that heard of none running would take a draining runner for done, and lose their rows."""
    suite = ToySuite(episodes=2, turns=1)
    plan = episodes(suite, "oracle")
    runner = Runner(suite, None)
    usual = module.sound_rows

    def slow(finished, columns):
        if len(runner._finished) + len(finished) < 2:
            runner._finished.append(finished[0])  # another one, as if it had finished meanwhile
        return usual(finished[:1], columns)

    monkeypatch.setattr(module, "sound_rows", slow)
    report = await runner.exchange(Assignment(plan[:1]))
    while report.finished is None:
        report = await runner.exchange(Assignment())
    assert report.running == 1


async def test_a_record_that_cannot_be_stored_becomes_a_failed_row_and_harms_no_other():
    suite = ToySuite(episodes=20)
    plan = episodes(suite)

    def script(request):
        return Reply("half a sign: \ud83d") if request.id == f"{plan[3].id}-0" else first_option(request)

    runner = Runner(suite, ModelPlayer(Router(), "choice"))
    rows = await play(runner, Assignment(plan, (NewReplica("r", FakeReplica(script), 8),)), 20)
    causes = {episode_id: error for episode_id, error in rows.items() if error}
    assert list(causes) == [plan[3].id] and causes[plan[3].id].startswith("UnicodeEncodeError")


async def test_a_replica_that_died_and_an_engine_that_closed_are_told_at_once(monkeypatch):
    monkeypatch.setattr(module, "REPORT_SECONDS", 60.0)
    runner = Runner(ToySuite(), ModelPlayer(Router(), "choice"))
    async with asyncio.timeout(5):
        for name in ("r1", "r2"):
            runner.model.lost.put_nowait(name)
        assert (await runner.exchange(Assignment())).lost == ("r1", "r2")
        runner.model.engine_closed = "the key is refused"
        for _ in range(2):
            report = await runner.exchange(Assignment())
            assert (report.lost, report.engine_closed, report.resumable) == ((), "the key is refused", False)
    runner.end()


@pytest.mark.parametrize(
    ("remaining", "metered", "hedging"), [(0, False, True), (3, False, False), (0, True, False), (3, True, False)]
)
async def test_late_requests_are_asked_twice_only_in_the_tail_and_where_they_cost_nothing(remaining, metered, hedging):
    runner = Runner(ToySuite(), ModelPlayer(Router(), "choice"))
    replicas = (NewReplica("paid", FakeReplica(), 4, metered=metered), NewReplica("free", FakeReplica(), 6))
    await runner.exchange(Assignment(replicas=replicas, remaining=remaining))
    runner.model.router.loads = lambda: {"paid": (1, 4), "free": (9, 6)}
    use = runner._use
    for name in use:
        use[name] = ReplicaUse()
    for _ in range(2):
        runner._account(0.5)
    assert runner.model.hedging is hedging
    idle = 3.0 if remaining else 0.0
    assert (use["paid"], use["free"]) == (ReplicaUse(0, 4.0, 1.0, idle), ReplicaUse(0, 6.0, 6.0, 0.0))
    runner.end()


@pytest.mark.slow
async def test_episodes_that_wait_in_a_runner_are_work_that_is_left():
    runner = Runner(ToySuite(), ModelPlayer(Router(), "choice"))
    await runner.exchange(Assignment(episodes(ToySuite(episodes=2)), draining=True))
    runner._account(1.0)
    assert not runner.model.hedging
    runner.end()
