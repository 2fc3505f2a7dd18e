"""What a search has found, kept as a file beside a suite, and the best of it that may stand beside scores as a shortcut.

The file is YAML: the command that wrote it, its date, the seeds, and for each cell what each feature class won::

    command: python -m benchmarks.shortcut_search boxes --write found.yaml
    date: 2026-01-31
    training: training:0
    senses: [color, text]
    cells:
      - {task: boxes, level: plain, games: 400, success: {everything: 1.0, text only: 0.33}}
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import yaml

from envs.files import Bounds, FileError, parse_yaml, read_text
from evals.shortcut_search.classes import FeatureClass, feature_classes
from evals.shortcut_search.search import Found

BOUNDS: Final = Bounds(size=1_000_000, depth=6, nodes=50_000)
LEARNED: Final = "learned: "
"""Before the name of a feature class where it stands among names of players."""


@dataclass(frozen=True)
class SearchRecord:
    """A search on file."""

    command: str
    date: str
    training: str
    """Seeds of the games that were learned from; measured was on the open ones."""
    senses: tuple[str, ...]
    """All senses that features of the suite name, coarse ones included."""
    games: Mapping[tuple[str, str], int]
    """Held-out games of each cell (task, level)."""
    success: Mapping[tuple[str, str], Mapping[str, float]]
    """Of each feature class in each cell."""

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
        won = {
            name: share for name, share in self.success.get((task, level), {}).items() if _lacks(classes[name], about)
        }
        if not won:
            return None
        name = max(won, key=won.__getitem__)
        return LEARNED + name, won[name]


def _lacks(known: FeatureClass, about: Collection[str]) -> bool:
    return any(known.lacks(sense) for sense in about)


def read_record(path: Path) -> SearchRecord:
    """The search on file.

    Raises:
        FileError: the file cannot be read, is no record, or names a feature class that its senses do not have.
    """
    data = parse_yaml(read_text(path, BOUNDS.size), path, BOUNDS)
    try:
        record = _of_data(data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FileError(path, f"is no record of a search for shortcuts: {error!r}") from error
    known = {each.name for each in feature_classes(record.senses)}
    named = {name for success in record.success.values() for name in success}
    if named - known:
        raise FileError(
            path, f"names the feature class {min(named - known)!r}; its senses have {', '.join(sorted(known))}"
        )
    return record


def _of_data(data: Any) -> SearchRecord:
    cells = {(str(cell["task"]), str(cell["level"])): cell for cell in data["cells"]}
    return SearchRecord(
        command=str(data["command"]),
        date=str(data["date"]),
        training=str(data["training"]),
        senses=tuple(map(str, data["senses"])),
        games={place: int(cell["games"]) for place, cell in cells.items()},
        success={
            place: {str(name): float(share) for name, share in cell["success"].items()} for place, cell in cells.items()
        },
    )


def write_record(path: Path, found: Sequence[Found], command: str, date: str, training: str) -> None:
    """Write what a search has found; cells of an older file that were not searched again stay.

    Raises:
        FileError: there is an older file that is no record.
    """
    older = read_record(path) if path.exists() else SearchRecord("", "", "", (), {}, {})
    games, success = dict(older.games), dict(older.success)
    for place, of_cell in groupby(found, key=lambda each: (each.task, each.level)):
        results = list(of_cell)
        games[place] = results[0].success.n
        success[place] = {each.players: round(each.success.mean, 3) for each in results}
    senses = {sense for each in found for sense in each.known.senses}
    data = {
        "command": command,
        "date": date,
        "training": training,
        "senses": sorted({*older.senses, *senses}),
        "cells": [
            {"task": task, "level": level, "games": games[task, level], "success": success[task, level]}
            for task, level in sorted(success)
        ],
    }
    path.write_text(yaml.safe_dump(data, sort_keys=False, width=120, default_flow_style=None), encoding="utf-8")
