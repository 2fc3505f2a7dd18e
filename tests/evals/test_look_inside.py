"""What is read out of a ledger for people: an overview, samples, costs, flat summaries, suggestions."""

import dataclasses
import math

from envs.suggest import did_you_mean
from evals.analysis.samples import sample_turns
from evals.ledger.run_data import RunData
from evals.players import BUILT_IN_PLAYERS
from evals.stats.intervals import Estimate, proportion_estimate
from evals.suites.bundle import Bundle
from evals.suites.kidgym import KidGymSuite
from evals.suites.kumo import KumoSuite
from evals.summary.cost import total_usage
from evals.summary.flat import LONGEST_FLAT, flat_summary
from evals.summary.overview import overview
from evals.tables import Table
from evals.types import PlayerError, Reply
from tests.runs import Often, run_of
from tests.toy import ToySuite

SUITE = ToySuite(episodes=20)


# --- overview --------------------------------------------------------------------------------------------------------


def test_an_overview_has_a_line_for_each_suite_and_repeats_of_a_game_are_one_cluster():
    repeated = KumoSuite(domains=["medical"], difficulties=["easy"], tasks_per_domain=3, repeats=4)
    players = {"m": Often(0.5, cost=0.5), "oracle": BUILT_IN_PLAYERS["oracle"]}
    run = run_of(Bundle("both", (repeated, SUITE)), players, failing=(1,))
    lines = list(overview(run))
    assert [(line.suite, line.player, line.planned, line.done, line.failed) for line in lines] == [
        ("kumo", "m", 12, 8, 4),
        ("toy", "m", 20, 19, 1),
    ]
    for line in lines:
        stored = run.of(line.suite).episodes(["player", "success", "index", "cost"]).to_pylist()
        mine = [row for row in stored if row["player"] == "m"]
        assert line.success == proportion_estimate(
            [bool(row["success"]) for row in mine], [row["index"] for row in mine]
        )
        assert line.cost == sum(row["cost"] for row in mine) > 0
    (one,) = overview(run_of(ToySuite(episodes=1), {"m": Often(1.0)}))
    assert (one.player, one.planned, one.done, one.success.mean) == ("m", 1, 1, 1.0)
    assert list(overview(RunData.of_tables(run.plan.slice(0, 0), run.episodes().slice(0, 0)))) == []


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


def test_all_parts_of_a_ledger_add_up():
    run = run_of(SUITE, {"m": Often(1.0, tokens=4, cost=0.125)})
    whole = run.episodes()
    parts = [whole.slice(0, 7), whole.slice(7, 0), whole.slice(7)]
    in_parts = dataclasses.replace(run, _read=lambda columns: (part.select([*columns, "suite"]) for part in parts))
    assert total_usage(in_parts) == total_usage(run) and total_usage(run)["cost"] == 0.125 * sum(
        map(len, turns_of(run))
    )


def turns_of(run):
    return [row["turns"] for row in run.find(run.plan["episode_id"].to_pylist())]


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


class StopsAnswering:
    """Answers the first turn and then fails."""

    async def reply(self, turn):
        if turn.number:
            raise PlayerError("gone")
        return Reply("red", reasoning="Fire is red.")


def test_a_failed_episode_shows_the_turns_until_then_and_its_error():
    run = run_of(SUITE, {"m": StopsAnswering(), "oracle": BUILT_IN_PLAYERS["oracle"]})
    (turn,) = sample_turns(SUITE, run, "m", 1)
    row = next(row for row in run.episodes().to_pylist() if row["episode_id"] == turn.episode)
    assert (row["player"], row["status"], turn.error) == ("m", "failed", row["error"]) and "gone" in turn.error
    assert (turn.outcome, turn.turn, turn.reply, turn.reasoning) == ("failed", 0, "red", "Fire is red.")
    assert turn.prompt.split("\n") == [
        *("[system]", "Name the color I think of.", "[user]", f"Game {row['index']}, question 0?")
    ]


def test_a_sample_shows_pictures_by_their_descriptions_and_the_part_of_a_bundle():
    games = KidGymSuite(tasks=["CL"], levels=[2], modes=["cot"], episodes=2)
    both = Bundle("both", (SUITE, games))
    run = run_of(both, {"m": BUILT_IN_PLAYERS["oracle"]})
    turns = sample_turns(both, run, "m", 100)
    assert {turn.suite for turn in turns} == {"toy", "kidgym"} and {turn.outcome for turn in turns} == {"won"}
    rows = {row["episode_id"]: row["turns"] for row in run.find(run.plan["episode_id"].to_pylist())}
    assert sorted((turn.episode, turn.turn) for turn in turns) == sorted(
        (name, number) for name, asked in rows.items() for number in range(len(asked))
    )
    for turn in turns:
        parts = [part for said in rows[turn.episode][turn.turn]["prompt"] for part in said["parts"]]
        assert [picture is not None for picture in turn.pictures] == [True] * sum(
            part["picture"] is not None for part in parts
        )
        assert all(part["text"] in turn.prompt for part in parts if part["picture"] is None)
    assert any(turn.pictures for turn in turns if turn.suite == "kidgym")
    (fixed,) = {tuple(turn.episode for turn in sample_turns(both, run, "m", 3)) for _ in range(3)}
    assert len(set(fixed)) == 3


def test_kinds_that_are_short_make_room_for_others():
    from evals.analysis.samples import _chosen

    kinds = {"failed": ["f1", "f2", "f3"], "lost": ["l1"], "won": ["w1", "w2", "w3", "w4"]}
    assert _chosen(kinds, 4) == ["f1", "f2", "l1", "w1"]
    assert _chosen(kinds, 8) == ["f1", "f2", "f3", "l1", "w1", "w2", "w3", "w4"]
    assert _chosen({**kinds, "failed": []}, 4) == ["l1", "w1", "w2", "w3"]
    assert _chosen(kinds, 0) == []
    many = {kind: [kind] * 20 for kind in kinds}
    for count in range(20):
        rest = count - count // 2 - count // 4
        assert _chosen(many, count) == ["failed"] * (count // 2) + ["lost"] * (count // 4) + ["won"] * rest
    assert _chosen({**kinds, "failed": [], "lost": []}, 3) == ["w1", "w2", "w3"]
    assert _chosen({"failed": ["f1", "f2", "f3", "f4"], "lost": ["l1", "l2"], "won": []}, 4) == ["f1", "f2", "f3", "l1"]


# --- summaries -------------------------------------------------------------------------------------------------------


def summary(*tables):
    return {"planned": 4, "done": 3, "tables": [table.to_json() for table in tables]}


def test_a_flat_summary_names_every_cell_by_its_row():
    table = Table(
        "success",
        "",
        ("player", "task", "n", "success", "note"),
        (
            ("a/b", "CL", 3, Estimate(0.5, 0.0, 0.75, 4), "x"),
            ("c.d", "CL", 4, Estimate(1.0, math.nan, math.nan, 1), "y"),
        ),
        headline=True,
    )
    assert flat_summary(summary(table)) == {
        "planned": 4,
        "done": 3,
        "success/a_b/CL/success": 0.5,
        "success/a_b/CL/success/low": 0.0,
        "success/a_b/CL/success/high": 0.75,
        "success/c_d/CL/success": 1.0,
    }, "a name holds what was run (player, task), not what came out"


def test_rows_alike_keep_their_own_names_and_only_main_scores_count():
    one, two = Estimate(0.1, math.nan, math.nan, 1), Estimate(0.2, math.nan, math.nan, 1)
    table = Table("t", "", ("x",), ((one,), (two,)), headline=True)
    hidden = Table("d", "", ("x",), ((one,),), section="diagnostics", headline=True)
    long = Table("l", "", ("x",), ((one,),) * (LONGEST_FLAT + 1), headline=True)
    counts = Table("c", "", ("player", "done"), (("a", 3),), headline=True)
    found = flat_summary(summary(table, hidden, long, counts, Table("s", "", ("x",), ((one,),))))
    assert found == {"planned": 4, "done": 3, "t/x": 0.1, "t/1/x": 0.2}


# --- suggestions -----------------------------------------------------------------------------------------------------------


def test_suggestions_name_what_is_spelled_alike():
    assert did_you_mean("kumoo", ["kumo", "kidgym"]) == ". Did you mean kumo?"
    assert did_you_mean("KUMO", ["kumo"]) == ". Did you mean kumo?"
    assert did_you_mean("cl", ["CL", "FI"]) == ". Did you mean CL?"
    assert did_you_mean("xyz", ["kumo"]) == did_you_mean(3, []) == ""
    assert did_you_mean("suite", ["suites", "suited"]).count(" or ") == 1
