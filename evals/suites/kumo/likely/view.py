"""One game of evidence as plain data: how likely each truth was at each step, and what each choice would have cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from envs.kumo.likely import BayesSearch, LikelyTask
from evals.suites.kumo.likely.chances import read_chances
from evals.suites.kumo.likely.play import regret_of
from evals.view import EpisodeView, default_view


def view_likely(row: Mapping[str, Any], task: LikelyTask, search: BayesSearch) -> EpisodeView:
    """A stored game, step by step.

    Args:
        row: A ledger row as a mapping, ``turns`` included.
        task: What was played.
        search: Of this task.
    """
    plain = default_view(row)
    taken: list[str] = []
    steps = []
    for step in plain.steps:
        facts: dict[str, Any] = {
            "exact chances": _rounded(task.posterior(taken)),
            "expected points lost": _rounded(search.values(taken)),
        }
        best = search.best(taken)
        regret = None if step.decoded is None else regret_of(search, taken, step.decoded)
        if step.decoded in task.test_names:
            taken.append(step.decoded)
            facts["outcome"] = task.outcome(step.decoded)
        elif step.decoded is not None:
            facts["named"] = "right" if step.decoded == task.right else "wrong"
            facts["stated chances"] = _rounded(read_chances(step.reply, task.truths) or {})
        steps.append(dataclasses.replace(step, facts=facts, best=best, regret=regret))
    game = {"right one": task.right, "points that perfect play expects to lose": round(search.expected_cost, 3)}
    return EpisodeView(tuple(steps), {**plain.facts, **game}, regret_unit="points")


def _rounded(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: round(number, 3) for name, number in numbers.items()}
