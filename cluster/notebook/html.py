"""What shows itself in a notebook: tables, figures, pictures and episodes. Whatever a model wrote is escaped."""

from __future__ import annotations

import base64
import html
from dataclasses import dataclass
from typing import Final

from envs.picture import render_description
from envs.printable import printable
from evals.figures import Figure
from evals.tables import Cell, Table, format_cell, is_number
from evals.view import EpisodeView, StepView

MOST_ROWS: Final = 60
MOST_STEPS: Final = 20
LONGEST: Final = 2_000
"""Of a table, an episode, and a text; what is left out is counted."""


def escaped(text: str, longest: int = LONGEST) -> str:
    """A text as HTML that is shown as it stands; its invisible characters are spelled out."""
    shown = printable(text[:longest])
    left = len(text) - longest
    return html.escape(shown) + (f" … <i>{left:,} more characters</i>" if left > 0 else "")


@dataclass(frozen=True)
class Picture:
    """A picture that a player saw, by its description; rendered again when it is shown."""

    description: str

    def _repr_png_(self) -> bytes:
        from evals.viewer.episode import png_of

        return png_of(render_description(self.description)[1])


@dataclass(frozen=True)
class ShownTable:
    """A table of results; ``table`` has its rows, and ``to_csv``, ``to_markdown``, ``to_json``."""

    table: Table

    def _repr_html_(self) -> str:
        table = self.table
        left = len(table.rows) - MOST_ROWS
        notes = list(table.all_notes)
        if left > 0:
            notes.append(f"{left:,} more {'row' if left == 1 else 'rows'}")
        head = "".join(f"<th>{escaped(name)}</th>" for name in table.columns)
        rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows[:MOST_ROWS])
        below = "".join(f"<p><small>{escaped(note)}</small></p>" for note in notes)
        caption = f"<caption>{escaped(table.title)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{below}"

    def __repr__(self) -> str:
        return self.table.to_markdown()


@dataclass(frozen=True)
class ShownFigure:
    """A figure as papers print it; ``figure`` has its values."""

    figure: Figure

    def _repr_png_(self) -> bytes:
        from evals.report.draw import draw  # matplotlib takes a second to import

        return draw(self.figure, "png")

    def _repr_html_(self) -> str:
        return f"<figure>{_image(self._repr_png_(), 'figure')}<figcaption>{escaped(self.figure.title)}</figcaption></figure>"


def episode_html(title: str, ending: str, view: EpisodeView) -> str:
    """An episode step by step: what each added to the prompt, the reply, and what was decoded from it."""
    steps = "".join(_step(number, step) for number, step in enumerate(view.steps[:MOST_STEPS], 1))
    left = len(view.steps) - MOST_STEPS
    more = f"<p><i>{left:,} more steps</i></p>" if left > 0 else ""
    return f"<h4>{escaped(title)}: {escaped(ending)}</h4><ol>{steps}</ol>{more}"


def pictures_of(view: EpisodeView) -> list[Picture]:
    """The pictures of an episode in the order in which they were shown."""
    pictures = []
    for step in view.steps:
        for message in step.shown:
            shown = [part["picture"] for part in message["parts"]]
            pictures += [Picture(picture) for picture in shown if picture is not None]
    return pictures


def _step(number: int, step: StepView) -> str:
    shown = "".join(_part(part) for message in step.shown for part in message["parts"])
    decoded = "nothing" if step.decoded is None else step.decoded
    best = "" if step.best is None else f"; the oracle's: {escaped(step.best)}"
    prompt = f"<details><summary>step {number}: prompt</summary>{shown}</details>"
    return f"<li>{prompt}<pre>{escaped(step.reply)}</pre>decoded: <b>{escaped(decoded)}</b>{best}</li>"


def _part(part: dict[str, str | None]) -> str:
    if part["picture"] is None:
        return f"<pre>{escaped(part['text'] or '')}</pre>"
    try:
        return _image(Picture(part["picture"])._repr_png_(), "picture of the prompt")
    except ValueError as error:
        return f"<p>{escaped(str(error))}</p>"


def _image(png: bytes, alt: str) -> str:
    return f'<img alt="{alt}" style="max-width: 100%" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def _cell(cell: Cell) -> str:
    style = ' style="text-align: right"' if is_number(cell) else ""
    return f"<td{style}>{escaped(format_cell(cell))}</td>"
