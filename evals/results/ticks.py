"""What the page of results draws beside the scores of a board: chance, shortcuts, and the figures of its paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from evals.reference import Paper, published
from evals.results.boards import Board, paper_table
from evals.results.entries import Entry
from evals.tables import Cell

CHANCE: Final = "chance (random)"


def ticks_of(board: Board) -> Iterator[dict[str, Any]]:
    """What any score of a board may be held against: chance, the best shortcut, the paper's best model and its people."""
    for entry in board.references:
        kind = _reference_kind(entry)
        # By the rules of some runs only, it is a row and no tick beside all others.
        if kind and not entry.of_runs and entry.scores and entry.scores[0].estimate.n:
            yield {"kind": kind, "name": entry.reference, "value": entry.scores[0].estimate.mean}
    yield from _published_ticks(board)


def chance_of(board: Board, model: Entry) -> Entry | None:
    """What a model's score is held against: chance by the rules of its own run."""
    for entry in board.references:
        is_of_its_rules = not entry.of_runs or model.run in entry.of_runs
        if entry.reference == CHANCE and is_of_its_rules:
            return entry
    return None


def _reference_kind(entry: Entry) -> str:
    """``chance`` or ``shortcut``; empty for perfect play, which is no tick."""
    if entry.reference == CHANCE:
        return "chance"
    return "shortcut" if entry.shortcut else ""


def _published_ticks(board: Board) -> Iterator[dict[str, Any]]:
    """The highest model and people of the paper, of the rows with most cells: others cannot be compared with these."""
    table = paper_table(board)
    if table is None:
        return
    paper = published(board.suite)
    measured = [row for row in table.rows if row[2] == board.measures[0]]
    most = max((row[3] for row in measured if isinstance(row[3], int)), default=0)
    highest = _highest([row for row in measured if row[3] == most], paper)
    cells = f"{most} cells"
    if most == 1:
        cells = "1 cell"
    for kind in ("paper", "people"):
        if kind in highest:
            name, *_, mean = highest[kind]
            yield {"kind": kind, "name": f"{name}, {paper.source}, {cells}", "value": mean}


def _highest(rows: Sequence[tuple[Cell, ...]], paper: Paper) -> dict[str, tuple[Cell, ...]]:
    """The first row of a model, and the first one of people."""
    highest: dict[str, tuple[Cell, ...]] = {}
    for row in rows:
        if row[1] == "model":
            highest.setdefault("paper", row)
        if paper.baselines.get(str(row[0])) == "human":
            highest.setdefault("people", row)
    return highest
