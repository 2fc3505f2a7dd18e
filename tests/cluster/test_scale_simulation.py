"""A cluster in virtual time around the real router, queue and admission: what scheduling must and must not do at scale."""

import pytest

from benchmarks.simulation.cluster import GPU, Costs, play, play_one_at_a_time, play_static_shards
from benchmarks.simulation.workload import MIX, STEADY, draw, from_run
from cluster.storage.run_directory import RunDirectory
from evals.ledger.records import records_to_table
from evals.players import BUILT_IN_PLAYERS
from evals.suite import ledger_columns, play_episode
from tests.toy import ToySuite

pytestmark = pytest.mark.slow

EIGHT = 8 * 1000


@pytest.fixture(scope="module")
def workload():
    return draw(EIGHT)


@pytest.fixture(scope="module")
def sticky(workload):
    return play(workload, 8)


def test_a_workload_is_the_same_for_the_same_seed_and_has_the_mix_asked_for(workload):
    again = draw(EIGHT)
    assert again.episodes == workload.episodes and again.prompts == workload.prompts
    assert draw(EIGHT, seed=1).replies != workload.replies
    assert {episode.task for episode in workload.episodes} == {kind.name for kind in MIX}
    assert len({episode.id for episode in workload.episodes}) == EIGHT
    assert all(kept <= prompt for kept, prompt in zip(workload.kept, workload.prompts, strict=True))


@pytest.mark.parametrize("policy", ["sticky", "least_loaded", "round_robin"])
def test_everything_planned_is_played_exactly_once(policy):
    work = draw(600)
    result = play(work, 20, policy, per_runner=8, costs=Costs(turn=0.001, exchange=0.002, transport=0.001))
    assert len(result.finished) == 600 and min(result.finished) > 0  # twice would have been noticed on the way
    assert result.makespan == max(result.finished)


def test_eight_replicas_have_full_batches(sticky):
    assert 0.9 < sticky.share_of_ideal <= 1


def test_long_even_runs_come_close_to_the_ideal():
    assert play(draw(4 * 2000, mix=STEADY), 4).share_of_ideal > 0.97


def test_sticky_has_the_highest_cache_hit_rate(workload, sticky):
    others = [play(workload, 8, policy) for policy in ("least_loaded", "round_robin")]
    assert all(sticky.hit_rate > other.hit_rate for other in others)
    assert all(sticky.makespan < other.makespan for other in others)


def test_episodes_hardly_ever_leave_their_homes_while_all_replicas_are_equally_full(workload, sticky):
    """A queued turn must not start a chain reaction in which one episode after another loses its slot."""
    assert sticky.moves < 0.01 * len(workload.episodes)
    assert sticky.hit_rate > 0.99 * sum(workload.kept) / sum(workload.prompts)


def test_static_shards_and_one_episode_at_a_time_are_slower(workload, sticky):
    assert play_static_shards(workload, 8).makespan > 1.05 * sticky.makespan
    assert play_one_at_a_time(workload, 8).makespan > 15 * sticky.makespan


def test_longest_first_shortens_the_tail(workload, sticky, monkeypatch):
    monkeypatch.setattr("cluster.runner.episode_queue.expected_work", lambda episode: 0.0)
    plan_order = play(workload, 8)
    assert sticky.tail < plan_order.tail and sticky.makespan < plan_order.makespan


def test_a_plan_smaller_than_the_cluster_reaches_every_replica():
    work = draw(40 * 32, mix=STEADY)
    one_runner = play(work, 32, per_runner=32).makespan
    assert play(work, 32, per_runner=8).makespan < 1.05 * one_runner
    assert play(work, 32, per_runner=8, fair=False).makespan > 1.2 * one_runner


def test_an_overloaded_runner_leaves_replicas_idle_and_more_runners_help():
    work, slow = draw(16 * 200, mix=STEADY), Costs(turn=0.005)
    crowded, spread = play(work, 16, per_runner=16, costs=slow), play(work, 16, per_runner=4, costs=slow)
    assert crowded.runner_busy > 0.9 > spread.runner_busy
    assert spread.makespan < 0.7 * crowded.makespan


def test_a_slow_replica_costs_the_others_less_than_a_static_shard_would(workload):
    assert 2 * play(workload, 8, slower=5).makespan < play_static_shards(workload, 8, slower=5).makespan


def test_no_run_is_faster_than_its_longest_episode():
    work = draw(200)
    assert play(work, 50).makespan >= work.longest_alone(GPU.speed)


async def test_the_turns_of_a_real_run_can_be_played_again(tmp_path):
    suite = ToySuite(episodes=6, turns=2)
    plan = [episode.assigned("fake", "") for episode in suite.plan()]
    directory = RunDirectory(tmp_path)
    directory.claim()
    directory.begin(plan, {})
    records = [await play_episode(suite, episode, _Wordy()) for episode in plan]
    directory.commit(records_to_table(records, ledger_columns(suite)))
    directory.release()

    work = from_run(tmp_path)
    assert [episode.id for episode in work.episodes] == [episode.id for episode in plan]
    assert work.turns == sum(len(record.turns) for record in records)
    assert set(work.replies) == {7} and set(work.prompts) == {100}
    assert 0 < max(work.kept) < 100
    many = from_run(tmp_path, 50)
    assert len({episode.id for episode in many.episodes}) == 50
    assert len(play(many, 2).finished) == 50


class _Wordy:
    """Answers like ``random`` and counts tokens."""

    async def reply(self, turn):
        reply = await BUILT_IN_PLAYERS["random"].reply(turn)
        return type(reply)(reply.text, prompt_tokens=100, completion_tokens=7)
