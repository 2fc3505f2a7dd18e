"""Every number of the papers' result tables as a ``Figure``: as printed, with a correction beside it where it is wrong."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml

from evals.reference.models import Model, models

SHARES = frozenset({"success", "accuracy", "parse errors"})
"""Measures that are shares of successes among ``n`` observations."""


@dataclass(frozen=True)
class Correction:
    """Why a printed figure is wrong, and what it should read."""

    value: float | None
    """None where the figure is doubtful and the right one is not known."""
    why: str
    """One line; the long story is in docs/published_figures.md."""


@dataclass(frozen=True)
class Figure:
    """One number of a paper.

    Attributes:
        table: Where it stands, such as ``Table 2``.
        row: The row's name as printed; rows of one model may be spelled in several ways.
        measure: What it measures; shares are between 0 and 1, capability scores out of 100.
        cell: What it is measured on, such as mode, task and level.
        printed: As printed, per cent as shares.
        n: Observations behind it, where the paper says so.
        games: Different games among these; several observations of one game are not independent.
        correction: What is wrong with it, if anything.
    """

    table: str
    row: str
    measure: str
    cell: Mapping[str, str]
    printed: float
    n: int | None = None
    games: int | None = None
    correction: Correction | None = None

    @property
    def value(self) -> float:
        """The best that is known: the correction's, or as printed."""
        known = self.correction.value if self.correction else None
        return self.printed if known is None else known


@dataclass(frozen=True)
class Conditions:
    """Under which conditions figures were measured, in a few words each; an empty one is not on record or does not apply."""

    games: str = ""
    pictures: str = ""
    prompts: str = ""
    decoder: str = ""
    temperature: str = ""
    weights: str = ""


@dataclass(frozen=True)
class Paper:
    """The published figures of one suite."""

    suite: str
    source: str
    baselines: Mapping[str, str]
    """Rows that are no model (chance, people, averages), each with the name of the player who plays so, if there is one."""
    conditions: Conditions
    figures: tuple[Figure, ...]

    @functools.cached_property
    def models_by_row(self) -> Mapping[str, str]:
        """The model's name for each spelling of its rows."""
        return {row: model.name for model in models() for row in model.rows.get(self.suite, ())}

    def model_of(self, figure: Figure) -> str:
        """The name of the model (``evals.reference.models``) that a figure is of; empty for baselines."""
        return self.models_by_row.get(figure.row, "")

    def baseline_of(self, player: str) -> str:
        """The baseline row that a built-in player, or a person, belongs beside; empty for all others."""
        return next((row for row, name in self.baselines.items() if name == player), "")

    @functools.cached_property
    def models(self) -> tuple[Model, ...]:
        """The models that the paper has rows of."""
        return tuple(model for model in models() if self.suite in model.rows)

    @functools.cached_property
    def _index(self) -> Mapping[tuple[str, str, frozenset[tuple[str, str]]], Figure]:
        found: dict[tuple[str, str, frozenset[tuple[str, str]]], Figure] = {}
        for figure in sorted(self.figures, key=lambda figure: figure.n is None):
            for name in {figure.row, self.model_of(figure)} - {""}:
                found.setdefault((name, figure.measure, frozenset(figure.cell.items())), figure)
        return found

    def find(self, name: str, measure: str, cell: Mapping[str, str]) -> Figure | None:
        """The figure of a model, or of a row by its printed name, in one cell; of several tables the first that says n.

        Args:
            name: A model's name, or a row's, such as ``Random``.
            measure: As in ``Figure.measure``.
            cell: As in ``Figure.cell``, all of it.
        """
        return self._index.get((name, measure, frozenset(cell.items())))

    def table(self, name: str) -> tuple[Figure, ...]:
        """All figures of one printed table, in its order."""
        return tuple(figure for figure in self.figures if figure.table == name)


@functools.cache
def published(suite: str) -> Paper:
    """The published figures of a suite.

    Raises:
        FileNotFoundError: no paper's figures are kept for it.
    """
    text = resources.files(__package__).joinpath("tables", f"{suite}.yaml").read_text(encoding="utf-8")
    data = yaml.safe_load(text)
    baselines = data["baselines"]
    figures = [figure for block in data["tables"] for figure in _figures_of(block, baselines)]
    return Paper(suite, data["source"], baselines, Conditions(**data["conditions"]), tuple(figures))


# --- reading the files -----------------------------------------------------------------------------------------------

_Cell = tuple[tuple[str, str], ...]


def _figures_of(block: Mapping[str, Any], baselines: Collection[str]) -> Iterator[Figure]:
    """The figures of one table of a file; see the files' own first lines for the form."""
    per_cent = block.get("per_cent", False)
    corrections: dict[_Cell, Correction] = {}
    for entry in block.get("corrections", ()):
        for cell, value in _values({entry["row"]: entry["values"]}, block["axes"], block):
            right = None if entry.get("doubtful") else _scaled(value, per_cent)
            corrections[cell] = Correction(right, entry["why"])
    for cell, value in _values(block["values"], block["axes"], block):
        known = {**dict(cell), **block.get("cell", {})}
        row, measure = known.pop("row"), known.pop("measure", None) or block["measure"]
        solved = value if block.get("counted") else None
        if solved:
            share, n = solved[0], solved[2]
        elif row in baselines:
            share, n = value, block.get("baseline_n")
        else:
            share, n = value, _n(block, known)
        yield Figure(
            table=block["table"],
            row=row,
            measure=measure,
            cell=known,
            printed=_scaled(share, per_cent),
            n=n,
            games=n if n is None else block.get("games", n),
            correction=corrections.get(cell),
        )


def _values(values: Any, axes: Sequence[str], block: Mapping[str, Any]) -> Iterator[tuple[_Cell, Any]]:
    """The numbers below nested keys, each with its place on the axes; nulls are left out."""
    if not axes:
        if values is not None:
            yield (), values
        return
    items = values.items() if isinstance(values, dict) else zip(block["columns"], values, strict=True)
    for key, below in items:
        for cell, value in _values(below, axes[1:], block):
            yield ((axes[0], str(key)), *cell), value


def _scaled(value: float, per_cent: bool) -> float:
    return round(value / 100, 6) if per_cent else float(value)


def _n(block: Mapping[str, Any], cell: Mapping[str, str]) -> int | None:
    n = block.get("n")
    return n[cell["stage"]] if isinstance(n, dict) else n
