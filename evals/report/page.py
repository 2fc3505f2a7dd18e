"""What a report's page shows, as plain data; ``evals.archive.one_file`` makes it a file."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evals.figures import Figure
from evals.report.draw import draw
from evals.report.episodes import Prompt, Shown
from evals.report.latex import best_cells
from evals.report.panels import Look
from evals.stats.intervals import Estimate
from evals.tables import Cell, Table, format_cell, is_number


@dataclass(frozen=True)
class Section:
    """One part of the page; everything in it is optional."""

    title: str
    lines: Sequence[str] = ()
    tables: Sequence[Mapping[str, Any]] = ()
    """As ``table_parts`` makes them."""
    figures: Sequence[Mapping[str, Any]] = ()
    """As ``figure_parts`` makes them."""
    more: Sequence[Mapping[str, Any]] = ()
    """Tables that are folded away."""
    episodes: Sequence[Shown] = ()
    prompts: Sequence[Prompt] = ()
    texts: Sequence[Mapping[str, str]] = ()
    """Long texts, each with a title."""

    @property
    def id(self) -> str:
        """The anchor of the section."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show."""
        return not any((self.lines, self.tables, self.figures, self.more, self.episodes, self.prompts, self.texts))


@dataclass(frozen=True)
class Page:
    """All that is shown."""

    title: str
    status: Sequence[str]
    """What must be known before the scores are read."""
    sections: Sequence[Section] = field(default=())


# --- tables and figures ----------------------------------------------------------------------------------------------


def table_parts(table: Table, baselines: Collection[str] = ()) -> dict[str, Any]:
    """A table for the page.

    Args:
        table: What is shown.
        baselines: Players that do not compete for the best value.
    """
    shared, best = table.shared(), best_cells(table, baselines)
    numeric = {}
    for place in range(len(table.columns)):
        if place not in shared:
            numeric[place] = any(is_number(row[place]) for row in table.rows)
    rows = []
    for number, row in enumerate(table.rows):
        cells = [_cell(row[place], is_numeric, (number, place) in best) for place, is_numeric in numeric.items()]
        rows.append(cells)
    return {
        "title": table.title,
        "shared": [f"{table.columns[place]} {text}".strip() for place, text in shared.items()],
        "columns": [{"name": table.columns[place], "number": is_numeric} for place, is_numeric in numeric.items()],
        "rows": rows,
        "notes": table.all_notes,
    }


def _cell(cell: Cell, number: bool, best: bool) -> dict[str, Any]:
    text = format_cell(cell)
    mean, _, interval = text.partition(" ") if isinstance(cell, Estimate) else (text, "", "")
    return {"text": mean, "interval": interval, "number": number, "best": best}


def figure_parts(figure: Figure) -> dict[str, Any]:
    """A figure for the page, for a light and a dark ground, as pictures that cannot touch the page."""
    content, dark = draw(figure, "svg"), draw(figure, "svg", Look(dark=True))
    width, height = (float(found[1]) * 4 / 3 for found in (_attribute(content, "width"), _attribute(content, "height")))
    names = ", ".join(dict.fromkeys(series.name for series in figure.series))
    return {
        "title": figure.title,
        "source": _as_source(content),
        "dark": _as_source(dark),
        "width": round(width),
        "height": round(height),
        "alt": f"{figure.title} ({figure.kind.replace('_', ' ')}). Shows: {names}.",
        "caption": figure.caption,
    }


def _as_source(svg: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()


def _attribute(svg: bytes, name: str) -> re.Match[bytes]:
    found = re.search(rf'<svg[^>]*?\s{name}="([\d.]+)pt"'.encode(), svg)
    if found is None:
        raise ValueError(f"an SVG file without {name}")
    return found
