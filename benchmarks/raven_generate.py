"""RAVEN problems generated and rendered per second on one core, relative to the 24/s of the published generator.

    python -m benchmarks.raven_generate [--count 400]

The first pass renders every entity bitmap ("cold"); later passes use the cache ("warm").
"""

from __future__ import annotations

import argparse
import statistics
import time

from envs.raven import CONFIGURATIONS, generate, render_problem

PUBLISHED = 24.0
"""Problems/s of the published code (median over configurations, one of two shared cores, XML included)."""


def problems_per_second(name: str, seeds: range) -> float:
    """In CPU time, since machines are shared."""
    start = time.process_time()
    for seed in seeds:
        render_problem(generate(name, seed))
    return len(seeds) / (time.process_time() - start)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400, help="problems per configuration and pass")
    count = parser.parse_args().count
    print(f"{'configuration':40}{'cold/s':>9}{'warm/s':>9}{'warm / 24':>11}")
    rates = []
    for name in CONFIGURATIONS:
        cold, warm = problems_per_second(name, range(count)), problems_per_second(name, range(count, 2 * count))
        rates.append(warm)
        print(f"{name:40}{cold:9.0f}{warm:9.0f}{warm / PUBLISHED:10.1f}x", flush=True)
    print(f"{'median':40}{'':9}{statistics.median(rates):9.0f}{statistics.median(rates) / PUBLISHED:10.1f}x")
    print(f"{'slowest':40}{'':9}{min(rates):9.0f}{min(rates) / PUBLISHED:10.1f}x")
