"""Where the seconds go from a command to its tables, beside the same engine started and closed alone in the same run.

    python -m benchmarks.startup [--cluster inline] [--cluster local] [OVERRIDE ...]

First the CPU seconds of some commands' help, beside an interpreter that does nothing. Then the demo with the tiny model, inline
and with Ray: until the plan is written (imports, configuration), while Ray and the engine start and end, playing, and scores
with tables. Overrides make another run of it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from cluster.config.settings import load_settings
from cluster.engines.base import Engine
from cluster.storage.stored_run import Run
from evals.report.terminal import LaidOut
from evals.tables import Table

HELP = (["--help"], ["run", "--help"], ["kumo", "--help"])
TIMES = 5
"""Each help is asked so often; the least counts."""
ENGINE_ALONE = "--engine-alone"


def used(command: Sequence[str]) -> tuple[float, float]:
    """Wall-clock and CPU seconds of a command, its ended children included.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code:
        raise subprocess.CalledProcessError(code, command, stderr=said)
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime


def help_table() -> Table:
    """CPU seconds of help, beside those of Python alone."""
    bare = min(used([sys.executable, "-c", "pass"])[1] for _ in range(TIMES))
    rows = []
    for words in HELP:
        cpu = min(used([sys.executable, "-m", "cluster", *words])[1] for _ in range(TIMES))
        rows.append((f"raycade {' '.join(words)}", cpu, bare, cpu / bare))
    return Table("help", "Help", ("command", "CPU seconds", "Python alone", "ratio"), tuple(rows))


def parts_of(cluster: str, overrides: Sequence[str], run_dir: Path) -> tuple[float, ...]:
    """Seconds of a run's parts, in the order of the module's docstring, and their sum."""
    words = ["run", f"cluster={cluster}", f"run_dir={run_dir}", *overrides]
    began = time.time()
    used([sys.executable, "-m", "cluster", *words])
    ended = time.time()
    planned = (run_dir / "plan.parquet").stat().st_mtime
    (timings,) = Run(run_dir).timings
    playing = timings["playing_seconds"]
    # Written when the last episode was finished, and Ray and the engine have ended.
    played = (run_dir / "timings.jsonl").stat().st_mtime
    return planned - began, played - playing - planned, playing, ended - played, ended - began


async def start_and_close(engine: Engine) -> None:
    """What a run does with its engine besides playing."""
    await engine.start()
    await engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", choices=["inline", "local"], action="append")
    parser.add_argument(ENGINE_ALONE, action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE")
    options = parser.parse_args()
    if options.engine_alone:
        asyncio.run(start_and_close(load_settings(options.overrides).model.make_engine()))
        return
    console = Console(width=150)
    console.print(LaidOut(help_table()))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for cluster in options.cluster or ["inline", "local"]:
            command = [sys.executable, "-m", "benchmarks.startup", ENGINE_ALONE, *options.overrides]
            alone, _ = used(command)
            *parts, total = parts_of(cluster, options.overrides, Path(folder) / cluster)
            rows.append((cluster, *parts, total, alone, total / alone))
    title = f"From the command to the tables, load {os.getloadavg()[0]:.1f} at the end"
    columns = ("cluster", "to the plan", "Ray and engine", "playing", "tables", "seconds", "engine alone", "ratio")
    console.print(LaidOut(Table("startup", title, columns, tuple(rows))))


if __name__ == "__main__":
    main()
