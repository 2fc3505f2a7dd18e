"""Shares of variance in a factorial study: which game it is, each factor, and how games differ in what factors do to them.

The model has a fixed effect for each factor and each pair of factors, and random effects for games and for games by factor.
Components are estimated from mean squares (Searle, Casella and McCulloch, Variance Components, 1992, chapter 4): a factor
against games by this factor, everything else against what is left. Negative estimates count as 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from evals.stats.intervals import Estimate, student_quantile
from evals.study.conditions import Condition, factors_of, values_of
from evals.study.effects import Measured
from evals.tables import Table

DRAWS: Final = 400
"""Bootstrap samples of games behind the intervals."""
GAME, REST = "game", "chance and the rest"


def variance_shares(conditions: Sequence[Condition], observations: Measured, measure: str) -> dict[str, Estimate]:
    """The share of each source of variance, with a 95 % bootstrap interval over games.

    Returns:
        By source; empty where the conditions are no full factorial, or fewer than five games were played in all of them.
    """
    factors = factors_of(conditions)
    combinations = list(itertools.product(*factors.values()))
    places = {tuple(condition.levels.values()): place for place, condition in enumerate(conditions)}
    if not places.keys() >= {*combinations}:
        return {}
    values = []
    for combination in combinations:
        played = observations[places[combination]]
        values.append(values_of(played[measure]))
    of_games = _means_of_games(values)
    if len(of_games) < 5:
        return {}
    shape = (len(of_games), *(len(levels) for levels in factors.values()))
    shares = _shares(of_games.reshape(shape), list(factors))
    n = len(of_games)
    generator = np.random.default_rng(0)
    drawn = []
    for _ in range(DRAWS):
        chosen = generator.integers(n, size=n)
        drawn.append(_shares(of_games[chosen].reshape(shape), list(factors)))
    found = {}
    for source, share in shares.items():
        resampled = [each[source] for each in drawn]
        found[source] = Estimate(share, *_ends(share, resampled, n), n)
    return found


def _ends(share: float, drawn: Sequence[float], games: int) -> tuple[float, float]:
    """The ends of a share's interval: the farther of the percentiles' and of those by the spread of the draws.

    Samples drawn from few games differ too little among each other, so both are widened to Student's t with one game less
    (Hesterberg, The American Statistician 69, 2015, section 5.3). How often they hold the true share: ``benchmarks.study``.
    """
    spread = student_quantile(0.975, games - 1) * math.sqrt(games / (games - 1))
    below = NormalDist().cdf(-spread)
    low, high = np.quantile(drawn, (below, 1 - below)).tolist()
    margin = spread * float(np.std(drawn, ddof=1))
    return max(0.0, min(low, share - margin)), min(1.0, max(high, share + margin))


def _means_of_games(values: Sequence[Mapping[tuple[Any, ...], float]]) -> NDArray[np.float64]:
    """A row for each game that was played in all conditions, a column for each of these.

    Repeats, modes and questions of one game are averaged: games are what is drawn.
    """
    common = sorted(set.intersection(*map(set, values)), key=repr)
    by_game: dict[object, list[int]] = {}
    for number, (_, game, _) in enumerate(common):
        by_game.setdefault(game, []).append(number)
    table = np.array([[each[key] for each in values] for key in common])
    return np.array([table[numbers].mean(axis=0) for numbers in by_game.values()])


def _shares(values: NDArray[np.float64], factors: Sequence[str]) -> dict[str, float]:
    """Shares of the components of ``values``, shape (games, values of the first factor, of the second, ...)."""
    games, *levels = values.shape
    cells = int(np.prod(levels))
    axes = range(1, values.ndim)
    squares = {axis_set: _mean_square(values, axis_set) for axis_set in _terms(values.ndim)}
    rest, rest_degrees = _rest(values, squares)
    # With a single factor nothing is left beside games by factor, which then cannot be told from chance.
    single = len(factors) == 1
    rest_mean = squares[(0, 1)][0] if single else rest / rest_degrees
    components = {GAME: max(0.0, (squares[(0,)][0] - rest_mean) / cells)}
    for axis in axes:
        many = games * cells / levels[axis - 1]
        within, of_factor = squares[(0, axis)][0], squares[(axis,)][0]
        # The variance of a fixed effect is the mean square of its levels' deviations.
        degrees_share = (levels[axis - 1] - 1) / levels[axis - 1]
        components[factors[axis - 1]] = max(0.0, (of_factor - within) / many * degrees_share)
        if not single:
            by_factor = max(0.0, (within - rest_mean) / (cells / levels[axis - 1]))
            # What games have in common at all levels counts as of the game: deviations from it are left.
            components[f"{GAME} by {factors[axis - 1]}"] = by_factor * degrees_share
    for one, other in itertools.combinations(axes, 2):
        sizes = levels[one - 1], levels[other - 1]
        many = games * cells / (sizes[0] * sizes[1])
        degrees_share = (sizes[0] - 1) * (sizes[1] - 1) / (sizes[0] * sizes[1])
        name = f"{factors[one - 1]} by {factors[other - 1]}"
        components[name] = max(0.0, (squares[(one, other)][0] - rest_mean) / many * degrees_share)
    components[REST] = rest_mean
    total = sum(components.values())
    return {source: component / total if total else 0.0 for source, component in components.items()}


def _terms(dimensions: int) -> list[tuple[int, ...]]:
    """The terms of the model: each dimension and each pair."""
    return [(axis,) for axis in range(dimensions)] + list(itertools.combinations(range(dimensions), 2))


def _mean_square(values: NDArray[np.float64], term: tuple[int, ...]) -> tuple[float, float, int]:
    """Mean square, sum of squares and degrees of freedom of one term."""
    others = tuple(axis for axis in range(values.ndim) if axis not in term)
    means = values.mean(axis=others, keepdims=True)
    if len(term) == 1:
        deviations = means - values.mean()
    else:
        singles = []
        for one in term:
            but_one = tuple(axis for axis in range(values.ndim) if axis != one)
            singles.append(values.mean(axis=but_one, keepdims=True))
        deviations = means - singles[0] - singles[1] + values.mean()
    many = values.size / deviations.size
    total = float((deviations**2).sum() * many)
    degrees = int(np.prod([values.shape[axis] - 1 for axis in term]))
    return total / degrees, total, degrees


def _rest(values: NDArray[np.float64], squares: dict[tuple[int, ...], tuple[float, float, int]]) -> tuple[float, int]:
    """Sum of squares and degrees of freedom that no term accounts for."""
    all_squares = float(((values - values.mean()) ** 2).sum())
    rest = all_squares - sum(total for _, total, _ in squares.values())
    degrees = values.size - 1 - sum(degrees for *_, degrees in squares.values())
    return max(0.0, rest), degrees


def variance_table(measure: str, shares: dict[str, Estimate]) -> Table:
    """The shares of one measure, the largest first."""
    ordered = sorted(shares.items(), key=lambda item: -item[1].mean)
    return Table(
        f"study_variance_{measure.replace(': ', '_').replace(' ', '_')}",
        f"Shares of variance: {measure}",
        ("source", "share"),
        tuple(ordered),
        notes=(
            "game: how hard it is in all conditions. game by X: how games differ in what X does to them. "
            f"{REST}: what would differ if the same condition were played again, and effects of three factors together. "
            "Brackets: 95 % bootstrap over games.",
        ),
    )
