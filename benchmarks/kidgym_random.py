"""Uniform random play on all cells, against its exact value. Run: python -m benchmarks.kidgym_random [seeds] [plays].

Each of 1,000 seeds is played 5 times; the exact value is the mean of the seeds' success probabilities, computed by dynamic
programming on the same worlds. ``z`` is the distance in standard errors of the sampled rate given those probabilities.
``rules`` is the value that follows from the published rules; where a cure changes it, the reason stands behind.
"""

from __future__ import annotations

import math
import sys
import time

from benchmarks.arguments import whole_numbers
from envs.kidgym import TASKS, make, play_randomly, random_success
from envs.kidgym.chance import ANALYTIC, CHANGED


def main(seeds: int = 1000, plays: int = 5) -> int:
    worst = 0.0
    print(f"{'cell':8}{'episodes':>9}{'sampled':>9}{'exact':>9}{'z':>7}{'rules':>9}  note")
    for task, cls in TASKS.items():
        for level in range(1, len(cls.budgets) + 1):
            start, wins, exact, variance = time.process_time(), 0, 0.0, 0.0
            for seed in range(seeds):
                world = make(task, level, seed)
                chance = random_success(world)
                exact += chance / seeds
                variance += chance * (1 - chance) / plays / seeds**2
                wins += sum(play_randomly(world, play).success for play in range(plays))
            z = (wins / seeds / plays - exact) / math.sqrt(variance)
            worst = max(worst, abs(z))
            rules = f"{ANALYTIC[task][level - 1]:9.5f}" if task in ANALYTIC else " " * 9
            note = CHANGED.get((task, level), "")
            print(
                f"{task + ' L' + str(level):8}{seeds * plays:9}{wins / seeds / plays:9.5f}{exact:9.5f}{z:7.2f}{rules}  {note}"
                f"  [{time.process_time() - start:.0f} s]",
                flush=True,
            )
    print(f"largest distance {worst:.2f} standard errors")
    return 1 if worst > 3 else 0


if __name__ == "__main__":
    sys.exit(main(*whole_numbers(__doc__, seeds=1000, plays=5)))
