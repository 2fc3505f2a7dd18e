"""How many episodes a runner keeps alive."""

import pytest

from cluster.runner.admission import fair_share, free_slots, room


@pytest.mark.parametrize(("capacity", "turns", "starting", "free"), [(44, 0, 0, 44), (44, 30, 4, 10), (8, 7, 3, -2)])
def test_places_are_taken_by_turns_and_by_episodes_that_will_ask(capacity, turns, starting, free):
    assert free_slots(capacity, turns, starting) == free


@pytest.mark.parametrize(
    ("capacity", "free", "ready", "asked"),
    [
        (40, 40, 0, 50),  # what could begin, and a quarter of the capacity to be ready
        (40, 0, 0, 10),
        (40, -7, 0, 10),  # too many alive: the backlog is kept all the same
        (40, 5, 12, 3),
        (40, 1, 10, 1),
        (40, 0, 10, 0),
        (40, 0, 25, 0),
        (40, -7, 9, 1),
        (40, 1, 0, 11),
        (6, 0, 0, 2),
        (0, 0, 0, 0),
    ],
)
def test_a_runner_asks_for_what_could_begin_and_a_backlog(capacity, free, ready, asked):
    assert room(capacity, free, ready) == asked


@pytest.mark.parametrize(
    ("unfinished", "held", "replicas", "all_replicas", "share"),
    [
        (100, 0, 2, 8, 25),
        (100, 20, 2, 8, 5),
        (101, 0, 2, 8, 26),  # rounded up, so that all is given
        (10, 9, 8, 8, 1),
        (10, 10, 8, 8, 0),
        (10, 30, 1, 8, 0),
        (5, 0, 0, 0, 0),  # no replica is up
        (5, 0, 1, 1, 5),
        (5, 0, 1, 2, 3),
    ],
)
def test_a_runner_gets_the_share_of_its_replicas(unfinished, held, replicas, all_replicas, share):
    assert fair_share(unfinished, held, replicas, all_replicas) == share


def test_no_episode_is_left_over_and_none_given_twice():
    for unfinished in range(20):
        shares = [fair_share(unfinished, 0, replicas, 7) for replicas in (1, 2, 4)]
        assert unfinished <= sum(shares) <= unfinished + 2
