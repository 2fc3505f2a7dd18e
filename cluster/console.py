"""What every command prints: tables on standard output, warnings on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from evals.printable import printable
from evals.report.terminal import LaidOut
from evals.tables import Table

LONGEST_SHOWN = 40
"""Rows of the longest table that a summary shows."""


def show(tables: Sequence[Table]) -> None:
    """Print tables, as wide as the terminal; 80 columns where there is none (``COLUMNS`` says otherwise)."""
    _print(LaidOut(table) for table in tables)


def say_status(lines: Sequence[str]) -> None:
    """Print what must be known before the tables are read."""
    for line in lines:
        Console().print(Text(printable(line), style="bold yellow"))
    if lines:
        print()


def show_summary(tables: Sequence[Table]) -> None:
    """Print the headline tables in short and count the others."""
    shown = [table for table in tables if table.headline and len(table.rows) <= LONGEST_SHOWN]
    _print(LaidOut(table, brief=True) for table in shown)
    hidden = len(tables) - len(shown)
    text = "Brackets: 95 % confidence intervals. All columns and what they mean: `raycade report RUN --full`"
    Console().print(Text(f"{text}, with {hidden} more tables (also in RUN/tables)." if hidden else f"{text}."))


def _print(tables: Iterable[LaidOut]) -> None:
    console = Console()
    for table in tables:
        console.print(table)
        console.print()


def warn(text: str) -> None:
    """A line on standard error."""
    print(f"warning: {printable(text)}", file=sys.stderr, flush=True)
