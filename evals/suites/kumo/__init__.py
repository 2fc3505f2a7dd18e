"""KUMO, games of elimination, as a suite (games: ``envs.kumo``)."""

from evals.suites.kumo.suite import KumoSuite

__all__ = ["KumoSuite"]
