"""The driver's queue: longest expected first, and counts of what is left."""

import random

from cluster.runner.episode_queue import EpisodeQueue, expected_work, longest_first
from tests.cluster.test_observe import episode


def test_work_is_prompt_tokens_and_calls():
    assert expected_work(episode(0, calls=3.0, prompt_tokens=200.0)) == 1700.0


def test_the_longest_come_first_and_equals_in_order():
    plan = [episode(number, calls=1 + number % 3) for number in range(9)]
    wanted = [2, 5, 8, 1, 4, 7, 0, 3, 6]
    assert [each.index for each in longest_first(plan)] == wanted
    assert [each.index for each in EpisodeQueue(plan).take(9)] == wanted
    queue = EpisodeQueue()
    for each in plan:
        queue.put([each])
    assert [each.index for each in queue.take(4) + queue.take(100)] == wanted


def test_calls_and_prompt_tokens_weigh_together():
    few, many = episode(0, calls=2, prompt_tokens=0.0), episode(1, calls=1, prompt_tokens=501.0)
    assert longest_first([few, many]) == [many, few] == list(EpisodeQueue([few, many]).take(2))


def test_what_was_taken_is_gone_until_it_is_put_back():
    plan = [episode(number, calls=number) for number in range(5)]
    queue = EpisodeQueue(plan)
    first = queue.take(2)
    assert [each.index for each in first] == [4, 3] and len(queue) == 3
    assert queue.take(0) == () and len(queue) == 3
    queue.put(first)
    assert len(queue) == 5 and queue.unfinished == 5, "what is put back was never over"
    assert queue.take(1) == first[:1]


def test_unfinished_episodes_are_those_nobody_reported():
    queue = EpisodeQueue(episode(number) for number in range(5))
    assert queue.unfinished == 5
    queue.take(4)
    assert queue.unfinished == 5 and len(queue) == 1
    queue.finished(3)
    assert queue.unfinished == 2
    queue.finished(1)
    assert queue.unfinished == 1


def test_a_draining_queue_gives_nothing():
    queue = EpisodeQueue([episode(0)])
    assert queue.draining is False
    queue.draining = True
    assert queue.take(1) == () and len(queue) == 1
    queue.draining = False
    assert len(queue.take(1)) == 1 and queue.take(1) == ()


def test_random_plans_come_out_sorted_also_when_some_are_no_longer_needed():
    chance = random.Random(0)
    plan = [episode(number, calls=chance.randrange(5), prompt_tokens=chance.randrange(1000)) for number in range(200)]
    assert list(EpisodeQueue(plan).take(200)) == longest_first(plan)
    queue, needed = EpisodeQueue(plan), {each.id for each in chance.sample(plan, 100)}
    queue.keep(needed)
    assert list(queue.take(200)) == [each for each in longest_first(plan) if each.id in needed]
