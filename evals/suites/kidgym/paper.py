"""KidGym's results in the layout of the paper's Table 2 (chain of thought: Table 7, worked example: Table 8)."""

from __future__ import annotations

from collections.abc import Iterator

from evals.ledger.run_data import RunData
from evals.suites.kidgym.published import run_cells
from evals.tables import Cell, Table, rounded

_TITLES = {"zero_shot": "zero-shot", "cot": "with chain of thought", "icl": "with a worked example"}


def paper_tables(run: RunData) -> Iterator[Table]:
    """For each mode a table with a row for each model and level and a column for each task.

    Args:
        run: KidGym's part of a run.
    """
    cells = run_cells(run)
    for mode in dict.fromkeys(cell.cell["mode"] for cell in cells):
        here = [cell for cell in cells if cell.cell["mode"] == mode]
        tasks = list(dict.fromkeys(cell.cell["task"] for cell in here))
        means: dict[tuple[str, str], dict[str, float]] = {}
        for cell in here:
            means.setdefault((cell.player, cell.cell["level"]), {})[cell.cell["task"]] = cell.estimate.mean
        rows: list[tuple[Cell, ...]] = []
        for (player, level), of_tasks in means.items():
            rows.append((player, level, *(rounded(of_tasks.get(task), 2) for task in tasks)))
        yield Table(
            name=f"kidgym_paper_{mode}",
            title=f"KidGym, {_TITLES[mode]}: success by task and level (L)",
            columns=("Methods", "L", *tasks),
            rows=tuple(rows),
            section="paper",
            better=dict.fromkeys(tasks, "higher"),
        )
