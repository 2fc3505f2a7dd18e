"""Levels beyond the paper's three: they can be won, drawn and told, grow by their rule, and end for a reason."""

import gymnasium
import pytest

from envs.kidgym import TASKS, environment_id, make, random_success, solve
from envs.kidgym.chance import HARDER_CHANCE, chance_at
from evals.players import OraclePlayer
from evals.suites.kidgym import KidGymSuite
from tests.evals.suites.kidgym.test_kidgym_play import play

HARDER = [
    (name, level, variant)
    for name, task in TASKS.items()
    for variant in task.variants
    for level in task.levels(variant)
    if level > 3
]
AVERAGED = {("CO", 4, "published")}


def test_every_harder_level_has_its_chance():
    assert set(HARDER) == set(HARDER_CHANCE)
    assert chance_at("FI", 3, "balanced") == 1 / 24 and chance_at("SO", 4) is None


@pytest.mark.slow
@pytest.mark.parametrize(("task", "level", "variant"), HARDER)
def test_harder_levels_are_won_within_their_budget_and_drawn(task, level, variant):
    for seed in range(1 if task == "CL" else 4):
        world = make(task, level, seed, variant=variant)
        for action in solve(world):
            assert len(world.ordered) <= world.max_actions == 26
            world.frame.render()
            world.take(action)
        assert world.success


@pytest.mark.slow
@pytest.mark.parametrize(("task", "level", "variant"), [cell for cell in HARDER if cell[0] != "CL"])
def test_the_stored_chance_of_harder_levels_is_exact(task, level, variant):
    if (task, level, variant) in AVERAGED:
        values = {}
        for seed in range(100):
            world = make(task, level, seed)
            if world.target not in values:
                values[world.target] = random_success(world)
        assert len(values) == 2 * level + 1
        mean = sum(values.values()) / len(values)
    else:
        mean = random_success(make(task, level, 5, variant=variant))
    assert mean == pytest.approx(HARDER_CHANCE[task, level, variant])


def test_gymnasium_knows_each_level_of_each_task():
    for name, task in TASKS.items():
        last = len(task.budgets)
        for level in range(1, last + 1):
            assert gymnasium.spec(environment_id(name, level)).kwargs == {"task": name, "level": level}
        assert environment_id(name, last + 1) not in gymnasium.registry


def test_levels_grow_by_their_rule():
    assert [len(make("CL", level, 0).scene) for level in (1, 2, 3, 4)] == [4, 6, 8, 10]
    for level in (4, 5):
        for seed in range(60):  # one in 16 draws food for both columns
            world = make("MDE", level, seed)
            world.step(0)
            assert (len(world.table), len(world.scene)) == (level, 2 * level + 2)
            assert len({sprite for pair in world.table for sprite in pair}) == 2 * level
    turns = {level: {abs(make("PL", level, seed).turn) for seed in range(20)} for level in (2, 3, 4, 5)}
    assert turns == {2: {0}, 3: {1}, 4: {2}, 5: {3}}
    assert "the third position" in make("PL", 5, 0).goal and "the next position" in make("PL", 3, 0).goal


def test_a_level_that_there_is_not_is_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"SO: there are 1, 2, 3 \(the backpack has four slots\)"):
        make("SO", 4, 0)
    with pytest.raises(ValueError, match=r"levels=\[4\]: MA has no level 4, but 1 to 3: locks have three colors"):
        KidGymSuite(tasks=["MA"], levels=[4]).plan()
    with pytest.raises(ValueError, match="MDE, drawn balanced, has no level 4, but 1 to 3"):
        KidGymSuite(tasks=["MDE"], levels=[4], variant="balanced").plan()


def test_harder_levels_are_played_planned_and_known_to_gymnasium():
    suite = KidGymSuite(tasks=["MDE", "PL"], levels=[5], modes=["zero_shot"], episodes=1, variant="published")
    assert all(play(suite, OraclePlayer(), episode).outcome.success for episode in suite.plan())
    assert suite.known_success("MDE", "5") == {"chance": 1 / 12, "perfect play": 1.0}
    assert suite.known_success("FI-balanced", "4") == {"chance": 1 / 24, "perfect play": 1.0}
    assert suite.known_success("SO", "4") == suite.known_success("CL-published", "1") == {}
    environment = gymnasium.make(environment_id("PL", 5))
    assert environment.action_space.n == 26
