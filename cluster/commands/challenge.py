"""``raycade challenge``: games that nobody has seen. Their seeds are committed to by a hash, and opened later."""

from __future__ import annotations

import argparse

from cluster.console import say, show
from cluster.stopping.challenge import check_run, new_challenge, open_challenge
from cluster.storage.stored_run import Run


def main(options: argparse.Namespace) -> None:
    """Run the chosen command."""
    if options.action == "new":
        say(new_challenge(options.file))
    elif options.action == "open":
        say(open_challenge(options.file, options.hash))
    else:
        show([check_run(Run(options.run_dir), options.file, options.hash)])
