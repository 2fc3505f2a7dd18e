"""KUMO's tables, against figures computed by hand."""

import dataclasses
import re

import pytest

from evals.conversation import PlayedTurn, Record
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.report.joint import relabeled
from evals.suite import ledger_columns
from evals.suites.kumo import KumoSuite
from evals.suites.kumo.diagnose import diagnose_kumo
from evals.suites.kumo.figures import kumo_figures
from evals.suites.kumo.judge import ENDINGS
from evals.suites.kumo.paper import paper_tables
from evals.suites.kumo.repeats import Run, join_runs
from evals.suites.kumo.score import score_kumo
from evals.types import Episode, Outcome, Reply, Turn


def an_episode(player="model", domain="medical", index=0, repeat=0, level="easy"):
    return Episode("kumo", domain, level, "zero_shot", index, repeat, 7, "fingerprint", 50, player=player)


def a_record(episode, outcome, tokens, error=""):
    turn = Turn(episode, 0, ())
    finish = "length" if outcome is not None and not outcome.success else "stop"
    reply = Reply("", finish, prompt_tokens=tokens - 10, completion_tokens=10)
    return Record(episode, outcome, error, (PlayedTurn(turn, reply),), 1.0)


def played(episode, success, tests, optimal_actions, tokens=100, parse_errors=0, parse_failed=False):
    extra = {"tests": tests, "predicted": "x", "parse_errors": parse_errors, "parse_failed": parse_failed}
    extra |= {"optimal_actions": optimal_actions, "n_actions": {"easy": 6, "hard": 16}[episode.level]}
    return a_record(episode, Outcome(success, tests + 1, extra=extra), tokens)


def failed(episode, tokens):
    return a_record(episode, None, tokens, "PromptTooLong: 9,000 tokens for a context of 8,192")


EPISODES = [an_episode(index=index, repeat=repeat) for index in (0, 1) for repeat in (0, 1)]
WAITING = [an_episode("random", index=index) for index in (0, 1)]
RECORDS = [
    # task 0: perfect play needs one test and the prediction
    played(EPISODES[0], True, tests=1, optimal_actions=2, tokens=100),
    played(EPISODES[1], False, tests=3, optimal_actions=2, tokens=200, parse_errors=2, parse_failed=True),
    # task 1: perfect play predicts at once
    played(EPISODES[2], True, tests=1, optimal_actions=1, tokens=300, parse_errors=1),
    failed(EPISODES[3], tokens=40),
]


COLUMNS = ledger_columns(KumoSuite())


def tables_of(records, episodes=EPISODES, score=score_kumo):
    run = RunData.of_tables(plan_to_table(episodes), records_to_table(records, COLUMNS)).of("kumo")
    return {table.name: table for table in score(run.plan, run.episodes())}


def rows_of(table):
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_success_actions_and_tokens_are_those_computed_by_hand():
    tables = tables_of(RECORDS, EPISODES + WAITING)
    row, waiting = rows_of(tables["kumo_success"])
    assert (row["player"], row["difficulty"]) == ("model", "easy")
    assert (row["planned"], row["done"], row["failed"], row["cut off"]) == (4, 3, 1, 1)
    assert [tables[name].headline for name in ("kumo_success", "kumo_domains", "kumo_published")] == [
        True,
        False,
        False,
    ]
    assert row["success"].mean == 2 / 4 and row["success"].n == 4
    assert row["actions"].mean == (2 + 7 + 2 + 7) / 4
    assert row["relative actions"].mean == pytest.approx((0 + 5 / 2 + 1 + 6) / 4)
    assert row["parse errors"].mean == 2 / 4
    assert row["parse failures"].mean == 1 / 4
    assert row["tokens"].mean == 160 and not row["tokens"].has_interval, "two tasks tell too little of their spread"
    assert (waiting["player"], waiting["planned"], waiting["done"], waiting["failed"]) == ("random", 2, 0, 0)
    assert waiting["success"].n == 0 and "| – | – |" in tables["kumo_success"].to_markdown()


def test_the_published_convention_counts_the_bookkeeping_entry():
    row = rows_of(tables_of(RECORDS)["kumo_published"])[0]
    assert (row["player"], row["source"], row["runs"]) == ("model", "this run", 4)
    assert row["success"].mean == 2 / 4
    # C is tests + 2 or 7, O is 3 and 2.
    assert row["relative action count"].mean == pytest.approx((0 + 4 / 3 + 1 / 2 + 5 / 2) / 4)
    assert row["actions if successful"].mean == 3
    assert row["parse errors"].mean == 1 / 4
    assert row["tokens"].mean == 160


def test_the_paper_s_table_has_a_gap_where_a_player_did_not_play_a_level():
    def paper(plan, ledger):
        return paper_tables(list(join_runs(plan, ledger)))

    hard = an_episode("other", level="hard")
    [table] = tables_of([*RECORDS, played(hard, True, 3, 3)], [*EPISODES, *WAITING, hard], paper).values()
    assert [list(map(str, row)) for row in table.rows] == [
        ["model", "50.0", "1.08", "25.0", "160", *["None"] * 4],
        ["other", *["None"] * 4, "100.0", "0.25", "0.0", "100"],
    ]
    assert tables_of([], WAITING, paper) == {}, "who has not played is not in it"


def test_imported_tasks_have_their_other_counts_of_perfect_play_and_say_which_are_malformed():
    imported = [an_episode(index=index, level=level) for level in ("easy", "hard") for index in (0, 1)]
    others = [episode.assigned("random", "random") for episode in imported[:1]]
    counts = {"shipped_optimal_actions": 3, "tied_optimal_actions": 1.5, "malformed": True}
    records = []
    for episode, tests in zip([*imported[:3], *others], (1, 2, 4, 5), strict=True):
        record = played(episode, True, tests=tests, optimal_actions=2)
        outcome = dataclasses.replace(record.outcome, extra={**record.outcome.extra, **counts})
        records.append(dataclasses.replace(record, outcome=outcome))
    tables = tables_of(records, imported + others)
    rows = rows_of(tables["kumo_optimal_counts"])
    assert [(row["player"], row["difficulty"], row["runs"]) for row in rows] == [
        ("model", "easy", 2),
        ("model", "hard", 1),
        ("random", "easy", 1),
    ]
    # C is tests + 2, and each count has the entry of bookkeeping, too.
    for column, optimal in (("shipped", 4), ("first of ties", 3), ("mean over ties", 2.5)):
        assert [row[column].mean for row in rows] == pytest.approx(
            [3.5 / optimal - 1, 6 / optimal - 1, 7 / optimal - 1]
        )
    # Four runs were played, of three malformed tasks.
    assert all(any(re.findall(r"\d+", note) == ["4", "3"] for note in table.notes) for table in tables.values())
    assert "kumo_optimal_counts" not in tables_of(RECORDS)


def test_notes_say_how_failures_and_missing_runs_count():
    notes = "\n".join(tables_of(RECORDS[1:], EPISODES + WAITING)["kumo_success"].notes)
    assert "1 failed run (the player could not answer) counts as not successful" in notes
    assert "3 of 6 planned runs have not been played" in notes
    clean = "\n".join(tables_of(RECORDS[:3], EPISODES[:3])["kumo_success"].notes)
    assert "the player could not answer" not in clean and "have not been played" not in clean


def test_a_failed_task_takes_its_optimum_from_another_players_run_or_is_left_out_and_said_so():
    alone = [failed(EPISODES[0], 40), played(EPISODES[2], True, tests=0, optimal_actions=1)]
    episodes = [EPISODES[0], EPISODES[2], WAITING[0]]
    table = tables_of(alone, episodes)["kumo_success"]
    estimate = rows_of(table)[0]["relative actions"]
    assert (estimate.mean, estimate.n) == (0.0, 1)
    assert "optimum is not on record" in "\n".join(table.notes)
    helped = tables_of([*alone, played(WAITING[0], True, tests=1, optimal_actions=2)], episodes)["kumo_success"]
    assert rows_of(helped)[0]["relative actions"].mean == pytest.approx((5 / 2 + 0) / 2)
    assert "optimum is not on record" not in "\n".join(helped.notes)


def test_a_report_of_several_runs_keeps_the_optima_of_a_built_in_player_that_it_leaves_out():
    def run(model):
        mine = [dataclasses.replace(each, player=model) for each in (EPISODES[0], EPISODES[2])]
        records = [failed(mine[0], 40), played(mine[1], True, tests=0, optimal_actions=1)]
        records.append(played(WAITING[0], True, tests=1, optimal_actions=2))
        plan = plan_to_table([*mine, WAITING[0]])
        return RunData.of_tables(plan, records_to_table(records, COLUMNS), {"model": {"name": model}})

    def told(data):
        tables = {table.name: table for table in KumoSuite().results(data.of("kumo"), "scores")}
        by_player = {row["player"]: row for row in rows_of(tables["kumo_success"])}
        return by_player["second"]["relative actions"], tables["kumo_success"].notes

    runs = {"first": run("first"), "second": run("second")}
    together = relabeled(runs, {"random"})["second"]
    assert set(together.plan["player"].to_pylist()) == {"second"}
    assert told(together) == told(runs["second"])


def test_domains_stand_in_one_order_in_all_panels_of_the_figure():
    outcomes = {
        ("medical", "easy"): True,
        ("music", "easy"): False,
        ("medical", "hard"): False,
        ("music", "hard"): True,
    }
    games = [an_episode(domain=domain, level=level) for domain, level in outcomes]
    records = [played(game, won, 1, 2) for game, won in zip(games, outcomes.values(), strict=True)]
    run = RunData.of_tables(plan_to_table(games), records_to_table(records, COLUMNS)).of("kumo")
    [figure] = [
        one for one in kumo_figures(list(join_runs(run.plan, run.episodes()))) if one.name == "kumo_domains_map"
    ]
    orders = {tuple(series.name for series in members) for members in figure.panels.values()}
    assert len(figure.panels) == 2 and len(orders) == 1, "though each domain is the easier one in one of them"


def judged(episode, success, tests, **extra):
    record = played(episode, success, tests, 5)
    return dataclasses.replace(record, outcome=Outcome(success, tests + 1, extra={**record.outcome.extra, **extra}))


def test_a_run_is_told_by_each_column_of_its_row_and_its_task_by_a_run_that_is_done():
    counts = {"shipped_optimal_actions": 6, "tied_optimal_actions": 6.5, "malformed": True, "n_actions": 9}
    row = {"parse_errors": 3, "parse_failed": True, "ending": "early", "idle_tests": 7, "late_tests": 8}
    exact = {"exact_certain_after": 4, "exact_ending": "excluded", "exact_late_tests": 1, "exact_regret": [None, 0.125]}
    lost = {"regret": [0.5, None, 0.25]}
    games = [an_episode(index=3, repeat=repeat, domain="music") for repeat in (0, 1)]
    games.append(dataclasses.replace(games[0], level="hard", index=4))
    records = [judged(games[0], False, 2, **counts, **row, **exact, **lost), failed(games[1], tokens=40)]
    run = RunData.of_tables(plan_to_table(games), records_to_table(records, COLUMNS)).of("kumo")
    done, broken, waiting = join_runs(run.plan, run.episodes())
    of_task = {"player": "model", "difficulty": "easy", "domain": "music", "index": 3, "optimal_actions": 5}
    of_task |= {name: counts[name] for name in ("shipped_optimal_actions", "tied_optimal_actions", "malformed")}
    assert done == Run(
        **{"episode_id": games[0].id, "status": "done", "success": False, "tests": 2, "tokens": 100, "cut_off": 1},
        **of_task
        | row
        | exact
        | {"offered": 9, "regret": (0.5, 0.25), "exact_regret": (0.125,), "game": games[0].group},
    )
    assert broken == Run(
        **{"episode_id": games[1].id, "status": "failed", "success": False, "tests": 0, "tokens": 40, "offered": 6},
        **of_task | {"parse_errors": 0, "parse_failed": False, "game": games[1].group},
    )
    assert (waiting.status, waiting.offered, waiting.optimal_actions, waiting.tokens) == ("", 16, None, 0)
    assert (done.actions, done.published_actions, done.published_relative_actions) == (10, 10, 10 / 7 - 1)


def test_planning_and_deduction_are_shares_of_tests_and_of_runs():
    endings = [name for count, name in enumerate((*ENDINGS, ""), 1) for _ in range(count)]
    games = [an_episode(index=index) for index in range(15)]
    records = []
    for number, (game, ending) in enumerate(zip(games, endings, strict=True)):
        exact = {"exact_ending": endings[number - 1], "exact_late_tests": number % 3} if number < 13 else {}
        records.append(judged(game, number in (0, 1, 3), 1, ending=ending, idle_tests=0, regret=[None], **exact))
    records[1] = judged(games[1], True, 4, ending="early", idle_tests=2, late_tests=1, regret=[0.0, 0.5, 0.25, 0.0])
    more = {"exact_regret": [0.0, 0.75, 0.0], "exact_certain_after": 2, "exact_late_tests": 5, "exact_ending": "early"}
    records[2] = judged(games[2], False, 3, ending="early", idle_tests=1, late_tests=3, regret=[0.0, None, 1.0], **more)
    gone = an_episode(index=15)
    tables = tables_of([*records, failed(gone, tokens=40)], [*games, gone], diagnose_kumo)
    planning, deduction, guarantee = [rows_of(table)[0] for table in tables.values()]
    tests = 4 + 3 + 13
    assert (planning["done"], planning["tests"], planning["regret"].mean, planning["regret"].n) == (15, tests, 0.75, 1)
    shares = [planning[name] for name in ("best tests", "idle tests", "late tests")]
    assert shares == pytest.approx([3 / 6, 3 / tests, 4 / tests])
    shown = (*ENDINGS, "none named")
    assert [deduction[name].mean for name in shown] == pytest.approx([count / 15 for count in (1, 2, 3, 4, 5)])
    assert deduction["lucky"].mean == pytest.approx(2 / 15), "all but the one that was certain"
    # Three runs were not judged by the guarantee; but for one, the others ended in it as the run before them did without.
    assert guarantee["done"] == 12
    assert [guarantee[name].mean for name in shown] == pytest.approx([0 / 12, 2 / 12, 3 / 12, 4 / 12, 3 / 12])
    assert (guarantee["certain after"].mean, guarantee["certain after"].n) == (2, 1)
    assert (guarantee["regret"].mean, guarantee["regret"].n) == (0.75, 1)
    assert guarantee["best tests"] == pytest.approx(2 / 3)
    assert guarantee["late tests"].mean == pytest.approx((5 + sum(n % 3 for n in range(13) if n not in (1, 2))) / 12)
    assert guarantee["lucky"].mean == pytest.approx(2 / 12)
