r"""Tables as LaTeX with booktabs: a file for each to be pasted or ``\input``, and a document with all of them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from functools import cache
from typing import Final, Literal

from pylatexenc.latexencode import UnicodeToLatexEncoder

from envs.printable import printable
from evals.figures import Figure
from evals.stats.intervals import Estimate
from evals.tables import Cell, Table, format_cell, is_number

_LONG: Final = 40
"""Rows of the longest table that stays on one page."""
_COLUMN, _TEXT = 42, 95
"""Characters of the widest row, three for each space between columns included, that a column and the text of a two-column
page hold at 9 points."""

_ENCODER = UnicodeToLatexEncoder(unknown_char_policy="replace", unknown_char_warning=False)


def document(tables: Iterable[Table], title: str) -> str:
    """A document that inputs the file of each table, to be compiled as it is."""
    inputs = "".join(f"\\input{{{table.name}.tex}}\n" for table in tables)
    return (
        "\\documentclass{article}\n\\usepackage[T1]{fontenc}\n\\usepackage[margin=2cm,landscape]{geometry}\n"
        "\\usepackage{booktabs,longtable,graphicx}\n\\begin{document}\n"
        f"\\section*{{{_escaped(title)}}}\n{inputs}\\end{{document}}\n"
    )


def latex(table: Table, baselines: Collection[str] = ()) -> str:
    """One table with caption and label; long ones break across pages.

    The first column names models: it is written once for rows that follow each other. The best value of the columns in
    ``Table.better`` is bold, among rows that differ in that first column only. A table that is wider than the text of a page
    loses the columns that say the same in every row, which the caption tells, then those that a summary leaves out, and is
    set smaller last.

    Args:
        table: What is set.
        baselines: Players that do not compete for it.
    """
    best = best_cells(table, baselines)
    notes = table.all_notes
    if _characters(table) > _TEXT:
        shared = table.shared()
        said = ", ".join(f"{table.columns[place]} {text}".strip() for place, text in shared.items())
        if said:
            notes = (f"In every row: {said}.", *notes)
        table, best = _narrowed(table, best, [place for place in range(len(table.columns)) if place not in shared])
    left_out = ""
    if _characters(table) > _TEXT and table.brief:
        kept = [place for place, name in enumerate(table.columns) if name in table.brief]
        others = [name for name in table.columns if name not in table.brief]
        left_out = f"% columns that do not fit are in the run's tables: {', '.join(others)}\n"
        table, best = _narrowed(table, best, kept)
    rows = _body(table, best)
    spec = "".join("r" if _numeric(table, column) else "l" for column in range(len(table.columns)))
    head = _head(table.columns)
    caption = f"\\caption{{{_escaped(' '.join([table.title + '.', *notes]))}}}"
    label = f"\\label{{tab:{table.name}}}"
    width = _characters(table)
    kind, size = "table", "\\small\n"
    if width > _COLUMN:
        # Spans both columns of a page that has two.
        kind, size = "table*", "\\footnotesize\\setlength{\\tabcolsep}{4pt}\n"
    packages, shrunk, end = "booktabs", "", "\n"
    if width > _TEXT:
        packages, shrunk, end = "booktabs,graphicx", "\\resizebox{\\textwidth}{!}{%\n", "}\n"
    needs = f"% needs \\usepackage[T1]{{fontenc}} and \\usepackage{{{packages}}}"
    if len(table.rows) > _LONG:
        return (
            f"{needs} and \\usepackage{{longtable}}\n{left_out}{{{size}\\begin{{longtable}}{{{spec}}}\n{caption}{label}\\\\\n"
            f"\\toprule\n{head}\\midrule\n\\endhead\n\\bottomrule\n\\endfoot\n{rows}\\end{{longtable}}}}\n"
        )
    return (
        f"{needs}\n{left_out}\\begin{{{kind}}}[tbp]\n\\centering{size}{caption}\n{label}\n{shrunk}\\begin{{tabular}}{{{spec}}}\n\\toprule\n"
        f"{head}\\midrule\n{rows}\\bottomrule\n\\end{{tabular}}{end}\\end{{{kind}}}\n"
    )


def latex_figure(figure: Figure, width: Literal["column", "text"]) -> str:
    r"""A float with the figure's PDF, caption and label; one as wide as the text spans both columns.

    The PDF is looked for in the folders of ``\\graphicspath``.
    """
    kind = "figure" if width == "column" else "figure*"
    return (
        f"% needs \\usepackage[T1]{{fontenc}} and \\usepackage{{graphicx}}\n\\begin{{{kind}}}[tbp]\n\\centering\n"
        f"\\includegraphics[width=\\{width}width]{{{figure.name}.pdf}}\n"
        f"\\caption{{{_escaped(figure.caption)}}}\n\\label{{fig:{figure.name}}}\n\\end{{{kind}}}\n"
    )


def best_cells(table: Table, baselines: Collection[str] = ()) -> set[tuple[int, int]]:
    """Row and column of the best values, as they are printed: ties are all of them, a value without rival is none.

    Args:
        table: Its first column names the players.
        baselines: Players that do not compete, such as the oracle.
    """
    groups = _rivals(table, baselines)
    best: set[tuple[int, int]] = set()
    for name, which in table.better.items():
        column = table.columns.index(name)
        for members in groups:
            best.update((number, column) for number in _best_rows(table, members, column, which))
    return best


def _rivals(table: Table, baselines: Collection[str]) -> list[list[int]]:
    """The numbers of rows that compete, in groups that have all labels but the player in common."""
    labels = [column for column in range(1, len(table.columns)) if not _numeric(table, column)]
    groups: defaultdict[tuple[Cell, ...], list[int]] = defaultdict(list)
    for number, row in enumerate(table.rows):
        if row[0] not in baselines:
            groups[tuple(row[column] for column in labels)].append(number)
    return list(groups.values())


def _best_rows(table: Table, rows: Sequence[int], column: int, which: str) -> list[int]:
    """Of some rows those with the best value in a column; none where it has no rival."""
    values: dict[int, float] = {}
    for number in rows:
        value = _value(table.rows[number][column])
        if value is not None:
            values[number] = value
    if len(values) < 2:
        return []
    top = max(values.values()) if which == "higher" else min(values.values())
    return [number for number, value in values.items() if value == top]


def _value(cell: Cell) -> float | None:
    """The number that is compared: of an estimate its mean, as printed."""
    number = cell.mean if isinstance(cell, Estimate) and cell.n else cell
    if not isinstance(number, int | float | Decimal) or math.isnan(number):
        return None
    return float(number if isinstance(number, Decimal) else format_cell(number).replace(",", ""))


def _narrowed(
    table: Table, best: Collection[tuple[int, int]], kept: Sequence[int]
) -> tuple[Table, set[tuple[int, int]]]:
    """The table, and the places of its best cells, with some of its columns only."""
    narrower = dataclasses.replace(
        table,
        columns=tuple(table.columns[place] for place in kept),
        rows=tuple(tuple(row[place] for place in kept) for row in table.rows),
        better={name: which for name, which in table.better.items() if table.columns.index(name) in kept},
    )
    return narrower, {(row, kept.index(column)) for row, column in best if column in kept}


def _characters(table: Table) -> int:
    """About how wide the table is, in characters."""
    heads = [len(name.rpartition(": ")[2]) for name in table.columns]
    for row in table.rows:
        heads = [max(known, len(format_cell(cell))) for known, cell in zip(heads, row, strict=True)]
    return sum(heads) + 3 * len(heads)


def _numeric(table: Table, column: int) -> bool:
    return any(is_number(row[column]) for row in table.rows)


def _head(columns: Sequence[str]) -> str:
    """The header; neighbors that share what stands before a colon are grouped below it."""
    parts = [name.rpartition(": ") for name in columns]
    names = " & ".join(_escaped(name) for *_, name in parts) + " \\\\\n"
    if not any(group for group, *_ in parts):
        return names
    groups: list[str] = []
    rules: list[str] = []
    place = 1
    for group, members in itertools.groupby(parts, key=lambda part: part[0]):
        count = len(list(members))
        if group:
            groups.append(f"\\multicolumn{{{count}}}{{c}}{{{_escaped(group)}}}")
            rules.append(f"\\cmidrule(lr){{{place}-{place + count - 1}}}")
        else:
            groups.append(" & " * (count - 1))
        place += count
    return f"{' & '.join(groups)} \\\\\n{''.join(rules)}\n{names}"


def _body(table: Table, best: Collection[tuple[int, int]]) -> str:
    names = [row[0] for row in table.rows]
    several = len(set(names)) < len(names)
    lines = []
    for number, row in enumerate(table.rows):
        cells = [_cell(cell, bold=(number, column) in best) for column, cell in enumerate(row)]
        # Rows of one name stand close together, and say it once.
        if _repeats_name(names, number):
            cells[0] = ""
        elif several and number:
            lines.append("\\addlinespace\n")
        lines.append(" & ".join(cells) + " \\\\\n")
    return "".join(lines)


def _repeats_name(names: Sequence[Cell], number: int) -> bool:
    """Whether a row stands below one of the same name, which is not printed again."""
    if number == 0:
        return False
    return names[number - 1] == names[number] and isinstance(names[number], str)


def _cell(cell: Cell, bold: bool) -> str:
    if isinstance(cell, Estimate) and cell.n:
        mean, _, interval = format_cell(cell).partition(" ")
        text = f"{_set(mean, bold)} {{\\scriptsize {_escaped(interval)}}}"
    else:
        text = _set(format_cell(cell), bold)
    return f"{{{text}}}" if text.startswith("[") else text  # else an argument of the line break before it


def _set(text: str, bold: bool) -> str:
    return f"\\textbf{{{_escaped(text)}}}" if bold else _escaped(text)


@cache
def _escaped(text: str) -> str:
    escaped: str = _ENCODER.unicode_to_latex(" ".join(printable(text).split()))
    return escaped
