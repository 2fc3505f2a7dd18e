"""What static pages show beside the list: computed here once, as the server would answer."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from evals.exchange.public import public_error, public_model, public_settings
from evals.ledger.run_data import count_rows
from evals.viewer.index import PLANNED_CELL, EpisodeIndex
from evals.viewer.results import Results
from evals.viewer.runs import read_plan

COMPARED: Final = 12
"""Rows of the results, from the first one on, of which all pairs are compared in static pages."""


def stored_results(index: EpisodeIndex) -> dict[str, Any]:
    """The page of results with each row as the baseline, and the comparison of each pair (``schema.Stored``)."""
    found = Results(index, _shown)
    names = found.names()
    compared: dict[str, dict[str, Any]] = {}
    for first, second in itertools.permutations(names[:COMPARED], 2):
        compared.setdefault(first, {})[second] = found.compare(first, second)
    results = {baseline: found.results(baseline) for baseline in ("", *names)}
    for each in results.values():
        each["trouble"] = [public_error(text) for text in each["trouble"]]
    return {"results": results, "compare": compared}


def _shown(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What of a run's configuration leaves: its name, what was played, which model answered."""
    suite = public_settings(settings.get("suite", {}))
    return {"name": settings.get("name"), "suite": suite, "model": public_model(settings)}


def answers_of(index: EpisodeIndex, hidden: Sequence[Sequence[str]]) -> dict[str, Any]:
    """The state of the runs without their folders, and the planned episodes of each cell.

    Args:
        index: The runs, read.
        hidden: For each run the hosts that no message may name.
    """
    runs = index.status()
    planned: dict[str, int] = {}
    for number, (run, status) in enumerate(zip(index.runs, runs, strict=True)):
        status["path"], status["live"] = status["name"], False
        status["damage"] = [public_error(text, hidden[number]) for text in status["damage"]]
        for cell, count in count_rows(read_plan(run), PLANNED_CELL).items():
            planned[json.dumps([run.name, *cell], ensure_ascii=False, separators=(",", ":"))] = count
    return {"state": {"version": 1, "again": 0, "loaded": True, "trouble": "", "runs": runs}, "planned": planned}
