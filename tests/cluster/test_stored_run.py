"""What is said of a run directory that cannot be read, and what is read of one that can."""

import json
import math
import os
from operator import attrgetter

import pyarrow.parquet as pq
import pytest

from cluster.commands.list_runs import list_runs
from cluster.commands.plan import _speed
from cluster.errors import RunFailedError, UserError
from cluster.observe.performance import replica_use
from cluster.observe.run_status import run_status
from cluster.storage.stored_run import DAMAGE_SHOWN, Run, damaged, read_runs
from evals.ledger.ledger import OPENINGS
from evals.ledger.parts import Damage, LedgerChangedError, LedgerDamagedError
from tests.cluster.test_ledger import PLAN, directory, rows  # noqa: F401


def test_damage_is_listed_by_part_up_to_a_limit(tmp_path):
    def lines(count):
        return str(damaged(tmp_path, [Damage(tmp_path / f"part-{n}", "torn") for n in range(count)])).split("\n")

    few, full, more = lines(2), lines(DAMAGE_SHOWN), lines(DAMAGE_SHOWN + 3)
    assert few[0].startswith(str(tmp_path)) and few[1:3] == [f"  {tmp_path}/part-{n}: torn" for n in (0, 1)]
    assert len(few) == 2 + 2 and len(full) == DAMAGE_SHOWN + 2 and few[-1] == full[-1] == more[-1]
    assert len(more) == DAMAGE_SHOWN + 3 and more[-2].endswith("3 more")


async def test_only_the_columns_asked_for_are_read_and_rows_are_held_against_the_plan(directory):  # noqa: F811
    directory.commit(await rows(PLAN[:2]))
    assert Run(directory.path).episodes(["success"]).column_names == ["success"]
    assert "turns" not in Run(directory.path).episodes().column_names
    directory.write_plan(PLAN[:1])
    for read in (Run.episodes, attrgetter("data"), attrgetter("ledger")):
        with pytest.raises(UserError) as raised:
            read(Run(directory.path))
        assert str(raised.value).startswith(str(directory.path)) and PLAN[1].id in str(raised.value)


async def test_damage_that_only_reading_finds_is_named(directory, monkeypatch):  # noqa: F811
    part = directory.commit(await rows(PLAN[:2]))

    def table(*_):
        raise LedgerDamagedError([Damage(part, "torn")])

    monkeypatch.setattr("evals.ledger.ledger.Ledger.table", table)
    with pytest.raises(UserError, match=rf"{directory.path}(.|\n)*{part.name}: torn"):
        Run(directory.path).episodes()


def test_a_ledger_that_changes_whenever_it_is_read_is_named_and_read_again_first():
    seen = []

    def read():
        seen.append("once more")
        if len(seen) < last:
            raise LedgerChangedError("part-000001.parquet")
        return "read"

    last = OPENINGS
    assert read_runs([], read) == "read"
    last = 2 * OPENINGS + 1
    seen.clear()
    with pytest.raises(RunFailedError, match=r"part-000001\.parquet"):
        read_runs([], read)
    assert len(seen) == OPENINGS


@pytest.mark.parametrize("text", ["[suite]", "suite", "model: {}", ""])
def test_a_configuration_without_a_suite_is_refused(directory, text):  # noqa: F811
    (directory.path / "config.yaml").write_text(text)
    with pytest.raises(UserError, match=r"config\.yaml: names no suite"):
        _ = Run(directory.path).config


def test_a_configuration_of_brackets_is_refused(directory):  # noqa: F811
    (directory.path / "config.yaml").write_text("[" * 100_000)
    with pytest.raises(UserError, match=r"config\.yaml, line 1: is nested deeper"):
        _ = Run(directory.path).config


def test_where_there_is_no_run_each_reader_says_so(tmp_path):
    for read in (*map(attrgetter, ("plan", "planned", "config", "ledger", "data")), Run.episodes):
        with pytest.raises(UserError, match=f"{tmp_path}: no run here"):
            read(Run(tmp_path))
    (tmp_path / "plan.parquet").write_text("not Parquet")
    with pytest.raises(UserError, match="damaged"):
        _ = Run(tmp_path).data


async def test_a_run_is_opened_with_its_plan_configuration_and_sessions(directory):  # noqa: F811
    directory.commit(await rows(PLAN[:2]))
    (directory.path / "versions.json").write_text('[{"id": "s1", "vllm": "1"}]')
    run = Run(directory.path).data
    assert run.plan["episode_id"].to_pylist() == [episode.id for episode in PLAN]
    assert run.settings == {"suite": {}} and [session["id"] for session in run.sessions] == ["s1"]
    assert len(run.episodes(["success"])) == 2


async def test_each_file_is_read_once_until_the_run_is_refreshed(directory, monkeypatch):  # noqa: F811
    directory.commit(await rows(PLAN[:2]))
    opened = []
    real = pq.ParquetFile
    monkeypatch.setattr(pq, "ParquetFile", lambda path, **more: opened.append(path) or real(path, **more))
    run = Run(directory.path)
    for _ in range(3):
        assert (len(run.plan), len(run.planned), len(run.episodes()), len(run.data.episodes())) == (6, 6, 2, 2)
    directory.commit(await rows(PLAN[2:3]))
    assert len(run.episodes()) == 2
    run.refresh()
    assert len(run.episodes()) == 3 and opened.count(directory.path / "plan.parquet") == 1


def test_a_misspelled_run_is_answered_with_the_nearest_and_a_folder_of_runs_with_their_list(directory):  # noqa: F811
    with pytest.raises(UserError, match=r"rum: no run here .*Did you mean run\?"):
        _ = Run(directory.path.parent / "rum").data
    with pytest.raises(UserError, match=f"raycade list {directory.path.parent}"):
        _ = Run(directory.path.parent).data
    (directory.path / "config.yaml").unlink()
    with pytest.raises(UserError, match=r"no run here \(there is no config.yaml\)$"):
        _ = Run(directory.path).config


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("suite: 5", "suite"),
        ("suite: {}\nmodel: [1]", "model"),
        ("suite: {}\nmodel: {engine: null}", "model.name"),
        ("suite: {}\nmodel: {name: [x], engine: {}}", "model.name"),
        ("suite: {}\nmodel: {name: x, engine: 5}", "model.engine"),
        ("suite: {}\nmodel: {name: x, engine: {prompt_price: .nan}}", "model.engine.prompt_price"),
        ("suite: {}\nmodel: {name: x, sampling: {max_tokens: many}}", "model.sampling.max_tokens"),
        ("suite: {}\ntracker: [1]", "tracker"),
    ],
)
def test_a_configuration_of_another_shape_is_refused_where_it_is_read(directory, text, place):  # noqa: F811
    (directory.path / "config.yaml").write_text(text)
    with pytest.raises(UserError, match=rf"config\.yaml: not the configuration of a run: {place}: ") as refused:
        _ = Run(directory.path).config
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "session",
    [
        {"id": "s", "began": "\x1b[31mRED"},
        {"id": "s", "began": 5},
        {"began": "2026-01-01T00:00:00+00:00"},
        {"id": "s", "vllm": [1]},
    ],
)
def test_a_damaged_session_is_refused_and_one_such_run_does_not_stop_the_list(directory, session):  # noqa: F811
    good = json.dumps([{"id": "s", "began": "2026-01-01T00:00:00+00:00", "vllm": None}])
    (directory.path / "versions.json").write_text(good)
    assert Run(directory.path).sessions == json.loads(good)
    (directory.path / "versions.json").write_text(json.dumps([session]))
    with pytest.raises(UserError, match=r"versions\.json: session 1 is damaged") as refused:
        run_status(Run(directory.path))
    assert str(refused.value).isprintable()
    assert "unreadable" in list_runs(directory.path).rows[0]


def test_damaged_lines_of_timings_are_skipped_with_a_warning(directory, capsys):  # noqa: F811
    sound = {"seconds": 2, "turns": 3, "use": {"replica": {"slot_seconds": 2.0, "of_a_later_version": 1}}}
    damage = [{"use": 5}, {"use": {"a": {"b": "c"}}}, {"turns": "x"}, {"seconds": 10**300}, [], {"moves": math.nan}]
    lines = ['{"turns": 2', *(json.dumps(line) for line in (*damage, sound))]
    (directory.path / "timings.jsonl").write_text("\n".join(lines))
    run = Run(directory.path)
    assert run.timings == [sound] and replica_use(run.timings)["replica"].slot_seconds == 2
    assert capsys.readouterr().err.count("timings.jsonl, line ") == 1 + len(damage)
    assert _speed(directory.path) is None


@pytest.mark.parametrize(("name", "read"), [("timings.jsonl", "timings"), ("stopping.json", "stopping")])
def test_a_pipe_in_place_of_a_file_is_refused(directory, name, read):  # noqa: F811
    os.mkfifo(directory.path / name)
    with pytest.raises(UserError, match=name):
        getattr(Run(directory.path), read)
