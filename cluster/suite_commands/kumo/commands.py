"""``raycade kumo``: the commands of ``envs.kumo.commands``, and those that take a cluster."""

from __future__ import annotations

import argparse
import importlib
import os
from pathlib import Path

from cluster.suite_commands.kumo import pipeline
from envs.kumo import commands
from evals.suites.kumo.lab.trajectories import commands as trajectory_commands

_MODULES = {
    "validate": ("check domains and measure their quality", "evals.suites.kumo.validate"),
    "show": ("one game: prompt and book, perfect play, the tree of best tests", "cluster.suite_commands.kumo.show"),
    "analyze": ("domains, structure and correlations over the players of runs", "cluster.suite_commands.kumo.analyze"),
}
"""Commands with what they do and their modules, which have ``add_arguments(parser)`` and ``main(options)``."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands on ``raycade kumo``'s parser."""
    added = commands.add_arguments(parser)
    for name, (what, module) in _MODULES.items():
        importlib.import_module(module).add_arguments(added.add_parser(name, help=what))
    trajectory_commands.add_arguments(added)
    replay = added.add_parser("replay-transcripts", help="replay the published models' replies beside their figures")
    _add_replay_arguments(replay)
    for name, what in pipeline.COMMANDS.items():
        pipeline.add_arguments(name, added.add_parser(name, help=what))


def main(options: argparse.Namespace) -> int:
    """Run a command; 2 for bad input."""
    if options.kumo_command in _MODULES:
        return int(importlib.import_module(_MODULES[options.kumo_command][1]).main(options))
    if options.kumo_command == "replay-transcripts":
        from cluster.suite_commands.kumo import import_transcripts  # only now: it takes Ray

        return import_transcripts.main(options)
    if options.kumo_command in trajectory_commands.COMMANDS:
        return trajectory_commands.main(options)
    if options.kumo_command in pipeline.COMMANDS:
        return pipeline.main(options.kumo_command, options.folder, options.overrides, options.estimate)
    return commands.main(options)


def _add_replay_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Plays the published replies of the paper's models through raycade's loop, published decoder and scorer, and prints "
        "success per model beside the published figure. The ledger is one like any other (raycade report RUN_DIR). "
        "RUN_DIR/differences.csv lists each reply that raycade's own decoder reads otherwise."
    )
    parser.add_argument("checkout", type=Path, metavar="CHECKOUT", help="folder of the published repository")
    parser.add_argument("--source", type=Path, metavar="FOLDER", help="what raycade kumo import wrote; default: import")
    parser.add_argument("--models", nargs="+", metavar="MODEL", help="folders in CHECKOUT/results; default: all")
    parser.add_argument("--domains", nargs="+", metavar="DOMAIN", default=["all"], help="default: all")
    parser.add_argument("--run-dir", type=Path, metavar="RUN_DIR", help="default: runs/kumo-transcripts-PLAN")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N", help="default: one per core")
