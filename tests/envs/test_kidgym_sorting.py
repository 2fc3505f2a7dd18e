"""SO: the backpack gives nothing away, and the rule decides the direction."""

import re
from collections import Counter, defaultdict
from functools import cache

import pytest

from envs.kidgym import make

WEIGHT = ["elephant", "pig", "sheep", "cat", "mouse"]  # heaviest first
SPEED = ["horse", "dog", "chick", "tortoise", "snail"]  # fastest first
EPISODES = 1600


def read(goal):
    """Premise, conclusion, and the ends of the ranking, from the goal's words alone."""
    return re.search(r"the (\w+) the animal is, the (\w+) it is.* from (\w+) to (\w+) by (\w+)", goal).groups()


def reasoned(goal, held):
    """The ranking that follows from the goal, by its words: two signs multiplied."""
    premise, conclusion, first, _, _ = read(goal)
    scale = WEIGHT if premise in ("heavier", "lighter") else SPEED
    more = {"heavier": 1, "lighter": -1, "faster": 1, "slower": -1, "heavy": 1, "light": -1, "fast": 1, "slow": -1}
    ranked = sorted(held, key=scale.index)
    return ranked if more[premise] * more[conclusion] * more[first] > 0 else ranked[::-1]


def names(sprites):
    return [sprite.rpartition("/")[2] for sprite in sprites]


@cache
def games(level):
    """Goal, the backpack's animals from A on, and the right ranking of each game."""
    worlds = [make("SO", level, seed) for seed in range(EPISODES)]
    return [(world.goal, names(item.sprite for item in world.backpack), names(world.answer)) for world in worlds]


def rate(level, policy):
    """Success rate of a policy that maps a goal and the backpack's animals to a ranking."""
    return sum(policy(goal, held) == answer for goal, held, answer in games(level)) / EPISODES


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2, 3])
def test_reasoning_from_the_rule_always_succeeds(level):
    assert rate(level, reasoned) == 1


@pytest.mark.parametrize(("level", "chance"), [(1, 1 / 2), (2, 1 / 6), (3, 1 / 24)])
def test_taking_the_backpack_in_order_is_chance(level, chance):
    # In the published code the animals lie in the order of the solution: A to I, B to II ... always wins.
    assert rate(level, lambda goal, held: held) == pytest.approx(
        chance, abs=4 * (chance * (1 - chance) / EPISODES) ** 0.5
    )


def test_every_rule_and_either_end_first_are_equally_frequent():
    counts = Counter(read(make("SO", 3, seed).goal) for seed in range(EPISODES))
    rules = {(premise, conclusion) for premise, conclusion, *_ in counts}
    assert len(rules) == 8
    assert len(counts) == 16
    assert all(EPISODES / 16 * 0.6 < count < EPISODES / 16 * 1.4 for count in counts.values())


@pytest.mark.parametrize("level", [1, 2, 3])
def test_without_the_rule_the_direction_is_a_coin_flip(level):
    """Whoever does not read the rule sees the animals and the question only; given these, both directions are equal.

    In the published code the most extreme animal in the rule's premise always comes first, so that a fixed way to rank
    (heaviest or fastest first where the question asks so) wins without the rule. Here no such way does better than half,
    which is what knowing the animals' order without knowing its direction is worth, at level 1 no more than chance.
    """
    ways = {"most first": lambda goal: 1, "least first": lambda goal: -1}
    ways["as asked"] = lambda goal: 1 if read(goal)[2] in ("fast", "heavy") else -1
    ways["by the premise"] = lambda goal: 1 if read(goal)[0] in ("heavier", "faster") else -1
    ways["by the conclusion"] = lambda goal: 1 if read(goal)[1] in ("heavier", "faster") else -1

    def ranking(way):
        def policy(goal, held):
            ranked = sorted(held, key=(WEIGHT if held[0] in WEIGHT else SPEED).index)
            return ranked if way(goal) > 0 else ranked[::-1]

        return policy

    for name, way in ways.items():
        assert rate(level, ranking(way)) == pytest.approx(0.5, abs=0.05), name


def test_the_best_of_all_strategies_that_do_not_see_the_rule_wins_half():
    """Exactly, not by sampling: group the sixteen kinds of goals by what is left of them without the rule."""
    directions = defaultdict(Counter)
    seen = {}
    for seed in range(EPISODES):
        world = make("SO", 1, seed)
        kind = read(world.goal)
        scale = WEIGHT if kind[0] in ("heavier", "lighter") else SPEED
        seen[kind] = names(world.answer) == sorted(names(world.answer), key=scale.index)
    for (_, _, first, last, asked), descending in seen.items():
        directions[first, last, asked][descending] += 1
    assert len(directions) == 4
    assert all(counts == {True: 2, False: 2} for counts in directions.values())
