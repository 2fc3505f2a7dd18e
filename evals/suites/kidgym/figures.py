"""KidGym's figures: the radar of capabilities and the heat map of cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envs.kidgym.chance import CHANCE
from evals.figures import Figure, Series
from evals.ledger.run_data import RunData
from evals.stats.intervals import Estimate
from evals.suites.kidgym.published import run_cells
from evals.suites.kidgym.score import CAPABILITIES, capability_score

MODE_NAMES = {"zero_shot": "zero-shot", "cot": "chain of thought", "icl": "worked example"}

Cells = Mapping[tuple[str, str], Estimate]
"""Success by task and level."""


def kidgym_figures(run: RunData) -> Iterator[Figure]:
    """The radar where all of a capability's cells were played, and the heat map of success by task and level."""
    groups: dict[tuple[str, str], dict[tuple[str, str], Estimate]] = {}
    for cell in run_cells(run):
        place = groups.setdefault((cell.player, cell.cell["mode"]), {})
        place[cell.cell["task"], cell.cell["level"]] = cell.estimate
    radar = [_capabilities(player, cells, MODE_NAMES[mode]) for (player, mode), cells in groups.items()]
    radar = [series for series in radar if any(value is not None for value in series.y)]
    if radar:
        chance = {
            (task, str(n)): _exactly(share) for task, shares in CHANCE.items() for n, share in enumerate(shares, 1)
        }
        panels = dict.fromkeys(series.panel for series in radar)
        radar += [_capabilities("chance", chance, panel, reference=True) for panel in panels]
        yield Figure(
            name="kidgym_radar",
            title="KidGym: capability scores",
            kind="radar",
            series=tuple(radar),
            limits=(0, 100),
            notes=("Scores out of 100 by the formula of the paper's appendix D; gray: uniform random play.",),
        )
    rows = [
        series for (player, mode), cells in groups.items() for series in _rows(f"{player}, {MODE_NAMES[mode]}", cells)
    ]
    if rows:
        yield Figure(
            name="kidgym_success_map",
            title="KidGym: success by task and level",
            kind="heat_map",
            series=tuple(rows),
            x_label="level",
            y_label="task",
            limits=(0, 1),
        )


def _exactly(value: float) -> Estimate:
    return Estimate(value, value, value, 1)


def _capabilities(player: str, cells: Cells, panel: str, reference: bool = False) -> Series:
    scores = [capability_score(cells, name) for name in CAPABILITIES]
    return Series(
        player, tuple(CAPABILITIES), tuple(score.mean if score.n else None for score in scores), panel, reference
    )


def _rows(panel: str, cells: Cells) -> Iterator[Series]:
    levels = sorted({level for _, level in cells})
    for task in dict.fromkeys(task for task, _ in cells):
        values = tuple(cells[task, level].mean if (task, level) in cells else None for level in levels)
        yield Series(task, tuple(levels), values, panel)
