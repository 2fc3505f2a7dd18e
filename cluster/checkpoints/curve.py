"""Scores over steps: each checkpoint's with its interval, and its change since the first one and since the one before."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from evals.analysis.compare import LOOKED_AT
from evals.archive.one_file import one_file
from evals.figures import Figure, Series
from evals.ledger.run_data import RunData
from evals.report.draw import draw
from evals.report.page import Page, Section, figure_parts, table_parts
from evals.stats.intervals import Estimate
from evals.suite import Suite
from evals.suite_results import suite_measures
from evals.summary.as_planned import overall_estimate
from evals.summary.paired import Effect, Observation, holm, paired_effects
from evals.tables import Cell, Table, table_files


@dataclass(frozen=True)
class Point:
    """One measure of one checkpoint, over all games."""

    checkpoint: str
    step: int
    measure: str
    """With the suite in front."""
    estimate: Estimate
    observations: Sequence[Observation]
    planned: int
    played: int
    failed: int
    stopping: Sequence[str]
    """What a stopping rule said."""


def points_of(checkpoint: str, step: int, run: RunData, suite: Suite) -> list[Point]:
    """The measures of a run, of the player that was planned first: the model."""
    player = run.plan["player"][0].as_py()
    found = []
    with run.intervals():
        for part in suite.parts:
            mine = run.of(part.name)
            planned = pc.sum(pc.equal(mine.plan["player"], player)).as_py() or 0
            rows = mine.episodes(["player", "status"])
            statuses = rows.filter(pc.equal(rows["player"], player))["status"].to_pylist()
            for measure in suite_measures(part, mine, player):
                pooled = [one._replace(cell=(), unit=(one.cell, one.unit)) for one in measure.observations]
                if not pooled:
                    continue
                estimate = overall_estimate(mine, player, measure.observations)
                name = f"{part.name}: {measure.name}"
                counts = (planned, len(statuses), statuses.count("failed"))
                found.append(Point(checkpoint, step, name, estimate, pooled, *counts, run.stopping))
    return found


def by_measure(points: Sequence[Point]) -> dict[str, list[Point]]:
    """The points of each measure in the order of their steps."""
    found: defaultdict[str, list[Point]] = defaultdict(list)
    for point in sorted(points, key=lambda each: (each.step, each.checkpoint)):
        found[point.measure].append(point)
    return dict(found)


def curve_tables(points: Sequence[Point]) -> list[Table]:
    """A table for each measure, one row for each checkpoint."""
    return [_table(number, measure, found) for number, (measure, found) in enumerate(by_measure(points).items(), 1)]


def _table(number: int, measure: str, points: Sequence[Point]) -> Table:
    since_first = [None, *(_change(points[0], point) for point in points[1:])]
    since_last = [None, *(_change(before, point) for before, point in itertools.pairwise(points))]
    corrected = [_holm(since_first), _holm(since_last)]
    rows: list[tuple[Cell, ...]] = []
    for place, point in enumerate(points):
        changes: list[Cell] = []
        for effects, p_values in zip((since_first, since_last), corrected, strict=True):
            effect = effects[place]
            changes += [effect.difference if effect else None, p_values.get(place)]
        rows.append((point.step, point.checkpoint, point.played, point.failed, point.estimate, *changes))
    partial = [f"{point.checkpoint} is partial: {point.played} of {point.planned}" for point in points]
    partial = [text for text, point in zip(partial, points, strict=True) if point.played < point.planned]
    stopped = any(point.stopping for point in points)
    return Table(
        name=f"checkpoints_{number}",
        title=measure,
        columns=(
            "step",
            "checkpoint",
            "episodes",
            "failed",
            "score",
            "since first",
            "p",
            "since previous",
            "p previous",
        ),
        rows=tuple(rows),
        notes=(
            "since first, since previous: change since the first checkpoint, and since the one before, on identical games; "
            "95 % intervals clustered by game. p: sign-flip test, corrected by Holm for the column.",
            *([f"{'; '.join(partial)} episodes played."] if partial else []),
            *([LOOKED_AT] if stopped else []),
        ),
        headline=True,
    )


def _change(before: Point, after: Point) -> Effect | None:
    effects = paired_effects(after.observations, before.observations)
    return effects[0] if effects else None


def _holm(effects: Sequence[Effect | None]) -> dict[int, float]:
    """Corrected p-values by place."""
    known = {place: effect.p for place, effect in enumerate(effects) if effect is not None}
    return dict(zip(known, holm([*known.values()]), strict=True))


def curve_figure(points: Sequence[Point], title: str) -> Figure:
    """All measures over the steps, in their order."""
    series = []
    for measure, found in by_measure(points).items():
        steps = tuple(str(point.step) for point in found)
        estimates = tuple(point.estimate for point in found)
        series.append(Series(measure, steps, estimates))
    return Figure("checkpoints", title, "lines", tuple(series), x_label="step", y_label="score")


def curve_files(points: Sequence[Point], title: str, status: Sequence[str]) -> dict[str, bytes]:
    """The report as a page, its tables and its figure, by the names of their files."""
    tables, figure = curve_tables(points), curve_figure(points, title)
    section = Section("Curve", tables=[table_parts(each) for each in tables], figures=[figure_parts(figure)])
    page = one_file(Page(title, status, [section])).encode()
    named = {f"tables/{name}": content for name, content in table_files(tables).items()}
    return {"report.html": page, "checkpoints.svg": draw(figure, "svg"), **named}


def numbers(points: Sequence[Point]) -> dict[str, float]:
    """One checkpoint as a tracker gets it; ``checkpoint/step`` is the axis."""
    found: dict[str, float] = {"checkpoint/step": points[0].step}
    for point in points:
        name = f"checkpoint/{point.measure.replace(': ', '/')}"
        found[name] = point.estimate.mean
        if point.estimate.has_interval:
            found |= {f"{name}/low": point.estimate.low, f"{name}/high": point.estimate.high}
    return found
