"""Runs that stop when their games have decided: what they play, keep and show; what a later session does with them."""

import asyncio
import dataclasses
import json
import math
import os
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster.cli import main
from cluster.commands import run as module
from cluster.commands.compare import compare
from cluster.commands.list_runs import list_runs
from cluster.commands.run import run
from cluster.commands.view import _Finder
from cluster.config.plan import make_suite
from cluster.errors import CONTINUE, RunFailedError, UserError
from cluster.observe.run_status import run_status
from cluster.runner.episode_queue import EpisodeQueue
from cluster.stopping import precision as precision_module
from cluster.stopping.begin import agreed_rule, read_by
from cluster.stopping.precision import precision_table
from cluster.stopping.watch import StopWatch
from cluster.storage.run_directory import RunDirectory
from cluster.storage.stop_rule import StoredRule, read_rule, write_rule
from cluster.storage.stored_run import Run
from evals.ledger.records import records_to_table
from evals.players import OraclePlayer
from evals.stats.anytime import confidence_sequence
from evals.stats.intervals import Estimate, intraclass_correlation
from evals.stats.reliability import games_for_precision, games_to_detect
from evals.stopping.outcomes import PAIR_COLUMNS
from evals.stopping.rules import StopRule
from evals.suite import built_in_players, ledger_columns, plan_for, play_episode
from evals.suite_results import suite_figures
from tests.cluster.conftest import EASY, settings_at
from tests.runs import Often, records_of
from tests.toy import ToySuite
from tests.viewer_runs import add_part, write_run

GAMES = [
    *(*EASY, "suite.tasks_per_domain=30", "suite.repeats=1", "model=oracle", "baselines=[random]"),
]
DECIDED = ["stop=decided", "against=random"]


@pytest.fixture
def few_at_once(monkeypatch):
    play = player()
    monkeypatch.setattr(module, "play_on_cluster", play)
    return play


def player():
    """Plays episodes four at a time in the order of the queue; the rule looks after each four."""

    def play(settings, todo, directory, stats, progress, watcher):
        players = built_in_players(settings.suite)
        watch = StopWatch.of(directory, settings.balanced)
        queue = EpisodeQueue(todo, watch.ranks)
        while queue.unfinished and play.episodes > 0:
            taken = queue.take(4)
            records = [asyncio.run(play_episode(settings.suite, episode, players[episode.player])) for episode in taken]
            rows = records_to_table(records, ledger_columns(settings.suite))
            directory.commit(rows)
            play.asked += [episode.id for episode in taken]
            play.episodes -= len(taken)
            queue.finished(len(taken))
            watch.add(rows)
            state = watch.look()
            if state is not None:
                queue.keep(state.needed)
        return queue.unfinished > 0

    play.episodes = 1000
    play.asked = []
    return play


@pytest.fixture(scope="module")
def decided(tmp_path_factory):
    """A run that was stopped by its decision; do not change it."""
    run_dir = tmp_path_factory.mktemp("decided") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "play_on_cluster", player())
        assert start(run_dir, *DECIDED) == 0
    return run_dir


def start(run_dir, *overrides):
    return run(settings_at(run_dir, *GAMES, *overrides))[0]


def summary(run_dir):
    return json.loads((run_dir / "summary.json").read_text())


@pytest.mark.slow
def test_a_decided_run_plays_no_more_games_and_is_complete(few_at_once, tmp_path):
    run_dir = tmp_path / "run"
    assert start(run_dir, *DECIDED) == 0
    found = summary(run_dir)
    (decision,) = found["stopping"]["decisions"]
    assert decision["verdict"] == "first" and decision["e_value"] >= 20
    assert decision["games"] < 25 and decision["planned_games"] == 30
    assert decision["text"].startswith(f"stopped: decided after {decision['games']} of 30 games: oracle is better")
    # Both sides of each game that the decision took; what was under way finished, and does not count.
    assert found["planned"] == found["done"] == 2 * decision["games"]
    assert (found["missing"], found["not_needed"]) == (0, 60 - found["planned"])
    assert found["planned"] <= len(few_at_once.asked) < found["planned"] + 4
    status = run_status(Run(run_dir))
    assert status.stopping == (decision["text"],)
    assert status.state == "complete"
    (viewed,) = _Finder([run_dir])()
    assert viewed.stopping() == (decision["text"],)
    (listed,) = (note for note in list_runs(tmp_path).notes if "stopped" in note)
    assert listed == f"run: {decision['text']}"
    assert start(run_dir, *DECIDED) == 0  # again: nothing to play
    assert summary(run_dir) == found


@pytest.mark.slow
def test_tables_of_a_stopped_run_are_anytime_valid(decided):
    (table,) = (each for each in summary(decided)["tables"] if each["name"] == "kumo_success")
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    (oracle,) = (row for row in rows if row["player"] == "oracle")
    (share,) = (value for value in oracle.values() if isinstance(value, dict) and value["mean"] == 1)
    games = share["n"]
    assert share["low"] == pytest.approx(confidence_sequence([1.0] * games).low)
    assert any("anytime-valid" in note for note in table["notes"])


@pytest.mark.slow
def test_list_and_figures_of_a_stopped_run_have_the_intervals_of_its_tables(decided):
    (table,) = (each for each in summary(decided)["tables"] if each["name"] == "kumo_success")
    shares = [row[table["columns"].index("success")] for row in table["rows"]]
    runs = list_runs(decided.parent)
    listed = dict(zip(runs.columns, runs.rows[0], strict=True))["success"]
    assert (listed.low, listed.high) in [(share["low"], share["high"]) for share in shares]
    run, suite = Run(decided), make_suite(Run(decided).config["suite"])
    values = [value for figure in suite_figures(suite, run.data) for series in figure.series for value in series.y]
    drawn = {(value.low, value.high) for value in values if isinstance(value, Estimate)}
    assert {(share["low"], share["high"]) for share in shares} <= drawn


@pytest.mark.slow
@pytest.mark.parametrize(("form", "ending"), [("inspect", "*.eval"), ("every_eval_ever", "*.json")])
def test_a_stopped_run_that_was_exported_and_imported_is_still_one(decided, form, ending, tmp_path, capsys):
    def cli(*words):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        assert ended.value.code == 0

    cli("export", decided, "--to", form, "--out", tmp_path / "out")
    cli("import", *(tmp_path / "out").rglob(ending), "--out", tmp_path / "back")
    capsys.readouterr()
    cli("report", tmp_path / "back")
    said = capsys.readouterr().out
    assert "Stopped: decided after" in " ".join(said.split()) and "anytime-valid" in said
    tables = [{each["name"]: each for each in summary(path)["tables"]} for path in (decided, tmp_path / "back")]
    assert tables[0]["kumo_success"]["rows"] == tables[1]["kumo_success"]["rows"]
    overall, *_ = compare([Run(tmp_path / "back")])
    assert any("stopped: decided after" in note for note in overall.notes)
    [row] = list_runs(tmp_path).rows
    [original] = list_runs(decided.parent).rows
    assert [each for each in row if isinstance(each, Estimate)] == [
        each for each in original if isinstance(each, Estimate)
    ]


def test_a_comparison_of_a_stopped_run_has_evidence_that_holds_at_every_look(decided):
    overall, *_, evidence = compare([Run(decided)])
    assert any("stopped: decided after" in note for note in overall.notes)
    (row,) = (dict(zip(evidence.columns, row, strict=True)) for row in evidence.rows)
    decision = summary(decided)["stopping"]["decisions"][0]
    assert (row["games"], row["e-value"], row["found"]) == (decision["games"], decision["e_value"], "yes")
    assert row["Holm e"] == row["e-value"]  # a single comparison
    assert row["difference"].low == pytest.approx(decision["estimate"]["low"])


def planned_by(model, suites):
    """Settings whose plan has these games of each suite, as (task, level, number of games, episodes of each)."""
    (one, *_) = ToySuite(episodes=1).plan()
    plan = []
    for player in (model, "oracle"):
        for suite, cells in suites.items():
            for task, level, games, episodes in cells:
                plan += [
                    dataclasses.replace(one, suite=suite, task=task, level=level, seed=game, repeat=each, player=player)
                    for game in range(games)
                    for each in range(episodes)
                ]
    return SimpleNamespace(plan=plan, model=SimpleNamespace(name=model))


def test_a_plan_says_what_it_buys_in_each_suite(tmp_path):
    settings = planned_by("m", {"a": [("x", "1", 20, 5), ("x", "2", 7, 5), ("y", "2", 3, 5)], "b": [("x", "1", 9, 1)]})
    table = precision_table(settings, None, precision=0.1, detect=0.2)
    first, second = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    near, sure = games_for_precision(0.1), games_to_detect(0.2, 0.3)
    assert first == {
        **{"suite": "a", "games": 30, "episodes a game": 5, "success": 0.5, "ICC": 0.3},
        "standard error": pytest.approx((0.25 * (1 + 4 * 0.3) / 150) ** 0.5),
        **{"games once": 69, "episodes saved": pytest.approx(1 - 69 / 150)},  # 150 / (1 + 4 * .3)
        **{"games for ±0.1": near, "per cell for ±0.1": math.ceil(near / 3)},  # a cell is a task at a level
        **{"games to find 0.2": sure, "per cell to find 0.2": math.ceil(sure / 3)},
    }
    assert (second["suite"], second["games"], second["episodes a game"], second["games once"]) == ("b", 9, 1, 9)
    assert second["per cell for ±0.1"] == near
    assert len(precision_table(settings, None).columns) == 8
    for name, least in (("precision", 0.001), ("detect", 0.0001)):
        for wrong in (0.9 * least, 1.0):
            with pytest.raises(UserError, match=f"--{name} "):
                precision_table(settings, None, **{name: wrong})
        assert precision_table(settings, None, **{name: least}).rows[0][-2] > 1e6


def test_what_a_plan_buys_is_told_from_what_the_model_of_a_past_run_reached(tmp_path):
    suite = ToySuite(episodes=8)
    repeated = [dataclasses.replace(each, repeat=again) for each in suite.plan() for again in range(2)]
    played = {"weak": lambda each: each.index < 2 or (each.index == 2 and each.repeat), "oracle": lambda each: True}
    plan = [each.assigned(name, "") for name in played for each in repeated]
    rows = [
        {"suite": "toy", "player": each.player, "success": bool(played[each.player](each))}
        | {name: getattr(each, name) for name in ("task", "level", "seed")}
        for each in plan
    ]
    past = SimpleNamespace(planned={"player": pa.array([each.player for each in plan])})
    past.data = SimpleNamespace(episodes=lambda columns: pa.Table.from_pylist(rows).select(columns))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(precision_module, "Run", lambda path: past)
        settings = planned_by("m", {"toy": [("x", "1", 4, 2)], "other": [("x", "1", 4, 2)]})
        known, unknown = (row[3:5] for row in precision_table(settings, tmp_path).rows)
        mine = [row for row in rows if row["player"] == "weak"]
        alike = intraclass_correlation([float(row["success"]) for row in mine], [row["seed"] for row in mine])
        assert known == (5 / 16, pytest.approx(alike)) and alike != 0.3 and unknown == (0.5, 0.3)
        for won in (True, False):
            for row in rows:
                row["success"] = won
            assert precision_table(settings, tmp_path).rows[0][3:5] == (0.98 if won else 0.02, 0.3)


@pytest.mark.slow
def test_a_stopped_run_in_two_sessions_decides_as_in_one(few_at_once, tmp_path):
    start(tmp_path / "whole", *DECIDED)
    few_at_once.episodes, few_at_once.asked = 8, []
    assert start(tmp_path / "parts", *DECIDED) == CONTINUE
    few_at_once.episodes = 1000
    assert start(tmp_path / "parts", *DECIDED) == 0
    assert len(few_at_once.asked) == len(set(few_at_once.asked))  # nothing was asked twice
    ignored = ("stopping",)
    one, other = summary(tmp_path / "whole"), summary(tmp_path / "parts")
    assert one["stopping"]["decisions"] == other["stopping"]["decisions"]
    assert {k: v for k, v in one.items() if k not in ignored} == {k: v for k, v in other.items() if k not in ignored}


@pytest.mark.slow
def test_another_rule_or_none_goes_on_where_the_run_stopped(few_at_once, tmp_path):
    run_dir = tmp_path / "run"
    start(run_dir, *DECIDED)
    few = len(few_at_once.asked)
    start(run_dir, "stop=precise", "precision=.1")
    assert summary(run_dir)["stopping"]["decisions"][0]["verdict"] in ("precise", "open")
    assert few < len(few_at_once.asked)
    start(run_dir)
    assert read_rule(run_dir) is None
    found = summary(run_dir)
    assert (found["planned"], found["done"]) == (60, 60) and "stopping" not in found
    assert len(few_at_once.asked) == len(set(few_at_once.asked)) == 60
    start(tmp_path / "undisturbed")
    assert summary(tmp_path / "undisturbed") == found


@pytest.mark.slow
def test_a_run_is_compared_with_what_the_other_had_reached_at_its_beginning(few_at_once, tmp_path):
    other, run_dir = tmp_path / "other", tmp_path / "run"
    few_at_once.episodes = 40
    start(other, "model=random", "baselines=[]", "order=balanced", "suite.tasks_per_domain=30")
    few_at_once.episodes = 4
    start(run_dir, "baselines=[]", "stop=decided", f"against={other}")
    rule = read_rule(run_dir)
    few_at_once.episodes = 1000
    start(other, "model=random", "baselines=[]", "order=balanced", "retry_failed=true")
    start(run_dir, "baselines=[]", "stop=decided", f"against={other}")
    assert read_rule(run_dir) == rule
    assert summary(run_dir)["stopping"]["decisions"][0]["verdict"] == "first"
    start(run_dir, "baselines=[]", "stop=decided", f"against={other}", "stop.measure=steps", "stop.bounds=[0,100]")
    assert max(read_rule(run_dir).other.values()) > 1, "another measure is looked up anew"


@pytest.mark.parametrize(("measure", "failed"), [("success", 0.0), ("score", 0.0), ("toy.right", None)])
def test_a_run_is_compared_with_what_the_model_of_the_other_reached(tmp_path, measure, failed):
    suite, players = ToySuite(episodes=4), {"weak": Often(0.5, seed=4), "oracle": OraclePlayer()}
    rows = records_to_table(records_of(suite, players, failing={1}), ledger_columns(suite))
    plan = [episode for name in players for episode in plan_for(suite, {name: ""})]
    other, run_dir = (write_run(tmp_path / name, plan, rows) for name in ("other", "run"))
    rule = StopRule("decided", measure=measure, bounds=(0, 9), against=str(other))
    found = agreed_rule(Run(run_dir), rule, "oracle")
    own = [row for row in rows.to_pylist() if row["player"] == "weak"]
    reached = {
        tuple(row[name] for name in PAIR_COLUMNS): row[measure] if row["status"] == "done" else failed for row in own
    }
    assert found.other == {pair: value for pair, value in reached.items() if value is not None}


def test_games_that_the_other_run_s_own_rule_did_not_need_decide_nothing(tmp_path):
    suite, players = ToySuite(episodes=60), {"weak": Often(0.5, seed=4), "oracle": OraclePlayer()}
    rows = records_to_table(records_of(suite, players), ledger_columns(suite))
    plan = [episode for name in players for episode in plan_for(suite, {name: ""})]
    other, run_dir = (write_run(tmp_path / name, plan, rows) for name in ("other", "run"))
    write_rule(other, agreed_rule(Run(other), StopRule("precise", precision=0.3), "weak"))
    needed = Run(other).stopping.needed
    counted = [row for row in rows.to_pylist() if row["player"] == "weak" and row["episode_id"] in needed]
    assert Run(other).stopping.stopped and 0 < len(counted) < 60
    write_rule(run_dir, agreed_rule(Run(run_dir), StopRule("decided", against=str(other)), "oracle"))
    assert read_rule(run_dir).other == {
        tuple(row[name] for name in PAIR_COLUMNS): float(row["success"]) for row in counted
    }


def test_what_a_run_is_compared_with_stays_until_another_run_or_measure_is_named(tmp_path):
    suite, players = ToySuite(episodes=6), {"weak": Often(0.5, seed=4), "oracle": OraclePlayer()}
    rows = records_to_table(records_of(suite, players, failing={1}), ledger_columns(suite))
    plan = [episode for name in players for episode in plan_for(suite, {name: ""})]
    run_dir = write_run(tmp_path / "run", plan, rows)
    for name, part in (("first", rows[:3]), ("second", rows[:5])):
        write_run(tmp_path / name, plan, part)

    def begun(**rule):
        run = RunDirectory(run_dir)
        run.claim()
        try:
            agreed = agreed_rule(run, StopRule("decided", **rule) if rule else None, "oracle")
            with read_by(run, agreed, run.config["suite"]):
                return read_rule(run_dir)
        finally:
            run.release()

    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    noted = begun(against=first)
    assert (noted.player, len(noted.other)) == ("oracle", 3)
    add_part(tmp_path / "first", 2, rows[3:6])
    spelled_otherwise = os.path.relpath(first)
    assert begun(against=spelled_otherwise).other == noted.other
    assert begun(against=first, alpha=0.2) == dataclasses.replace(
        noted, rule=StopRule("decided", against=first, alpha=0.2)
    )
    assert len(begun(against=first, measure="score").other) == 6, "another measure is looked up anew"
    assert len(begun(against=second).other) == 5
    assert begun(against="weak").other is None, "a player of the run itself"
    assert begun() is None and not [*run_dir.glob("against*")]
    with pytest.raises(UserError, match="is the model itself"):
        begun(against="oracle")
    games = [dataclasses.replace(episode, seed=episode.seed + 1) for episode in plan]
    write_run(tmp_path / "elsewhere", games, records_to_table([], ledger_columns(suite)))
    with pytest.raises(UserError, match="no game in common"):
        begun(against=str(tmp_path / "elsewhere"))
    assert read_rule(run_dir) is None


@pytest.mark.parametrize("cause", ["registration", "versions", "model"])
def test_a_refused_command_leaves_the_rule_that_was_there(few_at_once, tmp_path, monkeypatch, cause):
    few_at_once.episodes = 4
    assert start(tmp_path / "run", "stop=precise", "precision=.1") == CONTINUE
    rule = read_rule(tmp_path / "run")
    overrides = []
    if cause == "registration":
        overrides = [f"preregistration={tmp_path}/none.json"]
    elif cause == "versions":
        versions = tmp_path / "run" / "versions.json"
        versions.write_text(versions.read_text().replace('"python": "', '"python": "2.'))
        overrides = ["strict=true"]
    else:

        def cannot_load(*_):
            raise UserError("the model cannot be loaded")

        monkeypatch.setattr(module, "play_on_cluster", cannot_load)
    for other in ([], ["stop=precise", "precision=.2"], DECIDED):
        with pytest.raises(UserError):
            start(tmp_path / "run", *other, *overrides)
        assert read_rule(tmp_path / "run") == rule


def test_a_refused_session_leaves_rule_and_settings_of_scoring(tmp_path):
    suite = ToySuite(episodes=4)
    rows = records_to_table(records_of(suite, {"oracle": OraclePlayer()}), ledger_columns(suite))
    write_run(tmp_path / "run", plan_for(suite, {"oracle": ""}), rows)
    run = RunDirectory(tmp_path / "run")
    run.claim()
    before = run.config["suite"]
    first, second = (StoredRule(StopRule("precise", precision=width), "oracle", None) for width in (0.1, 0.2))

    def found():
        stored = Run(run.path)
        return stored.rule, stored.config["suite"]

    with read_by(run, first, before):
        assert found() == (first, before)
    for rule in (second, None):
        with pytest.raises(UserError, match="no such model"), read_by(run, rule, {**before, "scoring": "other"}):
            assert found() == (rule, {**before, "scoring": "other"})
            raise UserError("no such model")
        assert found() == (first, before)
    with pytest.raises(RunFailedError), read_by(run, None, {**before, "scoring": "other"}):
        raise RunFailedError("it had begun, and can be resumed")
    assert found() == (None, {**before, "scoring": "other"})
    with pytest.raises(UserError, match="no such model"), read_by(run, first, before):
        run.release()
        RunDirectory(run.path).claim()
        raise UserError("no such model")
    assert found() == (first, before), "another driver has the run by now"


@pytest.mark.slow
@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_what_the_other_run_reached_must_be_numbers(few_at_once, tmp_path, value):
    start(tmp_path / "other", "model=random", "baselines=[]", "order=balanced")
    few_at_once.episodes = 4
    start(tmp_path / "run", "baselines=[]", "stop=decided", f"against={tmp_path / 'other'}")
    [path] = (tmp_path / "run").glob("against-*.parquet")
    rows = pq.read_table(path)
    values = [value, *rows["value"].to_pylist()[1:]]
    pq.write_table(rows.set_column(rows.column_names.index("value"), "value", pa.array(values, pa.float64())), path)
    with pytest.raises(UserError, match=r"against-\w+\.parquet has a value that is null or no finite number"):
        read_rule(tmp_path / "run")


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["stop=precise", "precision=.1", "stop.measure=steps"], "needs stop.bounds"),
        (["stop=decided", "against=oracle"], "is the model itself"),
        (["stop=decided", "against=randon"], "Did you mean random"),
        (["stop=decided"], "against"),
        (["stop=precise", "precision=2"], "precision=2"),
        (["stop=precise", "precision=.1", "stop.by=galaxy"], "galaxy"),
        (["stop=precise", "precision=.1", "stop.measure=sucess"], "these are .*success.*Did you mean success"),
        (["stop=precise", "precision=.1", "stop.measure=task"], "no numeric column"),
        (["order=shortest"], "order=shortest"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused(few_at_once, tmp_path, overrides, said):
    with pytest.raises(UserError, match=said):
        start(tmp_path / "run", *overrides)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("measure", ["task", "no_such"])
def test_a_stored_rule_that_measures_no_number_is_named(few_at_once, tmp_path, measure):
    few_at_once.episodes = 4
    start(tmp_path / "run", "stop=precise", "precision=.1")
    path = tmp_path / "run" / "stopping.json"
    path.write_text(path.read_text().replace('"measure": "success"', f'"measure": "{measure}"'))
    with pytest.raises(UserError, match=f"stopping.json.*measure={measure}"):
        _ = Run(tmp_path / "run").stopping


def test_a_queue_gives_out_episodes_in_its_order_and_drops_what_is_not_needed():
    plan = [episode.assigned("oracle", "") for episode in ToySuite(episodes=6).plan()]
    order = {episode.id: place for place, episode in enumerate(reversed(plan))}
    queue = EpisodeQueue(plan, order)
    first = queue.take(2)
    assert first == (plan[5], plan[4])
    queue.keep({plan[5].id, plan[3].id})
    assert (len(queue), queue.unfinished) == (1, 3)
    queue.put(first)  # their runner died: one of them is not needed any more
    assert queue.take(9) == (plan[5], plan[3])
    queue.finished(2)
    assert queue.unfinished == 0
