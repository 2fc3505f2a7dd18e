"""Every table of every suite on a terminal of 80 columns: no ellipsis, no number cut, no line too long."""

import io
import json
import re

import pytest
from rich.console import Console

from cluster.commands.report import coverage
from cluster.observe.performance import performance_table, replica_table
from cluster.storage.stored_run import TIMINGS, Run
from evals.report.terminal import LaidOut
from evals.suite_results import suite_results
from evals.summary.failures import causes_of, failure_table
from evals.summary.usage import usage_table
from evals.tables import Table, format_cell, is_number
from evals.testing import SECTIONS
from tests.small_runs import SUITES, small_run


def check(table: Table, brief: bool) -> None:
    out = io.StringIO()
    Console(width=80, file=out).print(LaidOut(table, brief))
    text = out.getvalue()
    assert "…" not in text and max(map(len, text.splitlines())) <= 80, text
    shown = [place for place, name in enumerate(table.columns) if not (brief and table.brief) or name in table.brief]
    for place in shown:
        for cell in {format_cell(row[place]) for row in table.rows if is_number(row[place])}:
            assert re.search(rf"(?<![\d.]){re.escape(cell)}(?![\d.])", text), f"{cell} is not whole in\n{text}"


@pytest.mark.slow
@pytest.mark.parametrize("name", SUITES)
def test_every_table_of_a_suite_fits(name):
    run = small_run(name)
    tables = [table for section in SECTIONS for table in suite_results(SUITES[name], run, section)]
    tables += [coverage(run), failure_table(causes_of(run)), usage_table(run)]
    assert len(tables) >= {"toy": 4, "kumo": 9, "kidgym": 13, "multistar": 14, "direct": 8}[name]
    for table in tables:
        check(table, brief=False)
        check(table, brief=True)


@pytest.mark.slow
def test_a_brief_column_is_one_of_the_table():
    for name, suite in SUITES.items():
        for table in suite_results(suite, small_run(name), "scores"):
            assert {*table.brief, *table.better} <= {*table.columns}, table.name


def test_tables_of_performance_fit(tmp_path):
    use = {
        f"replica-{number}.1": {
            "requests": 0,
            "slot_seconds": 123456.7,
            "busy_slot_seconds": 1.0,
            "idle_slot_seconds": 0.5,
        }
        for number in range(3)
    }
    line = {
        "seconds": 1234567.8,
        "playing_seconds": 1234567.8,
        "turns": 98765432,
        "completion_tokens": 10**12,
        "use": use,
    }
    names = (
        "replica_seconds",
        "engine_seconds",
        "prompt_tokens",
        "cached_tokens",
        "queueing_seconds",
        "moves",
        "retries",
    )
    line |= dict.fromkeys((*names, "hedges", "hedges_won", "replicas_lost"), 123456789)
    (tmp_path / TIMINGS).write_text(json.dumps(line) + "\n")
    for table in (performance_table(Run(tmp_path).timings), replica_table(Run(tmp_path).timings)):
        check(table, brief=False)
        check(table, brief=True)
