"""The optimal search is exact, wins every game, and is the same everywhere."""

import dataclasses
import functools
import json
import random
from fractions import Fraction
from pathlib import Path

import pytest

from envs.kumo import Action, Game, OptimalSearch, State, Task, generate_tasks, load_domain, memo
from envs.kumo.published.ties import mean_actions
from envs.kumo.search import ACTIONS, TRUTHS
from envs.kumo.tables import HORIZON
from tests.envs.kumo_games import MAIN_DOMAINS, random_game

FIXTURES = Path(__file__).resolve().parents[2] / "../shared/fixtures/kumo/tasks_with_optimum.jsonl"


def value(task: Task, left: frozenset[str], unused: tuple[Action, ...]) -> Fraction:
    """Algorithm 3 as written, on fractions: no memo, no pruning, no folding."""
    if len(left) <= len(task.valid_truths) or not unused:
        return Fraction(0)
    if any(all(truth not in state.rules_out for action in unused for state in action.states) for truth in left):
        return Fraction(0)
    return min(value_of(task, left, unused, action) for action in unused)


def value_of(task: Task, left: frozenset[str], unused: tuple[Action, ...], action: Action) -> Fraction:
    after = [left - set(state.rules_out) for state in action.states]
    rest = tuple(other for other in unused if other is not action)
    total = sum(map(len, after))
    return 1 + sum((Fraction(len(kept), total) * value(task, kept, rest) for kept in after if kept), Fraction(0))


def test_values_equal_brute_force_on_random_games():
    rng = random.Random(11)
    nonzero = 0
    for _ in range(300):
        task = random_game(rng, truths=rng.randint(2, 6), actions=rng.randint(1, 4), states=3)
        search = OptimalSearch(task)
        everything = frozenset(task.truths)
        exact = value(task, everything, task.actions)
        assert search.expected_steps == pytest.approx(float(exact), abs=1e-12)
        assert search.action_values() == pytest.approx(
            {a.name: float(value_of(task, everything, task.actions, a)) for a in task.actions}, abs=1e-12
        )
        nonzero += exact > 1
    assert nonzero > 60


def test_values_equal_brute_force_where_several_truths_are_valid():
    rng = random.Random(12)
    fewer = 0
    for _ in range(150):
        task = random_game(rng, truths=rng.randint(3, 6), actions=rng.randint(1, 4), states=3)
        several = dataclasses.replace(task, also_valid=task.truths[1 : rng.randint(2, len(task.truths) - 1)])
        exact = value(several, frozenset(task.truths), task.actions)
        assert OptimalSearch(several).expected_steps == pytest.approx(float(exact), abs=1e-12)
        fewer += 0 < exact < value(task, frozenset(task.truths), task.actions)
    assert fewer > 15


def test_perfect_play_names_a_valid_truth_as_soon_as_only_valid_ones_are_left():
    fewest = 0
    for task in generate_tasks(load_domain("fantasy"), 8, 10, count=8, valid_truths=3):
        *tests, named = OptimalSearch(task).rollout()
        assert named in task.valid_truths
        assert [Game(task).predict(truth) for truth in task.truths] == [t in task.valid_truths for t in task.truths]
        left = [
            len(task.survivors({test: task.observations[task.position(test)] for test in tests[:taken]}))
            for taken in range(len(tests) + 1)
        ]
        assert all(many > 3 for many in left[:-1]), "no test is taken once only valid truths are left"
        fewest += left[-1] == 3
    assert fewest


def remembered_value(task: Task) -> tuple[float, list[float]]:
    """Algorithm 3 with nothing but a memo, for longer games: the value of the start, and of each first action."""
    everything, unused = (1 << len(task.truths)) - 1, (1 << len(task.actions)) - 1
    kept = [
        [everything & ~sum(1 << task.truths.index(truth) for truth in state.rules_out) for state in action.states]
        for action in task.actions
    ]
    against = [
        sum(1 << action for action, sets in enumerate(kept) if any(not left >> truth & 1 for left in sets))
        for truth in range(len(task.truths))
    ]

    @functools.cache
    def value(left: int, unused: int) -> float:
        if left.bit_count() <= 1 or any(left >> truth & 1 and not mask & unused for truth, mask in enumerate(against)):
            return 0.0
        return min(value_of(left, unused, action) for action in range(len(kept)) if unused >> action & 1)

    def value_of(left: int, unused: int, action: int) -> float:
        after = [left & mask for mask in kept[action]]
        total = sum(map(int.bit_count, after))
        rest = unused & ~(1 << action)
        return 1 + sum(some.bit_count() / total * value(some, rest) for some in after if some)

    return value(everything, unused), [value_of(everything, unused, action) for action in range(len(kept))]


@pytest.mark.slow
def test_values_are_exact_where_the_bounds_look_no_further():
    rng = random.Random(17)
    beyond = 0
    for _ in range(25):
        task = random_game(rng, rng.randint(3, 5), rng.randint(9, 12), states=3, densities=(0.3, 0.4))
        search = OptimalSearch(task)
        exact, first = remembered_value(task)
        assert search.expected_steps == pytest.approx(exact, abs=1e-9)
        assert list(search.action_values().values()) == pytest.approx(first, abs=1e-9)
        against = [sum(any(t in s.rules_out for s in a.states) for a in task.actions) for t in task.truths]
        beyond += min(against) > HORIZON
    assert beyond >= 2, "games whose truths all have more actions against them"


def long_game(rng: random.Random) -> Task:
    """Ten tests that seldom say much: each may leave one or two of four truths, and mostly leaves all."""
    names, table = ("a", "b", "c", "d"), []
    for number in range(10):
        kept = rng.sample(names, rng.choice((1, 1, 2)))
        much = State("much", tuple(name for name in names if name not in kept))
        little = State("little", tuple(rng.sample(names, rng.choice((0, 0, 1)))))
        table.append(Action(f"test {number}", "str", (much, little, State("nothing", ()))))
    return Task("long", names, tuple(table), ("nothing",) * 10, "a")


@pytest.mark.parametrize("seed", [16, 21, 25])
def test_values_of_long_games_are_exact_where_the_bounds_look_no_further(seed):
    task = long_game(random.Random(seed))
    against = [sum(any(t in s.rules_out for s in a.states) for a in task.actions) for t in task.truths]
    assert min(against) > HORIZON, "no bound looks as far as any truth lasts"
    exact, first = remembered_value(task)
    search = OptimalSearch(task)
    assert exact > 4 and search.expected_steps == pytest.approx(exact, abs=1e-9)
    assert list(search.action_values().values()) == pytest.approx(first, abs=1e-9)


@pytest.mark.skipif(not FIXTURES.exists(), reason="needs the published fixtures")
def test_values_equal_the_published_ones():
    rows = [json.loads(line) for line in FIXTURES.read_text().splitlines()]
    assert len(rows) == 12
    for row in rows:
        published, task = row["published_search"], Task.from_json(row)
        search = OptimalSearch(task)
        assert search.expected_steps == pytest.approx(published["expected_steps"], abs=1e-8)
        moves = search.rollout()
        if published.get("q"):
            assert search.action_values() == pytest.approx(published["q"], abs=1e-8)
            optimal = published["optimal_first_actions"]
            assert moves[0] in optimal if optimal else moves[0] == published["first_action_is_prediction"]
        assert len(moves) - 1 in {published["tests_used"], *published.get("tests_used_by_hashseed", {}).values()}
        assert moves[-1] == row["valid_truth"]


def outcomes(task: Task, observed: dict, name: str):
    """Each possible state of a test, what it shows, and its probability by Eq. 2."""
    left = set(task.survivors(observed))
    states = task.actions[task.position(name)].states
    weights = [len(left - set(state.rules_out)) for state in states]
    for state, weight in zip(states, weights, strict=True):
        if weight:
            yield state.value if isinstance(state.value, str) else state.value[0], weight / sum(weights)


def test_the_policy_attains_its_expected_steps_in_every_branch():
    def cost(task, search, observed):
        move = search.best(observed)
        if move in task.truths:
            return 0.0
        return 1 + sum(p * cost(task, search, {**observed, move: shown}) for shown, p in outcomes(task, observed, move))

    for name in MAIN_DOMAINS:
        for task in generate_tasks(load_domain(name), count=3):
            search = OptimalSearch(task)
            assert cost(task, search, {}) == pytest.approx(search.expected_steps, abs=1e-6)


@pytest.mark.parametrize("name", MAIN_DOMAINS)
def test_the_oracle_wins_every_task(name):
    domain = load_domain(name)
    for task in [*generate_tasks(domain, count=10), *generate_tasks(domain, 8, 10, count=1)]:
        *tests, prediction = OptimalSearch(task).rollout()
        game = Game(task)
        for test in tests:
            game.test(test)
        assert game.predict(prediction)
        assert tests, "no task gives its answer away"
        assert len(set(tests)) == len(tests)


def test_bounds_of_the_search_change_no_value_of_hard_tasks():
    """Pinned: a bound taken for a value makes games look shorter."""
    tasks = generate_tasks(load_domain("medical"), 12, 16, count=3)
    found = [OptimalSearch(task).expected_steps for task in tasks]
    assert found == pytest.approx([3.113191, 3.612571, 4.276761], abs=1e-6)


def test_a_hard_task_is_solved():
    task = generate_tasks(load_domain("education"), 12, 16, count=3)[2]
    search = OptimalSearch(task)
    assert 1 < search.expected_steps < 16
    assert search.rollout()[-1] == task.valid_truth


def test_ties_go_to_the_first_action_of_the_task():
    state = (State("yes", ("p",)), State("no", ("q",)))
    task = Task("tie", ("p", "q"), tuple(Action(name, "str", state) for name in "cab"), ("yes", "yes", "yes"), "q")
    assert OptimalSearch(task).rollout() == ("c", "q")
    turned = dataclasses.replace(task, actions=task.actions[::-1])
    assert OptimalSearch(turned).rollout() == ("b", "q")


def test_a_memo_too_small_for_the_game_changes_no_value():
    for task in generate_tasks(load_domain("music"), 9, 12, count=3):
        large, small = OptimalSearch(task), OptimalSearch(task, slots=64)
        assert small.expected_steps == pytest.approx(large.expected_steps, abs=1e-12)
        assert small.rollout() == large.rollout()
        assert small.states_known <= 64 < large.states_known


def test_a_memo_holds_what_it_was_told_asks_for_room_when_half_full_and_overwrites_at_its_limit():
    small = memo.new_memo(8, 16)
    for key in (1, 2, 3, 4, 3):
        memo.store(small, key, key + len(small.keys) / 4)
    assert [memo.look_up(small, key) for key in range(1, 7)] == [3, 4, 5, 6, 0, 0]
    assert small.status.tolist() == [4, 0] and (memo.USED, memo.FULL) == (0, 1)
    memo.store(small, 3, 0.25)
    memo.store(small, 5, 0.5)
    assert small.status.tolist() == [5, 1]
    larger = memo.new_memo(64, small.limit)
    memo.rehash(small, larger)
    assert larger.keys.size == 16 and larger.status.tolist() == [5, 0]
    assert [memo.look_up(larger, key) for key in range(1, 7)] == [3, 4, 0.25, 6, 0.5, 0]
    for key in range(6, 60):
        memo.store(larger, key, float(key))
        assert memo.look_up(larger, key) == key
    assert larger.status[memo.FULL] == 0 and larger.status[memo.USED] == (larger.keys != 0).sum() <= 16


def test_a_truth_that_nothing_can_rule_out_any_more_is_named():
    actions = (
        Action("a", "str", (State("yes", ("p",)), State("no", ()))),
        Action("b", "str", (State("yes", ("q",)), State("no", ()))),
    )
    search = OptimalSearch(Task("due", ("p", "q"), actions, ("no", "yes"), "p"))
    assert search.best({}) == "a"
    assert search.best({"a": "no"}) == "p"
    assert search.best({"a": "yes"}) == "q"


def test_observations_that_contradict_each_other_are_refused():
    actions = (
        Action("a", "str", (State("yes", ("p",)), State("no", ()))),
        Action("b", "str", (State("yes", ("q",)), State("no", ()))),
    )
    search = OptimalSearch(Task("none left", ("p", "q"), actions, ("no", "yes"), "p"))
    with pytest.raises(ValueError, match="rule out every truth"):
        search.best({"a": "yes", "b": "yes"})
    with pytest.raises(ValueError, match="'a' has no outcome 'maybe'"):
        search.best({"a": "maybe"})
    with pytest.raises(KeyError, match="'c' is not an action"):
        search.best({"c": "yes"})


def test_games_beyond_the_search_are_refused_with_their_size():
    for truths, actions in ((TRUTHS + 1, 3), (4, ACTIONS + 1)):
        with pytest.raises(
            ValueError, match=rf"at most {TRUTHS} truths and {ACTIONS} actions, not {truths} and {actions}"
        ):
            OptimalSearch(random_game(random.Random(0), truths=truths, actions=actions, states=2))


def mean_over_ties(task: Task, left: frozenset[str], unused: tuple[Action, ...]) -> Fraction:
    """Tests and prediction if of all tests that attain the value each is taken equally often, on fractions."""
    exact = value(task, left, unused)
    best = [a for a in unused if exact and value_of(task, left, unused, a) == exact]
    shown = dict(zip(task.action_names, task.observations, strict=True))
    after = [
        mean_over_ties(
            task, left - set(a.state_of(shown[a.name]).rules_out), tuple(other for other in unused if other is not a)
        )
        for a in best
    ]
    return 1 + (sum(after, Fraction(0)) / len(after) if after else 0)


def test_perfect_play_over_all_ties_is_averaged():
    names = ("A1", "A2", "B1", "B2", "C1", "C2")
    actions = tuple(Action(name, "str", (State("hit", (name[0],)), State("none", ()))) for name in names)
    for shown in (("none", "hit", "none", "hit"), ("hit", "none", "hit", "none")):
        task = Task("toy", ("A", "B", "C"), actions, (*shown, "none", "none"), "C")
        search, exact = OptimalSearch(task), mean_over_ties(task, frozenset("ABC"), actions)
        assert mean_actions(search) == pytest.approx(float(exact), abs=1e-9)
        assert exact != len(search.rollout())


def test_a_name_that_is_a_test_and_a_truth_ends_no_search_in_a_circle():
    first, second = State("yes", ("B",)), State("no", ())
    actions = (Action("A", "str", (first, second)), Action("C", "str", (State("yes", ("A",)), State("no", ()))))
    for shown, play in ((("yes", "no"), ("A", "A")), (("no", "yes"), ("A", "B"))):
        assert OptimalSearch(Task("toy", ("A", "B"), actions, shown, play[-1])).rollout() == play
