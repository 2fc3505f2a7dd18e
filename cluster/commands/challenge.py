"""``raycade challenge``: games that nobody has seen. Their seeds are committed to by a hash, and opened later."""

from __future__ import annotations

import argparse

from cluster.console import say, show
from cluster.errors import RUN_FAILED
from cluster.stopping.challenge import check_run, new_challenge, open_challenge
from cluster.storage.stored_run import Run


def main(options: argparse.Namespace) -> int:
    """Run the chosen command; returns the exit code: 1 for a run that played other games than the challenge's."""
    if options.action == "new":
        say(new_challenge(options.file))
    elif options.action == "open":
        say(open_challenge(options.file, options.hash))
    else:
        table, others = check_run(Run(options.run_dir), options.file, options.hash)
        show([table])
        return RUN_FAILED if others else 0
    return 0
