"""What differs between games that nobody played twice: means of the same cells over different games."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from evals.stats.intervals import (
    UNBOUNDED,
    UNIT,
    Estimate,
    cluster_sums,
    difference_estimate,
    mean_estimate,
    proportion_estimate,
    weighted_sum,
)
from evals.summary.paired import DRAWS, Effect, Observation


def independent_effects(first: Iterable[Observation], second: Iterable[Observation]) -> list[Effect]:
    """Difference of means over different games of the same cell, such as two tasks'.

    The interval joins those of the two sides. p is that of a permutation of whole games between them, by 9,999 draws.
    """
    sides = [_by_cell(side) for side in (first, second)]
    return [_independent(cell, mine, sides[1][cell]) for cell, mine in sides[0].items() if cell in sides[1]]


def effect_over_cells(first: Sequence[Observation], second: Sequence[Observation]) -> Effect | None:
    """Difference of means over different games of the cells that both sides have, each cell with the same weight.

    Means over all games would differ where one side has more games of the easy cells. The interval joins those of the cells
    (``weighted_sum``), and is wider where the cells share games, as those of several modes do. p is that of a permutation of
    whole games between the sides, within the cells that they are of.

    Returns:
        The effect, in the cell ``("all",)``; None where no cell is common.
    """
    ours, theirs = _by_cell(first), _by_cell(second)
    common = [cell for cell in ours if cell in theirs]
    if not common:
        return None
    our_cells = [ours[cell] for cell in common]
    their_cells = [theirs[cell] for cell in common]
    mine, others = list(chain.from_iterable(our_cells)), list(chain.from_iterable(their_cells))
    shares = _are_shares(mine, others)
    one, other = _mean_of_cells(our_cells, shares), _mean_of_cells(their_cells, shares)
    left_out = len(first) + len(second) - len(mine) - len(others)
    difference, p = difference_estimate(one, other), _shuffle_p(mine, others)
    return Effect(("all",), one.mean, other.mean, difference, p, _games(mine) + _games(others), left_out)


def _by_cell(side: Iterable[Observation]) -> dict[tuple[str, ...], list[Observation]]:
    cells: dict[tuple[str, ...], list[Observation]] = {}
    for one in side:
        cells.setdefault(one.cell, []).append(one)
    return cells


def _independent(cell: tuple[str, ...], first: Sequence[Observation], second: Sequence[Observation]) -> Effect:
    shares = _are_shares(first, second)
    one, other = pooled_estimate(first, shares), pooled_estimate(second, shares)
    difference, p = difference_estimate(one, other), _shuffle_p(first, second)
    return Effect(cell, one.mean, other.mean, difference, p, _games(first) + _games(second), 0)


def _are_shares(first: Sequence[Observation], second: Sequence[Observation]) -> bool:
    return all(one.value in (0.0, 1.0) for one in (*first, *second))


def _games(side: Sequence[Observation]) -> int:
    return len({one.game for one in side})


def pooled_estimate(side: Sequence[Observation], shares: bool, confidence: float = 0.95) -> Estimate:
    """Mean with its interval, clustered by game; of ``shares`` as a proportion."""
    values, games = [one.value for one in side], [one.game for one in side]
    if shares:
        return proportion_estimate([value > 0 for value in values], games, confidence)
    bounds = UNIT if min(values) >= 0 and max(values) <= 1 else UNBOUNDED
    return mean_estimate(values, games, confidence, bounds)


def _mean_of_cells(cells: Sequence[Sequence[Observation]], shares: bool) -> Estimate:
    """The mean of one side's cell means."""
    estimates = [pooled_estimate(cell, shares) for cell in cells]
    independent = weighted_sum(estimates, [1 / len(cells)] * len(cells))
    # What each game adds to the mean beyond its cells' means; games of several cells add up, or cancel out.
    by_game, squares = defaultdict[Hashable, list[float]](list), []
    for cell, estimate in zip(cells, estimates, strict=True):
        games = [each.game for each in cell]
        residuals = cluster_sums([(each.value - estimate.mean) / len(cell) for each in cell], games)
        for game, residual in zip(dict.fromkeys(games), residuals, strict=True):
            by_game[game].append(residual)
            squares.append(residual**2)
    apart, together = math.fsum(squares), math.fsum(math.fsum(values) ** 2 for values in by_game.values())
    wider = math.sqrt(max(1.0, together / apart)) if apart else 1.0
    mean, low, high = independent.mean, independent.low, independent.high
    return Estimate(mean, mean - wider * (mean - low), mean + wider * (high - mean), independent.n)


def _shuffle_p(first: Sequence[Observation], second: Sequence[Observation]) -> float:
    """p-value of a difference of the means of cell means if whole games could as well have been on the other side.

    Games change places with games of the same cells; of those that are alike only the number is drawn.
    """
    cells = list(dict.fromkeys(sorted(one.cell for one in first)))
    place = {cell: number for number, cell in enumerate(cells)}
    counts: defaultdict[tuple[tuple[float, ...], tuple[int, ...]], list[int]] = defaultdict(lambda: [0, 0])
    """How many games of each side have these sums and numbers of values by cell."""
    for side, observations in enumerate((first, second)):
        games: defaultdict[Hashable, list[list[float]]] = defaultdict(lambda: [[] for _ in cells])
        for one in observations:
            games[one.game][place[one.cell]].append(one.value)
        for values in games.values():
            counts[tuple(map(math.fsum, values)), tuple(map(len, values))][side] += 1
    # In the order of their values, and for the side with fewer games: the same numbers are drawn whatever the order of the
    # games, and whichever side is first.
    ordered = sorted(counts.items())
    kinds, numbers = [kind for kind, _ in ordered], np.array([found for _, found in ordered])
    ours, theirs = numbers.T.tolist()
    if (sum(ours), ours) > (sum(theirs), theirs):
        numbers = numbers[:, ::-1]
    sums, sizes = (np.array([kind[part] for kind in kinds], np.float64) for part in (0, 1))

    def distance(here: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        there = numbers.sum(1) - here
        means: npt.NDArray[np.float64] = (here @ sums) / (here @ sizes) - (there @ sums) / (there @ sizes)
        absolute: npt.NDArray[np.float64] = np.abs(means.mean(-1))
        return absolute

    generator = np.random.default_rng(0)
    drawn = np.zeros((DRAWS, len(kinds)), np.int64)
    covered = [tuple(size > 0 for size in kind[1]) for kind in kinds]
    for pattern in dict.fromkeys(covered):
        alike = np.array([each == pattern for each in covered])
        of_pattern = numbers[alike]
        drawn[:, alike] = generator.multivariate_hypergeometric(
            of_pattern.sum(1), of_pattern[:, 0].sum(), DRAWS, method="marginals"
        )
    distances = distance(drawn)
    # Equal distances may differ in their last digits: those of thirds that add up to nothing, too.
    extreme = distances >= distance(numbers[:, 0]) - 1e-9 * distances.max()
    return float((1 + extreme.sum()) / (DRAWS + 1))
