"""``raycade kumo import-transcripts``: the published replies played, beside what the published files record."""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``raycade kumo import-transcripts``."""
    parser.description = (
        "Plays the published replies of the paper's models through raycade's loop, published decoder and scorer, and prints "
        "success and relative actions per model beside what the published files record of the same runs. The ledger is one "
        "like any other (raycade report RUN_DIR). RUN_DIR/differences.csv lists each reply that raycade's own decoder reads "
        "otherwise."
    )
    parser.add_argument("checkout", type=Path, metavar="CHECKOUT", help="folder of the published repository")
    parser.add_argument("--source", type=Path, metavar="FOLDER", help="what raycade kumo import wrote; default: import")
    parser.add_argument("--models", nargs="+", metavar="MODEL", help="folders in CHECKOUT/results; default: all")
    parser.add_argument("--domains", nargs="+", metavar="DOMAIN", default=["all"], help="default: all")
    parser.add_argument("--run-dir", type=Path, metavar="RUN_DIR", help="default: runs/kumo-transcripts-PLAN")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N", help="default: one per core")


def main(options: argparse.Namespace) -> int:
    """Play the stored replies, and print the comparison.

    Raises:
        UserError: a folder or a model is missing.
    """
    from cluster.suite_commands.kumo.transcripts import import_transcripts  # only now: it takes Ray

    return import_transcripts(options)
