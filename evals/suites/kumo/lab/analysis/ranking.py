"""Which domains and categories are hard, over all players (paper, Figure 3)."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy.stats import rankdata

from evals.suites.kumo.repeats import RELATIVE, Run, groups_of, mean_of, share_of
from evals.tables import Cell, Table


def ranking_table(runs: Sequence[Run], categories: Mapping[str, str]) -> Table:
    """Domains by the mean success of all players, the hardest first.

    Args:
        runs: Those that were played, of the players that count.
        categories: Of each domain.
    """
    rows: list[tuple[Cell, ...]] = []
    notes = []
    for (difficulty,), here in groups_of(runs, lambda run: (run.difficulty,)).items():
        shares = _shares(here)
        order = sorted(shares, key=lambda domain: (statistics.fmean(shares[domain].values()), domain))
        for rank, domain in enumerate(order, 1):
            members = [run for run in here if run.domain == domain]
            won = shares[domain].values()
            rows.append(
                (
                    *(difficulty, rank, domain, categories.get(domain), len({run.game for run in members})),
                    *(statistics.fmean(won), min(won), max(won)),
                    mean_of(members, lambda run: run.relative_actions, RELATIVE).mean,
                    _mean_optimum(members),
                )
            )
        if agreement := _agreement(shares):
            notes.append(f"{difficulty}: {agreement}")
    return Table(
        name="kumo_domain_ranking",
        title="KUMO: domains, the hardest first",
        columns=(
            *("difficulty", "rank", "domain", "category", "tasks", "success", "least", "most"),
            *("relative actions", "optimal actions"),
        ),
        rows=tuple(rows),
        notes=(
            "success: mean over players; least and most: of one player. optimal actions: tests and prediction of perfect "
            "play, mean over tasks.",
            *notes,
        ),
        section="diagnostics",
        brief=("difficulty", "rank", "domain", "success", "least", "most", "relative actions", "optimal actions"),
    )


def category_table(runs: Sequence[Run], categories: Mapping[str, str]) -> Table:
    """Success, actions, parse errors and tokens of each player by category.

    Args:
        runs: Those that were played.
        categories: Of each domain.
    """

    def key(run: Run) -> tuple[str, str, str]:
        return run.difficulty, run.player, categories.get(run.domain) or "none"

    groups = groups_of(runs, key)
    rows: list[tuple[Cell, ...]] = []
    for each in sorted(groups):
        members = groups[each]
        rows.append(
            (
                *each,
                len({run.domain for run in members}),
                len(members),
                share_of(members, lambda run: run.success),
                mean_of(members, lambda run: run.relative_actions, RELATIVE).mean,
                share_of(members, lambda run: run.parse_failed).mean,
                mean_of(members, lambda run: run.tokens).mean,
            )
        )
    return Table(
        name="kumo_category_success",
        title="KUMO by category",
        columns=(
            *("difficulty", "player", "category", "domains", "runs", "success", "relative actions", "parse failures"),
            "tokens",
        ),
        rows=tuple(rows),
        notes=("Brackets: 95 % confidence intervals; the runs of one task are one cluster.",),
        section="diagnostics",
        brief=("difficulty", "player", "category", "runs", "success"),
    )


def _shares(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """For each domain the success of each player."""
    found: dict[str, dict[str, float]] = {}
    for (domain, player), members in groups_of(runs, lambda run: (run.domain, run.player)).items():
        found.setdefault(domain, {})[player] = sum(run.success for run in members) / len(members)
    return found


def _mean_optimum(runs: Sequence[Run]) -> float | None:
    known = {run.game: run.optimal_actions for run in runs if run.optimal_actions is not None}
    return statistics.fmean(known.values()) if known else None


def _agreement(shares: Mapping[str, Mapping[str, float]]) -> str:
    """Whether players find the same domains hard, in words; nothing where that cannot be told."""
    players = dict.fromkeys(player for won in shares.values() for player in won)
    table = []
    for player in players:
        if all(player in won for won in shares.values()):
            table.append([won[player] for won in shares.values()])
    if len(table) < 2 or len(shares) < 3:
        return ""
    w = concordance(table)
    return f"{len(table)} players agree on the order of {len(shares)} domains with Kendall's W {w:.2f} (1: fully)."


def concordance(table: Sequence[Sequence[float]]) -> float:
    """Kendall's coefficient of concordance, corrected for ties; 0 where no one tells anything apart.

    Args:
        table: For each judge the values of all things.
    """
    ranks = np.array([rankdata(row) for row in table])
    judges, things = ranks.shape
    spread = ((ranks.sum(axis=0) - ranks.sum(axis=0).mean()) ** 2).sum()
    ties = sum(float(count**3 - count) for row in ranks for count in _tied(row))
    scale = judges**2 * (things**3 - things) - judges * ties
    return float(12 * spread / scale) if scale else 0.0


def _tied(row: np.ndarray) -> Iterator[int]:
    yield from np.unique(row, return_counts=True)[1].tolist()
