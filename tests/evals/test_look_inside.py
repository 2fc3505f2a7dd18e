"""What is read out of a ledger for people: an overview, samples, costs, flat summaries, suggestions."""

import math

import pytest

from envs.suggest import did_you_mean
from evals.cost import total_usage
from evals.flat import flat_summary
from evals.overview import overview
from evals.players import BUILT_IN_PLAYERS
from evals.samples import sample_turns
from evals.statistics import Estimate
from evals.tables import Table
from tests.runs import Often, run_of
from tests.toy import ToySuite

SUITE = ToySuite(episodes=20)


# --- overview --------------------------------------------------------------------------------------------------------


def test_an_overview_counts_the_models_episodes_and_not_the_baselines():
    run = run_of(SUITE, {"m": Often(0.5, cost=0.25), "oracle": BUILT_IN_PLAYERS["oracle"]}, failing=(1, 2, 3), most=18)
    (line,) = overview(run)
    wins = sum(bool(won) for won in run.episodes(["success"])["success"].to_pylist())
    assert (line.suite, line.player, line.planned, line.done, line.failed) == ("toy", "m", 20, 15, 3)
    assert line.success.mean == pytest.approx(wins / 18) and line.success.n == 18
    turns = sum(SUITE._length(index) for index in range(18) if index not in (1, 2, 3))
    assert line.cost == pytest.approx(0.25 * turns)


def test_an_overview_of_nothing_played_has_no_score():
    (line,) = overview(run_of(SUITE, {"m": Often(0.5)}, most=0))
    assert (line.done, line.failed, line.planned) == (0, 0, 20) and math.isnan(line.success.mean)


# --- cost ------------------------------------------------------------------------------------------------------------


def test_tokens_and_cost_add_up():
    run = run_of(SUITE, {"m": Often(1.0, tokens=4, cost=0.5), "oracle": BUILT_IN_PLAYERS["oracle"]}, failing=(0,))
    turns = sum(SUITE._length(index) for index in range(1, 20))
    assert total_usage(run) == {
        "prompt_tokens": 40 * turns,
        "completion_tokens": 4 * turns,
        "reasoning_tokens": 2 * turns,
        "cost": 0.5 * turns,
    }


def test_what_is_not_known_or_not_used_is_left_out():
    assert total_usage(run_of(SUITE, {"m": Often(0.0, tokens=1)})).keys() == {"prompt_tokens", "completion_tokens"}
    assert total_usage(run_of(SUITE)) == total_usage(run_of(SUITE, most=0)) == {}


# --- samples ---------------------------------------------------------------------------------------------------------


def outcomes(turns):
    return list({turn.episode: turn.outcome for turn in turns}.values())


def test_failed_and_lost_episodes_come_first():
    run = run_of(SUITE, {"m": Often(0.5)}, failing=(0, 1, 2, 3, 4, 5, 6))
    found = outcomes(sample_turns(SUITE, run, "m", 8))
    assert found == ["lost"] * 2 + ["won"] * 2, "a failed episode without a turn shows nothing"
    whole = sample_turns(SUITE, run, "m", 100)
    assert outcomes(whole).count("won") == sum(map(bool, run.episodes(["success"])["success"].to_pylist()))
    assert sample_turns(SUITE, run, "other", 8) == []


def test_a_sampled_turn_says_what_was_asked_and_read():
    turn = sample_turns(SUITE, run_of(SUITE, {"m": Often(1.0)}), "m", 1)[1]
    assert (turn.suite, turn.task, turn.level, turn.mode, turn.turn) == ("toy", "colors", "easy", "zero_shot", 1)
    assert turn.prompt.startswith("[assistant]") and "question 1?" in turn.prompt
    assert turn.reply == turn.decoded and turn.rule == "exact" and turn.pictures == ()


def test_kinds_that_are_short_make_room_for_others():
    from evals.samples import _chosen

    kinds = {"failed": ["f1", "f2", "f3"], "lost": ["l1"], "won": ["w1", "w2", "w3", "w4"]}
    assert _chosen(kinds, 4) == ["f1", "f2", "l1", "w1"]
    assert _chosen(kinds, 8) == ["f1", "f2", "f3", "l1", "w1", "w2", "w3", "w4"]
    assert _chosen({**kinds, "failed": []}, 4) == ["l1", "w1", "w2", "w3"]
    assert _chosen(kinds, 0) == []


# --- summaries -------------------------------------------------------------------------------------------------------


def summary(*tables):
    return {"planned": 4, "done": 3, "tables": [table.to_json() for table in tables]}


def test_a_flat_summary_names_every_cell_by_its_row():
    table = Table(
        "success",
        "",
        ("player", "task", "n", "success", "note"),
        (
            ("a/b", "CL", 3, Estimate(0.5, 0.25, 0.75, 4), "x"),
            ("c.d", "CL", 4, Estimate(1.0, math.nan, math.nan, 1), "y"),
        ),
    )
    assert flat_summary(summary(table)) == {
        "planned": 4,
        "done": 3,
        "success/a_b/CL/x/n": 3,
        "success/a_b/CL/x/success": 0.5,
        "success/a_b/CL/x/success/low": 0.25,
        "success/a_b/CL/x/success/high": 0.75,
        "success/c_d/CL/y/n": 4,
        "success/c_d/CL/y/success": 1.0,
    }


def test_rows_alike_keep_their_own_names_and_only_scores_count():
    table = Table("t", "", ("x",), ((1,), (2,)))
    hidden = Table("d", "", ("x",), ((1,),), section="diagnostics")
    assert flat_summary(summary(table, hidden)) == {"planned": 4, "done": 3, "t/x": 1, "t/1/x": 2}


# --- suggestions -----------------------------------------------------------------------------------------------------------


def test_suggestions_name_what_is_spelled_alike():
    assert did_you_mean("kumoo", ["kumo", "kidgym"]) == ". Did you mean kumo?"
    assert did_you_mean("KUMO", ["kumo"]) == ". Did you mean kumo?"
    assert did_you_mean("cl", ["CL", "FI"]) == ". Did you mean CL?"
    assert did_you_mean("xyz", ["kumo"]) == did_you_mean(3, []) == ""
    assert did_you_mean("suite", ["suites", "suited"]).count(" or ") == 1
