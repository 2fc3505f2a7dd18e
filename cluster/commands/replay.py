"""``raycade replay``: the old name of ``raycade retest``."""

from __future__ import annotations

import argparse

from cluster.commands import retest
from cluster.console import warn


def main(options: argparse.Namespace) -> None:
    """As ``raycade retest``, with a notice."""
    warn("`raycade replay` is now called `raycade retest`; the old name goes with the next major version")
    retest.main(options)
