"""Draws ``evals.figures.Figure`` with matplotlib: one function for each kind, on a light ground.

Colors are Okabe and Ito's, which color-blind people can tell apart, and each series has a marker of its own. Files of one
figure are the same to the byte each time.
"""

from __future__ import annotations

import io
import itertools
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from evals.figures import Figure, Value, middle
from evals.printable import printable
from evals.stats.intervals import Estimate

Format = Literal["svg", "pdf", "png"]

_COLORS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D1F")
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
_GRAY: Final = "#7A7A7A"
_MAP: Final = "cividis"
_COLUMNS: Final = 4
"""Panels side by side, at most."""
_LEGEND: Final = 28
"""Series that a legend names; more are told by the tables."""
_CHARACTER: Final = 0.085
"""Inches that a character takes, at most, in a title or label."""
_LONGEST: Final = 80
"""Characters of a label: a picture grows with them, and a name in a foreign run may have thousands."""
_STYLE: Final[Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 10,
    "figure.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "grid.color": "#DDDDDD",
    "svg.fonttype": "none",  # text stays text: small files, readable by screen readers
    "svg.hashsalt": "raycade",
    "pdf.fonttype": 42,  # journals refuse Type 3 fonts
}
_METADATA: Final[dict[str, dict[str, Any]]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


def draw(figure: Figure, form: Format) -> bytes:
    """The figure as a file's content."""
    with rc_context(_STYLE):
        canvas = _KINDS[figure.kind](figure)
        content = io.BytesIO()
        canvas.savefig(content, format=form, dpi=200, bbox_inches="tight", metadata=_METADATA[form])
    return content.getvalue()


def _grid_of(panels: int, width: float, height: float, **more: Any) -> tuple[Canvas, list[Axes]]:
    """A canvas of panels of this size in inches; one that remain empty are hidden."""
    rows = math.ceil(panels / _COLUMNS)
    columns = math.ceil(panels / rows)
    canvas = Canvas(figsize=(width * columns, height * rows), layout="constrained")
    axes = list(canvas.subplots(rows, columns, squeeze=False, **more).flat)
    for spare in axes[panels:]:
        spare.set_visible(False)
    return canvas, axes[:panels]


def _titled(canvas: Canvas, figure: Figure) -> Canvas:
    canvas.suptitle(_text(figure.title, 2 * _LONGEST))
    return canvas


def _styles(figure: Figure) -> dict[str, tuple[str, str]]:
    """Color and marker of each series by its name, the same in all panels."""
    names = dict.fromkeys(series.name for series in figure.series if not series.reference)
    return dict(zip(names, itertools.cycle(zip(_COLORS, _MARKERS, strict=True)), strict=False))


def _text(text: str, longest: int = _LONGEST) -> str:
    """Text that matplotlib does not take for mathematics, its middle left out where it is long."""
    shown = printable(text)
    if len(shown) > longest:
        shown = f"{shown[: longest // 2]}…{shown[-longest // 2 :]}"
    return shown.replace("$", r"\$")


def _panel_title(axes: Axes, title: str, inches: float, **more: Any) -> None:
    """A panel's title in lines that are no wider than the panel."""
    width = max(12, int(inches / _CHARACTER))
    axes.set_title("\n".join(textwrap.wrap(_text(title, 2 * _LONGEST), width)), **more)


def _legend(canvas: Canvas, axes: Sequence[Axes]) -> None:
    """One legend for all panels, below them."""
    found = {label: handle for each in axes for handle, label in zip(*each.get_legend_handles_labels(), strict=True)}
    if len(found) > 1:
        shown = dict(itertools.islice(found.items(), _LEGEND))
        # as many columns as the longest label leaves room for, so that the legend is not wider than the figure
        room = canvas.get_figwidth() / (_CHARACTER * max(map(len, shown)) + 0.6)
        columns = max(1, min(4, len(shown), int(room)))
        canvas.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=columns, frameon=False)


def _errors(values: Sequence[Value | str]) -> list[list[float]] | None:
    """How far intervals reach below and above."""
    ends = [_ends(value) for value in values]
    return [[low for low, _ in ends], [high for _, high in ends]] if any(map(any, ends)) else None


def _ends(value: Value | str) -> tuple[float, float]:
    if not isinstance(value, Estimate) or math.isnan(value.low + value.high):
        return 0.0, 0.0
    return max(0.0, value.mean - value.low), max(0.0, value.high - value.mean)


# --- kinds -----------------------------------------------------------------------------------------------------------


def _radar(figure: Figure) -> Canvas:
    canvas, axes = _grid_of(len(figure.panels), 3.6, 3.4, subplot_kw={"projection": "polar"})
    styles = _styles(figure)
    for each, (title, members) in zip(axes, figure.panels.items(), strict=True):
        names = list(dict.fromkeys(str(name) for series in members for name in series.x))
        # Panels may have different axes, so each has angles of its own.
        angles = [2 * math.pi * place / len(names) for place in range(len(names))]
        polar: Any = each
        polar.set_theta_offset(math.pi / 2)
        polar.set_theta_direction(-1)
        for series in members:
            found = dict(zip(series.x, _numbers(series.y), strict=True))
            values = [found.get(name, math.nan) for name in names]
            color, marker = styles.get(series.name, (_GRAY, ""))
            style: dict[str, Any] = {
                "color": color,
                "marker": marker,
                "ls": "--" if series.reference else "-",
                "label": _text(series.name),
            }
            each.plot([*angles, angles[0]], [*values, values[0]], lw=1.5, ms=4, **style)
            if not series.reference and not any(map(math.isnan, values)):
                each.fill(angles, values, color=color, alpha=0.07)
        each.set_xticks(angles, [_text(name) for name in names])
        for label, angle in zip(each.get_xticklabels(), angles, strict=True):
            side = math.sin(angle)
            label.set_horizontalalignment("center" if abs(side) < 0.1 else "left" if side > 0 else "right")
        if figure.limits:
            each.set_ylim(*figure.limits)
            each.set_yticks(
                [figure.limits[0] + (figure.limits[1] - figure.limits[0]) * part / 4 for part in (1, 2, 3, 4)]
            )
        each.tick_params(axis="y", labelsize=7, labelcolor="#555555")
        _panel_title(each, title, 3.6, pad=14)
    _legend(canvas, axes)
    return _titled(canvas, figure)


def _heat_map(figure: Figure) -> Canvas:
    panels = figure.panels
    columns = {title: list(dict.fromkeys(str(x) for row in rows for x in row.x)) for title, rows in panels.items()}
    most_rows, most_columns = max(map(len, panels.values())), max(map(len, columns.values()))
    names = max(len(_text(row.name)) for row in figure.series)
    below = 0.055 * max(len(_text(x)) for found in columns.values() for x in found)
    canvas, axes = _grid_of(len(panels), 1.0 + 0.07 * names + 0.5 * most_columns, 1.1 + below + 0.24 * most_rows)
    shown = [value for row in figure.series for value in map(middle, row.y) if value is not None]
    low, high = figure.limits or (min(shown, default=0), max(shown, default=1))
    for each, (title, rows) in zip(axes, panels.items(), strict=True):
        by_column = [dict(zip(row.x, _numbers(row.y), strict=True)) for row in rows]
        values = [[found.get(x, math.nan) for x in columns[title]] for found in by_column]
        each.imshow(values, vmin=low, vmax=high, cmap=_MAP, aspect="auto")
        _write_values(each, values, low, high)
        each.set_yticks(range(len(rows)), [_text(row.name) for row in rows])
        each.set_xticks(range(len(columns[title])), [_text(x) for x in columns[title]])
        each.tick_params(length=0)
        if max(map(len, columns[title])) > 5:
            _turn_labels(each)
        each.spines[:].set_visible(False)
        each.set(xlabel=figure.x_label)
        _panel_title(each, title, 1.0 + 0.07 * names + 0.5 * most_columns)
    canvas.supylabel(figure.y_label, fontsize=9)
    return _titled(canvas, figure)


def _write_values(axes: Axes, values: Sequence[Sequence[float]], low: float, high: float) -> None:
    """The numbers of a heat map, black on its bright half."""
    width = (high - low) or 1.0
    for y, line in enumerate(values):
        for x, value in enumerate(line):
            missing = math.isnan(value)
            bright = missing or (value - low) / width > 0.55
            text = "–" if missing else f"{value:.2f}"
            axes.text(x, y, text, ha="center", va="center", fontsize=7, color="black" if bright else "white")


def _turn_labels(axes: Axes) -> None:
    """Names below an axis that would be printed over one another side by side."""
    for label in axes.get_xticklabels():
        label.set(rotation=40, ha="right", rotation_mode="anchor")


def _points(figure: Figure) -> Canvas:
    canvas, axes = _grid_of(len(figure.panels), 4.0, 3.4, sharey=True)
    styles = _styles(figure)
    for each, (title, members) in zip(axes, figure.panels.items(), strict=True):
        for series in members:
            xs, ys = _numbers(series.x), _numbers(series.y)
            if series.reference:
                each.scatter(xs, ys, s=14, color=_GRAY, alpha=0.6, lw=0, label=_text(series.name), zorder=1)
                continue
            color, marker = styles[series.name]
            bars: dict[str, Any] = {"xerr": _errors(series.x), "yerr": _errors(series.y), "capsize": 2, "elinewidth": 1}
            each.errorbar(xs, ys, fmt=marker, color=color, ms=6, label=_text(series.name), **bars)
        _finish(each, figure, title)
    _legend(canvas, axes)
    return _titled(canvas, figure)


def _lines(figure: Figure) -> Canvas:
    canvas, axes = _grid_of(len(figure.panels), 3.4, 3.0, sharey=True)
    styles = _styles(figure)
    for each, (title, members) in zip(axes, figure.panels.items(), strict=True):
        names = list(dict.fromkeys(str(x) for series in members for x in series.x))
        own = [series for series in members if not series.reference]
        for series in members:
            shift = 0.0 if series.reference else 0.09 * (own.index(series) - (len(own) - 1) / 2)
            places = [names.index(str(x)) + shift for x in series.x]
            color, marker = styles.get(series.name, (_GRAY, ""))
            style: dict[str, Any] = {
                "color": color,
                "ls": "--" if series.reference else "-",
                "label": _text(series.name),
            }
            bars: dict[str, Any] = {"yerr": _errors(series.y), "capsize": 2, "elinewidth": 0.8}
            each.errorbar(places, _numbers(series.y), fmt=marker, ms=4, lw=1.3, **style, **bars)
        each.set_xticks(range(len(names)), [_text(name.replace(" to ", "\nto ")) for name in names])
        if max(len(line) for name in names for line in name.split(" to ")) * len(names) * _CHARACTER > 3.2:
            _turn_labels(each)
        each.margins(x=0.08)
        _finish(each, figure, title)
    _legend(canvas, axes)
    return _titled(canvas, figure)


def _histogram(figure: Figure) -> Canvas:
    canvas, axes = _grid_of(len(figure.panels), 4.6, 3.0)
    styles = _styles(figure)
    for each, (title, members) in zip(axes, figure.panels.items(), strict=True):
        width = 0.8 / len(members)
        for place, series in enumerate(members):
            shift = width * (place - (len(members) - 1) / 2)
            xs = [x + shift for x in _numbers(series.x)]
            each.bar(xs, _numbers(series.y), width=0.92 * width, color=styles[series.name][0], label=_text(series.name))
        each.xaxis.set_major_locator(MaxNLocator(integer=True))
        each.yaxis.set_major_locator(MaxNLocator(integer=True))
        _finish(each, figure, title)
    _legend(canvas, axes)
    return _titled(canvas, figure)


def _graph(figure: Figure) -> Canvas:
    canvas, axes = _grid_of(len(figure.panels), 2.6, 2.6)
    styles = _styles(figure)
    for each, (title, members) in zip(axes, figure.panels.items(), strict=True):
        for series in members:
            xs, ys = _numbers(series.x), _numbers(series.y)
            if series.reference:
                each.plot(xs, ys, color=_GRAY, lw=0.3, alpha=0.25, zorder=1)
                continue
            color, marker = styles[series.name]
            each.scatter(xs, ys, s=22, color=color, marker=marker, lw=0, label=_text(series.name), zorder=2)
        each.set_axis_off()
        _panel_title(each, title, 2.6)
    _legend(canvas, axes)
    return _titled(canvas, figure)


def _finish(axes: Axes, figure: Figure, title: str) -> None:
    axes.set(xlabel=figure.x_label, ylabel=figure.y_label if axes.get_subplotspec().is_first_col() else "")  # type: ignore[union-attr]
    _panel_title(axes, title, 3.4)
    axes.grid(axis="both" if figure.kind == "points" else "y", lw=0.6)
    axes.set_axisbelow(True)
    if figure.limits:
        low, high = figure.limits
        axes.set_ylim(low - 0.03 * (high - low), high + 0.03 * (high - low))


def _numbers(values: Iterable[Value | str]) -> list[float]:
    return [math.nan if value is None else value for value in map(middle, values)]


_KINDS: Final[dict[str, Callable[[Figure], Canvas]]] = {
    "radar": _radar,
    "heat_map": _heat_map,
    "points": _points,
    "lines": _lines,
    "histogram": _histogram,
    "graph": _graph,
}
