"""Who cares for which replica; starting and replacing them is tested with real actors."""

from cluster.fleet import Fleet
from cluster.runner import NewReplica
from tests.fakes import FakeReplica


def fleet(*replicas: tuple[str, str]) -> Fleet:
    """With replicas (name, node) that are up."""
    made = Fleet(settings=None, tally=None, progress=None)  # none of them is needed to share out replicas
    for name, node in replicas:
        made._give(NewReplica(name, FakeReplica(), 4), node)
    return made


def shares(made: Fleet, *runners: str) -> list[set[str]]:
    return [set(made.in_care_of(runner)) for runner in runners]


def test_a_runner_that_comes_late_gets_its_share_and_near_replicas_first():
    made = fleet(("r0", "n0"), ("r1", "n0"), ("r2", "n1"), ("r3", "n1"))
    made.add_runner("a", "n0")
    assert shares(made, "a") == [{"r0", "r1", "r2", "r3"}]
    made.add_runner("b", "n1")
    assert shares(made, "a", "b") == [{"r0", "r1"}, {"r2", "r3"}]


def test_a_runner_that_lost_its_replicas_gets_some_of_the_others():
    made = fleet()
    made.add_runner("a", "n0")
    made.add_runner("b", "n1")
    for number in range(4):
        made._give(NewReplica(f"r{number}", FakeReplica(), 4), f"n{number % 2}")
    assert shares(made, "a", "b") == [{"r0", "r2"}, {"r1", "r3"}]
    made._take("r0")
    made._take("r2")
    assert sorted(map(len, shares(made, "a", "b"))) == [1, 1]
    assert not made.forsakes("a")


def test_a_runner_is_forsaken_when_there_are_fewer_replicas_than_runners():
    made = fleet(("r0", "n0"))
    made.add_runner("a", "n0")
    made.add_runner("b", "n0")
    assert not made.forsakes("a") and made.forsakes("b")
    made._take("r0")
    assert not made.forsakes("b"), "nobody has one: a new one is on its way"


def test_the_replicas_of_a_dead_runner_go_to_the_others():
    made = fleet(("r0", "n0"), ("r1", "n0"))
    made.add_runner("a", "n0")
    made.add_runner("b", "n0")
    made.remove_runner("a")
    assert shares(made, "b") == [{"r0", "r1"}]
    made.remove_runner("b")
    made.add_runner("c", "n0")
    assert shares(made, "c") == [{"r0", "r1"}]
