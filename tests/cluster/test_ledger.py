import errno
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster.errors import UserError
from cluster.storage.durable import write_durably
from cluster.storage.lock import LeaseLostError
from cluster.storage.run_directory import RunDirectory
from cluster.storage.stored_run import Run
from evals.ledger.records import PARQUET_OPTIONS, plan_to_table, records_to_table
from evals.players import BUILT_IN_PLAYERS
from evals.suite import ledger_columns, play_episode
from tests.toy import ToySuite

SUITE = ToySuite(episodes=6)
PLAN = [episode.assigned("oracle", "") for episode in SUITE.plan()]


async def rows(episodes):
    records = [await play_episode(SUITE, episode, BUILT_IN_PLAYERS["oracle"]) for episode in episodes]
    return records_to_table(records, ledger_columns(SUITE))


@pytest.fixture
def directory(tmp_path) -> RunDirectory:
    made = RunDirectory(tmp_path / "run")
    made.check_plan(PLAN)
    made.claim()
    made.begin(PLAN, {"config.yaml": "suite: {}\n"})
    return made


@pytest.mark.parametrize("content", [pa.table({"x": [1] * len(PLAN)}), plan_to_table([*PLAN, PLAN[0]])])
def test_a_stored_plan_that_is_damaged_is_named(directory, content):
    pq.write_table(content, directory.path / "plan.parquet")
    with pytest.raises(UserError, match=r"plan\.parquet: damaged"):
        RunDirectory(directory.path).check_plan(PLAN)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_named_as_such_and_nothing_is_left(tmp_path, monkeypatch, number):
    def flock(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(UserError, match=rf"locking .*{os.strerror(number)}"):
        RunDirectory(tmp_path / "run").claim()
    assert not (tmp_path / "run").exists()


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(UserError, match="is a file"):
        RunDirectory(file).check_plan(PLAN)
    with pytest.raises(UserError, match="cannot be written"):
        RunDirectory(file / "run").claim()
    assert file.read_text() == "mine"


def test_what_a_start_left_that_died_before_its_plan_is_written_anew(directory):
    (directory.path / "plan.parquet").unlink()
    directory.begin(PLAN[:4], {"config.yaml": "suite: größer\n"})
    assert (directory.path / "config.yaml").read_text(encoding="utf-8") == "suite: größer\n"
    assert Run(directory.path).plan == PLAN[:4]


def test_a_plan_is_compressed_and_keeps_checksums(directory):
    path = directory.path / "plan.parquet"
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    assert column.compression.lower() == PARQUET_OPTIONS["compression"]
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size // 2] ^= 255
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"plan\.parquet"):
        _ = Run(directory.path).plan


def number(part):
    return int(part.name.split("-")[1])


async def test_parts_are_numbered_from_one_and_on_when_a_run_is_resumed(directory):
    assert [number(directory.commit(await rows([episode]))) for episode in PLAN[:2]] == [1, 2]
    directory.release()
    resumed = RunDirectory(directory.path)
    resumed.claim()
    assert number(resumed.commit(await rows(PLAN[2:3]))) == 3


async def test_a_start_that_failed_leaves_no_folder_unless_episodes_were_played(directory, tmp_path):
    directory.commit(await rows(PLAN[:1]))
    directory.discard()
    assert Run(directory.path).episodes().num_rows == 1
    for logs in ([], ["replica-0.0.log"], ["replica-0.0.log", "replica-1.0.log"]):
        failed = RunDirectory(tmp_path / "failed")
        failed.check_plan(PLAN[: 1 + len(logs)])  # other settings may be tried at the same place
        failed.claim()
        failed.begin(PLAN[: 1 + len(logs)], {})
        for name in logs:
            (failed.path / "logs").mkdir(exist_ok=True)
            (failed.path / "logs" / name).write_text("why")
        failed.discard()
        left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("failed/**/*"))
        assert left == ([] if not logs else ["failed/logs", *(f"failed/logs/{name}" for name in logs)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["failed", "run"], "and nothing set aside"


async def test_rows_are_of_the_session_and_the_attempt_that_the_directory_states(directory):
    directory.commit(await rows(PLAN[:1]))
    directory.session, directory.attempts = "s2", {PLAN[1].id: 3}
    directory.commit(await rows(PLAN[1:3]))
    stored = Run(directory.path).episodes(["session", "attempt"]).to_pylist()
    assert [tuple(row.values()) for row in stored] == [("", 1), ("s2", 4), ("s2", 1)]


async def test_a_link_in_the_place_of_the_ledger_is_not_followed_and_the_commit_can_be_tried_again(directory, tmp_path):
    elsewhere, aside = tmp_path / "elsewhere", tmp_path / "aside"
    elsewhere.mkdir()
    directory.parts.rename(aside)
    directory.parts.symlink_to(elsewhere)
    with pytest.raises(OSError, match="is a link"):
        directory.commit(await rows(PLAN[:2]))
    assert not list(elsewhere.iterdir())
    directory.parts.unlink()
    aside.rename(directory.parts)
    directory.commit(await rows(PLAN[:2]))
    assert len(Run(directory.path).ledger) == 2


@pytest.mark.parametrize("late", ["rename", "sync"])
async def test_a_commit_whose_answer_was_lost_is_not_there_twice(directory, monkeypatch, late):
    """A network file system may do what it says it failed at."""
    with monkeypatch.context() as patch:

        def rename(path, target, rename=Path.rename):
            rename(path, target)
            raise OSError(errno.ENOENT, "lost answer")

        def sync(path):
            raise OSError(errno.EIO, "no luck")

        if late == "rename":
            patch.setattr(Path, "rename", rename)
        else:
            patch.setattr("cluster.storage.durable.sync_directory", sync)
        with pytest.raises(OSError):
            directory.commit(await rows(PLAN[:2]))
    assert len(list(directory.parts.glob("*.parquet"))) == 1
    directory.commit(await rows(PLAN[:3]))
    directory.compact(everything=True)
    run = Run(directory.path)
    assert len(run.ledger) == 3 and not run.ledger.damage


def test_files_that_a_crash_left_half_written_are_removed(directory):
    left = [directory.path / ".config.yaml.0123456a.tmp", directory.parts / ".part-000001-x.parquet.0123456b.tmp"]
    for path in left:
        path.write_text("half")
    directory.release()
    RunDirectory(directory.path).claim()
    assert not any(path.exists() for path in left)
    assert (directory.path / "config.yaml").exists()


def test_files_that_a_run_within_this_one_is_writing_stay(directory):
    """Shards stand in the folder of the whole: ``raycade merge runs/whole runs/whole/shard-*``."""
    shard, linked = directory.path / "shard-1/episodes", directory.path / "shard-1/tables"
    for folder in (shard, linked):
        folder.mkdir(parents=True)
    (directory.path / "tables").symlink_to(linked)
    written = [folder / ".x.0123456a.tmp" for folder in (shard.parent, shard, linked)]
    for path in written:
        path.write_text("half")
    directory.release()
    RunDirectory(directory.path).claim()
    assert all(path.exists() for path in written)


def test_files_that_another_removes_meanwhile_are_no_error(directory, monkeypatch):
    part = directory.parts / "part-000001-x.parquet"
    directory.remove([part])
    directory.release()
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter([self / ".plan.parquet.0123456a.tmp"]))
    RunDirectory(directory.path).claim()


def test_a_plan_is_compared_by_its_ids(directory, monkeypatch):
    """Without reading it as episodes, which takes long for a million."""
    monkeypatch.setattr("cluster.storage.stored_run.plan_from_table", lambda table: pytest.fail("read whole"))
    RunDirectory(directory.path).check_plan(PLAN)
    RunDirectory(directory.path).check_plan(PLAN[::-1])


def test_a_full_disk_at_the_end_still_releases_the_run(directory, monkeypatch):
    for error in (OSError("no space"), LeaseLostError("gone")):

        def fail(*_, error=error):
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(RunDirectory, "remove_replaced", fail)
            directory.release()
        directory.claim()


def test_a_file_that_cannot_be_created_says_why(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(OSError, match="no space left"):
        write_durably(tmp_path / "file", b"new")
