"""What the driver does with the ledger when a run ends, with a directory that is slow or full."""

import asyncio
import dataclasses
import itertools
import random
import time
from types import SimpleNamespace

import pytest

from cluster.config.settings import ClusterSettings
from cluster.driver import driver as module
from cluster.driver.driver import Driver
from cluster.errors import RunFailedError
from cluster.runner.episode_queue import EpisodeQueue
from cluster.runner.messages import Report
from cluster.storage import compaction
from cluster.storage.run_directory import RunDirectory
from cluster.storage.stored_run import Run
from evals.ledger.ledger import open_ledger
from tests.cluster.test_ledger import PLAN, SUITE, rows


class SlowDirectory(RunDirectory):
    def commit(self, rows):
        time.sleep(0.3)
        super().commit(rows)


class FullDirectory(RunDirectory):
    def commit(self, rows):
        raise OSError(28, "No space left on device")


def driver_of(directory: RunDirectory) -> Driver:
    """A driver with nothing to play; its lanes are the test's."""
    nobody = SimpleNamespace(
        to_json=dict,
        log=lambda numbers: None,
        done=0,
        failed=0,
        spent=0.0,
        spent_before=0.0,
        engines={},
        seconds=0.0,
        seconds_left=lambda: 1.0,
    )
    settings = SimpleNamespace(
        suite=SUITE,
        cluster=ClusterSettings(commit_seconds=0.05, runners=1),
        model=SimpleNamespace(name="m", engine={"type": "simulated"}),
        balanced=False,
    )
    directory.claim()
    directory.begin(PLAN, {})
    return Driver(settings, [], directory, stats=nobody, progress=None, watcher=nobody)


async def test_the_stopping_rule_is_looked_at_once_all_episodes_are_committed(tmp_path):
    driver = driver_of(RunDirectory(tmp_path / "run"))
    driver._pending = [await rows(PLAN)]
    state = SimpleNamespace(needed=frozenset())
    committed = []

    def look():
        committed.append(open_ledger(tmp_path / "run").table(["episode_id"]).num_rows)
        return state

    driver._watch = SimpleNamespace(look=look, ranks=None)
    driver._lanes, driver.stats.stopping = [], None
    await driver.run()
    assert driver.stats.stopping is state and committed == [len(PLAN)]


@pytest.mark.slow
async def test_a_run_that_ends_during_a_commit_writes_no_row_twice(tmp_path):
    driver = driver_of(SlowDirectory(tmp_path / "run"))
    driver._pending = [await rows(PLAN[:3])]

    async def lanes():
        await asyncio.sleep(0.15)  # in the middle of the first commit
        driver._pending.append(await rows(PLAN[3:5]))

    driver._run_lanes = lanes
    await driver.run()
    ledger = Run(tmp_path / "run").episodes()["episode_id"].to_pylist()
    assert sorted(ledger) == sorted(episode.id for episode in PLAN[:5])


@pytest.mark.parametrize("tries", [1, 3])
async def test_a_ledger_that_cannot_be_written_is_tried_so_often_and_no_more(tries, tmp_path, capsys):
    driver, tried = driver_of(FullDirectory(tmp_path / "run")), []

    async def commit():
        tried.append(1)
        raise OSError("full")

    driver._pending, driver._commit = [await rows(PLAN[:3])], commit
    driver.settings = SimpleNamespace(cluster=SimpleNamespace(commit_seconds=0))
    with pytest.raises(RunFailedError, match="3 finished episodes"):
        await driver._commit_all(tries)
    assert len(tried) == tries


async def test_a_disk_that_stays_full_ends_the_run_with_its_cause(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "COMMIT_TRIES", 3)
    driver = driver_of(FullDirectory(tmp_path / "run"))
    driver._pending = [await rows(PLAN[:3])]
    driver._run_lanes = lambda: asyncio.sleep(60)
    with pytest.raises(RunFailedError, match=r"3 finished episodes are in memory only: .*No space left on device"):
        await driver.run()
    assert "in memory" in capsys.readouterr().err


async def test_commits_come_the_rarer_the_larger_the_run_within_bounds(tmp_path):
    driver = driver_of(RunDirectory(tmp_path / "run"))
    intervals = []
    for done, failed in ((0, 0), (99_000, 1_000), (200_000, 100_000), (10**9, 0)):
        driver.stats.done, driver.stats.failed = done, failed
        intervals.append(round(driver._commit_interval() / 0.05, 6))
    assert intervals == [1, 1, 3, 5]


@pytest.mark.slow
async def test_parts_are_merged_while_the_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(compaction, "FAN", 3)
    driver = driver_of(RunDirectory(tmp_path / "run"))

    async def lanes():
        for episode in PLAN[:6]:
            driver._pending.append(await rows([episode]))
            while driver._pending:
                await asyncio.sleep(0.01)
        while not open_ledger(tmp_path / "run").replaced:
            await asyncio.sleep(0.01)

    driver._run_lanes = lanes
    await asyncio.wait_for(driver.run(), 20)
    ledger = Run(tmp_path / "run").episodes()["episode_id"].to_pylist()
    assert sorted(ledger) == sorted(episode.id for episode in PLAN[:6])


@pytest.mark.slow
async def test_parts_that_cannot_be_merged_stay_and_the_run_goes_on(tmp_path, capsys):
    class Unmergeable(RunDirectory):
        def compact(self, everything=False):
            raise OSError(28, "No space left on device")

    driver = driver_of(Unmergeable(tmp_path / "run"))
    driver._pending = [await rows(PLAN[:3])]
    driver._run_lanes = lambda: asyncio.sleep(0.3)
    await driver.run()
    assert len(Run(tmp_path / "run").episodes()) == 3
    assert "No space left" in capsys.readouterr().err


class Mortal:
    """A runner that plays one episode, or none, and dies with the next ones in its hands."""

    def __init__(self, plays: bool) -> None:
        self.plays, self.taken = plays, []

    async def exchange(self, assignment):
        self.taken += assignment.episodes
        if not self.plays:
            if self.taken:
                raise TimeoutError("gone")
            return Report(None, room=3, running=0)
        finished = await rows(self.taken[:1]) if self.taken else None
        self.plays = finished is None
        return Report(finished, room=3, running=len(self.taken))

    def end(self):
        pass


@pytest.mark.parametrize("seed", range(12))
async def test_only_deaths_in_a_row_without_an_episode_end_the_run_and_no_episode_is_lost(seed, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "RUNNER_DEATHS", 3)
    drawn = random.Random(seed)
    driver, lives = driver_of(RunDirectory(tmp_path / "run")), []
    driver.stats = Anything()
    driver.progress = Anything()

    def create(lane, name, turn):
        lives.append(drawn.random() < 0.4 + 0.5 * (seed % 2))
        return Mortal(lives[-1])

    driver._create_runner = create
    lane = dataclasses.replace(driver._lanes[1], queue=EpisodeQueue(PLAN))
    try:
        await asyncio.wait_for(driver._run_lane(lane), 20)
    except RunFailedError:
        # A life that plays and then dies is a death, too: the count begins anew with it.
        in_a_row = [sum(1 for _ in life) for plays, life in itertools.groupby(lives) if not plays]
        assert in_a_row[-1] == 3 - any(lives) and lives[-1] is False
    else:
        played = [row for table in driver._pending for row in table["episode_id"].to_pylist()]
        assert sorted(played) == sorted(episode.id for episode in PLAN)


class Anything:
    """Takes note of nothing."""

    replicas_up = 0

    def __getattr__(self, name):
        return lambda *given, **more: None


async def test_no_episode_is_given_out_while_too_many_rows_wait_for_a_commit(tmp_path, monkeypatch):
    driver = driver_of(RunDirectory(tmp_path / "run"))
    table = await rows(PLAN[:3])
    monkeypatch.setattr(module, "PENDING_BYTES", 2 * table.nbytes)
    driver._pending = [table, table, table]
    assert driver._bounded(7) == 0
    driver._pending = [table, table]
    assert driver._bounded(7) == 7


@pytest.mark.parametrize(("signals", "seconds"), [(1, 20.0), (2, 0.0)])
async def test_the_grace_time_ends_with_a_second_signal_and_what_it_does_not_finish_is_counted(
    signals, seconds, tmp_path, monkeypatch
):
    driver, said, now = driver_of(RunDirectory(tmp_path / "run")), [], 0.0

    async def sleep(slept):
        nonlocal now
        now += slept

    driver.progress = SimpleNamespace(say=said.append)
    queue = EpisodeQueue(PLAN)
    driver._lanes = [dataclasses.replace(driver._lanes[0], queue=queue)]
    queue.take(3)
    queue.finished(1)
    monkeypatch.setattr("cluster.stop_signals.received", [15] * signals)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=sleep))
    await driver._end_after_grace()
    assert seconds <= now < seconds + 1 and driver.settings.cluster.grace_seconds == 20
    assert said[-1] == "stopping: 2 running episodes were not finished; they will be played again"


async def test_episodes_of_a_dead_runner_are_taken_out_of_the_live_log_and_committed_ones_too(tmp_path, monkeypatch):
    gone = []
    driver = driver_of(RunDirectory(tmp_path / "run"))
    monkeypatch.setattr(
        driver, "_live", SimpleNamespace(gone=lambda episodes: gone.append([*episodes]), close=lambda: None)
    )
    driver.stats.runner_ended = lambda name: None
    lane = module._Lane("lane", EpisodeQueue(PLAN[:3], None), None, 1)

    async def dies(lane, name, handle, held):
        held.update({episode.id: episode for episode in PLAN[:2]})
        lane.queue.draining = True
        raise TimeoutError
        yield

    monkeypatch.setattr(driver, "_exchange", dies)
    monkeypatch.setattr(driver, "_create_runner", lambda *given: SimpleNamespace(end=lambda: None))
    await driver._keep_runner(lane, 0)
    driver._pending = [await rows(PLAN[3:5])]
    await driver._commit_all(1)
    assert gone == [[episode.id for episode in PLAN[:2]], [episode.id for episode in PLAN[3:5]]]
