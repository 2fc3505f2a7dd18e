import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.runner.router import Router, Ticket


class Traffic:
    """Keeps the tickets of a router and who was granted where."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.granted: dict[str, str] = {}
        self.tickets: dict[str, Ticket] = {}

    def ask(self, turn: str, affinity: str | None = None, **options) -> str | None:
        def note(replica: str) -> None:
            self.granted[turn] = replica

        self.tickets[turn] = self.router.request(affinity or turn, note, **options)
        return self.granted.get(turn)

    def end(self, turn: str) -> None:
        self.router.release(self.tickets.pop(turn))
        self.granted.pop(turn, None)


def traffic(*batches: int, policy="sticky") -> Traffic:
    router = Router(policy)
    for number, batch in enumerate(batches):
        router.add(f"r{number}", batch)
    return Traffic(router)


@given(
    priorities=st.lists(st.integers(0, 9), min_size=8, max_size=14), canceled=st.sets(st.integers(0, 13), max_size=3)
)
def test_queued_turns_are_granted_by_priority_then_in_order_whatever_was_canceled(priorities, canceled):
    t = traffic(1)
    t.ask("inside-0"), t.ask("inside-1")
    for number, priority in enumerate(priorities):
        t.ask(str(number), priority=float(priority))
    for number in canceled & {*range(len(priorities))}:
        t.end(str(number))
    left = [str(number) for number in range(len(priorities)) if number not in canceled]
    t.end("inside-0")
    for expected in sorted(left, key=lambda turn: priorities[int(turn)]):
        assert sorted(t.granted) == sorted([expected, "inside-1"])
        t.end(expected)


@pytest.mark.parametrize("batches", [(1, 10), (10, 1)])
def test_turns_are_stolen_from_the_longest_queue(batches):
    t = traffic(*batches, policy="least_loaded")
    for n in range(35):
        t.ask(str(n))

    def queued(replica):
        return sum(ticket.replica.name == replica and not ticket.has_slot for ticket in t.tickets.values())

    short, long = sorted(("r0", "r1"), key=queued)
    before = queued(short), queued(long)
    assert before[0] > 0 and before[0] + 4 < before[1]
    t.router.add("new", 3)
    assert (queued(short), queued(long)) == (before[0], before[1] - 4)


def test_turns_are_queued_while_there_is_no_replica():
    t = traffic()
    assert t.ask("a") is None
    t.router.add("r", 1)
    assert t.granted["a"] == "r"


def test_an_exclusive_turn_has_a_replica_to_itself():
    t = traffic(4)
    t.ask("a"), t.ask("b")
    assert t.ask("suspect", exclusive=True, priority=-1.0) is None
    assert t.ask("c") is None, "nothing new enters while the replica drains"
    t.end("a"), t.end("b")
    assert t.granted["suspect"] == "r0" and "c" not in t.granted
    t.end("suspect")
    assert t.granted["c"] == "r0"


def test_a_turn_canceled_in_the_queue_leaves_no_trace():
    t = traffic(1)
    for n in range(3):
        t.ask(f"e{n}")
    t.end("e2")
    t.end("e0"), t.end("e1")
    assert (t.router.sent, t.router.waiting) == (0, 0)
    stranded = traffic()
    stranded.ask("a")
    stranded.end("a")
    assert stranded.router.waiting == 0


@pytest.mark.parametrize("policy", ["sticky", "least_loaded", "round_robin"])
def test_nothing_is_lost_or_granted_twice_under_random_traffic(policy):
    chance = random.Random(1)
    t = traffic(3, 5, policy=policy)
    live, asked, ended, names = [], 0, 0, ["r0", "r1"]
    for step in range(3000):
        draw = chance.random()
        if draw < 0.5:
            t.ask(f"t{step}", f"e{chance.randrange(40)}", exclusive=chance.random() < 0.02)
            live.append(f"t{step}")
            asked += 1
        elif draw < 0.96 and live:
            t.end(live.pop(chance.randrange(len(live))))
            ended += 1
        elif draw < 0.98 and names:
            name = names.pop()
            t.router.remove(name)
            for turn in [turn for turn in live if t.granted.get(turn) == name]:
                t.end(turn)
                live.remove(turn)
                ended += 1
        elif len(names) < 3:
            names.append(f"r{step}")
            t.router.add(names[-1], 4)
        assert t.router.sent + t.router.waiting == asked - ended
        assert t.router.sent <= t.router.capacity
    t.router.add("one more", 4)
    while live:
        granted = [turn for turn in live if turn in t.granted]
        assert granted, "everything is granted in the end"
        for turn in granted:
            t.end(turn)
            live.remove(turn)


@pytest.mark.parametrize("policy", ["sticky", "least_loaded"])
def test_a_replica_that_lost_a_hedge_gets_fewer_requests(policy):
    t = traffic(4, 4, policy=policy)
    assert t.ask("a-0", "a") == "r0"
    second = t.router.hedge(t.tickets["a-0"])
    t.router.hedge_won(t.tickets["a-0"], second)
    t.router.release(second)
    t.end("a-0")
    assert t.ask("a-1", "a") == "r1"
    others = [t.ask(f"x{n}") for n in range(3)]
    assert others == ["r1"] * 3, "a whole batch is given elsewhere first"
    assert "r0" in [t.ask(f"y{n}") for n in range(6)], "but it is not shut out"


# --- exact counts, small enough to work out by hand ---


def test_round_robin_goes_around_and_leaves_what_waits():
    t = traffic(2, 2, 2, policy="round_robin")
    assert [t.ask(str(n), "same") for n in range(6)] == ["r1", "r2", "r0", "r1", "r2", "r0"]
    for n in range(6, 12):
        t.ask(str(n), "same")  # one more each fits, then one waits at each
    assert t.router.waiting == 3 and t.router.sent == 9
    for turn in [turn for turn, replica in t.granted.items() if replica == "r0"]:
        t.end(turn)
    assert t.router.waiting == 2 and t.router.moves == 0, "another's queue is not taken over"


def test_least_loaded_asks_the_idlest_wherever_an_episode_was():
    t = traffic(4, 4, policy="least_loaded")
    assert [t.ask(str(n), "same") for n in range(4)] == ["r0", "r1", "r0", "r1"]
    assert t.router.moves == 0 and not t.router._homes


def test_least_loaded_takes_over_whatever_waits():
    t = traffic(1, 1, policy="least_loaded")
    for n in range(5):
        t.ask(str(n))
    assert t.router.waiting == 1
    [waiting] = t.tickets.keys() - t.granted.keys()
    other = next(turn for turn, replica in t.granted.items() if replica != t.tickets[waiting].replica.name)
    name = t.granted[other]
    t.end(other)
    assert t.granted[waiting] == name and t.router.moves == 1


def test_an_episode_stays_until_its_home_is_busier_by_more_than_the_margin():
    t = traffic(20, 20)
    t.ask("a-0", "a")
    for n in range(3):
        t.router._homes[f"x{n}"] = "r0"
    assert [t.ask(f"x{n}-0", f"x{n}") for n in range(2)] == ["r0", "r0"]
    assert t.ask("a-1", "a") == "r0", "busier by 3/20 is within the margin"
    assert t.ask("a-2", "a") == "r1" and t.router.moves == 1
    assert t.ask("a-3", "a") == "r1" and t.router.moves == 1, "where it went is its home now"
    t.router._homes["y"] = "r0"
    for n in range(3):
        t.ask(f"y-{n}", "y")
    assert t.router.moves == 2


@pytest.mark.parametrize(("batch", "stay"), [(1, 1), (2, 1), (4, 1), (10, 1), (20, 3)])
def test_a_home_may_be_busier_by_one_request_however_small_its_batch(batch, stay):
    t = traffic(batch, 20)
    t.router._homes.update({"a": "r0", "b": "r0"})
    for n in range(stay):
        assert t.ask(f"b-{n}", "b") == "r0"
    t.ask("a-0", "a")
    assert t.tickets["a-0"].replica.name == "r0"
    assert t.ask("a-1", "a") == "r1"


def test_every_move_counts_those_of_queues_too():
    t = traffic(2)
    for n in range(9):
        t.ask(str(n), "a")
    assert (t.router.sent, t.router.waiting, t.router.moves) == (3, 6, 0)
    t.router.add("r1", 2)
    # loads: 9/2 against 0/2, then 8/2 against 1/2, 7/2 against 2/2; then r1 is full
    assert (t.router.sent, t.router.waiting, t.router.moves) == (6, 3, 3)
    assert t.router._homes["a"] == "r1", "the episode's home is where its turn went"


@pytest.mark.parametrize(("batch", "ahead", "moves"), [(20, 2, 0), (20, 3, 1), (4, 1, 1)])
def test_a_queue_is_taken_over_only_if_it_is_longer_by_more_than_the_margin(batch, ahead, moves):
    t = traffic(batch, batch)
    full = t.router.capacity
    for n in range(full):
        t.router._homes.update({"a": "r0", "b": "r1"})
        t.ask(f"{n}", "ab"[n % 2])
    for n in range(ahead):
        t.router._homes["a"] = "r0"
        t.ask(f"more {n}", "a")
    assert (t.router.sent, t.router.waiting, t.router.moves) == (full, ahead, 0)
    t.end("1")  # 20 slots: r1 has a load of 21/20, r0 one of 24/20 or 25/20
    assert t.router.moves == moves


def test_by_default_turns_are_sticky_equal_and_share_a_replica():
    router = Router()
    router.add("r0", 1)
    first, second = (router.request("a", lambda name: None) for _ in range(2))
    assert router.policy == "sticky" and first.priority == second.priority == 0
    assert first.has_slot and second.has_slot and not (first.exclusive or second.exclusive)


def test_a_replica_that_left_takes_its_counts_along():
    t = traffic(4, 8)
    for n in range(6):
        t.ask(str(n))
    assert t.router.capacity == 5 + 9 and t.router.replicas == ["r0", "r1"]
    sent, batch = t.router.loads()["r0"]
    assert (sent, batch) == (2, 4)
    t.router.remove("r0")
    t.router.remove("r0")
    assert (t.router.capacity, t.router.sent, t.router.replicas) == (9, 6 - sent, ["r1"])
    for turn in list(t.tickets):
        t.end(turn)
    assert (t.router.sent, t.router.waiting) == (0, 0)


@given(priorities=st.lists(st.integers(0, 9), min_size=5, max_size=12))
def test_the_queue_of_a_replica_that_left_goes_to_the_others_by_priority(priorities):
    t = traffic(1, policy="round_robin")  # which never takes over what waits elsewhere
    t.ask("inside-0"), t.ask("inside-1")
    for number, priority in enumerate(priorities):
        t.ask(str(number), priority=float(priority))
    t.router.add("r1", 3)
    assert len(t.granted) == 2
    t.router.remove("r0")
    by_priority = sorted(range(len(priorities)), key=lambda number: priorities[number])
    assert list(t.granted)[2:] == [str(number) for number in by_priority[:4]], "in this order, as many as have room"


def test_a_replica_that_joins_again_under_its_name_begins_empty():
    t = traffic(2)
    for n in range(5):
        t.ask(str(n))
    old = t.tickets["0"].replica
    t.router.add("r0", 4)
    assert not t.router.holds(old)
    assert (t.router.capacity, t.router.sent, t.router.waiting) == (5, 2, 0), (
        "what waited is inside, what was sent is lost"
    )
    for turn in list(t.tickets):
        t.end(turn)
    assert t.router.loads() == {"r0": (0, 4)}


def late_and_hedged(t: Traffic, turn: str) -> Ticket:
    second = t.router.hedge(t.tickets[turn])
    assert second is not None
    return second


def test_a_hedge_takes_a_slot_at_the_idlest_other_replica():
    t = traffic(8, 8, 8)
    t.router._homes.update({"a": "r0", "b": "r1"})
    assert t.ask("a-0", "a", priority=-3.0) == "r0" and t.ask("b-0", "b") == "r1"
    late = t.tickets["a-0"]
    second = late_and_hedged(t, "a-0")
    assert second.replica.name == "r2" and second.has_slot
    assert (second.priority, second.affinity, second.granted) == (late.priority, late.affinity, late.granted)
    assert second.order > late.order
    third = late_and_hedged(t, "a-0")
    assert third.replica.name == "r1", "of equals the first"
    assert t.router.loads() == {"r0": (1, 8), "r1": (2, 8), "r2": (1, 8)} and t.router.sent == 4
    t.router.release(second)
    t.router.release(third)
    assert t.router.sent == 2


def test_nothing_is_hedged_on_a_replica_whose_batch_is_full():
    t = traffic(4, 2)
    t.router._homes.update({"late": "r0", "a": "r1", "b": "r1"})
    t.ask("late"), t.ask("a"), t.ask("b")
    assert t.router.loads()["r1"] == (2, 2)
    assert t.router.hedge(t.tickets["late"]) is None, "its third place only keeps the batch full"
    t.end("b")
    late_and_hedged(t, "late")


def test_nothing_is_hedged_on_a_replica_that_a_suspect_has_or_waits_for():
    t = traffic(4, 4)
    t.router._homes.update({"a": "r0", "b": "r1", "suspect": "r1"})
    t.ask("a"), t.ask("b")
    assert t.ask("suspect", exclusive=True) is None
    assert t.router.hedge(t.tickets["a"]) is None, "it drains"
    t.end("b")
    assert t.granted["suspect"] == "r1"
    assert t.router.hedge(t.tickets["a"]) is None, "it serves the suspect alone"
    t.end("suspect")
    late_and_hedged(t, "a")


@pytest.mark.parametrize("winner_left", [False, True])
def test_the_replica_that_answered_first_becomes_the_episodes_home(winner_left):
    t = traffic(8, 8, 8)
    t.router._homes["a"] = "r0"
    t.ask("a-0", "a")
    late, second = t.tickets["a-0"], late_and_hedged(t, "a-0")
    assert second.replica.name == "r1"
    if winner_left:
        t.router.remove("r1")
    t.router.hedge_won(late, second)
    t.router.hedge_won(late, second)
    assert t.router._homes["a"] == ("r0" if winner_left else "r1")
    assert late.replica.penalty == 2.0, "it adds up"
    t.router.release(second)
    t.end("a-0")
    assert t.ask("a-1", "a") == ("r2" if winner_left else "r1")


def test_a_late_replica_that_left_is_not_asked_less():
    t = traffic(8, 8)
    t.router._homes["a"] = "r0"
    t.ask("a-0", "a")
    late, second = t.tickets["a-0"], late_and_hedged(t, "a-0")
    t.router.remove("r0")
    t.router.hedge_won(late, second)
    assert late.replica.penalty == 0 and t.router._homes["a"] == "r1"


def test_only_so_many_homes_are_remembered_the_latest_asked(monkeypatch):
    monkeypatch.setattr("cluster.runner.router.HOMES_KEPT", 3)
    t = traffic(8)
    for number, name in enumerate("abcadb"):  # "a" is asked again before "d" comes
        t.ask(str(number), name)
        t.end(str(number))
    assert list(t.router._homes) == ["a", "d", "b"]


def test_the_ranking_gives_the_smallest_however_often_measures_change():
    from cluster.runner.router import _Ranking, _ReplicaState

    chance = random.Random(1)
    states = [_ReplicaState(str(number), 10, number) for number in range(4)]
    ranking = _Ranking(lambda state: state.sent)
    for state in states:
        ranking.update(state)
    longest = 0
    for step in range(300):
        state = chance.choice(states)
        state.sent = chance.randrange(5)
        ranking.update(state)
        longest = max(longest, len(ranking._heap))
        if len(ranking._heap) == len(states) or step == 299:
            assert ranking.first() is min(states, key=lambda each: (each.sent, each.number))
    assert longest == 16 + 4 * 4, "outdated entries are dropped when they are too many"
    before = len(ranking._heap)
    ranking.update(ranking.first())
    assert len(ranking._heap) <= before, "what has not changed is not entered again"
    first = ranking.first()
    ranking.discard(first)
    ranking.discard(first)
    assert ranking.first() is min((each for each in states if each is not first), key=lambda s: (s.sent, s.number))
