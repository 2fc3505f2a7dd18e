"""What the live log costs: processor time of a run with it relative to one without, and bytes that are written and sent.

    python -m benchmarks.live_log [--repeats N] [hydra overrides, default MultiStAR]

Simulated engines answer as fast as the pipeline goes, so processor time is that of the pipeline; runs take turns.
One more run, at an engine's usual pace, is watched through the viewer as its page does it: bytes a minute as they are sent.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx

from benchmarks.viewer import server
from cluster.console import show
from evals.tables import Table

MULTISTAR = ["suite=multistar", "suite.configurations=[center_single]", "suite.puzzles=20"]
FAST = ["model.engine.step_seconds=1e-6", "model.engine.prefill_tokens_per_second=1e9", "model.engine.median_tokens=20"]
WATCHED_SECONDS = 60.0
LOOK_SECONDS = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    common = [*(options.overrides or MULTISTAR), "model=simulated", "cluster=inline", "baselines=[]"]
    with tempfile.TemporaryDirectory() as folder:
        times: dict[bool, list[float]] = {True: [], False: []}
        for number in range(options.repeats):
            for live in (True, False) if number % 2 else (False, True):
                run_dir = Path(folder, f"{number}-{live}")
                times[live].append(processor_seconds([*common, *FAST, f"cluster.live={live}", f"run_dir={run_dir}"]))
        written, sent, plain = watched(common, Path(folder, "watched"))
    ratios = sorted(on / off for on, off in zip(times[True], times[False], strict=True))
    rows = (
        ("processor time with the log, relative to without: median", statistics.median(ratios)),
        ("the same, least and most of the pairs", f"{ratios[0]:.3f} to {ratios[-1]:.3f}"),
        ("kB a minute written", written / 1000),
        ("kB a minute sent to a page, compressed", sent / 1000),
        ("kB a minute sent to a page, before compression", plain / 1000),
    )
    show([Table("live_log", "The live log", ("measured", "value"), rows)])


def started(overrides: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "cluster", "run", *overrides], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def processor_seconds(overrides: Sequence[str]) -> float:
    """Of a whole run."""
    process = started(overrides)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, overrides
    return usage.ru_utime + usage.ru_stime


def watched(overrides: Sequence[str], run_dir: Path) -> tuple[float, float, float]:
    """Bytes a minute that a run writes into its log, and that a page gets that follows one episode: compressed and plain."""
    process = started([*overrides, f"run_dir={run_dir}"])
    try:
        while not list(run_dir.glob("live/*.jsonl")):
            time.sleep(0.1)
        with server(run_dir) as (client, _):
            while not client.get("/api/live").json():
                time.sleep(0.1)
            written = sent = plain = 0
            size, start = log_bytes(run_dir), time.monotonic()
            tags: dict[str, str] = {}
            while time.monotonic() < start + WATCHED_SECONDS and process.poll() is None:
                for answer in page_asks(client, tags):
                    sent += answer.num_bytes_downloaded
                    plain += len(answer.content)
                before, size = size, log_bytes(run_dir)
                written += max(size - before, 0)
                time.sleep(LOOK_SECONDS)
            minutes = (time.monotonic() - start) / 60
    finally:
        process.terminate()
        process.wait()
    return written / minutes, sent / minutes, plain / minutes


def log_bytes(run_dir: Path) -> int:
    return sum(path.stat().st_size for path in run_dir.glob("live/*.jsonl"))


def page_asks(client: httpx.Client, tags: dict[str, str]) -> Iterator[httpx.Response]:
    """What the page asks at one look: the state, the running episodes, new turns of the first of them."""
    for path in ("/api/state", "/api/live"):
        answer = client.get(path, headers={"if-none-match": tags.get(path, "")})
        tags[path] = answer.headers.get("etag", "")
        yield answer
    runs = answer.json() if answer.status_code == httpx.codes.OK else []
    running = [each for run in runs for each in run["running"]]
    if running:
        at = f"{running[0]['run']}/{running[0]['episode_id']}"
        known = int(tags.get(at, "0"))
        tags[at] = str(running[0]["turns"])
        if running[0]["turns"] > known:
            yield client.get("/api/live/turns", params={"at": at, "from": known})


if __name__ == "__main__":
    main()
