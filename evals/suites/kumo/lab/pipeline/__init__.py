"""KUMO domains and knowledge books written by a model, read as data, and accepted only if our checks agree.

The stages are ``propose`` (domains), ``configure`` (a domain's truths, tests and rule-outs), ``write`` (a book for a task),
``check`` and ``revise``. Each stage is a run like any other: an episode for each item, a ledger with every attempt.
"""

from evals.suites.kumo.lab.pipeline.suite import KumoPipeline

__all__ = ["KumoPipeline"]
