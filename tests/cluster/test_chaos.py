"""Faults in real runs; ``python -m benchmarks.chaos`` plays every fault at every moment."""

import time
from contextlib import nullcontext

import pytest

from benchmarks.faults import Result, Workload, can_mount, finish, prepare, run_with_fault, run_with_faults, small_disk

pytestmark = pytest.mark.ray

WORKLOAD = Workload(scale=1)
ONE_AFTER_THE_OTHER = {
    "runner": [("engine exits", "early"), ("runner SIGKILL", "middle"), ("one replica 20x slower", "last 1 %")],
    "driver": [
        ("engine hangs", "early"),
        ("disk full", "middle"),
        ("replica SIGKILL", "middle"),
        ("driver SIGKILL", "last 1 %"),
    ],
}


@pytest.fixture(scope="module")
def results() -> list[Result]:
    """Of all runs, the first one without faults and without Ray."""
    return []


@pytest.fixture(scope="module")
def baseline(results, tmp_path_factory) -> Result:
    alone = ["cluster=inline", "cluster.replicas=1", "model.engine.max_num_seqs=200"]
    run = prepare(tmp_path_factory.mktemp("calm"), WORKLOAD, *alone)
    run.start()
    results.append(finish(run, time.monotonic()))
    return results[0]


@pytest.mark.parametrize("faults", ONE_AFTER_THE_OTHER.values(), ids=ONE_AFTER_THE_OTHER)
def test_nothing_is_lost_and_the_scores_are_the_same(tmp_path, baseline, results, faults):
    """A disk is filled only where this process may mount one of its own."""
    own_disk = ("disk full", "middle") in faults and can_mount()
    possible = [fault for fault in faults if own_disk or fault != ("disk full", "middle")]
    with small_disk(tmp_path / "run" / "run") if own_disk else nullcontext():
        results.append(run_with_faults(tmp_path / "run", WORKLOAD, possible))
    assert results[-1].summary == baseline.summary
    if ("runner SIGKILL", "middle") in faults:
        log = results[-1].run.log.read_text()
        assert "replacing it" in log and "requeued its" in log, log


def test_a_crashing_prompt_costs_its_own_episodes_only(tmp_path, baseline, results):
    result = run_with_fault(tmp_path / "run", WORKLOAD, "crashing prompt", "middle")
    differing = {name for name, row in result.rows.items() if baseline.rows[name] != row}
    assert differing and all(result.rows[name][3].startswith("EngineKilled") for name in differing)
    assert len(differing) <= 4, "the four runs of one task"
    left = {each.run.run_dir: each.surviving_processes() for each in [*results, result]}
    assert not any(left.values()), "no process of any of these runs is left"
