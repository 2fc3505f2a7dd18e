"""KidGym beside its paper: cells of a run with their published twins, and Table 6 recomputed from Tables 2, 7 and 8."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from evals.ledger.run_data import RunData, count_rows, rows_by
from evals.reference import model_named, published
from evals.reference.comparison import RunCell
from evals.stats.intervals import Estimate, wilson_estimate
from evals.suites.kidgym.published_environment.recording import SUFFIX
from evals.tables import Cell, Table

Capability = Callable[[Mapping[tuple[str, str], Estimate], str], Estimate]
"""``evals.suites.kidgym.score.capability_score``: a score out of 100 from success by task and level."""

_TABLES = {"zero_shot": "Table 2", "cot": "Table 7", "icl": "Table 8"}
_PUBLISHED_PIXELS = 64
_CELL = ("player", "mode", "task", "level")


def run_cells(run: RunData, resolution: int = _PUBLISHED_PIXELS, suffix: str = "") -> list[RunCell]:
    """Success by player, mode, task and level, in the order of the plan.

    A failed episode counts as no success, as in all tables.

    Args:
        run: KidGym's part of a run.
        resolution: Pixels of a cell's edge; other than 64, only Table 3 has figures for it.
        suffix: Of the tasks that are wanted: that of the published environment, or none.
    """
    rows = run.episodes([*_CELL, "index", "success"])
    games, values = rows["index"], pc.fill_null(rows["success"], False).cast(pa.float64())
    found = rows_by(rows, _CELL)
    size = {} if resolution == _PUBLISHED_PIXELS else {"resolution": str(resolution)}
    cells = []
    for key in count_rows(run.plan, _CELL):
        player, mode, task, level = key
        if key in found and task.endswith(SUFFIX) == bool(suffix):
            cell = {"mode": mode, "task": task.removesuffix(SUFFIX), "level": level, **size}
            of_cell = found[key]
            cells.append(
                RunCell(player, "success", cell, values.take(of_cell).to_pylist(), games.take(of_cell).to_pylist())
            )
    return cells


def published_cells(row: str, mode: str = "zero_shot") -> dict[tuple[str, str], Estimate]:
    """The published success of a model, or of people, by task and level, with Wilson's interval where n is known.

    Args:
        row: A model's name (``evals.reference.models``), or a row's, such as ``Human``.
        mode: ``zero_shot``, ``cot`` or ``icl``.
    """
    paper = published("kidgym")
    found = {}
    for cell in (figure.cell for figure in paper.table(_TABLES[mode])):
        figure = paper.find(row, "success", cell)
        if figure is not None:
            unknown = Estimate(figure.value, figure.value, figure.value, 1)
            known = wilson_estimate(figure.value, figure.n) if figure.n else unknown
            found[cell["task"], cell["level"]] = known
    return found


def capability_table(score: Capability, capabilities: Sequence[str], players: Collection[str] = ()) -> Table:
    """The paper's Table 6, each score as printed and recomputed with its interval from the cells of Table 2.

    Args:
        score: Gives a capability's score.
        capabilities: In the order wanted.
        players: Whose models' rows are shown, above the row for people; all rows by default.
    """
    paper = published("kidgym")
    models = [model_named(player) for player in players]
    wanted = {"Human", *(model.name for model in models if model)}
    shown = list(paper.table("Table 6"))
    if players:
        shown = [figure for figure in shown if {figure.row, paper.model_of(figure)} & wanted]
    rows: list[tuple[Cell, ...]] = []
    for name in dict.fromkeys(figure.row for figure in shown):
        cells = published_cells(paper.models_by_row.get(name, name))
        for capability in capabilities:
            figure = paper.find(name, "capability", {"mode": "zero_shot", "capability": capability})
            printed = figure.printed if figure else None
            recomputed = score(cells, capability) if cells else None
            rows.append((name, capability, printed, recomputed))
    corrections = []
    for figure in shown:
        if figure.correction:
            corrections.append(f"{figure.row}: {figure.correction.why}.")
    return Table(
        name="kidgym_table6",
        title="KidGym: the paper's capability scores, recomputed",
        columns=("model", "capability", "printed", "recomputed"),
        rows=tuple(rows),
        notes=(
            "Recomputed by the formula of appendix D from Table 2 (people: from the counts of Tables 4 and 5).",
            *dict.fromkeys(corrections),
        ),
    )
