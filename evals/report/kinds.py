"""Figures of all kinds but heat maps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Final, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import LogFormatter, MaxNLocator

from evals.figures import Figure, Series, middle
from evals.report.panels import (
    CHARACTER,
    GRAY,
    LINE,
    Look,
    add_legend,
    errors_of,
    finish,
    grid_of,
    inches_of,
    names_of,
    numbers_of,
    panel_title,
    plain_text,
    styles_of,
    turn_labels,
    widened,
)
from evals.tables import format_cell

_TICKS: Final = ("|", "x", "+", "1")
"""Marks of reference among dots: chance, shortcuts, the paper's."""


def dots(figure: Figure, look: Look) -> Canvas:
    """Names from the top, with a dot for each series, and marks of reference."""
    names = {title: names_of(members) for title, members in figure.panels.items()}
    own = {title: [each for each in members if not each.reference] for title, members in figure.panels.items()}
    most_rows = max(map(len, names.values()), default=1)
    most_series = max(map(len, own.values()), default=1)
    labels = inches_of(name for found in names.values() for name in found)
    values = 1.25 if figure.line is not None else 0.0
    height = 0.55 + max(1.2 * LINE, 0.09 * most_series) * most_rows
    canvas, axes = grid_of(figure, look, labels + values + 1.1, height)
    styles = styles_of(figure, look)
    for each, (title, members) in zip(axes, figure.panels.items(), strict=True):
        row = {name: place for place, name in enumerate(names[title])}
        _mark_references(each, [series for series in members if series.reference], row)
        for number, series in enumerate(own[title]):
            shift = 0.6 / most_series * (number - (len(own[title]) - 1) / 2)
            places = [row[str(name)] + shift for name in series.x]
            color, marker = styles[series.name]
            bars: dict[str, Any] = {"xerr": errors_of(series.y), "elinewidth": 0.9, "capsize": 1.5}
            each.errorbar(
                *(numbers_of(series.y), places), fmt=marker, color=color, ms=4, label=plain_text(series.name), **bars
            )
        each.set_yticks(range(len(row)), [plain_text(name) for name in row])
        each.set_ylim(max(0.5, len(row) - 0.5), -0.5)
        each.tick_params(axis="y", length=0)
        each.grid(axis="x")
        each.set_axisbelow(True)
        each.set_xlabel(plain_text(figure.y_label))
        if figure.limits:
            each.set_xlim(*widened(figure.limits))
        if figure.line is not None:
            each.axvline(figure.line, color=GRAY, lw=0.8, zorder=0)
            _write_beside(each, own[title], row)
        panel_title(each, title)
    add_legend(canvas, axes)
    return canvas


def _mark_references(axes: Axes, references: Sequence[Series], row: dict[str, int]) -> None:
    """Chance, shortcuts and what the paper reached, in gray among the dots."""
    for mark, series in zip(itertools.cycle(_TICKS), references, strict=False):
        places = [row[str(name)] for name in series.x]
        values = numbers_of(series.y)
        axes.scatter(values, places, marker=mark, s=70, color=GRAY, lw=1.2, label=plain_text(series.name))


def _write_beside(axes: Axes, series: Sequence[Series], row: dict[str, int]) -> None:
    """The numbers of the only series, on the right."""
    if len(series) != 1:
        return
    for name, value in zip(series[0].x, series[0].y, strict=True):
        if middle(value) is not None:
            place = (1.03, row[str(name)])
            axes.text(*place, format_cell(value), transform=axes.get_yaxis_transform(), va="center", fontsize=7)


def radar(figure: Figure, look: Look) -> Canvas:
    """Names around a circle, with a line for each series."""
    canvas, axes = grid_of(figure, look, 2.1, 2.3, subplot_kw={"projection": "polar"})
    styles = styles_of(figure, look)
    low, high = figure.limits or (0.0, 1.0)
    for each, (title, members) in zip(axes, figure.panels.items(), strict=True):
        names = names_of(members)
        # Panels may have different axes, so each has angles of its own.
        angles = [2 * math.pi * place / len(names) for place in range(len(names))]
        polar: Any = each
        polar.set_theta_offset(math.pi / 2)
        polar.set_theta_direction(-1)
        for series in members:
            found = dict(zip(series.x, numbers_of(series.y), strict=True))
            values = [found.get(name, math.nan) for name in names]
            color, marker = styles.get(series.name, (GRAY, ""))
            line = "--" if series.reference else "-"
            style: dict[str, Any] = {"color": color, "marker": marker, "ls": line, "label": plain_text(series.name)}
            each.plot([*angles, angles[0]], [*values, values[0]], lw=1.2, ms=3, **style)
            if not series.reference and not any(map(math.isnan, values)):
                each.fill(angles, values, color=color, alpha=0.07)
        each.set_xticks(angles, [plain_text(name) for name in names])
        for label, angle in zip(each.get_xticklabels(), angles, strict=True):
            label.set_horizontalalignment(_alignment(math.sin(angle)))
        each.set_ylim(low, high)
        each.set_yticks([low + (high - low) * part / 4 for part in (1, 2, 3, 4)])
        each.tick_params(axis="y", labelsize=6)
        panel_title(each, title, pad=10)
    add_legend(canvas, axes)
    return canvas


def _alignment(side: float) -> Literal["left", "center", "right"]:
    """How a name stands beside a circle, away from it: on its right above 0, on its left below."""
    if abs(side) < 0.1:
        return "center"
    return "left" if side > 0 else "right"


def points(figure: Figure, look: Look) -> Canvas:
    """Values over values."""
    canvas, axes = grid_of(figure, look, 2.1, 2.1, sharey=True)
    styles = styles_of(figure, look)
    for each, (title, members) in zip(axes, figure.panels.items(), strict=True):
        for series in members:
            xs, ys = numbers_of(series.x), numbers_of(series.y)
            if series.reference:
                each.scatter(xs, ys, s=9, color=GRAY, alpha=0.6, lw=0, label=plain_text(series.name), zorder=1)
                continue
            color, marker = styles[series.name]
            bars: dict[str, Any] = {
                "xerr": errors_of(series.x),
                "yerr": errors_of(series.y),
                "capsize": 1.5,
                "elinewidth": 0.8,
            }
            each.errorbar(xs, ys, fmt=marker, color=color, ms=4.5, label=plain_text(series.name), **bars)
        if figure.logarithmic:
            each.set_xscale("log")
            each.xaxis.set_major_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(2, 0.5)))
        finish(each, figure, title)
    add_legend(canvas, axes)
    return canvas


def lines(figure: Figure, look: Look) -> Canvas:
    """Values over places in their order."""
    canvas, axes = grid_of(figure, look, 2.1, 2.0, sharey=True)
    styles = styles_of(figure, look)
    for each, (title, members) in zip(axes, figure.panels.items(), strict=True):
        names = names_of(members)
        own = [series for series in members if not series.reference]
        for series in members:
            # Intervals of several series stand beside one another.
            shift = 0.0 if series.reference else 0.09 * (own.index(series) - (len(own) - 1) / 2)
            places = [names.index(str(x)) + shift for x in series.x]
            color, marker = styles.get(series.name, (GRAY, ""))
            line = "--" if series.reference else "-"
            style: dict[str, Any] = {"color": color, "ls": line, "label": plain_text(series.name)}
            bars: dict[str, Any] = {"yerr": errors_of(series.y), "capsize": 1.5, "elinewidth": 0.7}
            each.errorbar(places, numbers_of(series.y), fmt=marker, ms=3.5, lw=1.1, **style, **bars)
        each.set_xticks(range(len(names)), [plain_text(name.replace(" to ", "\nto ")) for name in names])
        longest = max(len(part) for name in names for part in name.split(" to "))
        if longest * len(names) * CHARACTER > 1.7:
            turn_labels(each)
        each.margins(x=0.08)
        finish(each, figure, title)
    add_legend(canvas, axes)
    return canvas


def histogram(figure: Figure, look: Look) -> Canvas:
    """Bars over whole numbers."""
    canvas, axes = grid_of(figure, look, 2.4, 1.9)
    styles = styles_of(figure, look)
    for each, (title, members) in zip(axes, figure.panels.items(), strict=True):
        width = 0.8 / len(members)
        for place, series in enumerate(members):
            shift = width * (place - (len(members) - 1) / 2)
            xs = [x + shift for x in numbers_of(series.x)]
            each.bar(
                xs,
                numbers_of(series.y),
                width=0.92 * width,
                color=styles[series.name][0],
                label=plain_text(series.name),
            )
        each.xaxis.set_major_locator(MaxNLocator(integer=True))
        each.yaxis.set_major_locator(MaxNLocator(integer=True))
        finish(each, figure, title)
    add_legend(canvas, axes)
    return canvas


def graph(figure: Figure, look: Look) -> Canvas:
    """Nodes and edges, without axes."""
    canvas, axes = grid_of(figure, look, 1.6, 1.7)
    styles = styles_of(figure, look)
    for each, (title, members) in zip(axes, figure.panels.items(), strict=True):
        for series in members:
            xs, ys = numbers_of(series.x), numbers_of(series.y)
            if series.reference:
                each.plot(xs, ys, color=GRAY, lw=0.3, alpha=0.25, zorder=1)
                continue
            color, marker = styles[series.name]
            each.scatter(xs, ys, s=14, color=color, marker=marker, lw=0, label=plain_text(series.name), zorder=2)
        each.set_axis_off()
        panel_title(each, title)
    add_legend(canvas, axes)
    return canvas
