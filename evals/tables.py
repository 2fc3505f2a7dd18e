"""Result tables: what scoring returns and what terminals, files and reports show."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import rich.table
from rich.text import Text

from evals.statistics import Estimate

Section = Literal["scores", "diagnostics", "performance"]

Cell = str | int | float | bool | None | Estimate


@dataclass(frozen=True)
class Table:
    """Rows of named cells with a title and notes; a cell may be an estimate with its confidence interval."""

    name: str
    """File name stem, such as ``kumo_success``."""
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = field(default=())
    section: Section = "scores"
    headline: bool = False
    """Whether a short summary of the run shows this table."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.name}: a row of {len(row)} cells under {len(self.columns)} columns")

    def to_json(self) -> dict[str, Any]:
        """The table as JSON values; an estimate becomes an object with mean, low, high and n."""
        return {
            "name": self.name,
            "title": self.title,
            "columns": list(self.columns),
            "rows": [[_json(cell) for cell in row] for row in self.rows],
            "notes": list(self.notes),
            "section": self.section,
            "headline": self.headline,
        }

    def to_csv(self) -> str:
        """Comma-separated values; an estimate takes three columns (``x``, ``x low``, ``x high``)."""
        estimates = {
            column for column in range(len(self.columns)) if any(isinstance(row[column], Estimate) for row in self.rows)
        }
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(
            name
            for column, title in enumerate(self.columns)
            for name in ([title, f"{title} low", f"{title} high"] if column in estimates else [title])
        )
        for row in self.rows:
            writer.writerow(value for column, cell in enumerate(row) for value in _csv(cell, wide=column in estimates))
        return out.getvalue()

    def to_markdown(self) -> str:
        """A Markdown section: title, table, notes."""
        lines = [f"## {self.title}", "", _markdown_row(self.columns), _markdown_row(["---"] * len(self.columns))]
        lines += [_markdown_row(format_cell(cell) for cell in row) for row in self.rows]
        return "\n".join([*lines, "", *(f"- {note}" for note in self.notes)]).rstrip() + "\n"

    def to_rich(self) -> rich.table.Table:
        """The table for a terminal; its cells are plain text, whatever a model may have written into them."""
        notes = Text("\n".join(self.notes)) if self.notes else None
        table = rich.table.Table(title=Text(self.title), title_justify="left", caption=notes, caption_justify="left")
        for index, column in enumerate(self.columns):
            numeric = any(isinstance(row[index], int | float | Estimate) for row in self.rows)
            table.add_column(Text(column), justify="right" if numeric else "left")
        for row in self.rows:
            table.add_row(*(Text(format_cell(cell)) for cell in row))
        return table


def format_cell(cell: Cell) -> str:
    """A cell as people read it: three significant digits, intervals in brackets, a dash for nothing."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "–"
    if isinstance(cell, Estimate):
        if cell.n == 0:
            return "–"
        return f"{format_cell(cell.mean)} [{format_cell(cell.low)}, {format_cell(cell.high)}]"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.3f}" if abs(cell) < 10 else f"{cell:.1f}"
    return str(cell)


def _json(cell: Cell) -> Any:
    if isinstance(cell, Estimate):
        return {name: _json(getattr(cell, name)) for name in ("mean", "low", "high", "n")}
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    return cell


def _csv(cell: Cell, *, wide: bool) -> list[Any]:
    if isinstance(cell, Estimate):
        return [_json(cell.mean), _json(cell.low), _json(cell.high)]
    return [_json(cell), "", ""] if wide else [_json(cell)]


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def tables_to_json(tables: Iterable[Table]) -> str:
    """All tables as one JSON document."""
    return json.dumps([table.to_json() for table in tables], indent=2, ensure_ascii=False) + "\n"
