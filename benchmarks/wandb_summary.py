"""Whether what W&B shows at the end is what the run has scored: ten runs, eight of them disturbed.

    python -m benchmarks.wandb_summary

Each run is played offline by built-in players and disturbed while it plays: stopped by a signal, killed, or its W&B process
killed or suspended; then the same command resumes it. The last W&B file is read back and compared with summary.json, value
by value, before and after `raycade upload`. Prints the share of equal runs.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from evals.summary.flat import flat_summary
from tests.wandb_file import runs_of, summary_of

OVERRIDES = [
    *("suite=kidgym", "suite.levels=[1,2]", "suite.modes=[zero_shot]", "model=random", "baselines=[oracle]"),
    *("tracker=wandb", "cluster.commit_seconds=0.2", "cluster.grace_seconds=0.2"),
]
DISTURBANCES = (
    *("none", "none", "W&B hangs", "SIGTERM", "SIGTERM", "SIGKILL", "SIGKILL"),
    *("SIGKILL twice", "W&B killed", "W&B killed"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=20, help="of each task and level (default 20)")
    options = parser.parse_args()
    at_once = after_upload = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, disturbance in enumerate(DISTURBANCES):
            run_dir = Path(folder) / f"run-{number}"
            play(run_dir, disturbance, options.episodes)
            first = equal(run_dir)
            at_once += first
            if not first:
                subprocess.run([*raycade("upload"), str(run_dir)], check=True, capture_output=True)
            second = equal(run_dir)
            after_upload += second
            print(
                f"{disturbance:14} sessions {len(runs_of(run_dir))}  equal {first}  after upload {second}", flush=True
            )
    print(f"equal: {at_once} of {len(DISTURBANCES)}; after `raycade upload`: {after_upload} of {len(DISTURBANCES)}")


def raycade(command: str) -> list[str]:
    return [sys.executable, "-m", "cluster", command]


def play(run_dir: Path, disturbance: str, episodes: int) -> None:
    seconds = 10 if disturbance.endswith("hangs") else 300
    more = [f"tracker.finish_seconds={seconds}", f"suite.episodes={episodes}", f"run_dir={run_dir}"]
    command = [*raycade("run"), *OVERRIDES, *more]
    for _ in range(2 if disturbance.endswith("twice") else disturbance != "none"):
        before = parts(run_dir)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        sessions = len(runs_of(run_dir))
        while process.poll() is None and (parts(run_dir) <= before or len(runs_of(run_dir)) == sessions):
            time.sleep(0.02)
        if disturbance.startswith("W&B"):
            for child in psutil.Process(process.pid).children(recursive=True):
                if "wandb" in child.name():
                    child.send_signal(signal.SIGKILL if disturbance.endswith("killed") else signal.SIGSTOP)
        elif process.poll() is None:
            process.send_signal(signal.Signals[disturbance.split()[0]])
        process.wait()
    subprocess.run(command, check=True, capture_output=True)


def parts(run_dir: Path) -> int:
    """The highest number of a part of the ledger."""
    numbers = [int(path.name.split("-")[1]) for path in (run_dir / "episodes").glob("*.parquet")]
    return max(numbers, default=0)


def equal(run_dir: Path) -> bool:
    """Whether the last W&B file's summary has every value of summary.json."""
    expected = flat_summary(json.loads((run_dir / "summary.json").read_text()))
    found = runs_of(run_dir)
    last = summary_of(found[-1]) if found else {}
    return bool(expected) and all(last.get(name) == value for name, value in expected.items())


if __name__ == "__main__":
    main()
