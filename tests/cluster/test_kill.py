"""Real processes, real signals: what a run loses when something dies at a random moment."""

import json
import random
import time
from pathlib import Path

import psutil
import pytest

from cluster.storage.stored_run import Run
from tests.cluster.conftest import descendants, raycade

pytestmark = pytest.mark.ray

GAMES = [
    "suite=kumo",
    "suite.domains=[medical,music]",
    "suite.difficulties=[easy]",
    "suite.tasks_per_domain=20",
    "suite.repeats=3",
    "model=simulated",
    "model.engine.max_num_seqs=8",
    "model.engine.median_tokens=30",
    "baselines=[random]",
    "cluster.commit_seconds=0.2",
]


def wait_until(condition, seconds=120.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def parts(run_dir: Path) -> int:
    return len(list((run_dir / "episodes").glob("*.parquet")))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> dict:
    run_dir = tmp_path_factory.mktemp("uninterrupted") / "run"
    result = raycade("run", *GAMES, f"run_dir={run_dir}")
    assert result.returncode == 0, result.stderr
    return json.loads((run_dir / "summary.json").read_text())


def assert_same_as(uninterrupted: dict, run_dir: Path) -> None:
    planned = [episode.id for episode in Run(run_dir).plan]
    assert sorted(Run(run_dir).episodes()["episode_id"].to_pylist()) == sorted(planned)
    assert json.loads((run_dir / "summary.json").read_text()) == uninterrupted


def test_a_driver_killed_again_and_again_loses_nothing(launch, tmp_path, uninterrupted):
    run_dir, log = tmp_path / "run", tmp_path / "log"
    command = ["run", *GAMES, f"run_dir={run_dir}"]
    chance = random.Random(time.time_ns())
    ended = []
    for _ in range(3):
        before = parts(run_dir)
        process = launch(*command, log=log)
        assert wait_until(lambda: parts(run_dir) > before or process.poll() is not None), log.read_text()
        time.sleep(chance.random() * 2)
        below = descendants(process.pid)
        process.kill()
        process.wait()
        ended += below
    result = raycade(*command)
    assert result.returncode == 0, result.stderr
    assert_same_as(uninterrupted, run_dir)
    # Ray's agents look for their parent every so often: they take up to a minute to follow it
    assert wait_until(lambda: not [process for process in ended if process.is_running()], 120), "nothing is left behind"
    again = raycade(*command)
    assert "nothing to play" in again.stderr and again.returncode == 0


def test_a_killed_replica_and_a_killed_runner_cost_no_episode(launch, tmp_path, uninterrupted):
    run_dir, log = tmp_path / "run", tmp_path / "log"
    process = launch("run", *GAMES, f"run_dir={run_dir}", "cluster.replicas=2", log=log)
    for title in ("Replica", "_RunnerActor"):
        before = parts(run_dir)
        assert wait_until(lambda before=before: parts(run_dir) > before), log.read_text()
        victims = [child for child in descendants(process.pid) if title in " ".join(_command(child))]
        assert victims, f"no process called {title}"
        victims[0].kill()
    assert process.wait(timeout=300) == 0, log.read_text()
    assert "died; replacing it" in log.read_text()
    assert_same_as(uninterrupted, run_dir)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
