"""Suites as Gymnasium environments (docs/training.md): ``gymnasium.make("raycade.gymnasium:raycade/KidGym-v0", tasks=["CL"])``.

Gymnasium imports the module that stands before the colon, also in the processes of a vector environment.
"""

from evals.training.gymnasium_env import SuiteEnv, register_suites

__all__ = ["SuiteEnv", "register_suites"]

register_suites()
