"""Result tables of games of evidence, from plan and ledger alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from evals.ledger.run_data import RunData
from evals.stats.intervals import NONNEGATIVE, Bounds, Estimate, mean_estimate, proportion_estimate
from evals.tables import Cell, Section, Table

_COLUMNS = (
    *("status", "success", "cut_off", "tests", "parse_errors", "points_lost", "optimal_points_lost"),
    *("test_regret", "answer_regret", "unread_regret", "stated", "confidence", "log_loss", "posterior_log_loss"),
)
Row = Mapping[str, Any]


def likely_tables(run: RunData, section: Section) -> Iterator[Table]:
    """The tables of a section."""
    groups = _by_player_and_level(run)
    if section == "scores":
        yield _scores(groups)
    if section == "diagnostics":
        yield _decisions(groups)


def _by_player_and_level(run: RunData) -> dict[tuple[str, str], list[Row]]:
    """Planned episodes with what the ledger holds of each."""
    ledger = run.episodes()
    names = [name for name in _COLUMNS if name in ledger.column_names]
    rows = {row["episode_id"]: row for row in ledger.select(["episode_id", *names]).to_pylist()}
    groups: dict[tuple[str, str], list[Row]] = {}
    for planned in run.plan.select(["episode_id", "player", "level", "task", "index"]).to_pylist():
        row = {**dict.fromkeys(_COLUMNS), **planned, **rows.get(planned["episode_id"], {})}
        groups.setdefault((planned["player"], planned["level"]), []).append(row)
    return groups


def _scores(groups: Mapping[tuple[str, str], Sequence[Row]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for key, planned in groups.items():
        played = [row for row in planned if row["status"]]
        done = [row for row in played if row["status"] == "done"]
        rows.append(
            (
                *key,
                len(planned),
                len(done),
                len(played) - len(done),
                sum(row["cut_off"] or 0 for row in played),
                proportion_estimate([bool(row["success"]) for row in played], _games(played)),
                _mean(done, lambda row: row["points_lost"]),
                _mean(done, lambda row: row["optimal_points_lost"]),
                _mean(done, _regret),
                _mean(done, lambda row: row["log_loss"]),
                _mean(done, _above_exact, (-math.inf, math.inf)),
                proportion_estimate([bool(row["stated"]) for row in done], _games(done)),
                _mean(done, lambda row: row["tests"]),
                proportion_estimate([bool(row["parse_errors"]) for row in done], _games(done)),
            )
        )
    measures = ("points lost", "of perfect play", "regret", "log loss", "above exact", "chances stated", "tests")
    keys = ("player", "level")
    return Table(
        name="kumo_likely",
        title="KUMO with likelihoods",
        columns=(*keys, "planned", "done", "failed", "cut off", "success", *measures, "parse errors"),
        rows=tuple(rows),
        headline=True,
        brief=(*keys, "done", "success", "points lost", "regret", "log loss", "above exact"),
        notes=(
            "points lost: 1 for each test and each unread reply, and the price of a wrong answer or none; of perfect play: "
            "what the exact search expects to lose before the first test.",
            "regret: expected points that the decisions lost against the exact search, each judged by what was known then.",
            "log loss: -ln of the probability stated for the right truth, at most 4.6; an answer alone counts as certainty, no "
            "answer as 0. above exact: minus that of the exact probabilities after the same tests.",
            "A failed run (the player could not answer) counts as not successful, and in no other figure.",
            "Brackets: 95 % confidence intervals; the runs of one task are one cluster.",
        ),
        better={
            "success": "higher",
            "points lost": "lower",
            "regret": "lower",
            "log loss": "lower",
            "above exact": "lower",
        },
    )


def _decisions(groups: Mapping[tuple[str, str], Sequence[Row]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for key, planned in groups.items():
        done = [row for row in planned if row["status"] == "done"]
        sure = [row for row in done if row["confidence"] is not None]
        rows.append(
            (
                *key,
                len(done),
                _mean(done, lambda row: row["test_regret"]),
                _mean(done, lambda row: row["answer_regret"]),
                _mean(done, lambda row: row["unread_regret"]),
                len(sure),
                _mean(sure, lambda row: row["confidence"], (0.0, 1.0)),
                proportion_estimate([row["success"] for row in sure], _games(sure)),
            )
        )
    return Table(
        name="kumo_likely_decisions",
        title="KUMO with likelihoods: what decisions lost, and calibration",
        columns=(
            "player",
            "level",
            "games",
            "by tests",
            "by answers",
            "by unread replies",
            "stated",
            "chance",
            "right",
        ),
        rows=tuple(rows),
        notes=(
            "by tests: expected points lost by a worse test, or by any test where naming was better; by answers: by naming too "
            "early or not the likeliest, or by naming nothing; by unread replies: a point each. The three sum to the regret.",
            "stated: games whose answer came with probabilities that could be read; chance: the mean of that of the truth "
            "named; right: how many of these answers were. Equal where a player is as sure as it should be.",
        ),
    )


def _regret(row: Row) -> float:
    return float(row["test_regret"] + row["answer_regret"] + row["unread_regret"])


def _above_exact(row: Row) -> float:
    """Without what the digits of stated probabilities leave over."""
    return round(float(row["log_loss"]) - float(row["posterior_log_loss"]), 4)


def _games(rows: Sequence[Row]) -> list[tuple[str, str, int]]:
    return [(row["task"], row["level"], row["index"]) for row in rows]


def _mean(rows: Sequence[Row], value: Callable[[Row], float], bounds: Bounds = NONNEGATIVE) -> Estimate:
    return mean_estimate([value(row) for row in rows], _games(rows), bounds=bounds)
