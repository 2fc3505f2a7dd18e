"""``raycade challenge``: games that nobody has seen. Their seeds are committed to by a hash, and opened later."""

from __future__ import annotations

import argparse
from pathlib import Path

from cluster.console import show
from cluster.stopping.challenge import check_run, new_challenge, open_challenge
from cluster.storage.stored_run import Run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Commands of ``raycade challenge``."""
    parser.description = (
        "`new` draws a secret and prints its hash, to be published before anything is played; runs with "
        "suite.seeds=sealed:FILE then play games that only the secret tells. `open` shows the secret, so that everybody can "
        "play the same games and check the hash; `check` says whether a run played them."
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    new = commands.add_parser("new", help="draw a secret, and print its hash to be published")
    new.add_argument("file", type=Path, metavar="FILE")
    new.set_defaults(action=lambda options: print(new_challenge(options.file)))
    opened = commands.add_parser("open", help="print the secret, and check it against the published hash")
    opened.add_argument("file", type=Path, metavar="FILE")
    opened.add_argument("--hash", required=True, metavar="SHA256", help="as it was published")
    opened.set_defaults(action=lambda options: print(open_challenge(options.file, options.hash)))
    check = commands.add_parser("check", help="see that a run played the games of an opened secret")
    check.add_argument("run_dir", type=Path, metavar="RUN")
    check.add_argument("file", type=Path, metavar="FILE")
    check.add_argument("--hash", required=True, metavar="SHA256", help="as it was published")
    check.set_defaults(action=lambda options: show([check_run(Run(options.run_dir), options.file, options.hash)]))


def main(options: argparse.Namespace) -> None:
    """Run the chosen command."""
    options.action(options)
