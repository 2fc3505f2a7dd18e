"""Draws ``evals.figures.Figure`` with matplotlib as papers print it: one function for each kind.

A figure is as wide as a column or the text of a two-column page, in type of 8 points, and has no title inside: that stands in
its caption. Fonts are embedded. Colors are Okabe and Ito's, which color-blind people can tell apart, and each series has a
marker of its own, so that it also reads in gray. Files of one figure are the same to the byte each time.
"""

from __future__ import annotations

import io
import itertools
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import LogFormatter, MaxNLocator

from evals.figures import Figure, Series, Value, middle
from evals.printable import printable
from evals.stats.intervals import Estimate
from evals.tables import format_cell

Format = Literal["svg", "pdf", "png"]
Width = Literal["column", "text"]

INCHES: Final[dict[Width, float]] = {"column": 3.25, "text": 6.75}
"""Of a column, and of the text, in ICML's two-column style; those of ACL, CVPR and IEEE differ by at most .3 inches."""
_COLORS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D1F")
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
_TICKS: Final = ("|", "x", "+", "1")
"""Marks of reference among dots: chance, shortcuts, the paper's."""
_GRAY: Final = "#7A7A7A"
_MAP: Final = "cividis"
_LEGEND: Final = 28
"""Series that a legend names; more are told by the tables."""
_CHARACTER: Final = 0.065
"""Inches that a character of 8 points takes, at most."""
_LONGEST: Final = 60
"""Characters of a label: a picture grows with them, and a name in a foreign run may have thousands."""
_LINE: Final = 0.16
"""Inches from one line of text to the next."""
_STYLE: Final[Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "svg.fonttype": "path",  # looks the same where the font is not installed
    "svg.hashsalt": "raycade",
    "pdf.fonttype": 42,  # embedded as TrueType: journals refuse Type 3 fonts
}
_ON_DARK: Final[Any] = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color"), "#E6E6E6"),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
    "axes.edgecolor": "#AAAAAA",
    "grid.color": "#444444",
}
_BLACK, _WHITE = "#000000", "#E6E6E6"
_METADATA: Final[dict[str, dict[str, Any]]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


@dataclass(frozen=True)
class Look:
    """How a figure is drawn."""

    width: Width | None = None
    """A column for one panel, the text for more, by default."""
    radar: bool = False
    """Whether dots on one scale are drawn as a radar."""
    dark: bool = False
    """For a dark ground, which shows through."""

    def width_of(self, figure: Figure) -> Width:
        """How wide the figure is drawn."""
        return self.width or ("column" if len(figure.panels) < 2 else "text")


PLAIN: Final = Look()


def draw(figure: Figure, form: Format, look: Look = PLAIN) -> bytes:
    """The figure as a file's content."""
    with rc_context({**_STYLE, **(_ON_DARK if look.dark else {})}):
        radar = look.radar and figure.kind == "dots" and figure.limits is not None
        canvas = (_radar if radar else _KINDS[figure.kind])(figure, look)
        content = io.BytesIO()
        canvas.savefig(content, format=form, dpi=300, metadata=_METADATA[form])
    return content.getvalue()


def _grid_of(figure: Figure, look: Look, narrowest: float, height: float, **more: Any) -> tuple[Canvas, list[Axes]]:
    """A canvas with an axes for each panel and room for the legend.

    Args:
        figure: What is drawn.
        look: How.
        narrowest: Inches that a panel needs; as many panels as have them stand side by side.
        height: Inches of a panel.
        more: As ``Figure.subplots`` takes it.
    """
    width, panels = INCHES[look.width_of(figure)], max(1, len(figure.panels))
    rows = math.ceil(panels / min(panels, max(1, int(width / narrowest))))
    columns = math.ceil(panels / rows)
    names = list(dict.fromkeys(series.name for series in figure.series))
    legend = _LINE * math.ceil(len(names[:_LEGEND]) / _legend_columns(names, width)) if len(names) > 1 else 0.0
    canvas = Canvas(figsize=(width, height * rows + legend), layout="constrained")
    axes = list(canvas.subplots(rows, columns, squeeze=False, **more).flat)
    for spare in axes[panels:]:
        spare.set_visible(False)
    return canvas, axes[:panels]


def _styles(figure: Figure, look: Look) -> dict[str, tuple[str, str]]:
    """Color and marker of each series by its name, the same in all panels."""
    names = dict.fromkeys(series.name for series in figure.series if not series.reference)
    colors = [_WHITE if look.dark and color == _BLACK else color for color in _COLORS]
    return dict(zip(names, itertools.cycle(zip(colors, _MARKERS, strict=True)), strict=False))


def _text(text: str, longest: int = _LONGEST) -> str:
    """Text that matplotlib does not take for mathematics, its middle left out where it is long."""
    shown = printable(text)
    if len(shown) > longest:
        shown = f"{shown[: longest // 2]}…{shown[-longest // 2 :]}"
    return shown.replace("$", r"\$")


def _inches(texts: Iterable[str]) -> float:
    """How much room the longest of these labels takes."""
    return _CHARACTER * max((len(_text(text)) for text in texts), default=1)


def _panel_title(axes: Axes, title: str, **more: Any) -> None:
    """A panel's title in lines that are no wider than the panel."""
    canvas: Any = axes.get_figure()
    columns = axes.get_subplotspec().get_gridspec().ncols  # type: ignore[union-attr]
    width = max(12, int(canvas.get_figwidth() / columns / _CHARACTER))
    axes.set_title("\n".join(textwrap.wrap(_text(title, 2 * _LONGEST), width)), **more)


def _legend_columns(names: Sequence[str], width: float) -> int:
    """As many columns as the longest label leaves room for, so that the legend is not wider than the figure."""
    room = int(width / (_inches(names[:_LEGEND]) + 0.45))
    return max(1, min(4, len(names), room))


def _legend(canvas: Canvas, axes: Sequence[Axes]) -> None:
    """One legend for all panels, below them."""
    found = {label: handle for each in axes for handle, label in zip(*each.get_legend_handles_labels(), strict=True)}
    if len(found) > 1:
        shown = dict(itertools.islice(found.items(), _LEGEND))
        columns = _legend_columns(list(shown), canvas.get_figwidth())
        canvas.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=columns, frameon=False)


def _errors(values: Sequence[Value | str]) -> list[list[float]] | None:
    """How far intervals reach below and above."""
    ends = [_ends(value) for value in values]
    return [[low for low, _ in ends], [high for _, high in ends]] if any(map(any, ends)) else None


def _ends(value: Value | str) -> tuple[float, float]:
    if not isinstance(value, Estimate) or math.isnan(value.low + value.high):
        return 0.0, 0.0
    return max(0.0, value.mean - value.low), max(0.0, value.high - value.mean)


def _names_of(members: Iterable[Series]) -> list[str]:
    """All names that the series have values for, in their order."""
    return list(dict.fromkeys(str(name) for series in members for name in series.x))


# --- kinds -----------------------------------------------------------------------------------------------------------


def _dots(figure: Figure, look: Look) -> Canvas:
    names = {title: _names_of(members) for title, members in figure.panels.items()}
    own = {title: [each for each in members if not each.reference] for title, members in figure.panels.items()}
    most_rows = max(map(len, names.values()), default=1)
    most_series = max(map(len, own.values()), default=1)
    labels = _inches(name for found in names.values() for name in found)
    values = 1.25 if figure.line is not None else 0.0
    height = 0.55 + max(1.2 * _LINE, 0.09 * most_series) * most_rows
    canvas, axes = _grid_of(figure, look, labels + values + 1.1, height)
    styles = _styles(figure, look)
    for each, (title, members) in zip(axes, figure.panels.items(), strict=True):
        row = {name: place for place, name in enumerate(names[title])}
        references = [series for series in members if series.reference]
        for mark, series in zip(itertools.cycle(_TICKS), references, strict=False):
            places = [row[str(name)] for name in series.x]
            each.scatter(
                *(_numbers(series.y), places), marker=mark, s=70, color=_GRAY, lw=1.2, label=_text(series.name)
            )
        for number, series in enumerate(own[title]):
            shift = 0.6 / most_series * (number - (len(own[title]) - 1) / 2)
            places_of = [row[str(name)] + shift for name in series.x]
            color, marker = styles[series.name]
            bars: dict[str, Any] = {"xerr": _errors(series.y), "elinewidth": 0.9, "capsize": 1.5}
            each.errorbar(
                *(_numbers(series.y), places_of), fmt=marker, color=color, ms=4, label=_text(series.name), **bars
            )
        each.set_yticks(range(len(row)), [_text(name) for name in row])
        each.set_ylim(max(0.5, len(row) - 0.5), -0.5)
        each.tick_params(axis="y", length=0)
        each.grid(axis="x")
        each.set_axisbelow(True)
        each.set_xlabel(_text(figure.y_label))
        if figure.limits:
            each.set_xlim(*_widened(figure.limits))
        if figure.line is not None:
            each.axvline(figure.line, color=_GRAY, lw=0.8, zorder=0)
            _write_beside(each, own[title], row)
        _panel_title(each, title)
    _legend(canvas, axes)
    return canvas


def _write_beside(axes: Axes, series: Sequence[Series], row: dict[str, int]) -> None:
    """The numbers of the only series, on the right."""
    if len(series) != 1:
        return
    for name, value in zip(series[0].x, series[0].y, strict=True):
        if middle(value) is not None:
            place = (1.03, row[str(name)])
            axes.text(*place, format_cell(value), transform=axes.get_yaxis_transform(), va="center", fontsize=7)


def _radar(figure: Figure, look: Look) -> Canvas:
    canvas, axes = _grid_of(figure, look, 2.1, 2.3, subplot_kw={"projection": "polar"})
    styles = _styles(figure, look)
    low, high = figure.limits or (0.0, 1.0)
    for each, (title, members) in zip(axes, figure.panels.items(), strict=True):
        names = _names_of(members)
        # Panels may have different axes, so each has angles of its own.
        angles = [2 * math.pi * place / len(names) for place in range(len(names))]
        polar: Any = each
        polar.set_theta_offset(math.pi / 2)
        polar.set_theta_direction(-1)
        for series in members:
            found = dict(zip(series.x, _numbers(series.y), strict=True))
            values = [found.get(name, math.nan) for name in names]
            color, marker = styles.get(series.name, (_GRAY, ""))
            line = "--" if series.reference else "-"
            style: dict[str, Any] = {"color": color, "marker": marker, "ls": line, "label": _text(series.name)}
            each.plot([*angles, angles[0]], [*values, values[0]], lw=1.2, ms=3, **style)
            if not series.reference and not any(map(math.isnan, values)):
                each.fill(angles, values, color=color, alpha=0.07)
        each.set_xticks(angles, [_text(name) for name in names])
        for label, angle in zip(each.get_xticklabels(), angles, strict=True):
            side = math.sin(angle)
            label.set_horizontalalignment("center" if abs(side) < 0.1 else "left" if side > 0 else "right")
        each.set_ylim(low, high)
        each.set_yticks([low + (high - low) * part / 4 for part in (1, 2, 3, 4)])
        each.tick_params(axis="y", labelsize=6)
        _panel_title(each, title, pad=10)
    _legend(canvas, axes)
    return canvas


def _heat_map(figure: Figure, look: Look) -> Canvas:
    panels = figure.panels
    columns = {title: _names_of(rows) for title, rows in panels.items()}
    most_rows = max(map(len, panels.values()), default=1)
    most_columns = max(map(len, columns.values()), default=1)
    # Turned names of columns reach as far to the left as they reach down, below the names of rows.
    below = 0.75 * _inches(x for found in columns.values() for x in found)
    names = max(_inches(row.name for row in figure.series), below)
    height = 0.5 + below + 0.19 * most_rows
    # The legend is the color bar: rows are named at the axis.
    rows_only = Figure(
        **{**vars(figure), "series": tuple(Series("", s.x, s.y, s.panel, s.reference) for s in figure.series)}
    )
    canvas, axes = _grid_of(rows_only, look, names + 0.32 * most_columns + 0.2, height)
    shown = [value for row in figure.series for value in map(middle, row.y) if value is not None]
    low, high = figure.limits or (min(shown, default=0), max(shown, default=1))
    counts = {value.n for row in figure.series for value in row.y if isinstance(value, Estimate)}
    image = None
    for each, (title, rows) in zip(axes, panels.items(), strict=True):
        by_column = [dict(zip(row.x, row.y, strict=True)) for row in rows]
        cells = [[found.get(x) for x in columns[title]] for found in by_column]
        values = [_numbers(line) for line in cells]
        image = each.imshow(values, vmin=low, vmax=high, cmap=_MAP, aspect="auto")
        _write_values(each, cells, low, high, with_counts=len(counts) > 1, ground=_WHITE if look.dark else _BLACK)
        each.set_yticks(range(len(rows)), [_text(row.name) for row in rows])
        each.set_xticks(range(len(columns[title])), [_text(x) for x in columns[title]])
        each.tick_params(length=0)
        if max(map(len, columns[title])) > 5:
            _turn_labels(each)
        each.spines[:].set_visible(False)
        each.set(xlabel=_text(figure.x_label))
        _panel_title(each, title)
    if image is not None:
        bar = canvas.colorbar(image, ax=axes, fraction=0.05, pad=0.02, aspect=25)
        bar.outline.set_visible(False)  # type: ignore[operator]
    canvas.supylabel(_text(figure.y_label), fontsize=8)
    return canvas


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
            if number is None:
                axes.text(x, y, "–", ha="center", va="center", fontsize=6, color=ground)
                continue
            count = ""
            size = 6
            if with_counts and isinstance(value, Estimate):
                count = f" ({value.n})"
                size = 5
            color = "black" if (number - low) / width > 0.55 else "white"
            axes.text(x, y, f"{number:.2f}{count}", ha="center", va="center", fontsize=size, color=color)


def _turn_labels(axes: Axes) -> None:
    """Names below an axis that would be printed over one another side by side."""
    for label in axes.get_xticklabels():
        label.set(rotation=40, ha="right", rotation_mode="anchor")


def _points(figure: Figure, look: Look) -> Canvas:
    canvas, axes = _grid_of(figure, look, 2.1, 2.1, sharey=True)
    styles = _styles(figure, look)
    for each, (title, members) in zip(axes, figure.panels.items(), strict=True):
        for series in members:
            xs, ys = _numbers(series.x), _numbers(series.y)
            if series.reference:
                each.scatter(xs, ys, s=9, color=_GRAY, alpha=0.6, lw=0, label=_text(series.name), zorder=1)
                continue
            color, marker = styles[series.name]
            bars: dict[str, Any] = {
                "xerr": _errors(series.x),
                "yerr": _errors(series.y),
                "capsize": 1.5,
                "elinewidth": 0.8,
            }
            each.errorbar(xs, ys, fmt=marker, color=color, ms=4.5, label=_text(series.name), **bars)
        if figure.logarithmic:
            each.set_xscale("log")
            each.xaxis.set_major_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(2, 0.5)))
        _finish(each, figure, title)
    _legend(canvas, axes)
    return canvas


def _lines(figure: Figure, look: Look) -> Canvas:
    canvas, axes = _grid_of(figure, look, 2.1, 2.0, sharey=True)
    styles = _styles(figure, look)
    for each, (title, members) in zip(axes, figure.panels.items(), strict=True):
        names = _names_of(members)
        own = [series for series in members if not series.reference]
        for series in members:
            shift = 0.0 if series.reference else 0.09 * (own.index(series) - (len(own) - 1) / 2)
            places = [names.index(str(x)) + shift for x in series.x]
            color, marker = styles.get(series.name, (_GRAY, ""))
            line = "--" if series.reference else "-"
            style: dict[str, Any] = {"color": color, "ls": line, "label": _text(series.name)}
            bars: dict[str, Any] = {"yerr": _errors(series.y), "capsize": 1.5, "elinewidth": 0.7}
            each.errorbar(places, _numbers(series.y), fmt=marker, ms=3.5, lw=1.1, **style, **bars)
        each.set_xticks(range(len(names)), [_text(name.replace(" to ", "\nto ")) for name in names])
        if max(len(line) for name in names for line in name.split(" to ")) * len(names) * _CHARACTER > 1.7:
            _turn_labels(each)
        each.margins(x=0.08)
        _finish(each, figure, title)
    _legend(canvas, axes)
    return canvas


def _histogram(figure: Figure, look: Look) -> Canvas:
    canvas, axes = _grid_of(figure, look, 2.4, 1.9)
    styles = _styles(figure, look)
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
    return canvas


def _graph(figure: Figure, look: Look) -> Canvas:
    canvas, axes = _grid_of(figure, look, 1.6, 1.7)
    styles = _styles(figure, look)
    for each, (title, members) in zip(axes, figure.panels.items(), strict=True):
        for series in members:
            xs, ys = _numbers(series.x), _numbers(series.y)
            if series.reference:
                each.plot(xs, ys, color=_GRAY, lw=0.3, alpha=0.25, zorder=1)
                continue
            color, marker = styles[series.name]
            each.scatter(xs, ys, s=14, color=color, marker=marker, lw=0, label=_text(series.name), zorder=2)
        each.set_axis_off()
        _panel_title(each, title)
    _legend(canvas, axes)
    return canvas


def _finish(axes: Axes, figure: Figure, title: str) -> None:
    first = axes.get_subplotspec().is_first_col()  # type: ignore[union-attr]
    axes.set(xlabel=_text(figure.x_label), ylabel=_text(figure.y_label) if first else "")
    _panel_title(axes, title)
    axes.grid(axis="both" if figure.kind == "points" else "y")
    axes.set_axisbelow(True)
    if figure.limits:
        axes.set_ylim(*_widened(figure.limits))


def _widened(limits: tuple[float, float]) -> tuple[float, float]:
    """With a margin, so that marks at the ends are whole."""
    low, high = limits
    return low - 0.03 * (high - low), high + 0.03 * (high - low)


def _numbers(values: Iterable[Value | str]) -> list[float]:
    return [math.nan if value is None else value for value in map(middle, values)]


_KINDS: Final[dict[str, Callable[[Figure, Look], Canvas]]] = {
    "dots": _dots,
    "heat_map": _heat_map,
    "points": _points,
    "lines": _lines,
    "histogram": _histogram,
    "graph": _graph,
}
