"""Uniform random play on all cells, compared with its exact value. Run: python -m benchmarks.kidgym_random [seeds] [plays].

Each of 1,000 seeds is played 5 times; the exact value is the mean of the seeds' success probabilities, computed by dynamic
programming on the same worlds. ``z`` is the distance in standard errors of the sampled rate given those probabilities (where
few wins are expected, that of a normal value as unlikely as the Poisson one). ``stored`` is the cell's constant in
``envs.kidgym.chance``, and the ``z`` after it the distance of the exact value in standard errors over the seeds; with fewer
than 100 seeds it is not given, since a cell of few different values (CO) may show too small a spread then. With 72 distances,
one above 3 is to be expected in every fifth run; the command fails above 4. ``published`` is the value of the published
game; the note says why a corrected cell differs.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from statistics import NormalDist

from benchmarks.arguments import whole_numbers
from envs.kidgym import make, play_randomly, random_success
from envs.kidgym.chance import CHANCE, CHANGED, published_chance

FEW = 10
"""Expected wins below which their number is far from normal."""
FEWEST_SEEDS = 100
TOLERATED = 4.0


def poisson_z(wins: int, expected: float) -> float:
    """The normal value as unlikely as a Poisson number at least, or at most, so far from what is expected."""
    chances = [math.exp(-expected) * expected**count / math.factorial(count) for count in range(wins + 1)]
    at_most, at_least = math.fsum(chances), 1 - math.fsum(chances[:-1])
    if at_least < at_most:
        return max(0.0, -NormalDist().inv_cdf(max(at_least, 1e-15)))
    return min(0.0, NormalDist().inv_cdf(min(at_most, 1 - 1e-15)))


def main(seeds: int = 1000, plays: int = 5) -> int:
    worst = 0.0
    print(f"{'cell':8}{'episodes':>9}{'sampled':>9}{'exact':>9}{'z':>7}{'stored':>9}{'z':>7}{'published':>11}  note")
    for task, stored in CHANCE.items():
        for level, constant in enumerate(stored, 1):
            start, wins, chances = time.process_time(), 0, []
            for seed in range(seeds):
                world = make(task, level, seed)
                chances.append(random_success(world))
                wins += sum(play_randomly(world, play).success for play in range(plays))
            exact = statistics.fmean(chances)
            noise = math.sqrt(sum(chance * (1 - chance) for chance in chances) / plays) / seeds
            spread = statistics.pstdev(chances) / math.sqrt(seeds)
            sampled_z = (wins / seeds / plays - exact) / noise
            if (expected := exact * seeds * plays) < FEW:
                sampled_z = poisson_z(wins, expected)
            # Equal but for rounding where all episodes have one value.
            stored_z = 0.0 if math.isclose(exact, constant, rel_tol=1e-9) else (exact - constant) / max(spread, 1e-12)
            if seeds < FEWEST_SEEDS:
                stored_z = math.nan
            worst = max(worst, abs(sampled_z), 0.0 if math.isnan(stored_z) else abs(stored_z))
            cure = CHANGED.get((task, level))
            print(
                f"{task + ' L' + str(level):8}{seeds * plays:9}{wins / seeds / plays:9.5f}{exact:9.5f}{sampled_z:7.2f}"
                f"{constant:9.5f}{stored_z:7.2f}{published_chance(task, level):11.5f}  {cure.why if cure else ''}"
                f"  [{time.process_time() - start:.0f} s]",
                flush=True,
            )
    print(f"largest distance {worst:.2f} standard errors")
    return 1 if worst > TOLERATED else 0


if __name__ == "__main__":
    sys.exit(main(*whole_numbers(__doc__, seeds=1000, plays=5)))
