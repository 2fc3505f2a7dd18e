"""Resumes, scores and compacts a large ledger: time and peak memory, relative to pyarrow alone on the same columns.

A small KidGym run by the random player is multiplied into a run directory of ``--episodes`` episodes, with a matching plan
and parts of 500 episodes, as a driver commits them. Each measurement runs in a separate process.

    python -m benchmarks.ledger --episodes 1000000
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import functools
import importlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from rich.console import Console

from cluster.commands.report import score_run
from cluster.commands.resume import scan_resume
from cluster.observe.run_statistics import RunStatistics
from cluster.storage.run_directory import RunDirectory
from cluster.storage.stored_run import Run
from evals.ledger.parts import write_part
from evals.ledger.records import PARQUET_OPTIONS, plan_to_table, records_to_table
from evals.players import BUILT_IN_PLAYERS
from evals.report.terminal import LaidOut
from evals.suite import ledger_columns, play_episode
from evals.suites.kidgym import KidGymSuite
from evals.tables import Table
from evals.types import stable_hash

PART_ROWS = 500
IMPORTED_WHEN_NEEDED = ("cluster.storage.stored_shapes", "scipy.special")
"""What the work imports late. Imports are no work on a ledger; `python -m benchmarks.startup` has them in its first column."""
SUITE = {"type": "kidgym", "tasks": ["CL", "SE", "MA"], "levels": [1, 2], "modes": ["zero_shot", "icl"], "episodes": 8}


def synthesize(run_dir: Path, count: int) -> None:
    """Create a complete run directory with this many episodes."""
    suite = KidGymSuite(**{key: value for key, value in SUITE.items() if key != "type"})
    few = [episode.assigned("random", "") for episode in suite.plan()]

    async def play() -> pa.Table:
        records = [await play_episode(suite, episode, BUILT_IN_PLAYERS["random"]) for episode in few]
        return records_to_table(records, ledger_columns(suite))

    rows = asyncio.run(play())
    plan = [
        dataclasses.replace(few[number % len(few)], index=few[number % len(few)].index + 8 * (number // len(few)))
        for number in range(count)
    ]
    folder = run_dir / "episodes"
    folder.mkdir(parents=True)
    (run_dir / "config.yaml").write_text(yaml.safe_dump({"suite": SUITE, "model": {"name": "random"}}))
    pq.write_table(plan_to_table(plan), run_dir / "plan.parquet", **PARQUET_OPTIONS)
    for start in range(0, count, PART_ROWS):
        here = plan[start : start + PART_ROWS]
        part = rows.take(np.arange(start, start + len(here)) % len(few))
        for name, values in (("episode_id", [episode.id for episode in here]), ("index", [one.index for one in here])):
            position = part.column_names.index(name)
            part = part.set_column(position, name, pa.array(values, part.schema.field(name).type))
        name = f"part-{start // PART_ROWS + 1:06d}-synthetic.parquet"
        (folder / name).write_bytes(write_part([part], part.schema))


# --- what is measured, each beside its bound -------------------------------------------------------------------------


def read_columns(run_dir: Path, turns: bool) -> None:
    """Read every part with pyarrow alone."""
    for path in sorted((run_dir / "episodes").glob("*.parquet")):
        names = pq.read_schema(path).names
        pq.read_table(path, columns=[name for name in names if turns or name != "turns"])


def copy_parts(run_dir: Path) -> None:
    """Read and rewrite every part with pyarrow alone."""
    for path in sorted((run_dir / "episodes").glob("*.parquet")):
        pq.write_table(pq.read_table(path), pa.BufferOutputStream(), **PARQUET_OPTIONS)


def hash_plan(run_dir: Path) -> None:
    """Read the plan with pyarrow alone, and hash its rows as ids are hashed."""
    names = ("suite", "task", "level", "mode", "index", "repeat", "seed", "fingerprint", "player")
    table = pq.read_table(run_dir / "plan.parquet", columns=list(names))
    for row in zip(*(table[name].to_pylist() for name in names), strict=True):
        stable_hash(*row)


def plan(run_dir: Path) -> None:
    """Make the planned episodes, and see that their ids are as stored."""
    assert Run(run_dir).plan


def planned_resume(run_dir: Path) -> Callable[[], None]:
    """The driver's work at its start, after planning."""
    planned = Run(run_dir).plan

    def resume() -> None:
        directory = RunDirectory(run_dir)
        directory.check_plan(planned)
        directory.claim()
        assert not scan_resume(directory, planned, RunStatistics(), None, retry_failed=False).todo
        directory.release()

    return resume


def score(run_dir: Path) -> None:
    """The work of `raycade report` before it prints its tables."""
    assert score_run(Run(run_dir)).summary["missing"] == 0


def compact(run_dir: Path) -> None:
    """Merge all parts, as at the end of a run."""
    directory = RunDirectory(run_dir)
    directory.claim()
    directory.compact(everything=True)
    directory.release()


Work = Callable[[Path], Callable[[], None]]
"""Prepares something for a run directory, and gives what is measured."""


def at_once(work: Callable[..., None], *more: object) -> Work:
    """Work that needs no preparation."""
    return lambda run_dir: functools.partial(work, run_dir, *more)


BUT_TURNS = ("pyarrow reads all columns but turns", at_once(read_columns, False))
PHASES: dict[str, tuple[Work, str, Work]] = {
    "plan": (at_once(plan), "pyarrow reads it, rows are hashed", at_once(hash_plan)),
    "resume": (planned_resume, *BUT_TURNS),
    "score": (at_once(score), "pyarrow reads all columns", at_once(read_columns, True)),
    "merge all parts": (at_once(compact), "pyarrow reads and writes all columns", at_once(copy_parts)),
    "resume, parts merged": (planned_resume, *BUT_TURNS),
}


def timed(work: Work, run_dir: Path) -> list[float]:
    """Seconds, CPU seconds, and peak GiB of this process, without imports and planning."""
    pa.array([0])  # pyarrow imports pandas with the first array that it makes
    for name in IMPORTED_WHEN_NEEDED:
        importlib.import_module(name)
    prepared = work(run_dir)
    start, begun = time.monotonic(), time.process_time()
    prepared()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [time.monotonic() - start, time.process_time() - begun, memory]


def in_a_process(phase: str, run_dir: Path, bound: bool) -> list[float]:
    """``timed`` in a separate process."""
    command = [sys.executable, "-m", "benchmarks.ledger", "--phase", phase, "--run-dir", str(run_dir)]
    out = subprocess.run([*command, *(["--bound"] if bound else [])], check=True, stdout=subprocess.PIPE, text=True)
    measured: list[float] = json.loads(out.stdout.splitlines()[-1])
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--run-dir", type=Path, help="where the run is made; by default a folder that is removed again")
    parser.add_argument("--phase", choices=PHASES, help=argparse.SUPPRESS)
    parser.add_argument("--bound", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.phase:
        work, _, bound = PHASES[options.phase]
        print(json.dumps(timed(bound if options.bound else work, options.run_dir)))
        return
    with tempfile.TemporaryDirectory() as folder:
        run_dir = options.run_dir or Path(folder) / "run"
        synthesize(run_dir, options.episodes)
        paths = list((run_dir / "episodes").iterdir())
        size = sum(path.stat().st_size for path in paths) / 2**30
        rows = []
        for phase, (_, what, _) in PHASES.items():
            _, limit, _ = in_a_process(phase, run_dir, bound=True)
            seconds, cpu, memory = in_a_process(phase, run_dir, bound=False)
            rows.append((phase, seconds, cpu, memory, what, limit, cpu / limit))
            print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
        title = f"{options.episodes:,} episodes in {len(paths):,} parts, {size:.2f} GiB"
        columns = ("phase", "seconds", "CPU seconds", "peak GiB", "bound", "its CPU seconds", "ratio")
        Console(width=150).print(LaidOut(Table("ledger", title, columns, tuple(rows))))


if __name__ == "__main__":
    main()
