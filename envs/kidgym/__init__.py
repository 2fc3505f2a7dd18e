"""KidGym: twelve grid tasks for vision-language models, at three levels each.

    from envs.kidgym import make, plan
    world = make("CL", level=1, seed=7)
    world.goal                  # what has to be done, in words
    world.actions               # the texts offered now, shuffled afresh at every step
    world.frame.render()        # what is seen now, 576x576x3
    world.step(0)               # accepted, success, terminated, truncated
    plan(world)                 # the shortest way to win, as indices into the action lists to come

The same episodes are Gymnasium environments, ``gymnasium.make("raycade/KidGym-CL-L1-v0")``. A task is a subclass of
``World``, made known by ``register_task``; ``docs/kidgym_new_task.md`` writes one.
"""

from envs.kidgym.chance import play_randomly, random_success
from envs.kidgym.env import KidGymEnv
from envs.kidgym.frame import Frame
from envs.kidgym.oracle import fewest_steps, plan, solve
from envs.kidgym.registry import TASKS, environment_id, make, register_task, task_class
from envs.kidgym.scene import Hint, Item
from envs.kidgym.world import CONTINUE, Action, StepResult, World

__all__ = [
    "CONTINUE",
    "TASKS",
    "Action",
    "Frame",
    "Hint",
    "Item",
    "KidGymEnv",
    "StepResult",
    "World",
    "environment_id",
    "fewest_steps",
    "make",
    "plan",
    "play_randomly",
    "random_success",
    "register_task",
    "solve",
    "task_class",
]
