"""KidGym's tables."""

import asyncio
import itertools
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cluster.commands.report import score_run
from cluster.storage.stored_run import Run
from envs.kidgym import TASKS
from evals.ledger.records import PARQUET_OPTIONS, plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.players import OraclePlayer, RandomPlayer, ShortcutPlayer
from evals.shortcut_search.record import read_record
from evals.stats.intervals import proportion_estimate
from evals.suite import ledger_columns, play_episode
from evals.suites.kidgym import KidGymSuite, cache_table
from evals.suites.kidgym.figures import _modes
from evals.suites.kidgym.games import Games
from evals.suites.kidgym.learned_shortcuts import RECORD
from evals.suites.kidgym.score import CAPABILITIES, best_shortcut, capability_score, score_kidgym
from evals.suites.kidgym.shortcut_success import SHORTCUT_SUCCESS
from evals.types import PlayerError, Reply

PLAYERS = {"oracle": OraclePlayer(), "random": RandomPlayer()}


class Sometimes:
    """Plays perfectly, but cannot be read in one episode in four and fails in another one."""

    async def reply(self, turn):
        if turn.episode.index % 4 == 1:
            return Reply("no idea", prompt_tokens=100, cached_tokens=80)
        if turn.episode.index % 4 == 2:
            raise PlayerError("gone")
        return Reply(turn.oracle(), prompt_tokens=100, cached_tokens=60)


class Counted:
    """Plays perfectly, and tells these numbers of tokens."""

    def __init__(self, **tokens):
        self.tokens = tokens

    async def reply(self, turn):
        return Reply(turn.oracle(), **self.tokens)


def run(suite, players, keep=lambda episode: True):
    """Plan and ledger of a run; ``keep`` says which episodes have been played."""
    plan = [episode.assigned(name, "x") for name in players for episode in suite.plan()]
    records = [asyncio.run(play_episode(suite, episode, players[episode.player])) for episode in plan if keep(episode)]
    random.Random(1).shuffle(records)
    return plan_to_table(plan), records_to_table(records, ledger_columns(suite))


def tables(suite, players, **how):
    return {
        table.name: table
        for table in suite.results(RunData.of_tables(*run(suite, players, **how)).of(suite.name), "scores")
    }


def rows(table):
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_a_capability_needs_all_of_its_cells():
    suite = KidGymSuite(tasks=["CL", "FI"], levels=[1, 2, 3], modes=["zero_shot"], episodes=2)
    row = rows(tables(suite, {"oracle": OraclePlayer()})["kidgym_capabilities"])[0]
    assert row["execution"].mean == pytest.approx(100)
    assert [name for name in CAPABILITIES if name in row] == ["execution"], "no columns of dashes"
    slice_ = KidGymSuite(tasks=["CL"], levels=[1], modes=["zero_shot"], episodes=2)
    assert not tables(slice_, {"oracle": OraclePlayer()})["kidgym_capabilities"].headline


def test_a_cell_in_which_all_episodes_failed_has_no_score_and_is_named():
    suite = KidGymSuite(tasks=["CL", "PL"], levels=[1, 2, 3], modes=["zero_shot"], episodes=2)

    class Broken(OraclePlayer):
        async def reply(self, turn):
            if (turn.episode.task, turn.episode.level) == ("CL", "2"):
                raise PlayerError("no answer")
            return await super().reply(turn)

    table = tables(suite, {"oracle": Broken()})["kidgym_capabilities"]
    (row,) = rows(table)
    assert "execution" not in row and row["failed"] == 2 and row["all cells"].n == 0
    assert any("oracle, zero_shot: no score where CL level 2 enters" in note for note in table.notes)


def test_capability_scores_are_the_papers_formula():
    shares = {"1": 0.9, "2": 0.5, "3": 0.2}
    cells = {
        (task, level): proportion_estimate([index < 100 * share for index in range(100)])
        for task in TASKS
        for level, share in shares.items()
    }
    for name in CAPABILITIES:
        assert capability_score(cells, name).mean == pytest.approx(100 * (0.2 * 0.9 + 0.3 * 0.5 + 0.5 * 0.2))


# --- caches ----------------------------------------------------------------------------------------------------------


def test_cache_shares_are_those_of_the_ledger():
    suite = KidGymSuite(tasks=["SE"], levels=[3], modes=["zero_shot", "icl"], episodes=4)
    players = {"model": Sometimes(), "plain": Counted(prompt_tokens=10), "uncounted": Counted(), "again": Sometimes()}
    found = {(row["player"], row["mode"]): row for row in rows(cache_table(RunData.of_tables(*run(suite, players))))}
    assert list(found) == sorted(itertools.product(("again", "model", "plain"), ("icl", "zero_shot")))
    assert [(row["episodes"], row["cached tokens"], row["prefix cache"]) for row in found.values()][4:] == [
        (4, 0, 0)
    ] * 2
    for row in (found[player, mode] for player in ("again", "model") for mode in ("icl", "zero_shot")):
        assert row["calls"] == 7, "two perfect games of three questions, one that cannot be read, one that fails"
        assert (row["prompt tokens"], row["cached tokens"]) == (700, 440)
        assert row["prefix cache"] == pytest.approx(440 / 700)
    plain, example = found["model", "zero_shot"], found["model", "icl"]
    assert plain["pictures sent"] == 2 * (2 + 3 + 4) + 2 and plain["distinct pictures"] == 2 * 4 + 2
    assert example["pictures sent"] == plain["pictures sent"] + 7 * 3
    assert example["picture repeats"] == 1 - (plain["distinct pictures"] + 3) / example["pictures sent"]


def test_a_run_s_report_holds_the_cache_table_and_its_summary_does_not(tmp_path):
    suite = KidGymSuite(tasks=["SE"], levels=[1], modes=["zero_shot"], episodes=4)
    plan, ledger = run(suite, {"model": Sometimes()})
    config = {"suite": {"type": "kidgym", "tasks": ["SE"], "levels": [1], "modes": ["zero_shot"]}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "episodes").mkdir()
    pq.write_table(plan, tmp_path / "plan.parquet", **PARQUET_OPTIONS)
    pq.write_table(ledger, tmp_path / "episodes" / "part-1.parquet", **PARQUET_OPTIONS)
    results = score_run(Run(tmp_path))
    (cache,) = (table for table in results.tables if table.name == "kidgym_cache")
    assert cache.rows == cache_table(RunData.of_tables(plan, ledger)).rows, "pictures that were sent again included"
    assert "kidgym_success" in str(results.summary) and "kidgym_cache" not in str(results.summary)


# --- shortcuts and mistakes ------------------------------------------------------------------------------------------


def diagnosed(suite, players):
    run_data = RunData.of_tables(*run(suite, players)).of(suite.name)
    return {table.name: table for table in suite.results(run_data, "diagnostics")}


def test_beside_every_player_stands_the_best_shortcut_of_the_run_or_else_the_stored_one():
    suite = KidGymSuite(tasks=["MDE"], levels=[1, 2], modes=["zero_shot"], episodes=6)
    players = {"random": RandomPlayer(), **{name: ShortcutPlayer(name) for name in ("any_listed", "first_option")}}
    for row in rows(tables(suite, players)["kidgym_success"]):
        assert row["best shortcut"] == "any_listed" and (row["level"] == "2" or row["shortcuts reach"].mean == 1)
    for row in rows(tables(suite, {"random": RandomPlayer()})["kidgym_success"]):
        assert row["best shortcut"] == "any_listed"
        assert row["shortcuts reach"] == SHORTCUT_SUCCESS["any_listed"]["MDE"][int(row["level"]) - 1]


OUTCOMES = st.lists(st.sampled_from(["won", "lost", "failed", "unplayed"]), max_size=6)


@pytest.mark.slow
@given(st.dictionaries(st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from(["zero_shot", "cot"])), OUTCOMES))
def test_the_best_shortcut_has_the_largest_share_of_its_played_games_over_all_modes(outcomes):
    other = Games(*[np.array([True])] * 3, *[np.array([0])] * 3)
    games = {("a", "cot", "SE", "1"): other, ("b", "cot", "own", "2"): other}
    won: dict[str, list[bool]] = {}
    for (player, mode), each in outcomes.items():
        done, failed, success = (
            np.array([outcome in kinds for outcome in each], bool) for kinds in (("won", "lost"), ("failed",), ("won",))
        )
        games[player, mode, "own", "1"] = Games(done, failed, success, ~done, done * 1.0, done * 0)
        won.setdefault(player, []).extend(outcome == "won" for outcome in each if outcome != "unplayed")
    shares = {player: sum(each) / len(each) for player, each in won.items() if each}
    reached, name = best_shortcut("own", "1", games)
    if shares:
        assert shares[name] == max(shares.values()) and reached == proportion_estimate(won[name])
    else:
        assert (reached, name) == (None, None)


def test_the_best_learned_player_without_a_needed_sense_stands_there_where_it_wins_more_than_those_listed():
    seen = set()
    record = read_record(RECORD)
    for (task, level), cell in record.cells.items():
        reached, name = best_shortcut(task, level, {})
        listed = [tasks[task][int(level) - 1] for tasks in SHORTCUT_SUCCESS.values() if task in tasks]
        assert reached >= max([*listed, cell.success["text only"]]) and reached <= 1
        seen.add(name.startswith("learned: "))
        assert cell.search.date and cell.search.training == "training:0" and cell.games >= 300
        assert f"--held-out episodes={cell.games}" in cell.search.command
        assert f"--training episodes={cell.learned_from}" in cell.search.command
    assert seen == {True, False}
    assert best_shortcut("CO", "1", {})[1] == "learned: only a coarse count"
    assert "coarse" in best_shortcut("PL", "3", {})[1] and best_shortcut("PL", "2", {})[0] < 0.2


def test_cut_off_replies_stand_beside_the_success():
    class Cut(Sometimes):
        async def reply(self, turn):
            return Reply("I choose", finish=["length", "length", "content_filter", "stop"][turn.episode.index])

    suite = KidGymSuite(tasks=["PL"], levels=[1], modes=["zero_shot"], episodes=4)
    (row,) = rows(tables(suite, {"model": Cut()})["kidgym_success"])
    assert (row["cut off"], row["invalid answers"].mean) == (3, 1)
    found = {row["mistake"]: row["games"] for row in rows(diagnosed(suite, {"model": Cut()})["kidgym_mistakes"])}
    assert found == {"unread reply: cut off": 2, "unread reply: filtered": 1, "unread reply: no answer": 1}


# --- bookkeeping -----------------------------------------------------------------------------------------------------


def test_a_player_without_a_cell_stands_beside_chance_where_it_has_one():
    suite = KidGymSuite(tasks=["CL", "PL"], levels=[1], modes=["zero_shot"], episodes=2)
    plan, ledger = run(suite, PLAYERS)
    plan = plan.filter([(row["player"], row["task"]) != ("random", "PL") for row in plan.to_pylist()])
    found = {row["task"]: row for row in rows(score_kidgym(plan, ledger)[2])}
    assert [found[task]["oracle, zero_shot"].n for task in ("CL", "PL")] == [2, 2]
    assert [found[task]["random, zero_shot"].n for task in ("CL", "PL")] == [2, 0]


def test_won_games_have_no_share_in_what_lost_the_others():
    """Games of the published environment name no mistake: those lost by the budget are not mixed with those won."""
    suite = KidGymSuite(tasks=["CL"], levels=[1], modes=["zero_shot"], episodes=4)
    plan, ledger = run(suite, {"oracle": OraclePlayer()})
    ledger = ledger.set_column(ledger.column_names.index("success"), "success", pa.array([True, True, True, False]))
    results = suite.results(RunData.of_tables(plan, ledger).of(suite.name), "diagnostics")
    (row,) = [row for table in results if table.name == "kidgym_mistakes" for row in rows(table)]
    assert (row["mistake"], row["games"], row["lost games"]) == ("budget used up", 1, 1)
    assert row["share of all games"].mean == 0.25


def test_players_of_several_modes_are_drawn_wherever_those_of_one_stand():
    success = {("CL", 1): proportion_estimate([True, False], [0, 1])}
    groups = dict.fromkeys((("a", "cot"), ("b", "cot"), ("b", "icl"), ("c", "icl")), success)
    (figure,) = _modes(groups)
    assert [(series.name, series.panel) for series in figure.series] == [
        ("chain of thought", "b"),
        ("worked example", "b"),
    ]
