"""Preempts runs on a real Slurm: with and without grace time, requeued and canceled, with either way of signalling.

    python -m benchmarks.slurm_preemption [--only PARTITION] [--signal steps|user]

A run of two nodes (simulated engine) is preempted by a job of a partition of higher priority. ``steps``: Slurm sends SIGTERM
to the steps of the preempted job (the default); ``user``: SlurmctldParameters=preempt_send_user_signal. A canceled job is
submitted again by hand. Each row: episodes that were running and were not finished, rows of the ledger that stand twice, and
whether the run was completed. Needs root, and Debian's slurm-wlm and munge. About ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from cluster.console import show
from cluster.storage.stored_run import Run
from evals.tables import Table
from tests import slurm_world

ROOT = Path(__file__).parents[1]
SUBMIT = str(ROOT / "cluster" / "launch" / "slurm.sh")
GAMES = ["suite=kumo", "suite.domains=[medical]", "suite.difficulties=[easy]", "suite.tasks_per_domain=25"]
ENGINE = ["model=simulated", "model.engine.max_num_seqs=4", "model.engine.median_tokens=60", "model.engine.tail=0.3",
          "model.replica.cpus=1"]  # fmt: skip
SPEED = ["cluster.commit_seconds=0.3", "cluster.grace_seconds=18"]
SIGNALS = {"steps": "", "user": "preempt_send_user_signal"}
PREEMPTED = [name for name in slurm_world.PARTITIONS if name not in ("main", "urgent")]
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED")


@dataclass(frozen=True)
class Outcome:
    """What became of one run."""

    partition: str
    unfinished: int | None
    """Running episodes that were not finished when the driver left; None if it left no word."""
    before: int
    """Rows in the ledger when the job was preempted."""
    after: int
    """Rows when the preempted job had left."""
    requeued: bool
    doubled: int
    complete: bool
    log: str

    @property
    def sound(self) -> bool:
        """Whether nothing is twice and all is there; with grace time, whether all running episodes were finished."""
        kept = self.unfinished == 0 or not self.partition.endswith("grace")
        return kept and self.complete and not self.doubled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PREEMPTED, action="append")
    parser.add_argument("--signal", choices=list(SIGNALS), action="append")
    parser.add_argument("--log", action="store_true", help="print the log of every job")
    options = parser.parse_args()
    rows, bad = [], 0
    with tempfile.TemporaryDirectory(prefix="preempt") as name:
        for signalling in options.signal or SIGNALS:
            with slurm_world.slurm(Path(name) / signalling, parameters=SIGNALS[signalling]) as world:
                for partition in options.only or PREEMPTED:
                    outcome = preempt(world, partition)
                    bad += not outcome.sound
                    unfinished = "?" if outcome.unfinished is None else outcome.unfinished
                    row = (signalling, partition, outcome.before, outcome.after, unfinished, outcome.requeued,
                           outcome.doubled, "ok" if outcome.sound else "BAD")  # fmt: skip
                    rows.append(row)
                    print(*row, sep=" | ", flush=True)
                    if not outcome.sound or options.log:
                        print(outcome.log, flush=True)
    columns = ("signal to", "partition", "rows before", "rows after", "not finished", "requeued", "twice", "verdict")
    show([Table("preemption", "Preemption", columns, tuple(rows), ())])
    raise SystemExit(1 if bad else 0)


def preempt(world: slurm_world.SlurmWorld, partition: str, repeats: int = 4) -> Outcome:
    """Preempt one run in the middle, and play it to its end."""
    run_dir = world.folder / f"run-{partition}"
    job = submit(world, partition, run_dir, repeats)
    wait(world, lambda: played(run_dir) >= 20, f"20 rows of {partition}", job)
    before = played(run_dir)
    urgent = world.run("sbatch", "--parsable", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null",
                       "--wrap", "sleep 3").strip()  # fmt: skip
    wait(world, lambda: world.job(urgent)["JobState"] == "COMPLETED", "the urgent job", job)
    after = played(run_dir)
    requeued = world.job(job)["JobState"] not in ENDED
    if not requeued:
        job = submit(world, "main", run_dir, repeats)
    wait(world, lambda: world.job(job)["JobState"] in ENDED, "the end", job)
    log = log_of(world, job)
    whole = "".join(
        path.read_text() for path in sorted(world.folder.glob("raycade-*.log")) if str(run_dir) in path.read_text()
    )
    told = re.search(r"(\d+) running episodes were not finished", whole)
    stopping = "stopping: running episodes have" in whole
    ids = Run(run_dir).episodes()["episode_id"].to_pylist()
    return Outcome(
        partition=partition,
        unfinished=int(told[1]) if told else (0 if stopping else None),
        before=before,
        after=after,
        requeued=requeued,
        doubled=len(ids) - len(set(ids)),
        complete=sorted(ids) == sorted(episode.id for episode in Run(run_dir).plan)
        and world.job(job)["JobState"] == "COMPLETED",
        log=log,
    )


def submit(world: slurm_world.SlurmWorld, partition: str, run_dir: Path, repeats: int) -> str:
    """Submit the run; returns the job's number."""
    command = [SUBMIT, "submit", "--nodes=2", "--cpus-per-task=2", f"--partition={partition}", "--", *GAMES,
               f"suite.repeats={repeats}", *ENGINE, *SPEED, f"run_dir={run_dir}"]  # fmt: skip
    done = subprocess.run(
        command, env=world.environment, cwd=world.folder, capture_output=True, text=True, timeout=120, check=True
    )
    return done.stderr.split("submitted job ")[1].split(".")[0]


def played(run_dir: Path) -> int:
    """Rows in the ledger."""
    return sum(pq.read_metadata(part).num_rows for part in (run_dir / "episodes").glob("part-*.parquet"))


def log_of(world: slurm_world.SlurmWorld, job: str) -> str:
    """What a job has printed."""
    path = world.folder / f"raycade-{job}.log"
    return path.read_text() if path.exists() else ""


def wait(
    world: slurm_world.SlurmWorld, condition: Callable[[], bool], what: str, job: str, seconds: float = 240
) -> None:
    """Wait for a condition.

    Raises:
        TimeoutError: with the job's log.
    """
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not after {seconds:g} s\n{world.job(job)}\n{log_of(world, job)}")
        time.sleep(0.2)


if __name__ == "__main__":
    main()
