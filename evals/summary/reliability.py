"""Reliability over repeats of games: how often all or any of k runs succeed, and how alike the runs of a game are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from evals.ledger.run_data import RunData, count_rows
from evals.stats.intervals import UNIT, intraclass_correlation, mean_estimate, proportion_estimate
from evals.stats.reliability import design_effect, pass_at_k, pass_power_k
from evals.tables import Cell, Table

_GROUP = ("player", "suite", "level", "mode")
_GAME = ("task", "index", "seed")
_SHOWN = 3
"""Most columns of pass^k and of pass@k; those between the first and the last are left out."""


def reliability_table(run: RunData) -> Table | None:
    """pass^k, pass@k, intraclass correlation and design effect; None where no game was played more than once.

    Games that were played less often than the others of their row are left out, since k runs cannot be drawn from them;
    a failed episode counts as no success.
    """
    played = run.episodes([*_GROUP, *_GAME, "success"])
    most = max(count_rows(played, [*_GROUP, *_GAME]).values(), default=0)
    if most < 2:
        return None
    won = _outcomes(run.plan, played)
    shown = sorted({2, most // 2, most} - {1})[-_SHOWN:]
    rows: list[tuple[Cell, ...]] = []
    for group, games in won.items():
        repeats = max(map(len, games.values()))
        if not repeats:
            continue  # planned, and not played yet
        whole = {game: runs for game, runs in games.items() if len(runs) == repeats}
        counts = [sum(runs) for runs in whole.values()]
        values = [float(each) for runs in whole.values() for each in runs]
        clusters = [game for game, runs in whole.items() for _ in runs]
        correlation = intraclass_correlation(values, clusters)
        powers = [_mean(pass_power_k, counts, repeats, k) for k in shown]
        any_of = [_mean(pass_at_k, counts, repeats, k) for k in shown]
        effect = None if correlation is None else design_effect(correlation, repeats)
        rows.append(
            (
                *group,
                len(whole),
                repeats,
                # As the suites tell it, so that one figure has one interval.
                proportion_estimate([bool(value) for value in values], clusters),
                *powers,
                *any_of,
                correlation,
                effect,
            )
        )
    return Table(
        name="reliability",
        title="Reliability over repeats",
        columns=(
            *(*_GROUP, "games", "repeats", "success"),
            *(*(f"pass^{k}" for k in shown), *(f"pass@{k}" for k in shown), "ICC", "design effect"),
        ),
        rows=tuple(rows),
        notes=(
            "pass^k: chance that k runs of a game all succeed; pass@k: that one of k does; both without bias.",
            "ICC: how alike the runs of a game are, from 0 to 1. Design effect: so many times the episodes give the standard "
            "error that as many different games, played once each, would give.",
        ),
    )


def _outcomes(plan: pa.Table, played: pa.Table) -> dict[tuple[str, ...], dict[tuple[str, ...], list[bool]]]:
    """Whether each run of each game was won, by group, in the order of the plan: the ledger's depends on who was fast."""
    won: dict[tuple[str, ...], dict[tuple[str, ...], list[bool]]] = {}
    for group, game in zip(_keys(plan, _GROUP), _keys(plan, _GAME), strict=True):
        won.setdefault(group, {})[game] = []
    outcomes = played["success"].to_pylist()
    for group, game, success in zip(_keys(played, _GROUP), _keys(played, _GAME), outcomes, strict=True):
        won.setdefault(group, {}).setdefault(game, []).append(bool(success))
    return won


def _keys(rows: pa.Table, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(rows[name].to_pylist() for name in names), strict=True)


def _mean(chance: Callable[[int, int, int], float], counts: list[int], repeats: int, k: int) -> Cell:
    if k > repeats:
        return None
    return mean_estimate([chance(count, repeats, k) for count in counts], bounds=UNIT)
