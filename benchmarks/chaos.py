"""Injects every fault at every moment: no episode lost, same scores, little overhead, no process left.

    python -m benchmarks.chaos [--scale N] [--only NAME] [--moment NAME]

With --scale 1 everything takes about twenty minutes on two cores. The column ``time / baseline`` compares the time from the
first ready replica to the last episode with that of a run without faults. A killed driver leaves part of its time unrecorded,
so its rows compare wall-clock times instead.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.faults import FAULTS, MOMENTS, Result, Workload, can_mount, finish, prepare, run_with_fault
from cluster.console import show
from evals.tables import Table

MOST = 1.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=int, default=4)
    parser.add_argument("--only", choices=list(FAULTS), action="append")
    parser.add_argument("--moment", choices=list(MOMENTS), action="append")
    options = parser.parse_args()
    workload = Workload(options.scale)
    with tempfile.TemporaryDirectory(prefix="chaos") as name:
        folder = Path(name)
        baseline = without_faults(folder / "baseline", workload)
        print(f"without faults: {len(baseline.rows)} episodes, {baseline.seconds:.0f} s of play", flush=True)
        rows, results = [], [baseline]
        for fault in options.only or FAULTS:
            for moment in options.moment or MOMENTS:
                if fault == "disk full" and not can_mount():
                    print("disk full: skipped, no permission to mount a file system")
                    continue
                result = run_with_fault(
                    folder / f"{fault}-{moment}".replace(" ", "-").replace("&", ""), workload, fault, moment
                )
                results.append(result)
                rows.append(judge(fault, moment, baseline, result))
                print(*rows[-1], sep=" | ", flush=True)
        left = [process for result in results for process in result.surviving_processes()]
    columns = ("fault", "moment", "episodes", "same scores", "time / baseline", "verdict")
    show([Table("chaos", "Chaos", columns, tuple(rows), (f"processes left by all runs: {len(left)} {left[:3]}",))])
    bad = sum(row[-1] != "ok" for row in rows) + bool(left)
    print(f"{len(rows) - bad} passed, {bad} failed")
    raise SystemExit(1 if bad else 0)


def without_faults(folder: Path, workload: Workload) -> Result:
    """The run that all others are compared with."""
    run = prepare(folder, workload)
    started = time.monotonic()
    run.start()
    return finish(run, started)


def judge(fault: str, moment: str, baseline: Result, result: Result) -> tuple[str | int | float, ...]:
    """A row of the table; the verdict says what is wrong."""
    differing = {name for name in baseline.rows if baseline.rows[name] != result.rows[name]}
    killed = {name for name in differing if result.rows[name][3].startswith("EngineKilled")}
    same = result.summary == baseline.summary if fault != "crashing prompt" else differing == killed and bool(killed)
    ratio = result.wall / baseline.wall if fault == "driver SIGKILL" else result.seconds / baseline.seconds
    wrong = []
    if not same:
        wrong.append(f"{len(differing)} rows differ")
    if ratio > MOST and fault not in ("driver SIGKILL", "crashing prompt"):
        wrong.append(f"slower than {MOST}")
    return (
        fault,
        moment,
        len(result.rows),
        same,
        round(ratio, 2),
        "; ".join(wrong) or "ok",
    )


if __name__ == "__main__":
    main()
