"""What every command prints: tables on standard output, warnings on standard error."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console

from evals.tables import Table


def show(tables: Sequence[Table], longest: int | None = None) -> None:
    """Print tables; on a pipe they are as wide as they need to be. Those of more than ``longest`` rows are only named."""
    console = Console() if sys.stdout.isatty() else Console(width=200)
    for table in tables:
        if longest is not None and len(table.rows) > longest:
            console.print(
                f"{table.title}: {len(table.rows)} rows in tables/{table.name}.md", markup=False, highlight=False
            )
        else:
            console.print(table.to_rich())
        console.print()


def warn(text: str) -> None:
    """A line on standard error."""
    print(f"warning: {text}", file=sys.stderr, flush=True)
