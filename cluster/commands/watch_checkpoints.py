"""``raycade watch-checkpoints``: play the checkpoints of a training, each when it is there, and show the curve."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from cluster.checkpoints.folder import Folder
from cluster.checkpoints.watch import Options, Watch
from cluster.commands.run import run
from cluster.errors import UserError
from envs.files import real_path


def main(options: argparse.Namespace) -> int:
    """Watch; returns the exit code.

    Raises:
        UserError: an option is wrong, or the folder is not there.
    """
    if options.games < 0:
        raise UserError(f"--games {options.games}: must be 0 or more")
    if not 0 <= options.settled < math.inf:
        raise UserError(f"--settled {options.settled:g}: must be 0 seconds or more")
    for override in options.overrides:
        if override.startswith(("run_dir=", "model.engine.model=", "model.name=", "shard=")):
            raise UserError(
                f"{override.partition('=')[0]}: is each checkpoint's own; --out names the folder of all runs"
            )
    out = options.out or Path("runs") / real_path(options.folder).name
    folder = Folder(options.folder, options.settled)
    asked = Options(folder, out, options.overrides, options.games, options.once, options.until, options.restart)
    return Watch(asked, run).watch()
