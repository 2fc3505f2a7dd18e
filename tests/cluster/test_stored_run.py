"""What is said of a run directory that cannot be read, and what is read of one that can."""

import errno
import functools
import json
import os
import re
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster.commands.list_runs import list_runs
from cluster.errors import RunFailedError, UserError
from cluster.observe.run_status import run_status
from cluster.storage.spending import Spending, write_spending
from cluster.storage.stored_run import Run, damaged, read_runs
from evals.ledger.lease import find_leases, part_files
from evals.ledger.ledger import OPENINGS
from evals.ledger.parts import Damage, LedgerChangedError, LedgerDamagedError, damage_of
from evals.stopping.outcomes import CELLS_STOP
from tests.cluster.test_ledger import PLAN, directory, rows  # noqa: F401
from tests.viewer_runs import calm_rows, write_run


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


@pytest.mark.parametrize(
    "session",
    [
        {"id": "s", "began": "\x1b[31mRED"},
        {"id": "s", "began": 5},
        {"began": "2026-01-01T00:00:00+00:00"},
        {"id": "s", "vllm": [1]},
        {"id": "\ud800"},
        {"id": "s", "began": "2026-01-01T00:00:00+00:00", "vllm": "\ud800"},
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


def test_what_stopping_rules_of_imported_files_said_is_told_once_and_whether_cells_stopped_apart(directory):  # noqa: F811
    sessions = [{"id": "a", "imported_stopping": "x: decided\ny: open"}, {"id": "b"}]
    for last, apart in (("y: open\nz: precise", False), (f"y: open\n{CELLS_STOP}", True)):
        written = [*sessions, {"id": "c", "imported_stopping": last}]
        (directory.path / "versions.json").write_text(json.dumps(written))
        data = Run(directory.path).data
        assert data.stopping == ("x: decided", "y: open", last.splitlines()[1])
        assert data.cells_stop == apart and data.with_not_needed is None
    (directory.path / "versions.json").write_text(json.dumps(sessions[1:]))
    assert Run(directory.path).data.stopping == ()


def test_a_pipe_in_place_of_a_file_is_refused(directory):  # noqa: F811
    os.mkfifo(directory.path / "stopping.json")
    with pytest.raises(UserError, match=r"stopping\.json"):
        run_status(Run(directory.path))


def test_what_a_rule_did_not_need_is_left_out_of_scores_and_not_of_the_planned_money(directory):  # noqa: F811
    run = Run(directory.path)
    first = run.planned["episode_id"][0].as_py()
    for by in ("run", "cell"):
        rule = SimpleNamespace(by=by)
        run.__dict__["stopping"] = SimpleNamespace(needed={first}, lines=lambda: ["decided"], rule=rule)
        run.__dict__.pop("data", None)
        assert run.data.plan["episode_id"].to_pylist() == [first] and run.data.stopping == ("decided",)
        assert len(run.data.with_not_needed) == len(run.planned) > 1
        assert run.data.cells_stop == (by == "cell")


def test_timings_that_cannot_be_read_are_left_out_with_a_warning(directory, capsys):  # noqa: F811
    """No score depends on them."""
    for unreadable in (os.mkfifo, Path.mkdir, lambda path: path.write_bytes(b"\xff\n")):
        path = directory.path / "timings.jsonl"
        unreadable(path)
        assert Run(directory.path).timings == []
        assert re.search(r"timings\.jsonl.*; times are left out", capsys.readouterr().err)
        path.rename(directory.path / f"before_{unreadable.__name__}")


@pytest.mark.parametrize(
    ("error", "hinders"),
    [
        (PermissionError(errno.EACCES, "Permission denied"), True),
        (OSError(errno.EMFILE, "Too many open files"), True),
        (pa.ArrowMemoryError("malloc of size 99 failed"), True),
        (OSError("Unknown error: Failed to launch worker thread: Resource temporarily unavailable"), True),
        (UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed"), True),
        (pa.ArrowInvalid("Parquet magic bytes not found in footer"), False),
        (OSError(errno.EIO, "Input/output error"), False),
    ],
)
def test_what_this_process_cannot_read_is_not_called_damaged(tmp_path, monkeypatch, error, hinders):
    part = tmp_path / "part-1.parquet"
    part.touch()
    told = str(damaged("", [damage_of(part, error)]))
    assert ("may be sound" in told) == hinders != ("is damaged" in told) and ("move them out" in told) != hinders
    with_another = str(damaged("", [Damage(tmp_path / "torn", "is torn"), damage_of(part, error)]))
    assert ("is torn" in with_another) != hinders, "files that cannot be read come first: nothing is moved before"
    (tmp_path / "plan.parquet").touch()
    monkeypatch.setattr("cluster.storage.stored_run.read_parquet", Mock(side_effect=error))
    with pytest.raises(UserError, match="may be sound" if hinders else "damaged"):
        _ = Run(tmp_path).planned


def test_a_folder_of_parts_that_cannot_be_listed_is_no_empty_run(tmp_path, monkeypatch):
    assert part_files(tmp_path / "none") == []
    for name in ("part-2.parquet", "part-1.parquet", ".part-3.parquet.tmp"):
        (tmp_path / name).touch()
    assert [path.name for path in part_files(tmp_path)] == ["part-1.parquet", "part-2.parquet"]
    monkeypatch.setattr(type(tmp_path), "iterdir", Mock(side_effect=PermissionError(errno.EACCES, "Permission denied")))
    for listed in (part_files, find_leases):
        with pytest.raises(PermissionError):
            listed(tmp_path)


@pytest.mark.parametrize(("spent", "told"), [(None, ""), (0.0066, ""), (0.001, "0.0010"), (0.0, "0.00")])
def test_a_journal_that_holds_less_than_the_ledger_cost_is_told_to_all_who_read_the_run(
    spent, told, tmp_path, monkeypatch, capsys
):
    write_run(tmp_path / "run", *calm_rows())
    monkeypatch.setattr(Run, "ledger_cost", property(lambda run: 0.0066))
    if spent is not None:
        write_spending(tmp_path / "run", Spending(spent))
    _ = Run(tmp_path / "run").data
    said = " ".join(capsys.readouterr().err.split())
    assert f"spending.json: holds {told}, though the ledger's episodes cost 0.0066" in said if told else not said


def test_a_run_that_is_read_again_keeps_nothing_but_its_plan(tmp_path):
    kept = {name for name, value in vars(Run).items() if isinstance(value, functools.cached_property)}
    run = Run(tmp_path)
    run.__dict__.update(dict.fromkeys(kept, "of before"))
    run.refresh()
    assert kept & run.__dict__.keys() == {"plan", "planned"}
