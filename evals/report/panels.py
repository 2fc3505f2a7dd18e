"""What figures of all kinds share: canvas and panels, labels, legend, intervals."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from envs.printable import printable
from evals.figures import Figure, Series, Value, middle
from evals.stats.intervals import Estimate

Width = Literal["column", "text"]
INCHES: Final[dict[Width, float]] = {"column": 3.25, "text": 6.75}
"""Of a column, and of the text, in ICML's two-column style; those of ACL, CVPR and IEEE differ by at most .3 inches."""
_COLORS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D1F")
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
GRAY: Final = "#7A7A7A"
_LEGEND: Final = 28
"""Series that a legend names; more are told by the tables."""
CHARACTER: Final = 0.065
"""Inches that a character of 8 points takes, at most."""
_LONGEST: Final = 60
"""Characters of a label: a picture grows with them, and a name in a foreign run may have thousands."""
LINE: Final = 0.16
"""Inches from one line of text to the next."""
BLACK, WHITE = "#000000", "#E6E6E6"


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


def grid_of(figure: Figure, look: Look, narrowest: float, height: float, **more: Any) -> tuple[Canvas, list[Axes]]:
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
    legend = LINE * math.ceil(len(names[:_LEGEND]) / _legend_columns(names, width)) if len(names) > 1 else 0.0
    canvas = Canvas(figsize=(width, height * rows + legend), layout="constrained")
    axes = list(canvas.subplots(rows, columns, squeeze=False, **more).flat)
    used = len(figure.panels)
    for spare in axes[used:]:
        spare.set_visible(False)
    return canvas, axes[:used]


def styles_of(figure: Figure, look: Look) -> dict[str, tuple[str, str]]:
    """Color and marker of each series by its name, the same in all panels."""
    names = dict.fromkeys(series.name for series in figure.series if not series.reference)
    colors = [WHITE if look.dark and color == BLACK else color for color in _COLORS]
    return dict(zip(names, itertools.cycle(zip(colors, _MARKERS, strict=True)), strict=False))


def plain_text(text: str, longest: int = _LONGEST) -> str:
    """Text that matplotlib does not take for mathematics, its middle left out where it is long."""
    shown = printable(text)
    if len(shown) > longest:
        shown = f"{shown[: longest // 2]}…{shown[-longest // 2 :]}"
    return shown.replace("$", r"\$")


def inches_of(texts: Iterable[str]) -> float:
    """How much room the longest of these labels takes."""
    return CHARACTER * max((len(plain_text(text)) for text in texts), default=1)


def panel_title(axes: Axes, title: str, **more: Any) -> None:
    """A panel's title in lines that are no wider than the panel."""
    canvas: Any = axes.get_figure()
    columns = axes.get_subplotspec().get_gridspec().ncols  # type: ignore[union-attr]
    width = max(12, int(canvas.get_figwidth() / columns / CHARACTER))
    axes.set_title("\n".join(textwrap.wrap(plain_text(title, 2 * _LONGEST), width)), **more)


def _legend_columns(names: Sequence[str], width: float) -> int:
    """As many columns as the longest label leaves room for, so that the legend is not wider than the figure."""
    room = int(width / (inches_of(names[:_LEGEND]) + 0.45))
    return max(1, min(4, len(names), room))


def add_legend(canvas: Canvas, axes: Sequence[Axes]) -> None:
    """One legend for all panels, below them."""
    found = {label: handle for each in axes for handle, label in zip(*each.get_legend_handles_labels(), strict=True)}
    if len(found) > 1:
        shown = dict(itertools.islice(found.items(), _LEGEND))
        columns = _legend_columns(list(shown), canvas.get_figwidth())
        canvas.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=columns, frameon=False)


def errors_of(values: Sequence[Value | str]) -> list[list[float]] | None:
    """How far intervals reach below and above."""
    ends = [_ends(value) for value in values]
    return [[low for low, _ in ends], [high for _, high in ends]] if any(map(any, ends)) else None


def _ends(value: Value | str) -> tuple[float, float]:
    if not isinstance(value, Estimate) or math.isnan(value.low + value.high):
        return 0.0, 0.0
    return max(0.0, value.mean - value.low), max(0.0, value.high - value.mean)


def names_of(members: Iterable[Series]) -> list[str]:
    """All names that the series have values for, in their order."""
    return list(dict.fromkeys(str(name) for series in members for name in series.x))


def turn_labels(axes: Axes) -> None:
    """Names below an axis that would be printed over one another side by side."""
    for label in axes.get_xticklabels():
        label.set(rotation=40, ha="right", rotation_mode="anchor")


def finish(axes: Axes, figure: Figure, title: str) -> None:
    """Title, labels, grid and limits of a panel."""
    first = axes.get_subplotspec().is_first_col()  # type: ignore[union-attr]
    axes.set(xlabel=plain_text(figure.x_label), ylabel=plain_text(figure.y_label) if first else "")
    panel_title(axes, title)
    axes.grid(axis="both" if figure.kind == "points" else "y")
    axes.set_axisbelow(True)
    if figure.limits:
        axes.set_ylim(*widened(figure.limits))


def widened(limits: tuple[float, float]) -> tuple[float, float]:
    """With a margin, so that marks at the ends are whole."""
    low, high = limits
    return low - 0.03 * (high - low), high + 0.03 * (high - low)


def numbers_of(values: Iterable[Value | str]) -> list[float]:
    """The values without their intervals; nan for none."""
    return [math.nan if value is None else value for value in map(middle, values)]
