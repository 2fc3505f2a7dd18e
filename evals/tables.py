"""Result tables: what scoring returns and what terminals (``evals.report.terminal``), files and reports show."""

from __future__ import annotations

import csv
import html
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal

from envs.printable import printable
from evals.stats.intervals import Estimate

Section = Literal["scores", "diagnostics", "performance", "paper"]

Cell = str | int | float | bool | None | Estimate | Decimal
"""A decimal is a number that is printed with exactly these digits."""


NO_INTERVAL: Final = "[–]: no interval, because there are fewer than five games (clusters), or all values are equal."
"""Explains what ``format_cell`` shows of an estimate without ends."""


@dataclass(frozen=True)
class Table:
    """Rows of named cells with a title and notes; a cell may be an estimate with its confidence interval.

    >>> table = Table("toy_success", "Toy", ("player", "games", "success"), (("tiny", 40, Estimate(0.5, 0.4, 0.6, 40)),))
    >>> print(table.to_markdown())
    ## Toy
    <BLANKLINE>
    | player | games | success |
    | --- | --- | --- |
    | tiny | 40 | 0.500 [0.400, 0.600] |
    <BLANKLINE>
    """

    name: str
    """File name stem, such as ``kumo_success``."""
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = field(default=())
    section: Section = "scores"
    headline: bool = False
    """Whether a short summary of the run shows this table."""
    brief: tuple[str, ...] = ()
    """The columns that a short summary shows; all, where none are named."""
    better: Mapping[str, Literal["higher", "lower"]] = field(default_factory=dict)
    """Columns whose best value is set in bold in LaTeX and HTML, among rows that differ in their first column only."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.name}: a row of {len(row)} cells under {len(self.columns)} columns")

    @property
    def all_notes(self) -> tuple[str, ...]:
        """The notes, and what ``[–]`` means where a cell shows it."""
        cells = [cell for row in self.rows for cell in row]
        if any(isinstance(cell, Estimate) and cell.n and not cell.has_interval for cell in cells):
            return (*self.notes, NO_INTERVAL)
        return self.notes

    @property
    def has_intervals(self) -> bool:
        """Whether any cell is an estimate."""
        return any(isinstance(cell, Estimate) for row in self.rows for cell in row)

    def shared(self) -> dict[int, str]:
        """Columns that say the same in every row, by position, with what they say; results aside, but not missing ones.

        None where there are not at least two rows, or where only one column would be left.
        """
        found = {}
        for place in range(len(self.columns)) if len(self.rows) > 1 else ():
            texts = {format_cell(row[place]) for row in self.rows}
            cells = [row[place] for row in self.rows]
            has_results = any(isinstance(cell, Estimate) and cell.n for cell in cells)
            if len(texts) == 1 and not has_results:
                found[place] = texts.pop()
        return found if len(self.columns) - len(found) > 1 else {}

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

    def wide(self) -> tuple[list[str], list[list[Any]]]:
        """Columns and rows of plain values; an estimate takes three columns (``x``, ``x low``, ``x high``)."""
        estimates = set[int]()
        names = list[str]()
        for column, title in enumerate(self.columns):
            names.append(title)
            if any(isinstance(row[column], Estimate) for row in self.rows):
                estimates.add(column)
                names += [f"{title} low", f"{title} high"]
        rows = []
        for row in self.rows:
            values = list[Any]()
            for column, cell in enumerate(row):
                values += _wide(cell, three=column in estimates)
            rows.append(values)
        return names, rows

    def to_csv(self) -> str:
        """Comma-separated values; see ``wide``. Texts command neither a terminal nor a spreadsheet."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        names, rows = self.wide()
        writer.writerows([_harmless(cell) for cell in row] for row in [names, *rows])
        return out.getvalue()

    def to_markdown(self) -> str:
        """A Markdown section: title, table, notes."""
        lines = [
            f"## {_without_tags(self.title)}",
            "",
            _markdown_row(map(_markdown_cell, self.columns)),
            _markdown_row(["---"] * len(self.columns)),
        ]
        lines += [_markdown_row(map(_markdown_cell, row)) for row in self.rows]
        return "\n".join([*lines, "", *(f"- {_without_tags(note)}" for note in self.all_notes)]).rstrip() + "\n"


def is_number(cell: Cell) -> bool:
    """Whether a cell is set flush right."""
    return isinstance(cell, int | float | Decimal | Estimate) and not isinstance(cell, bool)


def format_cell(cell: Cell) -> str:
    """A cell as people read it.

    Numbers have three significant digits, and more before the point where they need them; intervals stand in brackets.

    >>> [format_cell(cell) for cell in (0.25, 4.0, 36.12, 1234.5, -3.7e-17, 62976000, None)]
    ['0.250', '4.00', '36.1', '1,234', '0.00', '62,976,000', '–']
    >>> format_cell(Estimate(0.198, 0.0512, 0.501, n=40))
    '0.198 [0.0512, 0.501]'
    >>> format_cell(Estimate(0.198, math.nan, math.nan, n=2))
    '0.198 [–]'
    """
    match cell:
        case None:
            return "–"
        case Estimate():
            return _format_estimate(cell)
        case bool():
            return str(cell)
        case int():
            return f"{cell:,}"
        case float():
            return "–" if math.isnan(cell) else _three_digits(cell)
        case Decimal():
            return f"{cell:f}"  # without an exponent, also where all digits are 0
        case _:
            return printable(str(cell))


def _format_estimate(estimate: Estimate) -> str:
    if estimate.n == 0:
        return "–"
    mean = format_cell(estimate.mean)
    if not estimate.has_interval:
        return f"{mean} [–]"
    return f"{mean} [{format_cell(estimate.low)}, {format_cell(estimate.high)}]"


def _three_digits(number: float) -> str:
    if abs(number) < 1e-15:  # nothing, or what the rounding of a sum leaves of it
        return "0.00"
    if not math.isfinite(number) or abs(number) < 0.0001:
        return f"{number:.3g}"
    exponent = int(f"{number:.2e}".partition("e")[2])  # of the rounded number: 9.999 is 10.0
    return f"{number:,.{max(0, 2 - exponent)}f}"


def rounded(value: float | None, digits: int) -> Decimal | None:
    """A number to be printed with so many digits behind the point; None for nothing."""
    return None if value is None or not math.isfinite(value) else Decimal(f"{value:.{digits}f}")


def _json(cell: Cell) -> Any:
    if isinstance(cell, Estimate):
        return {name: _json(getattr(cell, name)) for name in ("mean", "low", "high", "n")}
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    return float(cell) if isinstance(cell, Decimal) else cell


def _wide(cell: Cell, *, three: bool) -> list[Any]:
    if isinstance(cell, Estimate):
        return [_json(cell.mean), _json(cell.low), _json(cell.high)]
    return [_json(cell), None, None] if three else [_json(cell)]


def _harmless(cell: Any) -> Any:
    """A cell of a CSV file; a text that a spreadsheet would take for a formula gets the apostrophe that it takes for text."""
    if not isinstance(cell, str):
        return cell
    shown = printable(cell)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@", "\t")) else shown


_MARKUP = re.compile(r"[\\|`*~]|\](?=[(\[])|(?<!\w)_|_(?!\w)")
"""What starts or ends markup in a cell: a bracket does before an address only, an underscore beside a word only."""


def _markdown_cell(cell: Cell) -> str:
    r"""A cell of a Markdown table, which shows a text of anybody literally.

    >>> print(*map(_markdown_cell, ("<b>", "a|b", "*now*", "[a](b)", "zero_shot", "[0.1, 0.5]")))
    &lt;b&gt; a\|b \*now\* [a\](b) zero_shot [0.1, 0.5]
    """
    line = format_cell(cell).replace("\n", " ")
    return _MARKUP.sub(r"\\\g<0>", _without_tags(line))


def _without_tags(text: str) -> str:
    """A text for Markdown that is taken for no HTML; other markup counts."""
    return html.escape(printable(text), quote=False)


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def tables_to_json(tables: Iterable[Table]) -> str:
    """All tables as one JSON document."""
    return json.dumps([table.to_json() for table in tables], indent=2, ensure_ascii=False) + "\n"


WRITERS: Mapping[str, Callable[[Table], str]] = {
    ".csv": Table.to_csv,
    ".json": lambda table: tables_to_json([table]),
    ".md": Table.to_markdown,
}
"""What a table is written by, by the ending of its file."""


def table_files(tables: Iterable[Table]) -> dict[str, bytes]:
    """Each table in every form, by the name of its file."""
    return {f"{table.name}{end}": write(table).encode() for table in tables for end, write in WRITERS.items()}
