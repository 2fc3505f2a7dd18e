"""What the intervals and p-values of comparisons promise, by simulation.

    python -m benchmarks.intervals [DRAWS]

For games played once or five times by two players whose chances rise and fall together: how often the 95 % interval of the
paired difference covers the truth; how often p < 0.05 where nothing differs; by how much the distribution of p there is above
uniform at most (a discrete p lies below); how often the smallest detectable difference is found (0.80 is promised, and the
exact test asks for a little more than the normal approximation says). The last column is the coverage of an interval that
forgets which repeats belong together.
"""

from __future__ import annotations

import numpy as np

from benchmarks.arguments import whole_numbers
from cluster.console import show
from evals.stats.power import smallest_difference
from evals.summary.paired import Effect, Observation, paired_effects
from evals.tables import Table

CASES = ((50, 1, 0.5), (200, 1, 0.8), (20, 5, 0.5), (100, 5, 0.8))
"""Games, repeats of each, and the share of successes of the better player."""
GAIN = 0.1


def main() -> None:
    (draws,) = whole_numbers(__doc__, draws=2000)
    show([table(draws)])


def table(draws: int) -> Table:
    """A row for each case."""
    rows = tuple(_row(games, repeats, share, draws) for games, repeats, share in CASES)
    columns = ("games", "repeats", "success", "coverage", "p < 0.05", "p above uniform by", "power", "naive coverage")
    return Table("intervals", f"{draws} simulated comparisons a row", columns, rows)


def _row(games: int, repeats: int, share: float, draws: int) -> tuple[int | float, ...]:
    generator = np.random.default_rng(games * repeats)
    gains = [drawn(generator, games, repeats, share, share - GAIN) for _ in range(draws)]
    nulls = np.array([compared(*drawn(generator, games, repeats, share, share)).p for _ in range(draws)])
    effects = [compared(*pair) for pair in gains]
    detectable = smallest_difference(float(np.median([effect.error for effect in effects])), games)
    found = [compared(*drawn(generator, games, repeats, share, share - detectable)).p < 0.05 for _ in range(draws)]
    grid = np.linspace(0.001, 1, 1000)
    excess = max(float(np.mean(nulls <= level)) - level for level in grid)
    return (
        *(games, repeats, share),
        coverage(effects, GAIN),
        float(np.mean(nulls <= 0.05)),
        excess,
        float(np.mean(found)),
        coverage([compared(one, other, alone=True) for one, other in gains], GAIN),
    )


def drawn(
    generator: np.random.Generator, games: int, repeats: int, first: float, second: float
) -> tuple[np.ndarray, np.ndarray]:
    """Successes of two players, shape (games, repeats); a game is as much easier or harder for both."""
    room = min(first, second, 1 - first, 1 - second) / 2
    ease = generator.choice([-room, room], games)[:, None]
    one, other = (generator.random((games, repeats)) < share + ease for share in (first, second))
    luck = generator.random((games, 1)) < 0.3  # in some games all repeats of a player go the same way
    return np.where(luck, one[:, :1], one), np.where(luck, other[:, :1], other)


def compared(one: np.ndarray, other: np.ndarray, alone: bool = False) -> Effect:
    """The paired difference; ``alone`` takes every repeat for a game of its own."""
    (effect,) = paired_effects(*(_side(values, alone) for values in (one, other)))
    return effect


def _side(values: np.ndarray, alone: bool) -> list[Observation]:
    return [
        Observation((), (game, repeat) if alone else game, repeat, float(value))
        for game, row in enumerate(values)
        for repeat, value in enumerate(row)
    ]


def coverage(effects: list[Effect], truth: float) -> float:
    """Share of the intervals that hold the true difference."""
    return sum(effect.difference.low <= truth <= effect.difference.high for effect in effects) / len(effects)


if __name__ == "__main__":
    main()
