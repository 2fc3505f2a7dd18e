"""``raycade status``: how far a run is, from another shell."""

from __future__ import annotations

import argparse

from cluster.console import show
from cluster.observe.progress import clock
from cluster.observe.run_status import Pace, run_status
from cluster.storage.stored_run import Run, read_runs
from evals.printable import printable


def main(options: argparse.Namespace) -> None:
    """Print the status."""
    run = Run(options.run_dir)
    status = read_runs([run], lambda: run_status(run))
    print(printable(f"{run.path}: {status.state}"))
    for line in status.stopping:
        print(printable(line))
    if status.pace is not None:
        print(_pace(status.pace))
    if status.money:
        print(status.money)
    print()
    show([status.players])


def _pace(pace: Pace) -> str:
    minutes = pace.seconds / 60
    rate = f", {pace.finished / minutes:,.1f} a minute" if minutes > 0 else ""
    left = f", ETA {clock(pace.seconds_left)}" if pace.seconds_left is not None else ""
    return f"latest session: {pace.finished:,} episodes finished in {clock(pace.seconds)}{rate}{left}"
