"""Running totals of a run: counts, rates, the estimate of the time left, and what a tracker gets."""

import dataclasses
from types import SimpleNamespace

import pyarrow as pa
import pytest

from cluster.observe import run_statistics
from cluster.observe.run_statistics import WINDOW, PlayerStatistics, RunStatistics, add
from cluster.runner.messages import PlayerCounts, ReplicaUse, Report
from evals.types import Episode


def episode(index: int, player: str = "model", calls: float = 1.0, prompt_tokens: float = 0.0) -> Episode:
    numbers = {"index": index, "repeat": 0, "seed": index, "budget": 5}
    words = {"suite": "toy", "task": "t", "level": "l", "mode": "m", "fingerprint": "i"}
    return Episode(**numbers, **words, player=player, calls=calls, prompt_tokens=prompt_tokens)


def rows(*episodes: Episode, success=True, error: str = "", cut_off: int = 0) -> pa.Table:
    """Ledger rows as far as the statistics read them; failed ones if there is an error."""
    count = len(episodes)
    return pa.table(
        {
            "episode_id": [each.id for each in episodes],
            "player": [each.player for each in episodes],
            "status": ["failed" if error else "done"] * count,
            "success": pa.array([None if error else success] * count, pa.bool_()),
            "error": [error] * count,
            "cut_off": [cut_off] * count,
        }
    )


def report(counts: PlayerCounts | None = None, **numbers) -> Report:
    return Report(None, **{"room": 0, "running": 0, **numbers}, counts=counts or PlayerCounts())


@pytest.fixture
def clock(monkeypatch):
    """Set ``clock.now``; the run began at 0."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(run_statistics, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.fixture
def stats(clock) -> RunStatistics:
    return RunStatistics(_started=0.0)


def causes(stats):
    return {cause.text: cause.count for cause in stats.errors.most_common()}


def test_episodes_are_counted_by_player(stats):
    ours, theirs = [episode(number) for number in range(5)], [episode(number, "random") for number in range(3)]
    stats.plan([*ours, *theirs])
    stats.resume(rows(ours[0]))
    stats.finished(rows(ours[1], success=False), by_model=True)
    stats.finished(rows(ours[2], error="EngineKilled: it died: twice"), by_model=True)
    stats.finished(rows(ours[3], error="PromptTooLong: by 3"), by_model=True)
    stats.finished(rows(*theirs[:2]), by_model=False)
    assert stats.players == {"model": PlayerStatistics(5, 2, 2, 1), "random": PlayerStatistics(3, 2, 0, 2)}
    assert stats.players["model"].finished == 4
    assert (stats.planned, stats.done, stats.failed) == (8, 4, 2)
    assert causes(stats) == {"EngineKilled: it died: twice": 1, "PromptTooLong: by 3": 1}


def test_plans_that_come_one_after_the_other_add_up(stats):
    stats.plan([episode(number) for number in range(3)])
    stats.plan([episode(number) for number in range(3, 5)], left=[])
    assert stats.planned == stats.players["model"].planned == 5


def test_replies_that_were_cut_off_are_summed_over_sessions_and_batches(stats):
    plan = [episode(number) for number in range(4)]
    stats.plan(plan)
    stats.resume(rows(plan[0], cut_off=2))
    stats.finished(rows(plan[1], plan[2], cut_off=3), by_model=True)
    stats.finished(rows(plan[3]), by_model=True)
    assert stats.cut_off == 8 and stats.to_json()["replies/cut_off"] == 8


def test_failures_of_one_batch_are_all_counted(stats):
    both = [episode(1), episode(2)]
    stats.plan(both)
    stats.finished(rows(*both, error="EngineKilled: one"), by_model=True)
    assert stats.failed == 2 and causes(stats) == {"EngineKilled: one": 2}


def test_the_time_of_play_is_from_the_first_replica_to_the_models_last_episode(stats, clock):
    plan = [episode(number) for number in range(4)]
    stats.plan(plan)
    clock.now = 3.0
    stats.finished(rows(plan[0]), by_model=True)
    assert stats.playing_until is None and stats.playing_seconds == 0, "no replica was up: nothing is timed"
    clock.now = 10.0
    stats.replica_up()
    clock.now = 12.0
    stats.replica_up()
    assert stats.replicas_up == 2 and stats.playing_seconds == 0
    clock.now = 25.0
    stats.finished(rows(plan[1]), by_model=True)
    clock.now = 40.0
    stats.finished(rows(plan[2]), by_model=False)
    assert (stats.playing_since, stats.playing_until) == (10.0, 25.0)
    assert stats.playing_seconds == 15.0 and stats.seconds == 40.0


def test_the_time_left_follows_the_work_done_not_the_episodes(stats, clock):
    light, heavy = (
        episode(0, calls=1, prompt_tokens=500.0),
        episode(1, calls=4, prompt_tokens=1000.0),
    )  # 1,000 and 3,000
    old, last = episode(2, calls=100), episode(3, calls=8)
    stats.plan([light, heavy, old, last])
    clock.now = 20.0
    assert stats.seconds_left() is None
    stats.resume(rows(old))
    assert stats.seconds_left() is None, "what an earlier session played says nothing of this one's speed"
    stats.finished(rows(light), by_model=True)
    assert stats.seconds_left() == pytest.approx(140.0), "1,000 are done, 7,000 left"
    clock.now = 80.0
    stats.finished(rows(heavy), by_model=True)
    assert stats.seconds_left() == pytest.approx(80.0), "4,000 are done, 4,000 left"
    stats.finished(rows(last), by_model=True)
    assert stats.seconds_left() == 0


def test_while_the_model_loads_there_is_no_estimate(stats, clock):
    stats.replicas_wanted = 1
    plan = [episode(number) for number in range(4)]
    stats.plan(plan)
    clock.now = 30.0
    stats.finished(rows(plan[0]), by_model=False)
    assert stats.seconds_left() is None
    stats.replica_up()
    clock.now = 40.0
    assert stats.seconds_left() is None, "what others played meanwhile says nothing of the model"
    stats.finished(rows(plan[1]), by_model=True)
    assert stats.seconds_left() == pytest.approx(20.0), "one in ten seconds, two left"


def test_any_work_at_all_gives_an_estimate(stats, clock):
    little, rest = episode(0, calls=0, prompt_tokens=1.0), episode(1, calls=0, prompt_tokens=2.0)
    stats.plan([little, rest])
    clock.now = 1.0
    stats.finished(rows(little), by_model=True)
    assert stats.seconds_left() == pytest.approx(2.0)


def test_rows_that_were_not_planned_do_no_harm(stats):
    stats.plan([episode(0)])
    stats.resume(rows(episode(8)))
    stats.finished(rows(episode(9)), by_model=True)
    assert stats.done == 2 and stats.seconds_left() is None


def test_counts_are_the_sum_of_the_runners_latest(stats):
    stats.report("a", report(PlayerCounts(turns=3, cost=0.5), moves=1, running=4, waiting=2))
    stats.report("b", report(PlayerCounts(turns=10), moves=5, running=2, waiting=1))
    stats.report("a", report(PlayerCounts(turns=7, cost=2.0, retries=1), moves=2, running=3, waiting=6))
    assert stats.counts == PlayerCounts(turns=17, cost=2.0, retries=1)
    assert (stats.moves, stats.alive, stats.waiting) == (7, 5, 7)
    stats.runner_ended("a")
    assert stats.counts == PlayerCounts(turns=17, cost=2.0, retries=1), "what a runner counted outlives it"
    assert (stats.moves, stats.alive, stats.waiting) == (7, 2, 1)
    stats.report("a", report(PlayerCounts(turns=1), moves=1))
    assert stats.counts.turns == 18 and stats.moves == 8
    stats.runner_ended("a")
    assert stats.moves == 8


def test_a_report_is_kept_as_it_was_and_without_its_rows(stats):
    counts = PlayerCounts(turns=1)
    stats.report("a", dataclasses.replace(report(counts), finished=rows(episode(0))))
    assert [each.finished for each in stats._reports.values()] == [None]
    counts.turns = 5
    stats.report("a", report(counts))
    assert stats.counts.turns == 5


def test_a_player_of_the_ledger_that_is_not_planned_is_counted(stats):
    stats.resume(rows(episode(0, "oracle")))
    assert stats.players == {"oracle": PlayerStatistics(0, 1, 0, 1)}


def test_use_is_summed_over_runners_that_are_and_were(stats):
    stats.report("a", report(use={"r.0": ReplicaUse(1, 10.0, 5.0, 2.0), "s.0": ReplicaUse(0, 1.0, 1.0, 0.0)}))
    stats.report("b", report(use={"r.0": ReplicaUse(2, 20.0, 10.0, 4.0)}))
    assert stats.use == {"r.0": ReplicaUse(3, 30.0, 15.0, 6.0), "s.0": ReplicaUse(0, 1.0, 1.0, 0.0)}
    assert stats.replicas_busy == 1
    stats.runner_ended("a")
    assert stats.use["r.0"] == ReplicaUse(2, 30.0, 15.0, 6.0), "a runner that is gone has no requests"
    stats.report("a", report(use={"r.0": ReplicaUse(1, 1.0, 1.0, 1.0)}))
    stats.runner_ended("a")
    stats.runner_ended("b")
    stats.runner_ended("unheard")
    assert stats.use["r.0"] == ReplicaUse(0, 31.0, 16.0, 7.0) and stats.replicas_busy == 0
    assert stats.use["s.0"] == ReplicaUse(0, 1.0, 1.0, 0.0)


def test_rates_are_of_the_last_seconds(stats, clock):
    assert stats.rates() == (0.0, 0.0)
    stats.report("a", report(PlayerCounts(turns=100, prompt_tokens=1000, completion_tokens=10)))
    assert stats.rates() == (0.0, 0.0), "one report tells no speed"
    clock.now = 4.0
    stats.report("a", report(PlayerCounts(turns=108, prompt_tokens=1200, completion_tokens=50)))
    assert stats.rates() == (2.0, 60.0)
    clock.now = WINDOW
    stats.report("a", report(PlayerCounts(turns=130, prompt_tokens=1200, completion_tokens=50)))
    assert stats.rates() == (2.0, 16.0), "the window's end still counts"
    clock.now = WINDOW + 1
    stats.report("a", report(PlayerCounts(turns=132, prompt_tokens=1200, completion_tokens=50)))
    assert stats.rates() == (2.0, 0.0)


def test_reports_of_one_moment_give_a_finite_rate(stats):
    stats.report("a", report(PlayerCounts(turns=1)))
    stats.report("b", report(PlayerCounts(turns=1)))
    assert stats.rates()[0] == pytest.approx(1000.0)


def test_spent_is_what_replicas_said_or_replies_cost_whichever_is_more(stats):
    assert stats.spent == 0
    stats.spent_before = 2.0
    stats.replica_spent("r.0", 1.0)
    stats.replica_spent("r.0", 0.5)
    stats.replica_spent("s.0", 0.25)
    assert stats.spent == 3.25
    stats.report("a", report(PlayerCounts(cost=4.0)))
    assert stats.spent == 6.0


def test_what_an_earlier_session_counted_for_a_request_is_not_spent_again_when_it_is_answered(stats):
    stats.spent_before = 27.0
    stats.report("a", report(PlayerCounts(cost=8.0)))
    stats.replica_spent("r.0", -19.0, 27.0)
    assert stats.spent == 8.0
    stats.replica_spent("r.0", 0.0)
    assert stats.spent == 8.0, "a late report"
    stats.report("a", report(PlayerCounts(cost=9.0)))
    assert stats.spent == 9.0


def test_add_adds_and_subtracts_each_number():
    total = ReplicaUse(1, 2.0, 3.0, 4.0)
    add(total, ReplicaUse(1, 1.0, 1.0, 1.0))
    assert total == ReplicaUse(2, 3.0, 4.0, 5.0)
    add(total, ReplicaUse(2, 2.0, 2.0, 2.0), sign=-1)
    assert total == ReplicaUse(0, 1.0, 2.0, 3.0)


def test_a_tracker_of_an_idle_run_gets_no_shares(stats):
    stats.plan([episode(0)])
    flat = stats.to_json()
    zeros = {name for name, value in flat.items() if value == 0}
    assert flat.keys() - zeros == {"episodes/planned", "episodes/queued"}
    assert "spent" not in flat and "prefix_cache_hit_rate" not in flat
    assert not any(name.startswith(("success/", "slot", "seconds_per_request/")) for name in flat)


def test_a_tracker_gets_every_figure(stats, clock):
    plan = [episode(number) for number in range(20)]
    stats.plan([*plan, episode(0, "random")])
    stats.replicas_lost = 3
    clock.now = 1.0
    stats.replica_up()
    stats.replica_up()
    stats.report("a", report())
    stats.finished(rows(plan[0]), by_model=True)
    stats.finished(rows(*plan[1:4], success=False), by_model=True)
    stats.finished(rows(*plan[4:6], error="EngineKilled: x"), by_model=True)
    clock.now = 3.0
    counts = PlayerCounts(
        turns=10,
        prompt_tokens=200,
        completion_tokens=40,
        cached_tokens=50,
        retries=11,
        hedges=12,
        cost=1.5,
        queueing_seconds=5.0,
        replica_seconds=30.0,
        engine_seconds=20.0,
    )
    use = {"r.0": ReplicaUse(1, 10.0, 5.0, 2.0), "s.1": ReplicaUse(0, 30.0, 27.0, 2.0), "t.0": ReplicaUse()}
    stats.report("a", report(counts, running=7, moves=4, waiting=9, use=use))
    assert stats.to_json() == pytest.approx(
        {
            "episodes/done": 4,
            "episodes/failed": 2,
            "episodes/planned": 21,
            "requests_per_second": 5.0,
            "tokens_per_second": 120.0,
            "tokens/prompt": 200,
            "tokens/completion": 40,
            "tokens/reasoning": 0,
            "replicas/up": 2,
            "replicas/busy": 1,
            "replicas/lost": 3,
            "episodes/alive": 7,
            "episodes/queued": 8,
            "episodes/moved": 4,
            "requests/queued": 9,
            "requests/retries": 11,
            "requests/preempted": 0,
            "requests/hedged": 12,
            "replies/cut_off": 0,
            "spent": 1.5,
            "success/model": 1 / 6,
            "prefix_cache_hit_rate": 0.25,
            "seconds_per_request/queueing": 0.5,
            "seconds_per_request/transport": 1.0,
            "seconds_per_request/engine": 2.0,
            "slots/utilization": 0.8,
            "slots/idle_while_work_was_queued": 0.1,
            "slot_utilization/r": 0.5,
            "slot_utilization/s": 0.9,
        }
    )
