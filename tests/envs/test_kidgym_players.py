"""The oracle wins every episode in the fewest steps; random play wins as often as its exact value says."""

import math
import statistics
from functools import cache

import pytest

from envs.kidgym import make, plan, play_randomly, random_success, solve
from envs.kidgym.chance import CHANCE, CHANGED, published_chance
from envs.kidgym.tasks import ALL_TASKS

pytestmark = pytest.mark.slow

CELLS = [(task.name, level) for task in ALL_TASKS for level in (1, 2, 3)]
FEWEST = {"CL": (4, 8, 12), "SE": (2, 3, 4), "SO": (2, 3, 4), "MA": (3, 5, 7), "FI": (1, 2, 3), "PU": (1, 2, 3)}
FEWEST |= {"PL": (1, 1, 1), "DMA": (3, 5, 7), "MMA": (4, 6, 8), "MDE": (2, 2, 2), "MFI": (2, 3, 4)}


@pytest.mark.parametrize(("task", "level"), CELLS)
def test_the_oracle_wins_within_the_budget_in_the_fewest_steps(task, level):
    for seed in range(1000, 1030):
        world = make(task, level, seed)
        indices = plan(world)
        assert world.steps == 0
        results = [world.step(index) for index in indices]
        assert all(result.accepted for result in results)
        assert world.success
        assert world.steps <= world.budget
        if task == "CO":
            assert 2 <= world.steps <= 1 + level
        else:
            assert world.steps == FEWEST[task][level - 1]


def test_the_oracle_says_so_where_nothing_wins_any_more():
    world = make("MA", 2, 0)
    world.step(15)
    assert plan(world) is None
    spare = make("DMA", 2, 0)
    spare.step(15)
    assert len(solve(spare)) == 5
    over = make("PL", 1, 0)
    over.step(0)
    assert solve(over) is None


def test_the_oracle_plans_from_the_middle_of_an_episode():
    world = make("CL", 2, 3)
    for index in plan(world)[:5]:
        world.step(index)
    assert len(plan(world)) == 3


def few(cell):
    """Fewer seeds where the exact value takes long."""
    return 4 if cell == ("CL", 3) else 40


@pytest.mark.parametrize(("task", "level"), CELLS)
def test_random_play_is_within_three_standard_errors_of_its_exact_value(task, level):
    plays = 10
    seeds = few((task, level))
    wins, expected, variance = 0, 0.0, 0.0
    for seed in range(seeds):
        world = make(task, level, seed)
        chance = random_success(world)
        expected += plays * chance
        variance += plays * chance * (1 - chance)
        wins += sum(play_randomly(world, 100 * seed + play).success for play in range(plays))
    # One win more or less is let pass where wins are so rare that standard errors say little.
    assert abs(wins - expected) <= 3 * math.sqrt(variance) + (expected < 5)


SAMPLED = [(task, level) for task, level in CHANGED if task in ("MA", "DMA", "MMA")]
"""Cells whose episodes differ in their chance without end, so that a mean over many seeds is stored."""


@pytest.mark.parametrize(("task", "level"), [cell for cell in CELLS if cell not in SAMPLED and cell[0] != "CO"])
def test_the_stored_chance_is_that_of_every_episode(task, level):
    for seed in range(few((task, level)) // 2):
        assert random_success(make(task, level, seed)) == pytest.approx(CHANCE[task][level - 1], rel=1e-9)


def counted(level, target):
    """Counting written down from its rules once more, without positions: piles of each size, slots used, sum, steps."""

    @cache
    def value(left, slots, total, steps):
        if steps == 0:
            return 0.0
        chance = float(total == target)
        for size, piles in enumerate(left, 1):
            if piles and slots < 4:
                fewer = tuple(count - (number == size) for number, count in enumerate(left, 1))
                lost = slots == 3 and total + size < target
                chance += piles * (0.0 if lost else value(fewer, slots + 1, total + size, steps - 1))
            else:
                chance += piles * value(left, slots, total, steps - 1)
        return chance / (sum(left) + 1)

    return value((level,) * 3, 0, 0, 5)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_counting_by_number_agrees_with_an_independent_reading_of_its_rules(level):
    values = {}
    for seed in range(60):
        world = make("CO", level, seed)
        values.setdefault(world.target, random_success(world))
        assert values[world.target] == pytest.approx(counted(level, world.target))
    assert len(values) == 2 * level + 1
    assert sum(values.values()) / len(values) == pytest.approx(CHANCE["CO"][level - 1], rel=1e-9)


@pytest.mark.parametrize(("task", "level"), SAMPLED)
def test_the_stored_chance_of_mazes_is_within_its_error_and_not_the_published_games(task, level):
    chances = [random_success(make(task, level, seed)) for seed in range(10**6, 10**6 + 300)]
    error = statistics.stdev(chances) / math.sqrt(len(chances))
    stored = CHANCE[task][level - 1]
    assert abs(statistics.fmean(chances) - stored) < 3.5 * error
    assert abs(stored - published_chance(task, level)) > 3.5 * error, "another game's value would not pass"


def test_only_cured_cells_have_another_chance_than_the_published_game():
    other = {(task, level) for task, level in CELLS if published_chance(task, level) != CHANCE[task][level - 1]}
    assert other == set(CHANGED)
