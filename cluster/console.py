"""What every command prints: tables on standard output, warnings on standard error."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console

from evals.tables import Table

LONGEST_SHOWN = 40
"""Rows of the longest table that a summary shows."""


def show(tables: Sequence[Table]) -> None:
    """Print tables; on a pipe they are as wide as they need to be."""
    console = _console()
    for table in tables:
        console.print(table.to_rich())
        console.print()


def show_summary(tables: Sequence[Table]) -> None:
    """Print the headline tables and name the others."""
    shown = [table for table in tables if table.headline and len(table.rows) <= LONGEST_SHOWN]
    show(shown)
    if rest := [table.name for table in tables if table not in shown]:
        text = f"{len(rest)} more tables in tables/, or by `raycade report --full`: {', '.join(rest)}"
        _console().print(text, markup=False, highlight=False)


def _console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=200)


def warn(text: str) -> None:
    """A line on standard error."""
    print(f"warning: {text}", file=sys.stderr, flush=True)
