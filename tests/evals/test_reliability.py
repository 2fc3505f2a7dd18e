import itertools
import math
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.commands.report import coverage, summarize
from evals.analysis.compare import Side, comparison_tables
from evals.analysis.evidence import evidence_table
from evals.ledger.run_data import RunData
from evals.stats.anytime import confidence_sequence
from evals.stats.reliability import (
    games_for_precision,
    games_to_detect,
    pass_at_k,
    pass_power_k,
    what_a_plan_buys,
)
from evals.summary.cost import cost_table, costs_of
from evals.summary.failures import causes_of, failure_table
from evals.summary.overview import overview
from evals.summary.reliability import reliability_table
from evals.summary.reply_health import reply_health, reply_table
from evals.summary.usage import usage_table
from tests.small_runs import MODELS, SUITES, small_run


@pytest.mark.parametrize("repeats", [1, 4, 5])
def test_pass_k_is_the_share_of_choices_of_runs(repeats):
    for successes, k in itertools.product(range(repeats + 1), range(1, repeats + 1)):
        runs = [True] * successes + [False] * (repeats - successes)
        chosen = list(itertools.combinations(runs, k))
        assert pass_power_k(successes, repeats, k) == pytest.approx(sum(map(all, chosen)) / len(chosen))
        assert pass_at_k(successes, repeats, k) == pytest.approx(sum(map(any, chosen)) / len(chosen))


def test_pass_k_is_unbiased():
    """Over all outcomes of five runs with a chance of .7 each, its mean is .7 to the k."""
    for k in range(1, 6):
        weights = {count: math.comb(5, count) * 0.7**count * 0.3 ** (5 - count) for count in range(6)}
        assert sum(w * pass_power_k(count, 5, k) for count, w in weights.items()) == pytest.approx(0.7**k)
        assert sum(w * pass_at_k(count, 5, k) for count, w in weights.items()) == pytest.approx(1 - 0.3**k)


@given(st.integers(2, 6), st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_each_row_s_figures_are_of_its_own_repeats(one, other, seed):
    """Levels with other numbers of repeats beside it change nothing in a row."""
    rng = random.Random(seed)
    won = {
        level: [[rng.random() < 0.5 for _ in range(count)] for _ in range(5)]
        for level, count in (("a", one), ("b", other))
    }

    def table_of(*levels):
        rows = []
        for level in levels:
            for index, runs in enumerate(won[level]):
                where = {
                    "player": "m",
                    "suite": "toy",
                    "level": level,
                    "mode": "x",
                    "task": "t",
                    "index": index,
                    "seed": index,
                }
                rows += [{**where, "repeat": repeat, "success": success} for repeat, success in enumerate(runs)]
        for row in rows:
            row["episode_id"] = f"{row['level']} {row['index']} {row['repeat']}"
        played = pa.Table.from_pylist(rows)
        table = reliability_table(RunData.of_tables(played.drop_columns(["success"]), played))
        return {row[table.columns.index("level")]: dict(zip(table.columns, row, strict=True)) for row in table.rows}

    both = table_of("a", "b")
    for level in won:
        alone, beside = table_of(level)[level], both[level]
        names = [name for name in alone if "^" not in name and "@" not in name]
        assert str({name: beside[name] for name in names}) == str({name: alone[name] for name in names})
        if alone["design effect"] is not None:
            assert alone["design effect"] == pytest.approx(1 + (alone["repeats"] - 1) * alone["ICC"])


def test_repeats_buy_little_where_runs_are_alike():
    alike, independent = what_a_plan_buys(200, 5, 1.0), what_a_plan_buys(200, 5, 0.0)
    assert (alike.once, independent.once) == (200, 1000)
    assert alike.error == pytest.approx(math.sqrt(0.25 / 200))
    assert what_a_plan_buys(alike.once, 1, 0.3).error == pytest.approx(alike.error)
    assert what_a_plan_buys(200, 5, 0.3).saved == pytest.approx(1 - 1 / 2.2, abs=0.001)


def test_so_many_games_are_as_precise_as_asked():
    games = games_for_precision(0.05)
    widths = [confidence_sequence([1.0] * (n // 2) + [0.0] * (n - n // 2)) for n in (games, games * 98 // 100)]
    assert widths[0].high - widths[0].low <= 0.1 < widths[1].high - widths[1].low
    assert games_for_precision(0.05, success=0.95) < games


def test_games_to_detect_a_difference_at_the_textbook_figure():
    """McNemar's test with 30 % discordant games: (1.96 + .8416)^2 (.3 - .05^2) / .05^2."""
    assert games_to_detect(0.05, 0.3) == math.ceil((1.959964 + 0.841621) ** 2 * (0.3 - 0.0025) / 0.0025)


def test_no_table_that_all_suites_share_depends_on_the_order_of_the_ledger():
    """Parts come in the order in which drivers finished, or were merged; ``check_suite`` sees to the suites' own tables."""
    run = small_run("kumo")
    whole = run.episodes([*run.episodes().column_names, "turns"])
    shuffled = whole.take(np.random.default_rng(1).permutation(len(whole)))

    def shown(rows):
        data = RunData.of_tables(run.plan, rows)
        causes, health = causes_of(data), reply_health(data)
        tables = [
            coverage(data),
            failure_table(causes),
            reply_table(health),
            reliability_table(data),
            usage_table(data),
        ]
        tables.append(cost_table(costs_of(data)))
        sides = [Side(player, player, data, SUITES["kumo"]) for player in MODELS]
        tables += [
            *comparison_tables(*sides),
            *comparison_tables(*sides, column="seconds"),
            evidence_table(sides[0], sides[1:]),
        ]
        return {
            **{table.name: table.to_json() for table in tables if table is not None},
            **{"summary": summarize(data, [], causes), "overview": list(overview(data))},
        }

    before, after = shown(whole), shown(shuffled)
    assert [what for what in before if str(before[what]) != str(after[what])] == []
    assert {"reliability", "failures", "usage"} <= before.keys()
