"""KidGym's figures: capabilities, the heat map of cells, and what modes change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envs.kidgym.chance import CHANCE
from evals.figures import CLUSTERED, Figure, Series
from evals.ledger.run_data import RunData
from evals.reference.trend import size_figures
from evals.stats.intervals import Estimate
from evals.suites.kidgym.published import run_cells
from evals.suites.kidgym.score import CAPABILITIES, capability_score

MODE_NAMES = {"zero_shot": "zero-shot", "cot": "chain of thought", "icl": "worked example"}

Cells = Mapping[tuple[str, str], Estimate]
"""Success by task and level."""


def kidgym_figures(run: RunData) -> Iterator[Figure]:
    """Capabilities whose cells were all played, success by task and level, and by task and mode where there are several."""
    groups: dict[tuple[str, str], dict[tuple[str, str], Estimate]] = {}
    for cell in run_cells(run):
        place = groups.setdefault((cell.player, cell.cell["mode"]), {})
        place[cell.cell["task"], cell.cell["level"]] = cell.estimate
    scores = []
    for (player, mode), cells in groups.items():
        series = _capabilities(player, cells, MODE_NAMES[mode])
        has_value = any(value is not None for value in series.y)
        if has_value:
            scores.append(series)
    if scores:
        chance = {
            (task, str(n)): _exactly(share) for task, shares in CHANCE.items() for n, share in enumerate(shares, 1)
        }
        panels = dict.fromkeys(series.panel for series in scores)
        scores += [_capabilities("chance", chance, panel, reference=True) for panel in panels]
        yield Figure(
            name="kidgym_capabilities",
            title="KidGym: capability scores",
            kind="dots",
            series=tuple(scores),
            y_label="capability score",
            limits=(0, 100),
            intervals=CLUSTERED,
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
    yield from _modes(groups)
    yield from size_figures("kidgym", "KidGym", run_cells(run), split_by="mode", stored_names=run.stored_names)


def _modes(groups: Mapping[tuple[str, str], Cells]) -> Iterator[Figure]:
    """Success by task and mode, for players that played in several modes."""
    series = []
    modes_of: dict[str, dict[str, Cells]] = {}
    for (player, mode), cells in groups.items():
        modes_of.setdefault(player, {})[mode] = cells
    for player, modes in modes_of.items():
        if len(modes) < 2:
            continue
        for mode, cells in modes.items():
            tasks = tuple(f"{task} {level}" for task, level in cells)
            series.append(Series(MODE_NAMES[mode], tasks, tuple(cells.values()), player))
    if series:
        yield Figure(
            name="kidgym_modes",
            title="KidGym: success by mode",
            kind="dots",
            series=tuple(series),
            y_label="success",
            limits=(0, 1),
            intervals=CLUSTERED,
        )


def _exactly(value: float) -> Estimate:
    return Estimate(value, value, value, 1)


def _capabilities(player: str, cells: Cells, panel: str, reference: bool = False) -> Series:
    scores = [capability_score(cells, name) for name in CAPABILITIES]
    return Series(player, tuple(CAPABILITIES), tuple(score if score.n else None for score in scores), panel, reference)


def _rows(panel: str, cells: Cells) -> Iterator[Series]:
    levels = sorted({level for _, level in cells})
    for task in dict.fromkeys(task for task, _ in cells):
        values = tuple(cells.get((task, level)) for level in levels)
        yield Series(task, tuple(levels), values, panel)
