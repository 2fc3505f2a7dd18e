"""Draws ``evals.figures.Figure`` with matplotlib as papers print it: one function for each kind.

A figure is as wide as a column or the text of a two-column page, in type of 8 points, and has no title inside: that stands in
its caption. Fonts are embedded. Colors are Okabe and Ito's, which color-blind people can tell apart, and each series has a
marker of its own, so that it also reads in gray. Files of one figure are the same to the byte each time.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

from matplotlib import rc_context, rcParamsDefault
from matplotlib.figure import Figure as Canvas

from evals.figures import Figure
from evals.report.heat_map import heat_map
from evals.report.kinds import dots, graph, histogram, lines, points, radar
from evals.report.panels import PLAIN, Look

Format = Literal["svg", "pdf", "png"]
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
_NOT_OF_FIGURES: Final = {"backend", "backend_fallback", "interactive", "toolbar", "timezone"}
"""Settings that are those of the whole program."""
_METADATA: Final[dict[str, dict[str, Any]]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


def draw(figure: Figure, form: Format, look: Look = PLAIN) -> bytes:
    """The figure as a file's content."""
    # Not as a file `matplotlibrc` says that lies in the current folder: it could have LaTeX started.
    usual = {name: value for name, value in rcParamsDefault.items() if name not in _NOT_OF_FIGURES}
    with rc_context({**usual, **_STYLE, **(_ON_DARK if look.dark else {})}), _without_build_date():
        as_radar = look.radar and figure.kind == "dots" and figure.limits is not None
        kind = radar if as_radar else _KINDS[figure.kind]
        canvas = kind(figure, look)
        content = io.BytesIO()
        canvas.savefig(content, format=form, dpi=300, metadata=_METADATA[form])
    return content.getvalue()


@contextlib.contextmanager
def _without_build_date() -> Iterator[None]:
    """Our figures hold no date; matplotlib reads this variable of build systems all the same, and fails where it is no date."""
    date = os.environ.pop("SOURCE_DATE_EPOCH", None)
    try:
        yield
    finally:
        if date is not None:
            os.environ["SOURCE_DATE_EPOCH"] = date


_KINDS: Final[dict[str, Callable[[Figure, Look], Canvas]]] = {
    "dots": dots,
    "heat_map": heat_map,
    "points": points,
    "lines": lines,
    "histogram": histogram,
    "graph": graph,
}
