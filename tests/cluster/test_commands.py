"""The commands that look at runs, as a user meets them: list, show, status, compare, rescore, models, and their mistakes."""

import asyncio
import dataclasses
import datetime
import errno
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image
from rich.console import Console

import conf
from cluster import completion
from cluster.commands import compare as compare_module
from cluster.commands import notes as notes_module
from cluster.commands.list_models import list_others
from cluster.commands.list_runs import _with_digits, find_runs, list_runs
from cluster.commands.merge import SHARD_SETTINGS
from cluster.commands.show_episode import list_episodes
from cluster.completion import _overrides
from cluster.config.keys import schema
from cluster.config.settings import load_settings
from cluster.errors import UserError
from cluster.observe.episode_text import _drawn
from cluster.observe.progress import short
from cluster.observe.run_status import Pace, run_status
from cluster.runner.episode_queue import expected_work
from cluster.storage.process import this_process
from cluster.storage.provenance import write_versions
from cluster.storage.spending import Spending, SpendingJournal
from cluster.storage.stored_run import Run
from evals.conversation import Record
from evals.ledger.records import records_to_table
from evals.notes import NotesFile
from evals.players import BUILT_IN_PLAYERS
from evals.suite import ledger_columns, play_episode
from evals.summary.overview import overview
from evals.tables import Table
from tests.cluster.conftest import begin
from tests.cluster.test_cli import run_here
from tests.cluster.test_merge import SMALL, leave_run
from tests.cluster.test_merge import play as play  # a fixture
from tests.small_runs import small_run


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of 24 episodes of which 18 are won, 2 have failed and 4 are left."""
    causes = ["PlayerError: \x1b[31mno", "PlayerError: \x1b[31mno"]
    return asyncio.run(leave_run(tmp_path_factory.mktemp("made") / "run", failing=causes, most=20))


@pytest.fixture
def run_dir(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "run"))


def rows(table):
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


# --- list ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_folder_of_runs_is_listed_latest_first(play, tmp_path):
    old, new = await play("old"), await play("new", most=3, failing=["PlayerError: no"])
    for run, began in ((old, "2026-01-02T03:04:05+00:00"), (new, "2026-02-02T03:04:05+00:00")):
        write_versions(run, [{"id": "1", "began": began}])
    first, second = rows(list_runs(tmp_path))
    assert (first["run"], first["done"], first["failed"]) == ("new", "2/24", 1)
    assert (second["run"], second["done"], second["began"]) == ("old", "24/24", "2026-01-02 03:04")
    assert (second["suite"], second["model"], second["success"].mean) == ("kumo", "simulated", 1.0)
    assert "cost" not in first, "nothing has cost anything"
    assert rows(list_runs(old)) == [{**second, "run": "old"}]


def test_runs_are_looked_for_three_folders_below(tmp_path):
    for folder in ("a/b/run", "a/b/c/run"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "plan.parquet").touch()
    assert [run.path for run in find_runs(tmp_path)] == [tmp_path / "a/b/run"]
    assert len(find_runs(tmp_path / "a")) == 2


def test_a_run_that_cannot_be_looked_into_is_named(tmp_path, monkeypatch):
    for name in ("closed", "empty"):
        (tmp_path / name).mkdir()

    def exists(path, real=Path.exists):
        if path.parent.name == "closed":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "exists", exists)
    with pytest.raises(UserError, match=r"no runs here that can be read; \S*closed cannot be looked into"):
        list_runs(tmp_path)


def test_a_link_that_leads_back_lists_no_run_again(tmp_path):
    for folder in ("here/run", "elsewhere/run"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "plan.parquet").touch()
    for name, to in (("loop", "here"), ("other", "elsewhere"), ("again", "here/run")):
        (tmp_path / "here" / name).symlink_to(tmp_path / to)
    found = [run.path.resolve().relative_to(tmp_path) for run in find_runs(tmp_path / "here")]
    assert sorted(map(str, found)) == ["elsewhere/run", "here/run"]


async def test_a_long_name_is_listed_whole_however_narrow_the_terminal(play, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    name = "kumo-simulated-a-name-of-more-than-forty-columns-6565d9d8"
    await play(name)
    code, out, _ = run_here(capsys, "list", str(tmp_path))
    assert code == 0 and any(line.startswith(name) for line in out.splitlines())


def test_money_that_was_spent_stands_beside_the_cost_that_is_scored(run_dir, capsys, monkeypatch):
    journal = SpendingJournal(run_dir)
    journal.note("engine", Spending(spent=0.0138))
    journal.write()
    (line,) = rows(list_runs(run_dir))
    assert (line["scored cost"], str(line["spent"])) == (None, "0.014")
    suites = [*overview(Run(run_dir).data)] * 2
    monkeypatch.setattr("cluster.commands.list_runs.overview", lambda data: suites)
    assert [line["spent"] is None for line in rows(list_runs(run_dir))] == [False, True], "once for each run"
    assert "spent 0.014" in run_here(capsys, "status", str(run_dir))[1]
    run_here(capsys, "report", str(run_dir))
    assert json.loads((run_dir / "summary.json").read_text())["cost_spent"] == 0.0138


@pytest.mark.parametrize("place", range(4))
def test_the_smallest_sum_scored_or_spent_of_any_run_gives_all_their_digits(place):
    sums = [12.5] * 4
    sums[place] = 0.00042
    *found, empty = _with_digits([("a", *sums[:2]), ("b", *sums[2:]), ("c", None, None)])
    shown = ["0.00042" if at == place else "12.50000" for at in range(4)]
    assert [(name, str(scored), str(spent)) for name, scored, spent in found] == [("a", *shown[:2]), ("b", *shown[2:])]
    assert empty == ("c", None, None)


async def test_what_may_not_be_looked_into_costs_the_list_nothing_else(play, tmp_path, monkeypatch, capsys):
    await play("good")
    (tmp_path / "closed").mkdir()
    usual = Path.iterdir

    def closed(folder):
        if folder.name == "closed":
            raise PermissionError(13, "Permission denied", str(folder))
        return usual(folder)

    monkeypatch.setattr(Path, "iterdir", closed)
    assert [line["run"] for line in rows(list_runs(tmp_path))] == ["good"]
    assert "closed: cannot be read: Permission denied" in capsys.readouterr().err


async def test_a_run_that_cannot_be_read_hides_no_other(play, tmp_path):
    broken, _ = await play("broken"), await play("sound")
    (broken / "plan.parquet").write_bytes(b"no parquet")
    table = list_runs(tmp_path)
    assert sorted(row["done"] for row in rows(table)) == ["24/24", "unreadable"]
    assert any("broken" in note and "damaged" in note for note in table.notes)


def test_a_folder_without_runs_is_named(tmp_path, capsys):
    for folder, named in ((tmp_path, "no runs"), (tmp_path / "none", "no such folder")):
        code, _, err = run_here(capsys, "list", str(folder))
        assert code == 2 and named in err and str(folder) in err


# --- show ------------------------------------------------------------------------------------------------------------


def ids(run_dir):
    return pq.read_table(run_dir / "plan.parquet")["episode_id"].to_pylist()


def test_an_episode_is_shown_by_the_beginning_of_its_id(run_dir, capsys):
    name = ids(run_dir)[5]
    code, out, _ = run_here(capsys, "show", str(run_dir), name[:9].upper())
    assert code == 0 and name in out
    for text in ("player simulated", "turn 0", "system", "reply", "decoded", "rule:", "perfect play", "status: done"):
        assert text in out


def test_counts_that_are_zero_are_not_shown(run_dir, capsys):
    row = Run(run_dir).episodes(["episode_id", "prompt_tokens", "cost"]).to_pylist()[0]
    _, out, _ = run_here(capsys, "show", str(run_dir), row["episode_id"])
    assert not row["prompt_tokens"] and "prompt_tokens" not in out and "cost" not in out


def test_control_characters_of_a_cause_are_shown_as_text(run_dir, capsys):
    code, out, _ = run_here(capsys, "show", str(run_dir), ids(run_dir)[0])
    assert code == 0 and "\\x1b[31mno" in out and "\x1b[31m" not in out


def test_without_an_episode_failed_ones_are_listed_first(run_dir, capsys):
    code, out, _ = run_here(capsys, "show", str(run_dir))
    assert code == 0 and out.index(ids(run_dir)[0][:12]) < out.index(ids(run_dir)[3][:12])
    assert "failed: \\x1b[31mno" in out and "20 of 20" in out


def test_the_model_is_listed_before_other_players_and_its_cut_off_replies_before_lost_games():
    data = small_run("kumo", ("model", "random"), failed=1, missing=0)
    cut = data.plan["episode_id"][2].as_py()
    listed = rows(list_episodes(with_cut_off(data, cut), most=100))
    model = [row for row in listed if row["player"] == "model"]
    assert listed[: len(model)] == model
    assert model[0]["outcome"] == "failed: by 1000 tokens"
    assert model[1]["episode"] == cut[:12] and model[1]["outcome"].endswith("reply cut off")


def with_cut_off(data, name):
    """The run with one cut off reply in this episode."""

    def change(table):
        if "cut_off" not in table.column_names:
            return table
        counts = pa.array([int(each == name) for each in table["episode_id"].to_pylist()], pa.int32())
        return table.set_column(table.column_names.index("cut_off"), "cut_off", counts)

    return data.renamed(data.plan, change)


def test_a_wrong_episode_is_named_with_those_like_it(run_dir, capsys):
    whole = ids(run_dir)[0]
    wrong = whole[:10] + ("0" if whole[10] != "0" else "1")
    for word, named in (
        (wrong, f"Did you mean {whole[:12]}"),
        ("", "no episode"),
        (ids(run_dir)[-1], "not played yet"),
    ):
        code, _, err = run_here(capsys, "show", str(run_dir), word)
        assert code == 2 and named in err
    shared = next(one[0] for one in ids(run_dir) if sum(other[0] == one[0] for other in ids(run_dir)) > 1)
    code, _, err = run_here(capsys, "show", str(run_dir), shared)
    assert code == 2 and "episodes begin with" in err


@pytest.mark.slow
def test_pictures_are_drawn_as_half_blocks(tmp_path, capsys):
    overrides = ["suite=kidgym", "suite.tasks=[SE]", "suite.levels=[1]", "suite.modes=[zero_shot]", "suite.episodes=1"]
    assert run_here(capsys, "run", *overrides, "model=oracle", f"run_dir={tmp_path / 'run'}")[0] == 0
    (name,) = ids(tmp_path / "run")
    drawn = run_here(capsys, "show", str(tmp_path / "run"), name[:6], "--pictures", "blocks")[1]
    plain = run_here(capsys, "show", str(tmp_path / "run"), name[:6])[1]
    assert drawn.count("▀") + drawn.count("▄") > 500 and "▀" not in plain
    assert "[picture: kidgym, 576 x 576" in plain
    for columns, lines in ((30, 15), (200, 32)):  # half as many lines as columns, of which there are 64 at most
        console = Console(file=io.StringIO(), width=columns)
        console.print(_drawn(Image.new("RGB", (576, 576)), "blocks", columns))
        assert console.file.getvalue().count("\n") == lines


def test_a_long_text_is_cut_unless_all_is_asked_for(run_dir, capsys, monkeypatch):
    monkeypatch.setattr("cluster.observe.episode_text.LONGEST", 50)
    short, full = (run_here(capsys, "show", str(run_dir), ids(run_dir)[5], *more)[1] for more in ((), ("--full",)))
    assert "more characters" in short and "more characters" not in full and len(full) > 2 * len(short)


# --- status ----------------------------------------------------------------------------------------------------------


def lease(run_dir, **holder):
    for old in run_dir.glob(".lease-*"):
        old.unlink()
    path = run_dir / ".lease-000001"
    path.write_text(json.dumps(holder))
    return path


def test_the_state_follows_the_lease(run_dir):
    us = this_process()
    for holder, age, state in (
        (us, 0, "at work"),
        ({**us, "start_ticks": us["start_ticks"] - 100}, 0, "dead"),
        ({**us, "boot": "another"}, 10, "at work"),
        ({**us, "boot": "another"}, 1000, "overdue"),
        ({"released": True}, 60, "stopped 1:00 ago"),
    ):
        path = lease(run_dir, **holder)
        os.utime(path, (time.time() - age, time.time() - age))
        assert state in run_status(Run(run_dir)).state


async def test_a_status_tells_players_and_sessions_apart(tmp_path):
    settings = load_settings([*SMALL, "model=simulated", "baselines=[random]", f"run_dir={tmp_path / 'run'}"])
    directory = begin(settings)
    assert run_status(Run(settings.run_dir)).pace is None, "no session has begun"
    began = [datetime.datetime.fromtimestamp(second, datetime.UTC).isoformat() for second in (1_000, 5_000)]
    write_versions(settings.run_dir, [{"id": str(number), "began": began[number]} for number in (0, 1)])
    episodes = {name: [one for one in settings.plan if one.player == name] for name in ("simulated", "random")}
    for session, name, first, last in (("0", "simulated", 0, 9), ("0", "random", 0, 2), ("1", "simulated", 9, 13)):
        records = []
        for episode in episodes[name][first:last]:
            played = await play_episode(settings.suite, episode, BUILT_IN_PLAYERS["oracle"])
            if episode.index in (1, 6):
                played = Record(episode, None, f"PlayerError: {'abcdefgh'[len(records)]}", (), 1.0, "model")
            else:
                played.turns[0].reply = dataclasses.replace(played.turns[0].reply, completion_tokens=5, cost=0.5)
            records.append(played)
        directory.session = session
        directory.commit(records_to_table(records, ledger_columns(settings.suite)))
    for part in directory.parts.glob("*.parquet"):
        os.utime(part, (6_000, 6_000))
    at_work = run_status(Run(settings.run_dir))
    directory.release()
    status = run_status(Run(settings.run_dir))
    ledger = Run(settings.run_dir).episodes(["player", "status"]).to_pylist()
    counted = Counter((row["player"], row["status"]) for row in ledger)
    for row in rows(status.players):
        done, failed = (counted[row["player"], name] for name in ("done", "failed"))
        assert (row["planned"], row["done"], row["failed"], row["left"]) == (24, done, failed, 24 - done - failed)
        assert row["won"] == pytest.approx(done / (done + failed))
        assert (row["completion tokens"], row["cost"]) == (5 * done, 0.5 * done)
    assert status.players.columns == (
        *("player", "planned", "done", "failed", "left", "won", "completion tokens", "cost"),
    )
    assert [row["player"] for row in rows(status.players)] == ["simulated", "random"]
    assert counted["simulated", "failed"] and counted["simulated", "done"] + counted["simulated", "failed"] == 13
    assert status.pace == Pace(1_000.0, 4, None), "from the last session's beginning to its last commit"
    # In a copy of the folder the files have other times, so what a session noted itself comes first.
    timings = settings.run_dir / "timings.jsonl"
    for lines, seconds in (('{"seconds": 7.0}\n', 1_000.0), ('{"seconds": 7.0}\n{"seconds": 900.0}\n', 900.0)):
        timings.write_text(lines)
        assert run_status(Run(settings.run_dir)).pace.seconds == seconds, "one session alone was killed"
    timings.unlink()
    done = sum(map(expected_work, episodes["simulated"][9:13]))
    left = sum(map(expected_work, [*episodes["simulated"][13:], *episodes["random"][2:]]))
    assert at_work.pace.finished == 4 and at_work.pace.seconds > 1e9
    assert at_work.pace.seconds_left == pytest.approx(left / done * at_work.pace.seconds)
    assert str(Pace(60.0, 30, 120.0)) == "latest session: 30 episodes finished in 1:00, 30.0 a minute, ETA 2:00"
    assert str(Pace(0.0, 0, None)) == "latest session: 0 episodes finished in 0:00"


async def test_a_status_names_the_commonest_causes_and_how_many_more_there_are(play):
    assert run_status(Run(await play("whole"))).state == "complete"
    causes = [f"PlayerError: {cause}" for cause in "dabacbaedc"]
    run_dir = await play("run", failing=causes, most=10)
    first, *_, last = notes = run_status(Run(run_dir)).players.notes
    assert (len(notes), first, last.split()[1]) == (4, "3 failed: PlayerError: a", "2")
    assert [note.split()[0] for note in notes[1:3]] == ["2", "2"]
    (one,) = run_status(Run(await play("long", failing=["x" * 300, "x" * 300, "x" * 300]))).players.notes
    assert one == f"3 failed: {'x' * 200}"
    assert len(run_status(Run(await play("three", failing=["a", "b", "c"]))).players.notes) == 3


# --- compare, rescore ------------------------------------------------------------------------------------------------


async def test_two_runs_are_compared(play, capsys):
    first, second = await play("first"), await play("second", player="random")
    code, out, err = run_here(capsys, "compare", str(first), str(second), "--detect", "0.1", "--flips", "1")
    assert code == 0, err
    assert re.search(r"won\s+by", out), out
    for text in ("kumo: success", "detects", "games for 0.1", "What differs"):
        assert text in out
    assert f"A: simulated, {first}".replace(" ", "") in re.sub(r"\s", "", out), "a long path is wrapped"
    assert "version of git_commit" not in out, "both sessions have the same"
    assert "suite.decoder" not in out and "run_dir" not in out


@pytest.mark.slow
async def test_a_comparison_names_what_is_wrong(play, capsys):
    first, other = await play("first"), await play("other", "suite.domains=[fantasy]")
    for arguments, named in (
        ([first], "one player only"),
        ([first, other], "no game"),
        ([first, "--players", "simulatd"], "Did you mean simulated"),
        ([first, first.parent / "none"], "no run here"),
        ([first, other, "--detect", "0"], "--detect"),
        ([first, other, "--flips", "-1"], "--flips"),
        ([first, await play("again"), "--measure", "task"], "not numbers"),
    ):
        code, _, err = run_here(capsys, "compare", *map(str, arguments))
        assert code == 2 and named in err, err


def test_each_side_is_compared_with_the_first_on_identical_games_or_by_fresh_ones(monkeypatch):
    sides = [
        SimpleNamespace(player=name, run=SimpleNamespace(settings={})) for name in ("first", "same", "other", "mixed")
    ]
    # Which suites differ in their games, and which both sides have.
    other_games = {"other": {"kumo"}, "mixed": {"kumo"}}
    of_both = {"same": {"kumo"}, "other": {"kumo"}, "mixed": {"kumo", "kidgym"}}

    def made(kind):
        return lambda one, two, *rest: [kind, one.player, getattr(two, "player", two), *rest]

    stubs = {
        "sides_of": lambda runs, players=None: sides[: len(runs)],
        "suites_of_other_games": lambda one, two: other_games.get(two.player, set()),
        "suites_of_both": lambda one, two: of_both[two.player],
        "fresh_table": made("fresh"),
        "comparison_tables": lambda *given: [made("compared")(*given)],
        "differences_table": made("differences"),
        "flips": lambda one, two: f"flips of {two.player}",
        "flip_table": lambda found, one, two, most: ["flips", found, two.player, most],
        "evidence_table": lambda one, others, column: ["evidence", [each.player for each in others], column],
        "registration_table": lambda run, label, column: ["registered", run, label, column] if run == "r2" else None,
        "forest_figure": made("forest"),
    }
    for name, stub in stubs.items():
        monkeypatch.setattr(compare_module, name, stub)
    ignored = {*SHARD_SETTINGS, "baselines", "suite.name"}
    of_same = [["differences", "first", "same", ignored], ["flips", "flips of same", "same", 7]]
    assert compare_module.compare(["r1", "r2", "r3"], detect=0.1, most_flips=7) == [
        *(["compared", "first", "same", 0.1, None], *of_same, ["fresh", "first", "other", {"kumo"}]),
        *(["evidence", ["same", "other"], None], ["registered", "r2", "B", None]),
    ]
    several = compare_module.compare(["r1", "r2", "r3", "r4"], most_flips=0)
    assert several[-5:-2] == [
        ["fresh", "first", "mixed", {"kumo"}],
        ["compared", "first", "mixed", None, None],
        ["differences", "first", "mixed", ignored],
    ], "games of one suite are others, those of the other suite are paired"
    found = compare_module.compare(["r1", "r2", "r3"], None, "steps", most_flips=0)
    assert [table[0] for table in found] == ["compared", "differences"] * 2 + ["evidence", "registered"]
    assert found[-2:] == [["evidence", ["same", "other"], "steps"], ["registered", "r2", "B", "steps"]]
    assert found[0] == ["compared", "first", "same", None, "steps"]
    monkeypatch.setattr(compare_module, "evidence_table", lambda *given: None)
    assert len(compare_module.compare(["r1", "r2", "r3"], None, "steps", most_flips=0)) == 5
    forests = {column: compare_module.forests(["r1", "r2", "r3", "r4"], None, column) for column in (None, "steps")}
    assert [each[2] for each in forests[None]] == ["same", "mixed"]
    assert [each[2] for each in forests["steps"]] == ["same", "other", "mixed"]
    with pytest.raises(UserError, match="r1: has one player only, first"):
        compare_module.compare([SimpleNamespace(path="r1")])
    with pytest.raises(UserError, match="--players first: is one side only"):
        compare_module.compare([SimpleNamespace(path="r1")], ["first"])
    monkeypatch.setattr(
        compare_module, "comparison_tables", lambda *given: (_ for _ in ()).throw(ValueError("no game"))
    )
    with pytest.raises(UserError, match="no game"):
        compare_module.compare(["r1", "r2"])


@pytest.mark.parametrize(
    ("detect", "flips", "wrong"), [(0, 1, "--detect"), (1.1, 1, "--detect"), (1, 0, ""), (None, -1, "--flips")]
)
def test_numbers_of_a_comparison_are_within_their_ranges(detect, flips, wrong, capsys, monkeypatch):
    monkeypatch.setattr(compare_module, "compare", lambda runs, *given: [Table("t", "T", ("a",), ((given[-2:],),))])
    words = [*([] if detect is None else ["--detect", str(detect)]), "--flips", str(flips)]
    code, out, err = run_here(capsys, "compare", "x", "y", "x", *words)
    assert (code, wrong in err) == (2 if wrong else 0, True) and (wrong or "(1.0, 0)" in out)


@pytest.mark.slow
def test_players_of_one_run_are_compared_in_the_order_named(tmp_path, capsys):
    run = tmp_path / "run"
    overrides = ["suite=kumo", "suite.domains=[medical]", "suite.tasks_per_domain=2", "suite.repeats=1"]
    assert run_here(capsys, "run", *overrides, "model=random", "baselines=[oracle]", f"run_dir={run}")[0] == 0
    out = run_here(capsys, "compare", str(run))[1]
    assert "A: random." in out and "B: oracle." in out
    out = run_here(capsys, "compare", str(run), "--players", "oracle,random")[1]
    assert "A: oracle." in out and "B: random." in out


@pytest.mark.parametrize(
    ("names", "players", "sides"),
    [
        ("new old", None, "new/new old/old"),
        ("new old", ["old", "new"], "new/new old/old"),
        ("old new", ["new", "old"], "old/old new/new"),
        ("old new", ["base", "new"], "old/base new/new new/base"),
        ("new", None, "new/new new/base"),
        ("new", ["base", "new"], "new/base new/new"),
    ],
)
def test_sides_come_in_the_order_of_runs_and_within_a_single_run_in_that_of_names(names, players, sides, monkeypatch):
    monkeypatch.setattr(compare_module, "make_suite", str.upper)
    plan = {name: pa.table({"player": [name, "base", name]}) for name in names.split()}
    runs = [SimpleNamespace(path=name, planned=plan[name], config={"suite": name}, data=f"by {name}") for name in plan]
    found = compare_module.sides_of(runs, players)
    assert " ".join(f"{side.run.removeprefix('by ')}/{side.player}" for side in found) == sides
    assert [side.label for side in found] == list("ABC"[: len(found)])
    assert all(side.run == f"by {side.suite.lower()}" and side.name in side.run for side in found)
    assert all(bool(side.name) == (len(runs) > 1) for side in found)


def test_replies_are_read_anew_and_the_ledger_stays(run_dir, capsys):
    before = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}
    code, out, _ = run_here(capsys, "rescore", str(run_dir), "suite.decoder=strict", "--full")
    assert code == 0 and "old success" in out and "0 of 0 turns" in out and "KUMO" in out
    assert {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("decoder=strict", "suite.KEY=VALUE"),
        ("suite.decoder", "suite.KEY=VALUE"),
        ("suite.decodr=strict", "Did you mean decoder"),
        ("suite.suites.0.decoder=strict", "suites"),
        ("suite.type=os.system", "os.system"),
        ("suite.seed=7", "suite.seed=7: these settings do not plan"),
    ],
)
def test_a_wrong_setting_of_rescore_is_named(run_dir, capsys, override, named):
    code, _, err = run_here(capsys, "rescore", str(run_dir), override)
    assert code == 2 and named in err, err


# --- notes and settings ----------------------------------------------------------------------------------------------


def test_notes_are_written_listed_exported_removed_and_read_again(run_dir, tmp_path, capsys):
    def notes(*words):
        code, out, err = run_here(capsys, "notes", str(run_dir), *words)
        return code, out + err

    first, second = Run(run_dir).episodes(["episode_id"])["episode_id"].to_pylist()[:2]
    assert "no notes" in notes()[1] and "no notes with the tag odd" in notes("--tag", "odd")[1]
    for episode, tag in ((first[:12].upper(), "odd"), (second, "fine")):
        code, said = notes("--on", episode, "--tag", tag, "--text", f"this is {tag}", "--author", "ada")
        assert code == 0 and "on episode" in said
    code, said = notes()
    assert code == 0 and "2 of 2 notes" in said and "this is odd" in said and first[:8] in said and "ada" in said
    assert "this is fine" not in notes("--tag", "odd")[1]
    file = tmp_path / "notes.csv"
    assert "2 notes" in notes("--export", str(file))[1] and file.read_text().count("\n") == 3
    assert notes("--export", str(file))[0] == 2, "is there already"
    odd = next(note.id for note in NotesFile(run_dir).read().notes if note.tag == "odd")
    assert notes("--remove", odd[:6].upper()) == (0, f"removed note {odd}\n")
    assert "1 of 1 notes" in notes()[1] and "this is odd" not in notes()[1]
    assert "0 notes added, 2 were there or had been removed" in notes("--import", str(file))[1]
    several = SimpleNamespace(
        path=run_dir / "notes", read=lambda: SimpleNamespace(notes=[Mock(id="ab12"), Mock(id="ab34")])
    )
    assert notes_module._the_note(several, "AB1") == "ab12"
    with pytest.raises(UserError, match="--remove ab: 2 notes begin so"):
        notes_module._the_note(several, "ab")
    for wrong, named in (
        ("--remove=", "2 notes|no notes|1 notes"),
        ("--remove=zz", "no notes begin so"),
        ("--on=zz", "zz"),
    ):
        code, said = notes(wrong)
        assert code == 2 and re.search(named, said), said


def test_every_command_that_shows_or_writes_notes_names_the_lines_it_cannot_read(run_dir, tmp_path, capsys):
    episode = Run(run_dir).planned["episode_id"][0].as_py()
    run_here(capsys, "notes", str(run_dir), "--on", episode, "--text", "sound", "--author", "ada")
    with (run_dir / "notes.jsonl").open("a") as file:
        file.write("half a li\n")
    exported = str(tmp_path / "notes.csv")
    for words in (("notes",), ("notes", "--export", exported), ("show",), ("show", "EPISODE"), ("report",)):
        command, *others = words
        given = [episode if word == "EPISODE" else word for word in others]
        code, out, err = run_here(capsys, command, str(run_dir), *given)
        unwrapped = "".join((out + err).split())
        assert code == 0 and "notes.jsonl,line2" in unwrapped, words
    assert Path(exported).read_text().count("\n") == 2


@pytest.mark.parametrize("group", ["model", "suite", "tracker"])
def test_the_schema_of_each_file_that_is_shipped_names_the_type_in_that_file(group):
    for path in sorted(Path(conf.__path__[0], group).glob("*.yaml")):
        written = yaml.safe_load(path.read_text())
        properties = schema(group, path.stem).get("properties", {})
        if group == "model":
            written, properties = written.get("engine"), properties.get("engine", {}).get("properties", {})
        if written and "type" in written:
            assert properties["type"] == {"const": written["type"]}, path.name


def test_the_keys_of_a_group_are_listed_with_their_defaults_and_as_a_schema_for_editors(capsys):
    code, out, _ = run_here(capsys, "settings", "suite=kumo", "cluster")
    assert code == 0 and re.search(r"suite\.repeats +an integer, from 1 up +5", out) and "cluster.replicas" in out
    code, out, _ = run_here(capsys, "settings", "suite=kumo", "--schema")
    found = json.loads(out)
    assert found["properties"]["repeats"]["default"] == 5 and found["properties"]["type"] == {"const": "kumo"}
    assert found["additionalProperties"] is False
    code, out, _ = run_here(capsys, "settings", "model=simulated", "--schema")
    assert set(json.loads(out)["properties"]) >= {"engine", "sampling", "replica", "name"}
    for words, named in (
        (["suit=kumo"], "suite"),
        (["suite="], "suite=NAME"),
        (["suite=kumo", "cluster", "--schema"], "one"),
    ):
        code, _, err = run_here(capsys, "settings", *words)
        assert code == 2 and named in err, err


# --- models, version, suggestions, completion ------------------------------------------------------------------------


def test_players_without_a_row_say_what_is_missing():
    found = {row["model"]: row["usable here"] for row in rows(list_others(1, {}))}
    assert found["oracle"] == "yes" and "OPENAI_API_KEY" in found["openai"]
    assert {row["model"]: row["usable here"] for row in rows(list_others(0, {"OPENAI_API_KEY": "x"}))}[
        "openai"
    ] == "yes"


def test_the_version_is_shown(capsys):
    code, out, _ = run_here(capsys, "--version")
    assert code == 0 and re.fullmatch(r"raycade \d+\.\d+\.\d+\n", out)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["reprt", "x"], "report"),
        (["run", "modl=tiny"], "model"),
        (["report", "--fulll", "x"], "--full"),
        (["kumo", "chek", "x"], "check"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_a_misspelled_word_is_answered_with_what_was_meant(capsys, words, meant):
    code, _, err = run_here(capsys, *words)
    assert code == 2 and re.search(rf"Did you mean ([\w ]+ or )?{meant}\b", err), err


@pytest.mark.parametrize(("old", "now"), [("halves", "lab split"), ("import", None)])
def test_a_former_name_of_a_command_is_answered_with_what_it_is_called_now(capsys, old, now):
    code, _, err = run_here(capsys, "kumo", old, "atlantis", "elsewhere")
    assert code == 2 and "atlantis" in err
    assert (f"`raycade kumo {old}` is called `raycade kumo {now}` now" in err) == (now is not None)


def completions(line, tmp_path):
    out = tmp_path / "completions"
    environment = {**os.environ, "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE": "1"}
    environment |= {"_ARGCOMPLETE_STDOUT_FILENAME": str(out), "_ARGCOMPLETE_IFS": "\n"}
    subprocess.run([sys.executable, "-m", "cluster"], env=environment, check=True, capture_output=True)
    return out.read_text().split("\n")


@pytest.mark.slow
def test_a_shell_completes_commands_overrides_and_episodes(run_dir, tmp_path):
    assert {"report", "replay", "rescore"} <= {word.strip() for word in completions("raycade re", tmp_path)}
    assert completions("raycade run suite=kumo suite.do", tmp_path) == ["suite.domains="]
    name = ids(run_dir)[0]
    assert name[:12] in completions(f"raycade show {run_dir} {name[:4]}", tmp_path)


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("raycade run suite=kid", ["suite=kidgym"]),
        ("raycade plan t", ["tracker="]),
        ("raycade run suite=kidgym suite.dec", ["suite.decoder="]),
        ("raycade run suite=kumo suite.prompt=", ["suite.prompt=own", "suite.prompt=published"]),
        ("raycade run cluster.re", ["cluster.replicas="]),
        ("raycade run cluster.replicas=", ["cluster.replicas=fit"]),
        ("raycade run model.sampling.to", ["model.sampling.top_p=", "model.sampling.top_k="]),
    ],
)
def test_overrides_are_completed_by_groups_keys_and_choices(monkeypatch, line, offered):
    monkeypatch.setenv("COMP_LINE", line)
    prefix = line.split()[-1]
    assert [word for word in _overrides(prefix) if word.startswith(prefix)] == offered


def test_episodes_are_completed_by_the_beginnings_of_their_ids(run_dir, tmp_path, monkeypatch):
    names = ids(run_dir)
    parsed = SimpleNamespace(run_dir=str(run_dir))
    assert completion._episodes("", parsed) == [name[:12] for name in names]
    assert completion._episodes(names[7][:9], parsed) == [names[7][:12]]
    assert completion._episodes(names[7][1:9], parsed) == []
    monkeypatch.setattr(completion, "MOST_EPISODES", 3)
    assert completion._episodes("", parsed) == [name[:12] for name in names[:3]]
    assert completion._episodes("", SimpleNamespace(run_dir=str(tmp_path / "none"))) == []
    for line, command in (("raycade show runs/x a", "show"), ("raycade", ""), ("", "")):
        monkeypatch.setenv("COMP_LINE", line)
        assert completion.completed_command() == command


def test_large_numbers_are_short():
    numbers = (0, 950, 999.4, 999.7, 12_345, 999_949, 999_951, 1_200_000, 999.96e6, 3e9, 4e12)
    assert [short(number) for number in numbers] == (
        ["0", "950", "999", "1.0k", "12.3k", "999.9k", "1.0M", "1.2M", "1.0G", "3.0G", "4000.0G"]
    )
