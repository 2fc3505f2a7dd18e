"""``raycade watch-checkpoints``: play the checkpoints of a training, each when it is there, and show the curve."""

from __future__ import annotations

import argparse
from pathlib import Path

from cluster.checkpoints.folder import SETTLED, Folder
from cluster.checkpoints.watch import Options, Watch
from cluster.commands.run import run
from cluster.completion import complete_overrides
from cluster.errors import UserError
from envs.files import real_path

DESCRIPTION = """\
Plays every complete checkpoint of FOLDER (a Hugging Face folder whose name ends with its step) on the same balanced games, in
the order of their steps, one run each, and then waits for more. The same command goes on where it was stopped. It ends with
--once, with --until, with a file DONE in FOLDER, or with Ctrl-C.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``raycade watch-checkpoints``."""
    parser.description = DESCRIPTION
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--games", type=int, default=100, metavar="N", help="games of each checkpoint (default 100; 0: the whole plan)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="for the runs and the curve (default runs/FOLDER)")
    parser.add_argument("--once", action="store_true", help="play what is there, and end")
    parser.add_argument("--until", type=int, metavar="STEP", help="end when a checkpoint of this step is played")
    parser.add_argument(
        "--settled", type=float, default=SETTLED, metavar="S", help=f"seconds without a change (default {SETTLED:g})"
    )
    parser.add_argument("--restart", action="store_true", help="start a new engine for each checkpoint")
    complete_overrides(parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE"))


def main(options: argparse.Namespace) -> int:
    """Watch; returns the exit code.

    Raises:
        UserError: an option is wrong, or the folder is not there.
    """
    if options.games < 0:
        raise UserError(f"--games {options.games}: must be 0 or more")
    for override in options.overrides:
        if override.startswith(("run_dir=", "model.engine.model=", "model.name=", "shard=")):
            raise UserError(
                f"{override.partition('=')[0]}: is each checkpoint's own; --out names the folder of all runs"
            )
    out = options.out or Path("runs") / real_path(options.folder).name
    folder = Folder(options.folder, options.settled)
    asked = Options(folder, out, options.overrides, options.games, options.once, options.until, options.restart)
    return Watch(asked, run).watch()
