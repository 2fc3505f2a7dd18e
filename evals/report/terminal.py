"""Tables on a terminal: 80 columns are enough for any, no number is cut, and what all rows share is said once.

A table that is too wide is turned (few rows) or split into blocks that repeat its first columns. Texts wrap, numbers never do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from rich import box
from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from envs.printable import printable
from evals.tables import Table, format_cell, is_number

_GAP = 2
"""Columns of the terminal between two of a table."""
_TEXT_WIDTHS = (16, 12, 8, 4)
"""How far texts are narrowed, one after the other, until the widest number fits beside the first columns."""
_LONGEST_WORD = 36
"""So long a word, such as an episode's id, stays whole where there is room."""
_MOST_TURNED = 4
"""Rows of a table that may be turned."""


class Output(Console):
    """Standard output; where its reader has gone (``| head``), printing raises what it does elsewhere."""

    def on_broken_pipe(self) -> None:
        """Where rich would end the process with exit code 1.

        Raises:
            BrokenPipeError: always.
        """
        raise BrokenPipeError


@dataclass(frozen=True)
class LaidOut:
    """A table as something that rich prints, at whatever width it is given."""

    table: Table
    brief: bool = False
    """Only the columns that a summary needs (``Table.brief``), without notes."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """The title, what all rows share, the cells, the notes."""
        yield Text(printable(self.table.title), style="bold")
        columns, shared = _columns(self.table, self.table.brief if self.brief else ())
        if shared:
            yield Text(printable(f"in every row: {', '.join(shared)}"), style="dim")
        for number, block in enumerate(_arranged(columns, options.max_width)):
            yield from [""] * bool(number)
            yield _grid(block)
        if not self.brief and self.table.all_notes:
            yield Text(printable("\n".join(self.table.all_notes)), style="dim")


@dataclass(frozen=True)
class _Column:
    """A column as text."""

    name: str
    cells: tuple[str, ...]
    numeric: bool

    @cached_property
    def natural(self) -> int:
        """Width without any wrapping of cells."""
        words = max(map(cell_len, _words(self.name)), default=0)
        return max([words, *(cell_len(line) for cell in self.cells for line in cell.split("\n"))])

    def least(self, text_width: int) -> int:
        """The narrowest that it may become."""
        if self.numeric:
            return self.natural
        unbroken = max((cell_len(word) for cell in self.cells for word in _words(cell)), default=0)
        kept = unbroken if unbroken <= _LONGEST_WORD and text_width == _TEXT_WIDTHS[0] else 0
        return min(self.natural, max(text_width, kept))


def _columns(table: Table, chosen: Sequence[str]) -> tuple[list[_Column], list[str]]:
    """The columns that tell rows apart, or measure them, and what the others say in every row."""
    columns, said = [], []
    shared = table.shared()
    for place, name in enumerate(table.columns):
        if chosen and name not in chosen:
            continue
        if place in shared:
            said.append(f"{name} {shared[place]}".strip())
            continue
        values = [row[place] for row in table.rows]
        cells = tuple(map(format_cell, values))
        is_numeric = any(map(is_number, values)) or _are_decimals(cells)
        columns.append(_Column(printable(name), cells, is_numeric))
    return columns, said


_DECIMAL = re.compile(r"[+-]?\d*\.\d+%?|\[[+-]?\d*\.\d+, [+-]?\d*\.\d+\]")
"""A number, or an interval, that a table gives as a text since it has a form of its own: four digits, say."""


def _are_decimals(cells: Sequence[str]) -> bool:
    """Whether texts are numbers all the same, which no line may end within."""
    given = [cell for cell in cells if cell not in ("", "–")]
    return bool(given) and all(map(_DECIMAL.fullmatch, given))


def _arranged(columns: Sequence[_Column], width: int) -> list[list[tuple[_Column, int]]]:
    """Blocks of columns, each with its width, that fit side by side."""
    if not columns:
        return []
    widest_text = _TEXT_WIDTHS[0]
    # First as it is.
    if _needed(columns, widest_text) <= width:
        return [_widened(columns, widest_text, width)]
    # Then turned, if it has few rows.
    if len(columns[0].cells) <= _MOST_TURNED:
        turned = _turned(columns)
        if _needed(turned, widest_text) <= width:
            return [_widened(turned, widest_text, width)]
    # Else in blocks: each repeats the columns before the first number.
    count = next((number for number, column in enumerate(columns) if column.numeric), 1)
    return _in_blocks(columns[:count], columns[count:], width)


def _in_blocks(keys: Sequence[_Column], rest: Sequence[_Column], width: int) -> list[list[tuple[_Column, int]]]:
    """The rest of the columns in their order, as many behind the keys as fit."""
    widest = max((column.least(_TEXT_WIDTHS[0]) for column in rest), default=0)
    text_width = _text_width(keys, width - _GAP - widest)
    blocks: list[list[_Column]] = [[*keys]]
    for column in rest:
        begun = len(blocks[-1]) > len(keys)
        if begun and _needed([*blocks[-1], column], text_width) > width:
            blocks.append([*keys])
        blocks[-1].append(column)
    return [_widened(block, text_width, width) for block in blocks]


def _text_width(keys: Sequence[_Column], room: int) -> int:
    """The widest texts with which the keys fit; the narrowest if none do."""
    for text_width in _TEXT_WIDTHS:
        if _needed(keys, text_width) <= room:
            return text_width
    return _TEXT_WIDTHS[-1]


def _needed(columns: Sequence[_Column], text_width: int) -> int:
    return sum(column.least(text_width) for column in columns) + _GAP * (len(columns) - 1)


def _turned(columns: Sequence[_Column]) -> list[_Column]:
    """Each row as a column under its first cell."""
    head, *rest = columns
    names = _Column(head.name, tuple(column.name for column in rest), False)
    rows = range(len(head.cells))
    return [names, *(_Column(head.cells[row], tuple(column.cells[row] for column in rest), True) for row in rows)]


def _widened(columns: Sequence[_Column], text_width: int, width: int) -> list[tuple[_Column, int]]:
    """Columns with their widths: cells share the space that is left, the first ones first, and then headers do."""
    left = max(0, width - _needed(columns, text_width))
    rooms = []
    for column in columns:
        least = column.least(text_width)
        rooms.append(least + min(column.natural - least, left))
        left -= rooms[-1] - least
    for place, column in enumerate(columns):
        more = cell_len(column.name) - rooms[place]
        if 0 < more <= left:  # a header stands in one line or wraps as it would anyway
            rooms[place] += more
            left -= more
    return list(zip(columns, rooms, strict=True))


def _grid(block: Sequence[tuple[_Column, int]]) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, padding=(0, _GAP - 1, 0, 0), pad_edge=False, show_edge=False)
    for column, room in block:
        title = Text("\n".join(_wrapped(column.name, room)))
        grid.add_column(title, justify="right" if column.numeric else "left", width=room, no_wrap=True, overflow="fold")
    for cells in zip(*(column.cells for column, _ in block), strict=True):
        grid.add_row(
            *(Text("\n".join(_wrapped(cell, room))) for cell, (_, room) in zip(cells, block, strict=True)),
        )
    return grid


_BREAKS = re.compile(r"(?<=[\s_/,;-])")


def _words(text: str) -> list[str]:
    return [part.rstrip() for part in _BREAKS.split(text)]


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of at most this width, broken behind spaces, commas, slashes and joining marks where possible."""
    lines = []
    for paragraph in text.split("\n"):
        line = ""
        for part in _BREAKS.split(paragraph):
            if line and not _fits(line + part, width):
                lines.append(line.rstrip())
                line = ""
            line += part
            # A part that is wider than a line is cut.
            if not _fits(line, width):
                *full, line = chop_cells(line, width)
                lines += full
        lines.append(line.rstrip())
    return lines


def _fits(line: str, width: int) -> bool:
    return cell_len(line.rstrip()) <= width
