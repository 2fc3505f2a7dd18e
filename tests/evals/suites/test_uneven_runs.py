"""Tables and figures of made-up runs, in which games failed, are missing, were cut off or lost in each way."""

import dataclasses
import itertools
import re

import pytest

from evals.conversation import PlayedTurn, Record
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.suite import ledger_columns
from evals.suites.kidgym import KidGymSuite
from evals.suites.kumo import KumoSuite
from evals.suites.kumo.judge import ENDINGS
from evals.suites.kumo.lab.analysis.analyze import OpenedRun, analyze
from evals.suites.kumo.likely import KumoLikelySuite
from evals.tables import WRITERS
from evals.types import Episode, Outcome, Reply, Turn, message
from tests.golden import check_golden, digest

MOST_POINTS = 40
"""Longer series are pinned by their digest."""
FINISHES = ("stop", "length", "stop", "content_filter", "stop")


def made_up(suite, players, cells, values):
    """A run whose columns take these values in turn, each at a pace of its own; every ninth game is missing."""
    plan, records = [], []
    for player, (task, level, mode), game in itertools.product(players, cells, ((0, 0), (0, 1), (1, 0), (2, 0))):
        number = len(plan)
        episode = Episode(suite.name, task, level, mode, *game, 7, "f", 9, group=f"{task} {level} {game[0]}")
        plan.append(episode.assigned(player, player))
        if number % 9 == 4:
            continue
        extra = {name: of[(number * pace + number // 5) % len(of)] for pace, (name, of) in enumerate(values.items(), 1)}
        outcome = None if number % 7 == 3 else Outcome(number % 5 in (0, 2), 1 + number % 6, extra=extra)
        turns = []
        for place in range(1 + number % 3):
            used = {"prompt_tokens": 50 + number, "completion_tokens": number % 10, "cached_tokens": number % 50}
            reply = Reply("", finish=FINISHES[(number + place) % 5], **used)
            turns.append(PlayedTurn(Turn(plan[-1], place, (message("user", f"Play {place}."),)), reply))
        records.append(Record(plan[-1], outcome, "" if outcome else "PlayerError: gone", tuple(turns), 1.0))
    ledger = records_to_table(records[::-1], ledger_columns(suite))
    return RunData.of_tables(plan_to_table(plan), ledger)


def written(tables, figures):
    for table in tables:
        yield f"\n# {table.name}: {table.title} {table.headline} {table.section} {table.brief} {table.better}"
        yield WRITERS[".md"](table)
    for figure in figures:
        yield f"\n# Figure {figure.name}: {figure.title}\n{dataclasses.replace(figure, series=())}"
        for series in figure.series:
            drawn = str(list(zip(series.x, series.y, strict=True)))
            drawn = re.sub(r"\d+\.\d{7,}(e-\d+)?", lambda found: f"{float(found[0]):.6g}", drawn)
            shown = drawn if len(series.x) < MOST_POINTS else f"{len(series.x)} points, {digest(drawn)}"
            yield f"{series.panel}/{series.name} {series.reference}: {shown}"


WHOLE, PART = ("CL", "CL-published"), ("CO", "MMA", "MA", "FI-balanced")
CELLS = [
    *((task, level, "zero_shot") for task in WHOLE for level in "123"),
    *((task, level, "zero_shot") for task in PART for level in "12"),
    *(("CL", level, "cot") for level in "123"),
    *((task, "1", mode) for task, mode in (("CO", "icl"), ("MA", "cot"), ("MMA", "cot"))),
]
RUNS = {
    "kidgym": (
        KidGymSuite(tasks=["CL"], episodes=1),
        ("model", "gpt-4o", "fills_evenly"),
        CELLS,
        {
            "invalid": (False, False, True),
            "terminated": (True, False),
            "truncated": (False, True),
            "refused_steps": (0, 1, 3),
            "refused_blocked": (0, 1, None),
            "refused_misfit": (1, 0, 2),
            "refused_full": (0, 2),
            "forced_steps": (0, 1),
            "lost_step": (None, 1, 2, 4),
            "mistake": (None, "wrong chest", "detour", "unread reply: cut off"),
            "miscount": (None, -2, 0, 1, 3),
        },
    ),
    "kidgym_rare": (
        KidGymSuite(tasks=["CL"], episodes=1, resolution=96, decoder="published"),
        ("gpt-4o", "first_option"),
        [*((task, level, "zero_shot") for task in ("XX", "FI", "MFI") for level in "12"), ("CL", "4", "zero_shot"),
         *((task, "1", "icl") for task in ("FI", "MFI")), ("MDE", "3", "icl"), ("MDE-published", "3", "zero_shot")],
        {"mistake": (None, "detour"), "lost_step": (None,), "miscount": (None, None, -1)},
    ),
    "kumo": (
        KumoSuite(domains=["medical", "music", "knots"], tasks_per_domain=3, repeats=2),
        ("model", "gpt-4o", "deepseek-r1", "o1-mini", "greedy"),
        [*((name, "easy", "") for name in ("medical", "music", "knots")), ("music", "hard", ""), ("knots", "hard", "")],
        {
            "tests": (1, 3, 2, 4),
            "predicted": ("Gout", None),
            "parse_errors": (0, 0, 1, 2),
            "parse_failed": (False, False, False, True),
            "optimal_actions": (2, 3, 4),
            "shipped_optimal_actions": (None, 3, 5),
            "tied_optimal_actions": (None, 2.5),
            "malformed": (False, False, False, None, True),
            "n_actions": (6, 6, 7),
            "ending": (*ENDINGS, None),
            "idle_tests": (0, 1, 0),
            "late_tests": (0, 0, 2),
            "regret": ([], [0.0, 0.5], [None, 0.25]),
            "exact_certain_after": (None, 1, 2),
            "exact_ending": (*reversed(ENDINGS), None),
            "exact_late_tests": (0, 1, None),
            "exact_regret": ([0.0], [0.0, 0.75, None]),
        },
    ),
    "kumo_likely": (
        KumoLikelySuite(domains=["medical"], tasks_per_domain=3, repeats=2),
        ("model", "tiny"),
        [("medical", "easy", ""), ("music", "easy", ""), ("music", "3x4", "")],
        {
            "tests": (1, 3, 2),
            "predicted": ("Gout", None),
            "parse_errors": (0, 0, 1),
            "points_lost": (1.0, 3.5, 2.0, 8.0),
            "optimal_points_lost": (1.0, 1.5, 0.5),
            "test_regret": (0.0, 0.25, 0.0, 0.5),
            "answer_regret": (0.0, 0.125),
            "unread_regret": (0.0, 0.0, 1.0),
            "stated": (True, False, True),
            "confidence": (0.9, None, 0.6, 1.0),
            "log_loss": (0.1, 4.6, 0.5),
            "posterior_log_loss": (0.05, 0.2),
        },
    ),
}  # fmt: skip
SECTIONS = ("paper", "scores", "diagnostics", "performance")


@pytest.mark.parametrize("name", RUNS)
def test_uneven_runs_are_told_as_on_record(name):
    suite, *of_run = RUNS[name]
    whole = made_up(suite, *of_run)
    run = whole.of(suite.name)
    tables = [table for section in SECTIONS for table in suite.results(run, section)]
    parts = [*written(tables, suite.figures(run))]
    if name == "kumo":
        found = analyze([OpenedRun("run", whole, suite)])
        parts += written(found.tables, found.figures)
    check_golden(f"{name}_uneven", "\n".join(parts))
