"""What static pages show beside the list: computed here once, as the server would answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from evals.exchange.public import public_error
from evals.ledger.run_data import count_rows
from evals.viewer.index import PLANNED_CELL, EpisodeIndex
from evals.viewer.runs import read_plan


def answers_of(index: EpisodeIndex, hidden: Sequence[Sequence[str]]) -> dict[str, Any]:
    """The state of the runs without their folders, and the planned episodes of each cell.

    Args:
        index: The runs, read.
        hidden: For each run the hosts that no message may name.
    """
    runs = index.status()
    planned: dict[str, int] = {}
    for number, (run, status) in enumerate(zip(index.runs, runs, strict=True)):
        status["path"] = status["name"]
        status["damage"] = [public_error(text, hidden[number]) for text in status["damage"]]
        for cell, count in count_rows(read_plan(run), PLANNED_CELL).items():
            planned[json.dumps([run.name, *cell], ensure_ascii=False, separators=(",", ":"))] = count
    return {"state": {"version": 1, "loaded": True, "trouble": "", "runs": runs}, "planned": planned}
