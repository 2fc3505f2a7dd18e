"""A report in one file."""

from typing import TypedDict


class ReportCell(TypedDict):
    """A cell of a table."""

    text: str
    interval: str
    number: bool
    best: bool


class ReportColumn(TypedDict):
    """A column of a table."""

    name: str
    number: bool


class ReportTable(TypedDict):
    """A table; ``shared`` is what holds in each of its rows."""

    title: str
    shared: list[str]
    columns: list[ReportColumn]
    rows: list[list[ReportCell]]
    notes: list[str]


class ReportFigure(TypedDict):
    """A figure; ``source`` is a data address."""

    title: str
    source: str
    width: int
    height: int
    alt: str
    dark: str
    """The same for a dark ground."""
    caption: str


class ReportEpisode(TypedDict):
    """An episode by its place in the chunk."""

    at: int
    ending: str


class ReportPrompt(TypedDict):
    """A prompt, stored as an episode of one step."""

    at: int
    title: str


class ReportText(TypedDict):
    """A long text."""

    title: str
    text: str


class ReportSection(TypedDict):
    """A part of a report."""

    id: str
    title: str
    lines: list[str]
    tables: list[ReportTable]
    figures: list[ReportFigure]
    more: list[ReportTable]
    episodes: list[ReportEpisode]
    prompts: list[ReportPrompt]
    texts: list[ReportText]


class Report(TypedDict):
    """A report in one file; ``version`` is raycade's."""

    title: str
    status: list[str]
    sections: list[ReportSection]
    version: str
