"""Checks to run in your own tests."""

from cluster.engines.testing import check_engine
from evals.testing import check_suite

__all__ = ["check_engine", "check_suite"]
