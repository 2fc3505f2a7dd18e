"""Batch jobs under kill -9: 200 games at each provider's format, the process killed at each step of a job's life.

    python -m benchmarks.batch [--games 200]

Prints, for each provider, how many turns were asked and the most that one was asked: 1, or the command fails.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from pathlib import Path

from cluster.storage.spending import read_spending
from tests.cluster.providers import batch_driver
from tests.cluster.providers.batch_stub import STEPS, BatchStub
from tests.cluster.providers.conftest import VARIABLES
from tests.cluster.providers.stub import KEY


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=200)
    games = parser.parse_args().games
    os.environ.update(dict.fromkeys(VARIABLES, KEY))
    for name in ("responses", "anthropic", "gemini"):
        began = time.monotonic()
        stub, run_dir = BatchStub(), Path(tempfile.mkdtemp())
        # OpenAI alone has an upload of its own
        steps = [step for step in STEPS if name == "responses" or step != "after upload"]
        for step in (*steps, ""):
            stub.kill_at = step
            process = multiprocessing.get_context("spawn").Process(
                target=batch_driver.start, args=(name, stub.url, run_dir, games)
            )
            process.start()
            stub.pid = process.pid or 0
            process.join()
            assert process.exitcode == (0 if not step else -9), f"{name}: exit code {process.exitcode} at {step!r}"
        stub.close()
        most, over = max(stub.asked.values()), len((run_dir / "done").read_text().split())
        print(
            f"{name}: {over} games, {len(stub.asked)} turns in {len(stub.jobs)} jobs, killed at {', '.join(steps)}; asked "
            f"{most} time at most; counted as spent: {read_spending(run_dir).total:.4f}; {time.monotonic() - began:.0f} s"
        )
        assert over == games and most == 1


if __name__ == "__main__":
    main()
