"""KUMO with evidence in place of rule-outs, as a suite of its own (games: ``envs.kumo.likely``)."""

from evals.suites.kumo.likely.suite import KumoLikelySuite

__all__ = ["KumoLikelySuite"]
