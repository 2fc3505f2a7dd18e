"""A run in one line for each of its suites: how far it is, what it scored, what it cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow.compute as pc

from evals.ledger.run_data import RunData
from evals.stats.intervals import Estimate
from evals.summary.as_planned import overall_estimate
from evals.summary.paired import Observation, puzzle_of


@dataclass(frozen=True)
class Line:
    """One suite of a run, as its model played it."""

    suite: str
    player: str
    planned: int
    done: int
    failed: int
    success: Estimate
    """Share of the finished episodes, failed ones counting as no success; clustered by game."""
    cost: float


def overview(run: RunData) -> Iterator[Line]:
    """A line for each suite; the player is the one that was planned first, the model."""
    columns = ("suite", "player", "status", "success", "task", "level", "mode", "index", "seed", "cost")
    player = run.plan["player"][0].as_py() if len(run.plan) else ""
    rows = run.episodes(columns)
    rows = rows.filter(pc.equal(rows["player"], player))
    planned = run.plan.filter(pc.equal(run.plan["player"], player))
    for suite in pc.unique(planned["suite"]).to_pylist():
        mine = rows.filter(pc.equal(rows["suite"], suite))
        columns_of_game = (mine[name].to_pylist() for name in ("task", "level", "mode", "index", "seed", "success"))
        observations = []
        for task, level, mode, index, seed, won in zip(*columns_of_game, strict=True):
            puzzle = puzzle_of(task, level, index, seed)
            observations.append(Observation((task, level, mode), puzzle, None, float(bool(won))))
        failed = pc.sum(pc.equal(mine["status"], "failed")).as_py() or 0
        with run.intervals():
            success = overall_estimate(run.of(suite), player, observations)
        yield Line(
            suite=suite,
            player=player,
            planned=pc.sum(pc.equal(planned["suite"], suite)).as_py(),
            done=len(mine) - failed,
            failed=failed,
            success=success,
            # exact, so that it does not depend on the order of the rows
            cost=math.fsum(pc.drop_null(mine["cost"]).to_pylist()),
        )
