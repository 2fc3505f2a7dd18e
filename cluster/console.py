"""What every command prints: tables on standard output, warnings on standard error."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from envs.printable import printable

if TYPE_CHECKING:  # tables take a third of a second to import, which `--help` need not wait for
    from evals.tables import Table

LONGEST_SHOWN = 40
"""Rows of the longest table that a summary shows."""


def show(tables: Sequence[Table]) -> None:
    """Print tables, as wide as the terminal; 80 columns where there is none (``COLUMNS`` says otherwise)."""
    _print(tables)


def say_status(lines: Sequence[str]) -> None:
    """Print what must be known before the tables are read."""
    from rich.text import Text

    from evals.report.terminal import Output

    for line in lines:
        Output().print(Text(printable(line), style="bold yellow"))
    if lines:
        print()


def show_summary(tables: Sequence[Table], written: bool = True) -> None:
    """Print the headline tables in short and count the others.

    Args:
        tables: All tables.
        written: Whether they are files of the run directory, too.
    """
    from rich.text import Text

    from evals.report.terminal import Output

    shown = [table for table in tables if table.headline and len(table.rows) <= LONGEST_SHOWN]
    _print(shown, brief=True)
    text = "Brackets: 95 % confidence intervals. All columns and what they mean: `raycade report RUN --full`"
    hidden = len(tables) - len(shown)
    if hidden:
        more = "1 more table" if hidden == 1 else f"{hidden} more tables"
        text += f", with {more}"
        if written:
            text += " (also in RUN/tables)"
    Output().print(Text(f"{text}."))


def _print(tables: Sequence[Table], brief: bool = False) -> None:
    from evals.report.terminal import LaidOut, Output

    console = Output()
    for table in tables:
        console.print(LaidOut(table, brief))
        console.print()


def raycade(*words: object) -> str:
    """A command of raycade as one types it in a shell.

    >>> raycade("report", "my runs/a")
    "raycade report 'my runs/a'"
    """
    return shlex.join(["raycade", *map(str, words)])


def say(text: str) -> None:
    """A line on standard output that holds names which somebody else may have given."""
    print(printable(text), flush=True)


def warn(text: str) -> None:
    """A line on standard error."""
    print(f"warning: {printable(text)}", file=sys.stderr, flush=True)
