"""Every disturbance at every moment: nothing lost, same scores, little time, nothing left behind.

    python -m benchmarks.chaos [--scale N] [--only NAME] [--moment NAME]

With --scale 1 all of it takes about twenty minutes on two cores. The last column compares the time from the first replica
to the last episode with that of the undisturbed run; a killed driver plays part of its time unrecorded, so that its own
column shows the wall time instead.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from cluster.console import show
from evals.tables import Table
from tests.chaos import DISTURBANCES, MOMENTS, Result, Workload, can_mount, disturbed, finish, prepare

MOST = 1.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=int, default=4)
    parser.add_argument("--only", choices=list(DISTURBANCES), action="append")
    parser.add_argument("--moment", choices=list(MOMENTS), action="append")
    options = parser.parse_args()
    workload = Workload(options.scale)
    with tempfile.TemporaryDirectory(prefix="chaos") as name:
        folder = Path(name)
        calm = undisturbed(folder / "calm", workload)
        print(f"undisturbed: {len(calm.rows)} episodes, {calm.seconds:.0f} s of play", flush=True)
        rows, results = [], [calm]
        for disturbance in options.only or DISTURBANCES:
            for moment in options.moment or MOMENTS:
                if disturbance == "disk full" and not can_mount():
                    print("disk full: skipped, this process may not mount a file system")
                    continue
                result = disturbed(
                    folder / f"{disturbance}-{moment}".replace(" ", "-").replace("&", ""), workload, disturbance, moment
                )
                results.append(result)
                rows.append(judge(disturbance, moment, calm, result))
                print(*rows[-1], sep=" | ", flush=True)
        left = [process for result in results for process in result.left_over()]
    columns = ("disturbance", "moment", "episodes", "same scores", "time / undisturbed", "verdict")
    show(
        [Table("chaos", "Chaos", columns, tuple(rows), (f"processes left behind by all runs: {len(left)} {left[:3]}",))]
    )
    bad = sum(row[-1] != "ok" for row in rows) + bool(left)
    print(f"{len(rows) - bad} passed, {bad} failed")
    raise SystemExit(1 if bad else 0)


def undisturbed(folder: Path, workload: Workload) -> Result:
    """The run that all others are compared with."""
    run = prepare(folder, workload)
    started = time.monotonic()
    run.start()
    return finish(run, started)


def judge(disturbance: str, moment: str, calm: Result, result: Result) -> tuple[str | int | float, ...]:
    """A row of the table; the verdict says what is wrong."""
    differing = {name for name in calm.rows if calm.rows[name] != result.rows[name]}
    killed = {name for name in differing if result.rows[name][3].startswith("EngineKilled")}
    same = result.summary == calm.summary if disturbance != "crashing prompt" else differing == killed and bool(killed)
    ratio = result.wall / calm.wall if disturbance == "driver SIGKILL" else result.seconds / calm.seconds
    wrong = []
    if not same:
        wrong.append(f"{len(differing)} rows differ")
    if ratio > MOST and disturbance not in ("driver SIGKILL", "crashing prompt"):
        wrong.append(f"slower than {MOST}")
    return (
        disturbance,
        moment,
        len(result.rows),
        same,
        round(ratio, 2),
        "; ".join(wrong) or "ok",
    )


if __name__ == "__main__":
    main()
