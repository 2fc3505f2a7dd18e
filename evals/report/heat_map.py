"""Heat maps, with their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from evals.figures import Figure, Series, Value, middle
from evals.report.panels import (
    BLACK,
    WHITE,
    Look,
    grid_of,
    inches_of,
    names_of,
    numbers_of,
    panel_title,
    plain_text,
    turn_labels,
)
from evals.stats.intervals import Estimate

_MAP: Final = "cividis"


def heat_map(figure: Figure, look: Look) -> Canvas:
    """Rows of cells, each with its number."""
    columns = {title: names_of(rows) for title, rows in figure.panels.items()}
    canvas, axes = _room_for(figure, look, columns)
    values = [value for row in figure.series for value in row.y]
    low, high = figure.limits or _range_of(values)
    counts = {value.n for value in values if isinstance(value, Estimate)}
    ground = WHITE if look.dark else BLACK
    image = None
    for each, (title, rows) in zip(axes, figure.panels.items(), strict=True):
        cells = _cells_of(rows, columns[title])
        image = each.imshow(list(map(numbers_of, cells)), vmin=low, vmax=high, cmap=_MAP, aspect="auto")
        _write_values(each, cells, low, high, with_counts=len(counts) > 1, ground=ground)
        _name_axes(each, [row.name for row in rows], columns[title])
        each.set(xlabel=plain_text(figure.x_label))
        panel_title(each, title)
    if image is not None:
        bar = canvas.colorbar(image, ax=axes, fraction=0.05, pad=0.02, aspect=25)
        bar.outline.set_visible(False)  # type: ignore[operator]
    canvas.supylabel(plain_text(figure.y_label), fontsize=8)
    return canvas


def _room_for(figure: Figure, look: Look, columns: Mapping[str, Sequence[str]]) -> tuple[Canvas, list[Axes]]:
    """A canvas with room for the names of rows and columns."""
    most_rows = max(map(len, figure.panels.values()), default=1)
    most_columns = max(map(len, columns.values()), default=1)
    # Turned names of columns reach as far to the left as they reach down, below the names of rows.
    below = 0.75 * inches_of(name for found in columns.values() for name in found)
    beside = max(inches_of(row.name for row in figure.series), below)
    # The legend is the color bar: rows are named at the axis.
    unnamed = replace(figure, series=tuple(replace(row, name="") for row in figure.series))
    return grid_of(unnamed, look, beside + 0.32 * most_columns + 0.2, 0.5 + below + 0.19 * most_rows)


def _range_of(values: Iterable[Value]) -> tuple[float, float]:
    numbers = [number for number in map(middle, values) if number is not None]
    return min(numbers, default=0), max(numbers, default=1)


def _cells_of(rows: Sequence[Series], columns: Sequence[str]) -> list[list[Value]]:
    """The values by row and column; None where a row has none."""
    by_column = [dict(zip(row.x, row.y, strict=True)) for row in rows]
    return [[found.get(name) for name in columns] for found in by_column]


def _name_axes(axes: Axes, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Names of rows and columns in place of ticks and frame."""
    axes.set_yticks(range(len(rows)), list(map(plain_text, rows)))
    axes.set_xticks(range(len(columns)), list(map(plain_text, columns)))
    axes.tick_params(length=0)
    if max(map(len, columns)) > 5:
        turn_labels(axes)
    axes.spines[:].set_visible(False)


def _write_values(
    axes: Axes, cells: Sequence[Sequence[Value]], low: float, high: float, with_counts: bool, ground: str
) -> None:
    """The numbers of a heat map, black on its bright half, with the observations behind each where these differ.

    Args:
        axes: Where they are written.
        cells: The values by row and column.
        low: The value of the darkest color.
        high: Of the brightest one.
        with_counts: Whether counts are written.
        ground: The color of text where there is no value, so no cell.
    """
    width = (high - low) or 1.0
    for y, line in enumerate(cells):
        for x, value in enumerate(line):
            number = middle(value)
            text, size, color = "–", 6, ground
            if number is not None:
                is_bright = (number - low) / width > 0.55
                text, color = f"{number:.2f}", "black" if is_bright else "white"
            if number is not None and with_counts and isinstance(value, Estimate):
                text, size = f"{text} ({value.n})", 5
            axes.text(x, y, text, ha="center", va="center", fontsize=size, color=color)
