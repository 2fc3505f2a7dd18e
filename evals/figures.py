"""Figures as plain data: what suites state (``Suite.figures``) and ``evals.report.draw`` draws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from evals.stats.intervals import Estimate

Kind = Literal["dots", "heat_map", "points", "lines", "histogram", "graph"]
"""``dots``: x names the rows, from the top; values are dots with intervals, those of reference ticks; where asked for and all
rows have one scale, a radar. ``heat_map``: a series is a row, x names the columns. ``points``: x and y are values.
``lines``: x names places in their order. ``histogram``: x are whole numbers, y the heights. ``graph``: nodes where x and y
say, without axes; the series of reference are its edges, lines that None parts."""

CLUSTERED = "95 % confidence, clustered by game"
"""What the bars of most figures are (``Figure.intervals``)."""

Value = float | Estimate | None
"""An estimate is drawn with its interval; None and nan are left out."""


@dataclass(frozen=True)
class Series:
    """The values of one player, or of one row of a heat map."""

    name: str
    x: tuple[str | Value, ...]
    y: tuple[Value, ...]
    panel: str = ""
    """Title of the panel that it is drawn in; panels stand side by side in the order of their first series."""
    reference: bool = False
    """Whether it is not of this run but published, or chance: drawn in gray."""

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"series {self.name!r}: {len(self.x)} places and {len(self.y)} values")


@dataclass(frozen=True)
class Figure:
    """Series with their title and labels.

    >>> series = Series("tiny", x=("easy", "hard"), y=(0.75, 0.25))
    >>> figure = Figure("toy_levels", "Toy: success by level", "lines", (series,), y_label="success", limits=(0, 1))
    >>> [middle(value) for value in figure.panels[""][0].y]
    [0.75, 0.25]
    """

    name: str
    """File name stem, such as ``kidgym_capabilities``."""
    title: str
    kind: Kind
    series: tuple[Series, ...]
    x_label: str = ""
    y_label: str = ""
    limits: tuple[float, float] | None = None
    """Range of y, or of the values of a heat map and of dots; as wide as the values by default."""
    notes: tuple[str, ...] = field(default=())
    intervals: str = ""
    """What the bars are, such as "95 % confidence, clustered by game"; needed where estimates are drawn."""
    unit: str = "episodes"
    """What the ``n`` of an estimate counts."""
    logarithmic: bool = False
    """Whether x is drawn on a logarithmic scale; of points."""
    line: float | None = None
    """A value that dots are compared with, marked by a line: 0 for differences. Values then stand beside their dots."""

    @property
    def panels(self) -> dict[str, list[Series]]:
        """Series by panel."""
        found: dict[str, list[Series]] = {}
        for series in self.series:
            found.setdefault(series.panel, []).append(series)
        return found

    def to_json(self) -> dict[str, Any]:
        """The figure as JSON values."""
        return {
            **{"name": self.name, "title": self.title, "kind": self.kind},
            "series": [
                {
                    **{"name": series.name, "panel": series.panel, "reference": series.reference},
                    "x": [_json(value) for value in series.x],
                    "y": [_json(value) for value in series.y],
                }
                for series in self.series
            ],
            **{"x_label": self.x_label, "y_label": self.y_label},
            "limits": None if self.limits is None else list(self.limits),
            "notes": list(self.notes),
            **{"intervals": self.intervals, "unit": self.unit, "line": self.line, "logarithmic": self.logarithmic},
        }

    @property
    def _estimates(self) -> list[Estimate]:
        """Those among the values that can be drawn."""
        values = itertools.chain.from_iterable((*series.x, *series.y) for series in self.series)
        estimates = [value for value in values if isinstance(value, Estimate)]
        return [estimate for estimate in estimates if middle(estimate) is not None]

    @property
    def caption(self) -> str:
        """What must be known to read the figure: what it shows, what the bars are, how many observations stand behind a value.

        >>> rates = (Estimate(0.75, 0.5, 0.9, n=20), Estimate(0.25, 0.1, 0.5, n=16), Estimate(1.0, 1.0, 1.0, n=1))
        >>> series = Series("tiny", x=("easy", "hard", "whole"), y=rates)
        >>> bars = "95 % confidence, clustered by game"
        >>> Figure("toy", "Toy: success by level", "dots", (series,), intervals=bars).caption
        'Toy: success by level. Bars: 95 % confidence, clustered by game; n = 16 to 20 episodes a value.'
        """
        shown = self._estimates
        parts = list[str]()
        has_bars = any(value.has_interval for value in shown)
        if self.intervals and has_bars:
            parts.append(f"Bars: {self.intervals}")
        counts = [value.n for value in shown if value.n > 1]
        if counts:
            parts.append(f"n = {_range(min(counts), max(counts))} {self.unit} a value")
        sentences = [f"{self.title.rstrip('.')}."]
        if parts:
            sentences.append(f"{'; '.join(parts).rstrip('.')}.")
        return " ".join([*sentences, *self.notes])


def middle(value: str | Value) -> float | None:
    """The number that a value says; None where there is none."""
    number = value.mean if isinstance(value, Estimate) else value
    return None if number is None or isinstance(number, str) or not math.isfinite(number) else float(number)


def _range(fewest: int, most: int) -> str:
    return f"{fewest:,} to {most:,}" if most > fewest else f"{fewest:,}"


def joined(figures: Iterable[Figure]) -> list[Figure]:
    """Figures of several runs with those of one name made one; rows of a heat map that have one name, too."""
    found: dict[str, Figure] = {}
    for figure in figures:
        first = found.get(figure.name)
        if first is None:
            found[figure.name] = figure
            continue
        series = list(first.series)
        for each in figure.series:
            if each not in series:
                _add(series, each, rows=figure.kind == "heat_map")
        notes = tuple(dict.fromkeys((*first.notes, *figure.notes)))
        found[figure.name] = Figure(**{**vars(first), "series": tuple(series), "notes": notes})
    return list(found.values())


def _add(series: list[Series], other: Series, rows: bool) -> None:
    for place, each in enumerate(series if rows else ()):
        if (each.panel, each.name) == (other.panel, other.name):
            more = [pair for pair in zip(other.x, other.y, strict=True) if pair[0] not in each.x]
            x, y = zip(*more, strict=True) if more else ((), ())
            series[place] = Series(each.name, (*each.x, *x), (*each.y, *y), each.panel, each.reference)
            return
    series.append(other)


def _json(value: str | Value) -> Any:
    if isinstance(value, Estimate):
        return {name: _json(getattr(value, name)) for name in ("mean", "low", "high", "n")}
    return None if isinstance(value, float) and not math.isfinite(value) else value
