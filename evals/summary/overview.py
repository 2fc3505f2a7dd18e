"""A run in one line for each of its suites: how far it is, what it scored, what it cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow.compute as pc

from evals.ledger.run_data import RunData
from evals.stats.intervals import Estimate, proportion_estimate
from evals.summary.as_planned import overall_estimate
from evals.summary.paired import column_measure, puzzle_of


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
    columns = ("suite", "player", "status", "success", "task", "level", "index", "seed", "cost")
    player = run.plan["player"][0].as_py() if len(run.plan) else ""
    rows = run.episodes(columns)
    rows = rows.filter(pc.equal(rows["player"], player))
    planned = run.plan.filter(pc.equal(run.plan["player"], player))
    for suite in pc.unique(planned["suite"]).to_pylist():
        mine = rows.filter(pc.equal(rows["suite"], suite))
        of_puzzle = (mine[name].to_pylist() for name in ("task", "level", "index", "seed"))
        puzzles = [puzzle_of(*values) for values in zip(*of_puzzle, strict=True)]
        failed = pc.sum(pc.equal(mine["status"], "failed")).as_py() or 0
        with run.intervals():
            if run.cells_stop:
                part = run.of(suite)
                success = overall_estimate(part, player, column_measure(part, player).observations)
            else:
                success = proportion_estimate([bool(won) for won in mine["success"].to_pylist()], puzzles)
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
