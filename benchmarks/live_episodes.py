"""Memory of driver and runners with 10,000 live episodes.

    python -m benchmarks.live_episodes [--live N]

Plays KidGym on simulated engines with that many batch slots; each episode is a coroutine with its world and its chat.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from cluster.console import show
from evals.tables import Table

REPLICAS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--live", type=int, default=10_000)
    options = parser.parse_args()
    rows = [measure(live) for live in (options.live // 100, options.live)]
    growth = [
        (name, one, many, (many - one) * 1024 / (options.live * 0.99))
        for name, one, many in zip(NAMES, *rows, strict=True)
    ]
    columns = ("process", f"MiB with {options.live // 100} live", f"MiB with {options.live} live", "KiB per episode")
    show([Table("live_episodes", "Memory with many live episodes", columns, tuple(growth))])


NAMES = ("driver", "runner")


def measure(live: int) -> tuple[float, float]:
    """Peak resident memory (MiB) of driver and runner with ``live`` running episodes."""
    batch = round(live / REPLICAS / 1.1)
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "cluster",
            "run",
            "suite=kidgym",
            "model=simulated",
            f"cluster.replicas={REPLICAS}",
        ]
        command += ["model.engine.step_seconds=0.2", f"model.engine.max_num_seqs={batch}", "suite.episodes=100"]
        log = Path(folder, "log")
        with log.open("wb") as output:
            run = subprocess.Popen([*command, f"run_dir={folder}/run"], stdout=output, stderr=output)
        driver = psutil.Process(run.pid)
        most = [0.0, 0.0]
        parts = Path(folder, "run", "episodes")
        end = time.monotonic() + 300
        while run.poll() is None and time.monotonic() < end and len(list(parts.glob("part-*"))) < 8:
            runners = [
                child for child in driver.children(recursive=True) if "_RunnerActor" in " ".join(child.cmdline())
            ]
            most[0] = max(most[0], driver.memory_info().rss / 2**20)
            most[1] = max([most[1], *(runner.memory_info().rss / 2**20 for runner in runners)])
            time.sleep(0.5)
        run.kill()
        run.wait()
    return most[0], most[1]


if __name__ == "__main__":
    main()
