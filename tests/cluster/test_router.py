import random

import pytest

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


def test_an_episode_returns_to_its_home_replica():
    t = traffic(8, 8, 8)
    homes = {episode: t.ask(f"{episode}-0", episode) for episode in "abcdef"}
    for episode in "abcdef":
        t.end(f"{episode}-0")
    assert {episode: t.ask(f"{episode}-1", episode) for episode in "abcdef"} == homes
    assert t.router.moves == 0


def test_new_episodes_go_to_the_least_loaded_replica():
    t = traffic(8, 8)
    places = [t.ask(f"e{n}") for n in range(8)]
    assert places.count("r0") == places.count("r1") == 4


def test_an_episode_leaves_a_home_that_is_busier_by_a_margin():
    t = traffic(10, 10)
    home = t.ask("a-0", "a")
    t.end("a-0")
    for n in range(10):  # fill the home with turns of others
        t.router._homes[f"x{n}"] = home
        t.ask(f"x{n}-0", f"x{n}")
    assert t.ask("a-1", "a") != home
    assert t.router.moves >= 1


def test_a_replica_gets_a_tenth_more_than_its_batch_and_no_more():
    t = traffic(10)
    granted = [t.ask(f"e{n}") for n in range(20)]
    assert granted.count("r0") == 11
    assert t.router.waiting == 9
    t.end("e0")
    assert t.granted["e11"] == "r0"


def test_queued_turns_are_granted_by_priority_then_in_order():
    t = traffic(1)
    t.ask("inside-0"), t.ask("inside-1")
    t.ask("late", priority=1.0), t.ask("soon", priority=0.0), t.ask("soon too", priority=0.0)
    for ended, expected in (("inside-0", "soon"), ("inside-1", "soon too"), ("soon", "late")):
        t.end(ended)
        assert expected in t.granted


def test_an_idle_replica_steals_queued_turns():
    t = traffic(2)
    for n in range(10):
        t.ask(f"e{n}")
    t.router.add("new", 4)
    assert list(t.granted.values()).count("new") == 5
    assert t.router.waiting == 2


def test_turns_are_queued_while_there_is_no_replica():
    t = traffic()
    assert t.ask("a") is None
    t.router.add("r", 1)
    assert t.granted["a"] == "r"


def test_turns_queued_for_a_lost_replica_are_rerouted_and_their_release_is_harmless():
    t = traffic(1, 1)
    for n in range(8):
        t.ask(f"e{n}")
    on_r0 = [turn for turn, state in t.granted.items() if state == "r0"]
    t.router.remove("r0")
    t.router.add("r0", 1)  # a new incarnation under the old name
    for turn in on_r0:
        t.end(turn)
    assert t.router.loads()["r0"] == (2, 1), "tickets of the lost incarnation must not free slots of the new one"
    assert t.router.sent + t.router.waiting == 6


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


def test_a_late_turn_is_hedged_only_where_a_slot_is_idle():
    t = traffic(2, 2)
    assert t.ask("a") == "r0"
    second = t.router.hedge(t.tickets["a"])
    assert second is not None and second.replica.name == "r1"
    assert t.router.sent == 2
    t.router.release(second)
    assert t.router.sent == 1
    for n in range(3):
        t.ask(f"x{n}")
    assert t.router.hedge(t.tickets["a"]) is None, "every state is taken"


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
