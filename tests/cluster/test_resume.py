"""What a session plays: what is missing, failed episodes once more when asked for, with the same software or not."""

import asyncio
import dataclasses
import shutil
from collections import Counter

import pytest

from cluster.commands import run as module
from cluster.commands.report import score_run
from cluster.commands.run import run, run_and_show
from cluster.errors import CONTINUE, RUN_FAILED, RunFailedError, UserError
from cluster.storage import durable
from cluster.storage.provenance import read_versions
from cluster.storage.stored_run import Run
from evals.conversation import Record
from evals.ledger.ledger import open_ledger
from evals.ledger.records import records_to_table
from evals.players import BUILT_IN_PLAYERS
from evals.suite import ledger_columns, play_episode
from tests.cluster.conftest import settings_at
from tests.cluster.test_cli import SMALL
from tests.evals.test_ledger import flip_a_byte


class World:
    """Without Ray: what each session plays, and which episodes fail in it."""

    def __init__(self) -> None:
        self.most = 100
        self.failing = 0
        self.played = []

    def play(self, settings, todo, directory, stats, progress, watcher):
        """The driver's part; ``stats`` is kept for the test."""
        self.stats = (stats.planned, stats.done, stats.failed)
        self.played.append([episode.id for episode in todo[: self.most]])
        for number, episode in enumerate(todo[: self.most]):
            record = Record(episode, None, "EngineKilled: four times", (), 1.0, "engine")
            if number >= self.failing:
                asked = dataclasses.replace(episode, player="oracle")
                record = asyncio.run(play_episode(settings.suite, asked, BUILT_IN_PLAYERS["oracle"]))
                record = dataclasses.replace(record, episode=episode)
            directory.commit(records_to_table([record], ledger_columns(settings.suite)))
        return len(todo) > self.most


@pytest.fixture
def world(monkeypatch):
    made = World()
    monkeypatch.setattr(module, "play_on_cluster", made.play)
    return made


@pytest.fixture
def start(tmp_path):
    def start(*overrides, run_dir=tmp_path / "run"):
        code, results = run(settings_at(run_dir, *SMALL, "model=simulated", *overrides))
        return code, (results or score_run(Run(run_dir))).tables

    return start


def coverage(tables):
    [table] = [table for table in tables if table.name == "coverage"]
    [row] = table.rows
    return dict(zip(table.columns, row, strict=True))


def attempts(tmp_path):
    """Of each kind of attempt, how many rows the ledger has."""
    ledger = open_ledger(tmp_path / "run")
    every = [row for batch in ledger.batches(["attempt", "status"], every_attempt=True) for row in batch.to_pylist()]
    return Counter((row["attempt"], row["status"]) for row in every)


@pytest.mark.slow
def test_failed_episodes_are_left_unless_asked_for(world, start, tmp_path):
    world.failing = 3
    code, tables = start()
    assert (code, coverage(tables)["failed"]) == (0, 3)
    start()
    assert len(world.played) == 1, "a complete run started again plays nothing"
    assert read_versions(tmp_path / "run")[0]["complete"] is True


@pytest.mark.slow
def test_failed_episodes_are_played_again_as_new_attempts_and_the_latest_counts(world, start, tmp_path):
    world.failing = 3
    start()
    world.failing = 1
    _, tables = start("retry_failed=true")
    assert world.played[1] == world.played[0][:3]
    assert world.stats == (8, 5, 0), "what is played again is not finished"
    assert {name: coverage(tables)[name] for name in ("planned", "done", "failed", "missing")} == {
        "planned": 8,
        "done": 7,
        "failed": 1,
        "missing": 0,
    }
    assert attempts(tmp_path) == {(1, "failed"): 3, (1, "done"): 5, (2, "failed"): 1, (2, "done"): 2}
    _, tables = start("retry_failed=true")
    assert attempts(tmp_path)[3, "failed"] == 1
    assert coverage(tables)["failed"] == 1


@pytest.mark.slow
def test_a_retry_that_was_stopped_goes_on_with_what_it_has_not_played(world, start, tmp_path):
    world.failing = 4
    start()
    world.most, world.failing = 2, 2
    assert start("retry_failed=true")[0] == CONTINUE
    world.most, world.failing = 1, 1
    assert start("retry_failed=true")[0] == CONTINUE
    world.most = 100
    assert start("retry_failed=true")[0] == 0
    assert [len(played) for played in world.played] == [8, 2, 1, 1]
    again = [name for played in world.played[1:] for name in played]
    assert sorted(again) == sorted(world.played[0][:4]), "each once, as without the stops"
    assert attempts(tmp_path) == {(1, "failed"): 4, (1, "done"): 4, (2, "failed"): 4}
    world.failing = 0
    start("retry_failed=true")
    assert len(world.played[-1]) == 4, "the next such command is a new try"


@pytest.mark.slow
def test_a_retry_that_died_after_its_last_episode_is_complete_when_repeated(world, start, tmp_path, monkeypatch):
    world.failing = 1
    start()
    with monkeypatch.context() as patch:
        patch.setattr(module.RunDirectory, "complete_session", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            start("retry_failed=true")
    start()  # is no part of the retry
    start("retry_failed=true")
    assert len(world.played) == 2
    start("retry_failed=true")
    assert len(world.played) == 3 and attempts(tmp_path)[3, "failed"] == 1


@pytest.mark.slow
def test_every_row_names_the_session_that_played_it(world, start, tmp_path):
    world.most = 5
    start()
    _, tables = start()
    first, second = (session["id"] for session in read_versions(tmp_path / "run"))
    assert Counter(Run(tmp_path / "run").episodes(["session"])["session"].to_pylist()) == {first: 5, second: 3}
    [sessions] = [table for table in tables if table.name == "sessions"]
    rows = [dict(zip(sessions.columns, row, strict=True)) for row in sessions.rows]
    assert [(row["session"], row["episodes"], row["success"]) for row in rows] == [(first, 5, 1.0), (second, 3, 1.0)]


@pytest.mark.slow
def test_going_on_with_other_versions_is_said_or_refused(world, start, tmp_path, monkeypatch, capsys):
    now = {"git_commit": "a", "vllm": "1", "torch": "2"}
    monkeypatch.setattr("cluster.storage.provenance.versions", lambda: dict(now))
    world.most = 1
    start()
    start()
    assert "warning" not in capsys.readouterr().err
    now["vllm"] = "3"
    with pytest.raises(UserError, match=r"strict.*vllm 3 \(earlier 1\)$"):
        start("strict=true")
    assert len(read_versions(tmp_path / "run")) == 2 and len(world.played) == 2
    start()
    assert "vllm 3 (earlier 1)" in capsys.readouterr().err
    del now["torch"]
    start()
    said = capsys.readouterr().err
    assert "vllm 3 (earlier 1)" in said and "torch None (earlier 2)" in said and "git_commit" not in said


def test_a_session_that_played_nothing_is_no_reason_to_warn(world, start, monkeypatch, capsys):
    now = {"git_commit": "a"}
    monkeypatch.setattr("cluster.storage.provenance.versions", lambda: dict(now))
    world.most = 0
    start()
    now["git_commit"] = "b"
    start("strict=true")
    assert "git_commit" not in capsys.readouterr().err


@pytest.mark.slow
def test_parts_are_merged_at_the_end_and_only_then(world, start, tmp_path):
    world.most = 5
    start()
    assert len(list((tmp_path / "run" / "episodes").iterdir())) == 5
    start()
    assert len(list((tmp_path / "run" / "episodes").iterdir())) == 1


@pytest.mark.slow
def test_what_a_killed_merge_left_behind_is_removed(world, start, tmp_path, monkeypatch):
    from cluster.storage.run_directory import RunDirectory

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "remove_replaced", lambda *_: None)
        start()
    assert len(list((tmp_path / "run" / "episodes").iterdir())) == 9
    assert coverage(start()[1])["done"] == 8
    assert len(list((tmp_path / "run" / "episodes").iterdir())) == 1


@pytest.mark.parametrize("column", ["session", "cost"])
def test_damage_is_found_before_anything_is_played(world, start, tmp_path, column):
    world.most = 5
    start()
    parts = sorted((tmp_path / "run" / "episodes").iterdir())
    whole = parts[0].read_bytes()
    parts[0].write_bytes(whole[:-10])
    flip_a_byte(parts[1], column)  # is found only when the rows are read
    for part in parts[:2]:
        with pytest.raises(UserError, match=rf"{tmp_path / 'run'}: (.|\n)*{part.name}"):
            start()
        parts[0].write_bytes(whole)
    assert len(world.played) == 1


@pytest.mark.slow
def test_a_part_of_another_run_is_named_and_its_rows_never_count(world, start, tmp_path, capsys):
    start("suite.difficulties=[hard]", run_dir=tmp_path / "other")
    foreign = sorted((tmp_path / "other" / "episodes").iterdir())[0]
    world.most = 5
    start()
    shutil.copy(foreign, tmp_path / "run" / "episodes")
    capsys.readouterr()
    _, tables = start()
    assert "not counted, since they were copied from another run" in capsys.readouterr().err
    assert coverage(tables)["done"] == 8 and len(world.played) == 3


def test_results_that_cannot_be_written_are_shown_all_the_same(world, tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_results", full)
    run_dir = tmp_path / "run"
    assert run_and_show(settings_at(run_dir, *SMALL, "model=simulated")) == RUN_FAILED
    out, err = capsys.readouterr()
    assert "No space left" in err and "done" in out
    assert "RUN/tables" not in out
    assert out.splitlines()[-1] == f"ledger: {run_dir}; `raycade report {run_dir}` writes tables and summary"


def test_a_disk_that_is_full_after_the_last_episode_is_told_with_the_file(world, start, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    def play(*arguments):
        stopped = world.play(*arguments)
        monkeypatch.setattr(durable, "_write", full)
        return stopped

    monkeypatch.setattr(module, "play_on_cluster", play)
    with pytest.raises(RunFailedError, match=r"No space left on device: .*versions\.json"):
        start()


@pytest.mark.parametrize("override", ["strict=1", "retry_failed=often"])
def test_switches_take_true_or_false(start, override):
    with pytest.raises(UserError, match=override):
        start(override)
