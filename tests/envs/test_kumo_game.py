"""The game plays by its rules, as a plain object and in Gymnasium."""

import dataclasses
import re

import gymnasium
import numpy as np
import pytest
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.utils.env_checker import check_env

from envs.kumo import Action, Game, KumoEnv, State, Task, generate_tasks, load_domain
from tests.envs.kumo_games import made_domain


@pytest.fixture
def tasks():
    return generate_tasks(made_domain(7), count=5)


def test_a_test_shows_the_same_each_time_and_costs_a_step_each_time(tasks):
    game = Game(tasks[0])
    name = tasks[0].action_names[2]
    assert game.test(name) == game.test(name) == tasks[0].observation_text(name)
    assert game.steps == 2
    assert list(game.observed) == [name]


def test_naming_another_truth_loses_and_ends_the_game(tasks):
    game = Game(tasks[0])
    wrong = next(truth for truth in tasks[0].truths if truth != tasks[0].valid_truth)
    assert game.predict(wrong) is False
    for move in (lambda: game.predict(tasks[0].valid_truth), lambda: game.test(tasks[0].action_names[0])):
        with pytest.raises(ValueError, match="the game is over"):
            move()
    assert not game.won


def test_each_of_several_valid_truths_wins(tasks):
    first, second, third, *_ = tasks[0].truths
    task = dataclasses.replace(tasks[0], valid_truth=first, also_valid=(second,))
    assert [Game(task).predict(name) for name in (first, second, third)] == [True, True, False]


def test_names_that_the_task_does_not_have_are_refused_and_cost_nothing(tasks):
    game = Game(tasks[0])
    with pytest.raises(KeyError, match="'palm reading' is not an action of this task"):
        game.test("palm reading")
    with pytest.raises(KeyError, match="'bad luck' is not a truth of this task"):
        game.predict("bad luck")
    assert game.steps == 0


def test_numbers_are_shown_with_their_unit():
    shown = {
        task.observation_text(action.name)
        for task in generate_tasks(load_domain("medical"), count=20)
        for action in task.actions
        if action.unit
    }
    assert any(re.fullmatch(r"\d+(\.\d+)? mg/dL", text) for text in shown)


def test_the_environment_passes_gymnasiums_checker(tasks):
    check_env(gymnasium.make("raycade/KumoTasks-v0", tasks=tasks).unwrapped, skip_render_check=False)
    check_env(KumoEnv(tasks, render_mode="ansi"))


def test_the_environment_rewards_and_terminates_on_the_valid_truth_only(tasks):
    env = KumoEnv(tasks)
    for index, task in enumerate(tasks):
        for truth in task.truths:
            _, info = env.reset(options={"index": index})
            assert info["task"] == task
            *_, reward, terminated, truncated, info = env.step(np.int64(6 + task.truths.index(truth)))
            assert (reward, terminated, truncated) == (float(truth == task.valid_truth), True, False)


@pytest.mark.parametrize("action", [-1, 10, 99])
def test_the_environment_refuses_actions_that_it_does_not_have(tasks, action):
    env = KumoEnv(tasks)
    env.reset(options={"index": 0})
    with pytest.raises(InvalidAction, match=rf"no action {action}: there are 0 to 9"):
        env.step(np.int64(action))
    assert env.game.steps == 0


def test_the_environment_is_stepped_between_reset_and_the_end_only(tasks):
    env = KumoEnv(tasks, budget=2)
    with pytest.raises(ResetNeeded, match="reset"):
        env.step(np.int64(0))
    for steps in ([0, 0], [6], [0, 9]):  # out of steps, or a truth is named
        env.reset()
        ends = [env.step(np.int64(action))[2:4] for action in steps]
        assert [any(each) for each in ends] == [False] * (len(steps) - 1) + [True]
        with pytest.raises(ResetNeeded, match="reset"):
            env.step(np.int64(0))


def test_the_environment_shows_rules_outcomes_and_numbers():
    look = Action("look", "str", (State("red", ("a",)), State("blue", ())))
    weigh = Action("weigh", "float", (State((0, 5), ("b", "c")), State((5.5, 9), ())), "g")
    task = Task("hand", ("a", "b", "c"), (look, weigh), ("blue", 2.5), "a")
    env = KumoEnv([task], budget=3, render_mode="ansi")
    assert env.action_space.n == 5 and env.observation_space["outcome"].nvec.tolist() == [3, 3]
    observation, info = env.reset()
    seen = [(observation, 0.0, False, False, info)]
    seen += [env.step(np.int64(place)) for place in (1, 0, 1)]
    rules = [[[1, 0, 0], [0, 0, 0]], [[0, 1, 1], [0, 0, 0]]]
    assert all(each[0] in env.observation_space and each[0]["rules_out"].tolist() == rules for each in seen)
    told = [(each[0]["outcome"].tolist(), each[0]["number"].tolist(), *each[1:4], each[4]["text"]) for each in seen]
    weighed = ([0, 2.5], 0.0, False)
    assert told == [
        ([0, 0], [0, 0], 0.0, False, False, ""),
        ([0, 1], *weighed, False, "2.5 g"),
        ([2, 1], *weighed, False, "blue"),
        ([2, 1], *weighed, True, "2.5 g"),
    ]
    env.reset()
    env.step(np.int64(1))
    *_, info = env.step(np.int64(3))
    assert info == {"task": task, "text": "wrong"}
    assert env.render() == "Truths: a, b, c\nActions: look, weigh\nweigh: 2.5 g\nNamed: b"
    assert KumoEnv([task]).render() is None


def test_the_same_seed_draws_the_same_games(tasks):
    def drawn(seed):
        env = KumoEnv(tasks)
        first = env.reset(seed=seed)[1]["task"].index
        return [first] + [env.reset()[1]["task"].index for _ in range(10)]

    assert drawn(3) == drawn(3)
    assert len(set(drawn(3))) > 1


def test_an_environment_needs_tasks_of_one_size(tasks):
    with pytest.raises(ValueError, match="tasks of one size"):
        KumoEnv([*tasks, *generate_tasks(made_domain(7), actions=5, count=1)])
