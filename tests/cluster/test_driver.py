"""What the driver does with the ledger when a run ends, with a directory that is slow or full."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from cluster.config.settings import ClusterSettings
from cluster.driver import driver as module
from cluster.driver.driver import Driver
from cluster.errors import RunFailedError
from cluster.storage.run_directory import RunDirectory, read_episodes
from evals.players import BUILT_IN_PLAYERS
from evals.records import records_to_table
from evals.suite import ledger_columns, play_episode
from tests.toy import ToySuite

SUITE = ToySuite()
PLAN = [episode.assigned("oracle", "") for episode in SUITE.plan()]


class SlowDirectory(RunDirectory):
    def commit(self, rows):
        time.sleep(0.3)
        super().commit(rows)


class FullDirectory(RunDirectory):
    def commit(self, rows):
        raise OSError(28, "No space left on device")


async def rows(episodes):
    records = [await play_episode(SUITE, episode, BUILT_IN_PLAYERS["oracle"]) for episode in episodes]
    return records_to_table(records, ledger_columns(SUITE))


def driver_of(directory: RunDirectory) -> Driver:
    """A driver with nothing to play; its lanes are the test's."""
    nobody = SimpleNamespace(to_json=dict, log=lambda numbers: None, spent=0.0, spent_before=0.0)
    settings = SimpleNamespace(
        suite=SUITE,
        cluster=ClusterSettings(commit_seconds=0.05, runners=1),
        model=SimpleNamespace(name="m", engine={"type": "simulated"}),
    )
    directory.claim()
    directory.begin(PLAN, {})
    return Driver(settings, [], directory, stats=nobody, progress=None, watcher=nobody)


async def test_a_run_that_ends_during_a_commit_writes_no_row_twice(tmp_path):
    driver = driver_of(SlowDirectory(tmp_path / "run"))
    driver._pending = [await rows(PLAN[:3])]

    async def lanes():
        await asyncio.sleep(0.15)  # in the middle of the first commit
        driver._pending.append(await rows(PLAN[3:5]))

    driver._run_lanes = lanes
    await driver.run()
    ledger = read_episodes(tmp_path / "run").table["episode_id"].to_pylist()
    assert sorted(ledger) == sorted(episode.id for episode in PLAN[:5])


async def test_a_disk_that_stays_full_ends_the_run_with_its_cause(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "COMMIT_TRIES", 3)
    driver = driver_of(FullDirectory(tmp_path / "run"))
    driver._pending = [await rows(PLAN[:3])]
    driver._run_lanes = lambda: asyncio.sleep(60)
    with pytest.raises(RunFailedError, match=r"No space left on device"):
        await driver.run()
    assert "in memory" in capsys.readouterr().err
