"""One or several runs to tables and figures; pure, on partial ledgers too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow.compute as pc

from envs.kumo import Domain
from evals.figures import Figure
from evals.ledger.run_data import RunData
from evals.report.joint import relabeled
from evals.suite import Suite, built_in_names
from evals.suites.kumo.lab.analysis.association import Association
from evals.suites.kumo.lab.analysis.correlation import (
    Correlation,
    correlation_table,
    correlations,
    measured_scores,
    published_scores,
    read_scores,
)
from evals.suites.kumo.lab.analysis.counts import counts_table, optimal_tests, usage_table
from evals.suites.kumo.lab.analysis.figures import analysis_figures
from evals.suites.kumo.lab.analysis.graphs import Communities, communities_of, graph_table, signature
from evals.suites.kumo.lab.analysis.ranking import category_table, ranking_table
from evals.suites.kumo.lab.analysis.structure import structure_associations, structure_table
from evals.suites.kumo.repeats import Run, join_runs
from evals.suites.kumo.suite import KumoSuite
from evals.tables import Table


@dataclass(frozen=True)
class OpenedRun:
    """A run with its name and its suite."""

    name: str
    run: RunData
    suite: Suite


@dataclass(frozen=True)
class Analysis:
    """What was found."""

    played: Sequence[Run]
    """KUMO's runs, of all players."""
    ranked: Sequence[Run]
    """Those of the players that domains are ranked by: models, or whoever played if no model did."""
    domains: Sequence[Domain]
    signatures: dict[str, str]
    """Of each game."""
    correlations: Sequence[Correlation]

    @property
    def tables(self) -> list[Table]:
        """All tables that have a row."""
        categories = {domain.name: domain.category for domain in self.domains}
        found = [
            ranking_table(self.ranked, categories),
            category_table(self.played, categories),
            counts_table(optimal_tests(self.played)),
            graph_table(self.graphs),
            structure_table(self._structure),
            correlation_table(self.correlations),
            usage_table(self.played),
        ]
        return [table for table in found if table.rows]

    @property
    def figures(self) -> list[Figure]:
        """All figures that there is something to draw for."""
        return [*analysis_figures(optimal_tests(self.played), self.graphs, self._structure, self.correlations)]

    @cached_property
    def graphs(self) -> list[Communities]:
        """Of each domain."""
        return [communities_of(domain) for domain in self.domains]

    @cached_property
    def _structure(self) -> dict[tuple[str, str], Association | None]:
        return structure_associations(self.played, self.signatures)


def analyze(opened: Sequence[OpenedRun], scores: Path | None = None) -> Analysis:
    """Analyze the KUMO part of runs; their other parts are what it is correlated with.

    Args:
        opened: The runs; of several that one player played, each counts as a player of its own.
        scores: A file of scores at other benchmarks (``read_scores``).

    Raises:
        ValueError: no run has an episode of KUMO, or ``scores`` cannot be read.
    """
    built_in = {name for one in opened for name in built_in_names(one.suite)}
    labeled = relabeled({one.name: one.run for one in opened}, built_in)
    played: list[Run] = []
    domains: dict[str, Domain] = {}
    signatures: dict[str, str] = {}
    others: list[tuple[Suite, RunData]] = []
    for one in opened:
        for suite in one.suite.parts:
            run = labeled[one.name].of(suite.name)
            if not isinstance(suite, KumoSuite):
                others.append((suite, run))
                continue
            games: dict[str, Run] = {}
            for each in join_runs(run.plan, run.episodes()):
                if each.status:
                    played.append(each)
                    games[each.game] = each
            for game, each in games.items():
                puzzle = suite.puzzle(each.domain, each.difficulty, each.index)
                signatures[game] = signature(puzzle.task)
                domains[each.domain] = puzzle.domain
    if not played:
        raise ValueError("no episode of KUMO has been played in these runs")
    built_in_here = {
        player
        for run in labeled.values()
        for player in pc.unique(run.plan["player"]).to_pylist()
        if run.stored_name(player) in built_in
    }
    models = [run for run in played if run.player not in built_in_here]
    known = [*measured_scores(played, others), *published_scores()]
    if scores:
        known += read_scores(scores)
    # Without a model, domains are ranked by whoever played.
    ranked = models or played
    return Analysis(played, ranked, [*domains.values()], signatures, [*correlations(known)])
