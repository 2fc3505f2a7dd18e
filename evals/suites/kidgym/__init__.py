"""KidGym, grid tasks for vision-language models, as a suite (games: ``envs.kidgym``)."""

from evals.suites.kidgym.prefix_cache import cache_table
from evals.suites.kidgym.rerender import RerenderedStep, rerender_episode
from evals.suites.kidgym.suite import KidGymSuite

__all__ = ["KidGymSuite", "RerenderedStep", "cache_table", "rerender_episode"]
