"""KidGym, grid tasks for vision-language models, as a suite (games: ``envs.kidgym``)."""

from evals.suites.kidgym.prefix_cache import cache_table
from evals.suites.kidgym.rerender import ReplayedStep, replay
from evals.suites.kidgym.suite import KidGymSuite

__all__ = ["KidGymSuite", "ReplayedStep", "cache_table", "replay"]
