"""Open games against sealed ones: whether a player does better on games that it may have been trained on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from evals.analysis.compare import Side
from evals.ledger.run_data import RunData
from evals.stats.intervals import Estimate
from evals.suite import Suite
from evals.summary.independent import effect_over_cells, independent_effects
from evals.summary.paired import column_measure, holm
from evals.tables import Cell, Table

ORACLE = "oracle"


def suites_of_other_games(first: Side, second: Side) -> set[str]:
    """The suites of both runs of which no game is the same, since they differ in ``suite.seeds``."""
    ours, theirs = _seeds_by_suite(first.suite), _seeds_by_suite(second.suite)
    return {name for name in suites_of_both(first, second) if ours[name] != theirs[name]}


def suites_of_both(first: Side, second: Side) -> set[str]:
    """The names of the suites that both runs have, alone or in a bundle."""
    return _seeds_by_suite(first.suite).keys() & _seeds_by_suite(second.suite).keys()


def _seeds_by_suite(suite: Suite) -> dict[str, str]:
    """The setting ``seeds`` of each suite of a run; empty for open games, and for suites that draw no others."""
    return {part.name: str(getattr(part, "seeds", "")) for part in suite.parts}


def seeds_of(section: Any) -> Iterator[str]:
    """The setting of a suite, or of each suite of a bundle."""
    if isinstance(section, Mapping):
        yield str(section.get("seeds") or "")
        for part in section.get("suites") or ():
            yield from seeds_of(part)


def fresh_table(first: Side, second: Side, suites: Collection[str]) -> Table:
    """Success on the games of one run against success on other games of the same cells, and perfect play on both.

    Each row is a suite, as a whole and by cell: a difference of means of independent games. As a whole the cells that both
    have count alike, however many games each side has of them. The oracle's steps say by how much the games themselves
    differ in difficulty, where it played in both runs.

    Args:
        first: What stands before the minus sign.
        second: What stands behind it.
        suites: The names of those to compare, as of ``suites_of_other_games``.
    """
    rows: list[tuple[Cell, ...]] = []
    p_values: list[float] = []
    left_out = 0
    for part in first.suite.parts:
        if part.name not in suites:
            continue
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
