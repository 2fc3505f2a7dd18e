"""``raycade status``: how far a run is, from another shell."""

from __future__ import annotations

import argparse

from cluster.console import show
from cluster.live.terminal import show_live
from cluster.observe.run_status import run_status
from cluster.storage.stored_run import Run, read_runs
from envs.printable import printable
from evals.report.terminal import Output


def main(options: argparse.Namespace) -> None:
    """Print the status."""
    run = Run(options.run_dir)
    if options.live:
        show_live(run, Output())
        return
    status = read_runs([run], lambda: run_status(run))
    print(printable(f"{run.path}: {status.state}"))
    for line in status.stopping:
        print(printable(line))
    if status.pace is not None:
        print(status.pace)
    if status.money:
        print(status.money)
    print()
    show([status.players])
