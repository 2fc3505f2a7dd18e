"""Positional integers on a benchmark's command line, with ``--help``."""

from __future__ import annotations

import argparse


def whole_numbers(description: str | None, **defaults: int) -> list[int]:
    """Parse positional integers, in the order of ``defaults``."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        parser.add_argument(name, type=int, nargs="?", default=default, help=f"default {default}")
    return list(vars(parser.parse_args()).values())
