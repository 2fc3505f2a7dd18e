"""Time and memory of ``raycade site`` for one, two and many runs, relative to ``raycade report`` of one.

All runs are copies of one of KUMO's and KidGym's games, played by the random player in a model's name: each is relabeled, which
takes longest.

    python -m benchmarks.site [--runs 50]
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import shutil
import sys
import tempfile
from pathlib import Path

import yaml

from cluster.commands.report import report
from cluster.commands.site import main as write_site
from cluster.storage.run_directory import RunDirectory
from evals.conversation import Record
from evals.ledger.records import records_to_table
from evals.players import RandomPlayer
from evals.suite import ledger_columns, plan_for, play_episode
from evals.suites.bundle import Bundle
from evals.suites.kidgym import KidGymSuite
from evals.suites.kumo import KumoSuite

KUMO = {"domains": ["medical"], "difficulties": ["easy"], "tasks_per_domain": 40, "repeats": 1}
KIDGYM = {"tasks": ["CL", "SE", "CO", "MFI"], "levels": [1, 2], "modes": ["zero_shot"], "episodes": 10}


def leave_run(path: Path) -> int:
    """Leave a run of 120 episodes; returns their number."""
    suite = Bundle("both", (KumoSuite(**KUMO), KidGymSuite(**KIDGYM)))
    parts = {part.name: part for part in suite.parts}
    plan = plan_for(suite, {"model": ""})
    section = {"type": "bundle", "name": "both", "suites": [{"type": "kumo", **KUMO}, {"type": "kidgym", **KIDGYM}]}
    directory = RunDirectory(path)
    directory.claim()
    directory.begin(plan, {"config.yaml": yaml.safe_dump({"suite": section, "model": {"name": "model"}})})

    async def play() -> list[Record]:
        return [await play_episode(parts[each.suite], each, RandomPlayer()) for each in plan]

    directory.commit(records_to_table(asyncio.run(play()), ledger_columns(suite)))
    directory.release()
    return len(plan)


def measured(what: str, paths: list[Path], out: Path) -> tuple[float, int]:
    """Processor seconds and the highest memory in MiB of a process of its own."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_measure, (what, paths, out))


def _measure(what: str, paths: list[Path], out: Path) -> tuple[float, int]:
    sys.stdout = (out.parent / "output").open("w")
    before = resource.getrusage(resource.RUSAGE_SELF)
    if what == "report":
        report(paths)
    else:
        write_site(argparse.Namespace(run_dirs=paths, out=out, title="Benchmark", license=""))
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return seconds, used.ru_maxrss // 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        episodes = leave_run(home / "run-1")
        paths = [home / f"run-{number}" for number in range(1, runs + 1)]
        for path in paths[1:]:
            shutil.copytree(paths[0], path)
        alone, memory = measured("report", paths[:1], home / "none")
        print(f"report of 1 run of {episodes} episodes: {alone:.1f} s of processor time, {memory} MiB")
        for count in sorted({1, 2, runs}):
            seconds, memory = measured("site", paths[:count], home / f"site-{count}")
            print(f"site of {count}: {seconds:.1f} s, {seconds / alone:.1f} times the report, {memory} MiB")


if __name__ == "__main__":
    main()
