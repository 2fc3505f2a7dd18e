"""Perfect play under the guarantee equals brute force over all worlds."""

import dataclasses
import itertools
import random
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.kumo import OptimalSearch, exact, generate_tasks, load_domain
from tests.envs.kumo_games import random_game


class Brute:
    """All worlds of a game, one by one: which truths are right, and the state that each test shows."""

    def __init__(self, task):
        self.task, self.worlds = task, []
        for states in itertools.product(*(action.states for action in task.actions)):
            right = frozenset(task.truths).difference(*(state.rules_out for state in states))
            if len(right) == len(task.valid_truths):
                self.worlds.append((right, states))
        alike = Counter(right for right, _ in self.worlds)
        self.weight = {right: Fraction(1, count * len(alike)) for right, count in alike.items()}

    def certain(self, worlds):
        return frozenset.intersection(*(right for right, _ in worlds)) if worlds else frozenset()

    def after(self, worlds, test):
        """The worlds that each outcome of a test leaves, and the probability of that outcome."""
        total = sum(self.weight[right] for right, _ in worlds)
        for state in dict.fromkeys(states[test] for _, states in worlds):
            kept = [world for world in worlds if world[1][test] == state]
            yield state, kept, sum(self.weight[right] for right, _ in kept) / total

    def value_of(self, worlds, unused, test):
        rest = unused - {test}
        return 1 + sum(share * self.value(kept, rest) for _, kept, share in self.after(worlds, test))

    def value(self, worlds, unused):
        if not worlds or self.certain(worlds):
            return Fraction(0)
        return min(self.value_of(worlds, unused, test) for test in unused)


def games(largest=4):
    """Random games, what they show drawn from their worlds; some have several valid truths."""

    def made(seed):
        rng = random.Random(seed)
        size = {"truths": rng.randint(2, largest), "actions": rng.randint(1, 4), "states": 3}
        task = random_game(rng, **size)
        task = dataclasses.replace(task, also_valid=task.truths[1 : rng.choice((1, 1, len(task.truths) - 1))])
        brute = Brute(task)
        if not brute.worlds:
            return None
        right, states = rng.choice(brute.worlds)
        valid = [truth for truth in task.truths if truth in right]
        shown = tuple(state.value for state in states)
        return dataclasses.replace(task, valid_truth=valid[0], also_valid=tuple(valid[1:]), observations=shown), brute

    return st.integers(0, 10**6).map(made).filter(bool)


@settings(max_examples=100, deadline=None)
@given(games(), st.randoms(use_true_random=False))
def test_values_and_certainty_equal_brute_force_over_all_worlds(game, rng):
    task, brute = game
    worlds, unused = brute.worlds, set(range(len(task.actions)))
    for test in rng.sample(sorted(unused), len(unused)):
        taken = [name for place, name in enumerate(task.action_names) if place not in unused]
        assert set(exact.certain(task, taken)) == brute.certain(worlds)
        found = exact.values(task, taken)
        assert bool(found) == (not brute.certain(worlds))
        for name, value in found.items():
            place = task.position(name)
            assert value == pytest.approx(float(brute.value_of(worlds, frozenset(unused), place)), abs=1e-9)
        if found:
            assert min(found.values()) == pytest.approx(float(brute.value(worlds, frozenset(unused))), abs=1e-9)
        shown = task.actions[test].state_of(task.observations[test])
        worlds = next(kept for state, kept, _ in brute.after(worlds, test) if state == shown)
        unused.discard(test)


@settings(max_examples=60, deadline=None)
@given(games())
def test_it_needs_no_more_tests_than_the_published_search_and_is_certain_no_later(game):
    task, brute = game
    published, expected = OptimalSearch(task), Fraction(0)
    for right, states in brute.worlds:
        played = dataclasses.replace(task, observations=tuple(state.value for state in states))
        observed = {}
        while (move := published.best(observed)) not in task.truths:
            observed[move] = played.observations[played.position(move)]
        assert move in right and move in exact.certain(played, observed)
        expected += brute.weight[right] * len(observed)
    assert min(exact.values(task, ()).values(), default=0) <= expected + 1e-9


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(games(5), st.randoms(use_true_random=False))
def test_the_order_of_truths_and_tests_changes_nothing(game, rng):
    task, _ = game
    places = rng.sample(range(len(task.actions)), len(task.actions))
    other = dataclasses.replace(
        task,
        truths=tuple(rng.sample(task.truths, len(task.truths))),
        actions=tuple(task.actions[place] for place in places),
        observations=tuple(task.observations[place] for place in places),
    )
    taken = task.action_names[: rng.randint(0, len(places))]
    assert set(exact.certain(other, taken)) == set(exact.certain(task, taken))
    assert exact.values(other, taken) == pytest.approx(dict(exact.values(task, taken)))


def test_an_answer_may_follow_before_the_published_search_names_it():
    [task] = generate_tasks(load_domain("martial_arts"), 6, 8, 1, seed=7004)
    first, second, named = OptimalSearch(task).rollout()
    assert exact.rollout(task) == (first, named), "what is left must rule out all others"
    assert exact.certain(task, [first]) == (named,) == (task.valid_truth,)
    assert len(task.survivors(task.shown([first]))) > 1 and second


@pytest.mark.slow
def test_certainty_is_told_for_any_size_and_values_up_to_a_size():
    [small] = generate_tasks(load_domain("medical"), 8, 12, 1)
    assert exact.rollout(small)[-1] == small.valid_truth
    [task] = generate_tasks(load_domain("medical"), 12, 16, 1)
    moves = OptimalSearch(task).rollout()
    assert exact.values(task, ()) == {} and exact.certain(task, ()) == ()
    with pytest.raises(ValueError, match="at most 20 truths and tests"):
        exact.rollout(task)
    assert exact.certain(task, moves[:-1]) == (task.valid_truth,)
