"""The oracle on all cells: solved episodes, steps, budget, time. Run: python -m benchmarks.kidgym_oracle [seeds]."""

from __future__ import annotations

import sys
import time

from benchmarks.arguments import whole_numbers
from envs.kidgym import TASKS, make, plan


def main(seeds: int = 1000) -> int:
    failures = 0
    print(f"{'cell':8}{'seeds':>7}{'solved':>8}{'fewest':>8}{'mean':>8}{'most':>6}{'budget':>8}{'ms/plan':>9}")
    for task, cls in TASKS.items():
        for level in range(1, len(cls.budgets) + 1):
            start, lengths = time.process_time(), []
            for seed in range(seeds):
                world = make(task, level, seed)
                for index in plan(world) or ():
                    world.step(index)
                if world.success and world.steps <= world.budget:
                    lengths.append(world.steps)
            spent = (time.process_time() - start) / seeds * 1000
            failures += seeds - len(lengths)
            print(
                f"{task + ' L' + str(level):8}{seeds:7}{len(lengths):8}{min(lengths):8}{sum(lengths) / len(lengths):8.2f}"
                f"{max(lengths):6}{cls.budgets[level - 1]:8}{spent:9.2f}",
                flush=True,
            )
    print(f"{failures} episodes not solved within their budget")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*whole_numbers(__doc__, seeds=1000)))
