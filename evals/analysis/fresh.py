"""Open games against sealed ones: whether a player does better on games that it may have been trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evals.analysis.compare import Side
from evals.ledger.run_data import RunData
from evals.stats.intervals import Estimate
from evals.summary.independent import effect_over_cells, independent_effects
from evals.summary.paired import column_measure, holm
from evals.tables import Cell, Table

ORACLE = "oracle"


def plays_other_games(first: Side, second: Side) -> bool:
    """Whether the two runs differ in ``suite.seeds``, so that no game is the same."""
    return list(seeds_of(first.run.settings.get("suite"))) != list(seeds_of(second.run.settings.get("suite")))


def seeds_of(section: Any) -> Iterator[str]:
    """The setting of a suite, or of each suite of a bundle."""
    if isinstance(section, Mapping):
        yield str(section.get("seeds") or "")
        for part in section.get("suites") or ():
            yield from seeds_of(part)


def fresh_table(first: Side, second: Side) -> Table:
    """Success on the games of one run against success on other games of the same cells, and perfect play on both.

    Each row is a suite, as a whole and by cell: a difference of means of independent games. As a whole the cells that both
    have count alike, however many games each side has of them. The oracle's steps say by how much the games themselves
    differ in difficulty, where it played in both runs.
    """
    rows: list[tuple[Cell, ...]] = []
    p_values: list[float] = []
    left_out = 0
    for part in first.suite.parts:
        runs = [side.run.of(part.name) for side in (first, second)]
        sides = [column_measure(run, side.player) for run, side in zip(runs, (first, second), strict=True)]
        effort = _effort(runs)
        overall = effect_over_cells(*(one.observations for one in sides))
        if overall is None:
            continue
        left_out += overall.left_out
        for effect in (overall, *independent_effects(*(one.observations for one in sides))):
            about = (part.name, " ".join(effect.cell), effect.first, effect.second)
            rows.append((*about, effect.difference, effect.p, effort.get(effect.cell)))
            p_values.append(effect.p)
    corrected = holm(p_values)
    return Table(
        name=f"fresh_{first.label}_{second.label}",
        title=f"{first.label} and {second.label} on different games of the same kinds",
        columns=(
            *("suite", "cell", first.label, second.label, f"{first.label} - {second.label}", "p", "oracle's steps"),
            "Holm p",
        ),
        rows=tuple((*row, p) for row, p in zip(rows, corrected, strict=True)),
        notes=(
            *(f"{side.label}: {side.player}{f', {side.name}' if side.name else ''}." for side in (first, second)),
            *_notes_on_cells(left_out),
            "The games differ (suite.seeds), so nothing is paired. A player that does better on open games than on sealed "
            "ones may have been trained on them.",
            "oracle's steps: by how many steps perfect play takes longer on the first side's games; games of other seeds "
            "differ in difficulty. A dash where the oracle did not play in both runs (baselines=[oracle]).",
        ),
        headline=True,
    )


def _notes_on_cells(left_out: int) -> Iterator[str]:
    yield "all: the cells that both sides have, each with the same weight."
    if left_out:
        yield f"{left_out:,} episodes of cells that the other side lacks are left out."


def _effort(runs: Sequence[RunData]) -> dict[tuple[str, ...], Estimate]:
    """By how many steps perfect play takes longer in the first run, by cell and over all."""
    steps = [column_measure(run, ORACLE, "steps") for run in runs]
    by_cell = independent_effects(*(one.observations for one in steps))
    overall = effect_over_cells(*(one.observations for one in steps))
    found = {effect.cell: effect.difference for effect in by_cell}
    if overall is not None:
        found[overall.cell] = overall.difference
    return found
