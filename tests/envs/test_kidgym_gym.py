"""KidGym as Gymnasium environments."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from envs.kidgym import environment_id, make, plan
from envs.kidgym.tasks import ALL_TASKS


@pytest.mark.parametrize("task", [task.name for task in ALL_TASKS])
def test_gymnasium_s_own_checker_is_content(task):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(f"raycade/KidGym-{task}-L3-v0", render_mode="rgb_array")
        check_env(env.unwrapped, skip_render_check=False)
        env.close()


@pytest.mark.parametrize("seed", [0, 1, 11, 2**40])
def test_an_episode_is_that_of_the_world_of_the_same_seed(seed):
    env = gymnasium.make(environment_id("CL", 2))
    observation, info = env.reset(seed=seed)
    world = make("CL", 2, seed)
    assert (info["goal"], info["actions"], info["frame"]) == (world.goal, world.actions, world.frame)
    assert (info["success"], info["budget"], info["steps"]) == (False, 8, 0)
    assert np.array_equal(observation, world.frame.render())
    rewards = []
    for index in plan(world):
        world.step(index)
        observation, reward, terminated, truncated, info = env.step(index)
        assert np.array_equal(observation, world.frame.render())
        assert observation in env.observation_space
        rewards.append(reward)
    assert rewards == [0.0] * 7 + [1.0]
    assert (terminated, truncated, info["success"], info["actions"]) == (True, False, True, ())


def test_reset_without_a_seed_goes_on_from_the_last_one():
    env = gymnasium.make(environment_id("SO", 3))
    sequences = []
    for _ in range(2):
        goals = [env.reset(seed=5)[1]["frame"]]
        goals += [env.reset()[1]["frame"] for _ in range(3)]
        sequences.append(goals)
    assert sequences[0] == sequences[1]
    assert len({frame.key for frame in sequences[0]}) == 4


def test_the_mask_leaves_the_offered_actions_only_and_others_waste_a_step():
    env = gymnasium.make(environment_id("MDE", 1))
    _, info = env.reset(seed=1)
    assert info["action_mask"].tolist() == [1] + [0] * 7
    assert env.action_space.sample(mask=info["action_mask"]) == 0
    frame = info["frame"]
    _, reward, terminated, truncated, info = env.step(8)
    assert (info["accepted"], info["frame"], info["steps"]) == (False, frame, 1)
    assert (reward, terminated, truncated) == (0.0, False, False)
    while not truncated:
        *_, truncated, info = env.step(8)
    assert info["actions"] == () and not info["action_mask"].any(), "nothing is offered after the end"


@pytest.mark.parametrize(("cell_pixels", "edge"), [(32, 288), (64, 576), (96, 864)])
def test_the_observation_has_the_declared_size(cell_pixels, edge):
    env = gymnasium.make(environment_id("FI", 1), cell_pixels=cell_pixels)
    observation, _ = env.reset(seed=0)
    assert observation.shape == env.observation_space.shape == (edge, edge, 3)
    assert observation.dtype == np.uint8


def test_unknown_ids_and_resolutions_are_errors():
    with pytest.raises(gymnasium.error.Error):
        gymnasium.make("raycade/KidGym-XX-L1-v0")
    with pytest.raises(ValueError, match="unknown resolution of 50 pixels"):
        gymnasium.make(environment_id("FI", 1), cell_pixels=50)
