"""KidGym, grid tasks for vision-language models, as a suite (games: ``envs.kidgym``)."""

from evals.kidgym.cache import cache_table
from evals.kidgym.replay import ReplayedStep, replay
from evals.kidgym.suite import KidGymSuite

__all__ = ["KidGymSuite", "ReplayedStep", "cache_table", "replay"]
