"""What a session plays: what is missing, failed episodes once more when asked for, with the same software or not."""

import asyncio
import dataclasses
import os
import shutil
from collections import Counter

import pyarrow as pa
import pytest

from cluster.commands import run as module
from cluster.commands.report import score_run
from cluster.commands.resume import first_of_retry, scan_resume
from cluster.commands.run import run, run_and_show
from cluster.errors import CONTINUE, RUN_FAILED, RunFailedError, UserError
from cluster.observe.run_statistics import RunStatistics
from cluster.storage import durable
from cluster.storage.provenance import write_versions
from cluster.storage.stop_rule import StoredRule, write_rule
from cluster.storage.stored_run import Run
from evals.conversation import Record
from evals.ledger.ledger import open_ledger
from evals.ledger.records import records_to_table
from evals.players import BUILT_IN_PLAYERS
from evals.stopping.rules import StopRule
from evals.suite import ledger_columns, plan_for, play_episode
from tests.cluster.conftest import settings_at
from tests.cluster.test_cli import SMALL
from tests.evals.test_ledger import flip_a_byte
from tests.toy import ToySuite
from tests.viewer_runs import add_part, write_run


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


@pytest.fixture
def stored(tmp_path):
    """Makes a run of two players of the toy suite with these rows: the number of an episode, status, attempt, session."""
    suite = ToySuite(episodes=5)
    plan = [each for name in ("m", "n") for each in plan_for(suite, {name: ""})]

    def make(*rows, sessions=()):
        records = [asyncio.run(play_episode(suite, each, BUILT_IN_PLAYERS["oracle"])) for each in plan]
        tables = []
        for number, status, attempt, session in rows:
            record = Record(plan[number], None, "X: no", (), 1.0, "model") if status == "failed" else records[number]
            row = records_to_table([record], ledger_columns(suite))
            for name, value in (("attempt", pa.array([attempt], pa.int32())), ("session", pa.array([session]))):
                row = row.set_column(row.column_names.index(name), name, value)
            tables.append(row)
        path = write_run(tmp_path / "run", plan, tables[0])
        for number, row in enumerate(tables[1:], 2):
            add_part(path, number, row)
        write_versions(path, [{"config": {}, **each} for each in sessions])
        return Run(path)

    def scan(run, retry_failed):
        stats = RunStatistics()
        found = scan_resume(run, plan, stats, run.rule, retry_failed)
        counts = {name: (one.planned, one.done, one.failed) for name, one in stats.players.items()}
        left = 500 * sum(each.calls for each in found.todo) + sum(each.prompt_tokens for each in found.todo)
        assert stats._work_left == left
        return (
            [plan.index(each) for each in found.todo],
            {plan.index(each): found.attempts[each.id] for each in plan if each.id in found.attempts},
            found,
            counts,
        )

    return make, scan


def test_what_is_missing_is_played_and_what_has_failed_once_more_when_asked_for(stored):
    make, scan = stored
    run = make((0, "failed", 1, "a"), (1, "done", 1, "a"), (6, "failed", 3, "a"), (8, "done", 1, "b"))
    todo, attempts, found, counts = scan(run, retry_failed=False)
    assert (todo, attempts, found.retry, found.replaced) == ([2, 3, 4, 5, 7, 9], {}, (), ())
    assert counts == {"m": (5, 1, 1), "n": (5, 1, 1)}
    todo, attempts, found, counts = scan(run, retry_failed=True)
    assert (todo, attempts, found.retry) == ([0, 2, 3, 4, 5, 6, 7, 9], {0: 1, 6: 3}, ())
    assert counts == {"m": (5, 1, 0), "n": (5, 1, 0)}, "what is played again is not finished"


def test_a_retry_goes_on_with_what_its_sessions_have_not_played(stored, monkeypatch):
    make, scan = stored
    monkeypatch.setattr("cluster.storage.provenance.versions", lambda: {"vllm": "2"})
    sessions = [
        {"id": "a", "vllm": "1"},
        {"id": "b", "retry": "b", "vllm": "2"},
        {"id": "c", "retry": "b", "vllm": "2"},
    ]
    failed = [(number, "failed", 1, "a") for number in (0, 1, 2, 3)]
    run = make(*failed, (0, "failed", 2, "b"), (1, "done", 2, "b"), (2, "failed", 2, "c"), sessions=sessions)
    todo, attempts, found, counts = scan(run, retry_failed=True)
    assert (todo, attempts, found.retry) == ([3, 4, 5, 6, 7, 8, 9], {3: 1}, ("b", "c"))
    assert (
        counts == {"m": (5, 1, 2), "n": (5, 0, 0)} and first_of_retry(found.retry) == "b" and first_of_retry(()) == ""
    )
    assert found.changes == ["vllm 2 (earlier 1)"], "as long as a row of that session counts"
    write_versions(run.path, [*sessions[:2], {**sessions[2], "complete": True}])
    todo, attempts, found, _ = scan(Run(run.path), retry_failed=True)
    assert (todo, attempts, found.retry) == ([0, 2, 3, 4, 5, 6, 7, 8, 9], {0: 2, 2: 2, 3: 1}, ()), "a new try"


def test_with_a_rule_only_what_it_needs_is_played_and_what_is_retried_decides_nothing(stored):
    make, scan = stored
    run = make(*((number, "done" if number > 4 else "failed", 1, "a") for number in range(10)))
    write_rule(run.path, StoredRule(StopRule("decided", against="n", most=2), "m", None))
    needed = [number for number, each in enumerate(run.plan) if each.id in run.stopping.needed]
    assert run.stopping.stopped and len(needed) == 4
    todo, _, found, _ = scan(run, retry_failed=False)
    assert (todo, found.needed) == ([], 4)
    todo, _, found, _ = scan(run, retry_failed=True)
    assert (todo, found.needed) == ([0, 1, 2, 3, 4], 10), "their games are open again"


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failing", "asked", "is_complete"),
    [
        (0, (), True),
        (2, (), True),
        (2, ("retry_failed=true",), False),
        (0, ("stop=precise", "stop.precision=.1"), False),
    ],
)
def test_a_complete_run_that_may_only_be_read_is_complete(
    world, start, failing, asked, is_complete, tmp_path, monkeypatch, capsys
):
    def read_only(self, created=False):
        raise OSError(30, "Read-only file system")

    world.failing = failing
    start()
    monkeypatch.setattr("cluster.storage.lock.RunLock.acquire", read_only)
    monkeypatch.setattr("os.access", lambda path, mode: not (path == tmp_path / "run" and mode == os.W_OK))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    if is_complete:
        code, _ = start(*asked)
        said = capsys.readouterr().err
        assert code == 0 and "episodes are in the ledger; nothing to play" in said and "cannot be written here" in said
    else:
        with pytest.raises(RunFailedError, match="Read-only file system"):
            start(*asked)
    assert len(world.played) == 1
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == before


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
