"""Faults in real runs; ``python -m benchmarks.chaos`` plays every fault at every moment."""

import time

import pytest

from benchmarks.faults import Result, Workload, can_mount, finish, prepare, run_with_fault, run_with_faults

pytestmark = pytest.mark.ray

WORKLOAD = Workload(scale=1)
ONE_AFTER_THE_OTHER = {
    "runner": [("engine exits", "early"), ("runner SIGKILL", "middle"), ("one replica 20x slower", "last 1 %")],
    "driver": [("engine hangs", "early"), ("replica SIGKILL", "middle"), ("driver SIGKILL", "last 1 %")],
}


@pytest.fixture(scope="module")
def results() -> list[Result]:
    """Of all runs, the first one without faults."""
    return []


@pytest.fixture(scope="module")
def baseline(results, tmp_path_factory) -> Result:
    run = prepare(tmp_path_factory.mktemp("calm"), WORKLOAD)
    run.start()
    results.append(finish(run, time.monotonic()))
    return results[0]


@pytest.mark.parametrize("faults", ONE_AFTER_THE_OTHER.values(), ids=ONE_AFTER_THE_OTHER)
def test_nothing_is_lost_and_the_scores_are_the_same(tmp_path, baseline, results, faults):
    results.append(run_with_faults(tmp_path / "run", WORKLOAD, faults))
    assert results[-1].summary == baseline.summary
    if ("runner SIGKILL", "middle") in faults:
        log = results[-1].run.log.read_text()
        assert "replacing it" in log and "requeued its" in log, log


def test_a_full_disk_costs_no_episode(tmp_path, baseline, results):
    if not can_mount():
        pytest.skip("this process may not mount a small file system")
    results.append(run_with_fault(tmp_path / "run", WORKLOAD, "disk full", "early"))
    assert results[-1].summary == baseline.summary


def test_a_crashing_prompt_costs_its_own_episodes_only(tmp_path, baseline, results):
    result = run_with_fault(tmp_path / "run", WORKLOAD, "crashing prompt", "middle")
    differing = {name for name, row in result.rows.items() if baseline.rows[name] != row}
    assert differing and all(result.rows[name][3].startswith("EngineKilled") for name in differing)
    assert len(differing) <= 4, "the four runs of one task"
    left = {each.run.run_dir: each.surviving_processes() for each in [*results, result]}
    assert not any(left.values()), "no process of any of these runs is left"
