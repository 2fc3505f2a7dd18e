"""``raycade rescore``: reads the stored replies of a run anew, and leaves the ledger as it is."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cluster.config.plan import make_suite
from cluster.config.stored import stored_sections
from cluster.console import show
from cluster.errors import UserError
from cluster.storage.stored_run import Run, read_runs
from evals.analysis.rescore import changes_table, planned_anew, rescore, rescored_run, rescored_table
from evals.ledger.run_data import RunData
from evals.suite_results import suite_results
from evals.tables import Table


def main(options: argparse.Namespace) -> None:
    """Print the tables."""
    run = Run(options.run_dir)
    show(read_runs([run], lambda: rescored_tables(run, options.overrides, options.turns, options.full)))


def rescored_tables(run: Run, overrides: Sequence[str], turns: int = 10, full: bool = False) -> list[Table]:
    """Old and new success, the turns that are read differently and, if asked for, the new score tables.

    Raises:
        UserError: there is no run, the suite rejects the settings, or it would start a program that only the stored
            configuration names.
    """
    suite = make_suite(stored_sections(run.path, run.config, ["suite"], overrides)["suite"])
    episodes = {episode.id: episode for episode in run.plan}
    if overrides:
        try:
            episodes = planned_anew(suite, episodes)
        except ValueError as error:
            raise UserError(f"{' '.join(overrides)}: {error}") from error
    found = rescore(suite, episodes, _rows(run.data))
    tables = [rescored_table(found), changes_table(found, turns)]
    if full:
        tables += suite_results(suite, rescored_run(found, run.data), "scores")
    return tables


def _rows(run: RunData) -> Iterator[Mapping[str, Any]]:
    for batch in run.batches(["episode_id", "error", "error_kind", "success", "turns"]):
        yield from batch.to_pylist()
