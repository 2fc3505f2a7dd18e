"""A death at each single operation on files: nothing that was acknowledged is lost, nothing counts twice."""

import os
from pathlib import Path

import pytest

from cluster.storage import lock, run_directory
from cluster.storage.run_directory import RunDirectory
from evals.ledger.ledger import open_ledger
from evals.ledger.records import plan_to_table
from tests.cluster.test_ledger import PLAN, rows
from tests.recorded_disk import RecordedDisk


@pytest.fixture
def disk(tmp_path, monkeypatch) -> RecordedDisk:
    (tmp_path / "run").mkdir()
    return RecordedDisk(tmp_path / "run", monkeypatch)


def ids(run: Path) -> list[str]:
    ledger = open_ledger(run, plan_to_table(PLAN))
    assert ledger.damage == [] and ledger.fenced == ()
    return ledger.table(["episode_id"])["episode_id"].to_pylist()


async def test_the_ledger_and_its_lease_survive_a_death_at_every_write(tmp_path, disk, monkeypatch):
    monkeypatch.setattr(run_directory, "KEEP_REPLACED_SECONDS", 0.0)
    marks = []
    for episodes in (PLAN[:2], PLAN[2:4]):
        directory = RunDirectory(disk.root)
        directory.claim()
        marks.append(directory._lock.mark)
        disk.note(marks[-1])
        directory.begin(PLAN, {})
        for episode in episodes:
            directory.commit(await rows([episode]))
            disk.note(episode)
        directory.compact(everything=True)
        directory.compact(everything=True)
        directory.release()

    monkeypatch.undo()
    monkeypatch.setattr(os, "fsync", lambda file: None)  # the disk that is looked at need not be safe
    monkeypatch.setattr(lock, "seen", lambda holder: "dead")
    seen = 0
    for state, notes in disk.states(tmp_path / "states"):
        acknowledged = [episode.id for episode in PLAN if episode in notes]
        found = ids(state)
        assert len(found) == len(set(found)) and set(acknowledged) <= set(found)
        after = RunDirectory(state)
        after.claim()
        number = int(after._lock.mark.partition("-")[0])
        assert all(number > int(mark.partition("-")[0]) for mark in marks if mark in notes)
        assert ids(state) == found, "what counted before a claim counts after it"
        after.release()
        seen += 1
    assert seen > 60, "claims, commits, merges, removals and releases"
