"""What a search has found, kept as a file beside a suite, and the best of it that may stand beside scores as a shortcut.

The file is YAML: all senses, and each search with its command, date and seeds and, for each cell, on how many games it was
learned and measured and what each feature class won. A cell stands below the search that found it last::

    senses: [color, text]
    searches:
    - command: python -m benchmarks.shortcut_search boxes --write found.yaml
      date: 2026-01-31
      training: training:0
      cells:
      - {task: boxes, level: plain, learned_from: 200, games: 400, success: {everything: 1.0, text only: 0.33}}
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from envs.files import Bounds, FileError, parse_yaml, read_text
from evals.shortcut_search.classes import FeatureClass, feature_classes
from evals.shortcut_search.search import Found

BOUNDS: Final = Bounds(size=1_000_000, depth=6, nodes=50_000)
LEARNED: Final = "learned: "
"""Before the name of a feature class where it stands among names of players."""


class Search(NamedTuple):
    """One run of the search."""

    command: str
    date: str
    training: str
    """Seeds of the games that were learned from; measured was on the open ones."""


@dataclass(frozen=True)
class CellRecord:
    """What was found in one cell."""

    search: Search
    learned_from: int
    """Games that were learned from."""
    games: int
    """Held-out games that were measured on."""
    success: Mapping[str, float]
    """Of each feature class."""


@dataclass(frozen=True)
class SearchRecord:
    """Searches on file."""

    senses: tuple[str, ...]
    """All senses that features of the suite name, coarse ones included."""
    cells: Mapping[tuple[str, str], CellRecord]
    """By task and level."""

    def best(self, task: str, level: str, about: Collection[str]) -> tuple[str, float] | None:
        """The feature class that wins most in a cell, of those that lack a sense which the task is about.

        Args:
            task: Of the cell.
            level: Of the cell.
            about: Senses without which nobody should win the task, such as color where things are sorted by color.

        Returns:
            Name of the player and its success; None where the cell was not searched.
        """
        classes = {known.name: known for known in feature_classes(self.senses)}
        cell = self.cells.get((task, level))
        success = cell.success if cell else {}
        won = {name: share for name, share in success.items() if _lacks(classes[name], about)}
        if not won:
            return None
        name = max(won, key=won.__getitem__)
        return LEARNED + name, won[name]


def _lacks(known: FeatureClass, about: Collection[str]) -> bool:
    return any(known.lacks(sense) for sense in about)


def read_record(path: Path) -> SearchRecord:
    """The searches on file.

    Raises:
        FileError: the file cannot be read, is no record, or names a feature class that its senses do not have.
    """
    data = parse_yaml(read_text(path, BOUNDS.size), path, BOUNDS)
    try:
        record = _of_data(data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FileError(path, f"is no record of a search for shortcuts: {error!r}") from error
    known = {each.name for each in feature_classes(record.senses)}
    named = set[str]()
    for cell in record.cells.values():
        named.update(cell.success)
    unknown = named - known
    if unknown:
        raise FileError(path, f"names the feature class {min(unknown)!r}; its senses have {', '.join(sorted(known))}")
    return record


def _of_data(data: Any) -> SearchRecord:
    cells = {}
    for found in data["searches"]:
        search = Search(str(found["command"]), str(found["date"]), str(found["training"]))
        for cell in found["cells"]:
            success = {str(name): float(share) for name, share in cell["success"].items()}
            place = str(cell["task"]), str(cell["level"])
            if place in cells:
                raise ValueError(f"the cell {' '.join(place)} stands there twice")
            cells[place] = CellRecord(search, int(cell["learned_from"]), int(cell["games"]), success)
    return SearchRecord(senses=tuple(map(str, data["senses"])), cells=cells)


def write_record(path: Path, found: Sequence[Found], search: Search) -> None:
    """Write what a search has found; cells of an older file that were not searched again stay with the search that they had.

    Raises:
        FileError: there is an older file that is no record.
    """
    older = read_record(path) if path.exists() else SearchRecord((), {})
    cells = dict(older.cells)
    for place, of_cell in groupby(found, key=lambda each: (each.task, each.level)):
        results = list(of_cell)
        success = {each.players: round(each.success.mean, 3) for each in results}
        cells[place] = CellRecord(search, results[0].learned_from, results[0].success.n, success)
    senses = {*older.senses}
    for each in found:
        senses.update(each.known.senses)
    searches = [{**each._asdict(), "cells": of_search} for each, of_search in _by_search(cells).items()]
    data = {"senses": sorted(senses), "searches": searches}
    path.write_text(yaml.safe_dump(data, sort_keys=False, width=120, default_flow_style=None), encoding="utf-8")


def _by_search(cells: Mapping[tuple[str, str], CellRecord]) -> dict[Search, list[dict[str, Any]]]:
    """The cells of each search as plain values, in their order."""
    by_search: dict[Search, list[dict[str, Any]]] = {}
    for (task, level), cell in sorted(cells.items(), key=lambda each: (each[1].search, each[0])):
        counts = {"learned_from": cell.learned_from, "games": cell.games}
        by_search.setdefault(cell.search, []).append(
            {"task": task, "level": level, **counts, "success": dict(cell.success)}
        )
    return by_search
