"""The quick part of chaos; ``python -m benchmarks.chaos`` plays every fault at every moment."""

import time

import pytest

from tests.chaos import Result, Workload, can_mount, finish, prepare, run_with_fault

pytestmark = pytest.mark.ray

WORKLOAD = Workload(scale=1)


@pytest.fixture(scope="module")
def baseline(tmp_path_factory) -> Result:
    run = prepare(tmp_path_factory.mktemp("calm"), WORKLOAD)
    run.start()
    return finish(run, time.monotonic())


@pytest.mark.parametrize(
    ("fault", "moment"),
    [
        ("engine exits", "early"),
        ("engine hangs", "middle"),
        ("replica SIGKILL", "last 1 %"),
        ("one replica 20x slower", "last 1 %"),
        ("disk full", "early"),
    ],
)
def test_nothing_is_lost_and_the_scores_are_the_same(tmp_path, baseline, fault, moment):
    if fault == "disk full" and not can_mount():
        pytest.skip("this process may not mount a small file system")
    result = run_with_fault(tmp_path / "run", WORKLOAD, fault, moment)
    assert result.summary == baseline.summary


def test_a_crashing_prompt_costs_its_own_episodes_only(tmp_path, baseline):
    result = run_with_fault(tmp_path / "run", WORKLOAD, "crashing prompt", "middle")
    differing = {name for name, row in result.rows.items() if baseline.rows[name] != row}
    assert differing and all(result.rows[name][3].startswith("EngineKilled") for name in differing)
    assert len(differing) <= 4, "the four runs of one task"
    assert result.left_over() == [] and baseline.left_over() == [], "and no process of any of these runs is left"
