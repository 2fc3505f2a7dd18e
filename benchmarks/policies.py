"""Routing policies on two real replicas of the tiny model: prefix-cache hit rate and throughput.

python -m benchmarks.policies [hydra overrides, default 240 KUMO episodes]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster.console import show
from evals.tables import Table

KUMO = ["suite=kumo", "suite.domains=[medical,music]", "suite.difficulties=[hard]", "suite.tasks_per_domain=24"]
POLICIES = ("sticky", "least_loaded", "round_robin")


def measure(policy: str, overrides: list[str]) -> dict[str, float]:
    """The timings of one run."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "cluster",
            "run",
            "model=tiny",
            "cluster.replicas=2",
            f"cluster.policy={policy}",
        ]
        subprocess.run([*command, f"run_dir={folder}/run", *overrides], check=True, stdout=subprocess.DEVNULL)
        timing: dict[str, float] = json.loads(Path(folder, "run", "timings.jsonl").read_text())
    return timing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*")
    overrides = parser.parse_args().overrides or KUMO
    timings = {policy: measure(policy, overrides) for policy in POLICIES}
    rates = {policy: timing["turns"] / timing["playing_seconds"] for policy, timing in timings.items()}
    rows = tuple(
        (
            policy,
            timing["turns"],
            timing["cached_tokens"] / timing["prompt_tokens"],
            rates[policy],
            rates[policy] / rates["round_robin"],
            timing["moves"],
        )
        for policy, timing in timings.items()
    )
    columns = ("policy", "requests", "prefix-cache hit rate", "requests/s", "relative to round_robin", "episodes moved")
    show([Table("policies", "Two replicas of the tiny model", columns, rows)])


if __name__ == "__main__":
    main()
