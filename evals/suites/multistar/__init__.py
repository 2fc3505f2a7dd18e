"""MultiStAR and MSEval: staged questions on RAVEN matrices, scored by what a model gives each of the choices."""

from evals.suites.multistar.suite import MultiStarSuite

__all__ = ["MultiStarSuite"]
