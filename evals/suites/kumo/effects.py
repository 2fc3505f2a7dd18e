"""KUMO's effects: what more truths and tests change."""

from __future__ import annotations

from collections.abc import Iterator

from evals.ledger.run_data import RunData
from evals.summary.independent import independent_effects
from evals.summary.paired import effects_tables, failure_notes, success_observations
from evals.tables import Table


def effect_tables(run: RunData) -> Iterator[Table]:
    """Hard minus easy by domain, where a run has both.

    Args:
        run: KUMO's part of a run.
    """
    cell = ("player", "mode", "task")
    hard, easy = (success_observations(run, cell, {"level": level}) for level in ("hard", "easy"))
    return effects_tables(
        "kumo_difficulty_effect",
        "KUMO: hard minus easy",
        ("mode", "domain"),
        ("hard", "easy"),
        independent_effects(hard, easy),
        ("Hard and easy tasks are different games: the two sides are independent.", *failure_notes(run)),
    )
