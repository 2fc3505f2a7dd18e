"""The quick part of chaos; ``python -m benchmarks.chaos`` plays every disturbance at every moment."""

import time

import pytest

from tests.chaos import Result, Workload, can_mount, disturbed, finish, prepare

pytestmark = pytest.mark.ray

WORKLOAD = Workload(scale=1)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Result:
    run = prepare(tmp_path_factory.mktemp("calm"), WORKLOAD)
    run.start()
    return finish(run, time.monotonic())


@pytest.mark.parametrize(
    ("disturbance", "moment"),
    [
        ("engine exits", "early"),
        ("engine hangs", "middle"),
        ("replica SIGKILL", "last 1 %"),
        ("one replica 20x slower", "last 1 %"),
        ("disk full", "early"),
    ],
)
def test_nothing_is_lost_and_the_scores_are_the_same(tmp_path, undisturbed, disturbance, moment):
    if disturbance == "disk full" and not can_mount():
        pytest.skip("this process may not mount a small file system")
    result = disturbed(tmp_path / "run", WORKLOAD, disturbance, moment)
    assert result.summary == undisturbed.summary


def test_a_crashing_prompt_costs_its_own_episodes_only(tmp_path, undisturbed):
    result = disturbed(tmp_path / "run", WORKLOAD, "crashing prompt", "middle")
    differing = {name for name, row in result.rows.items() if undisturbed.rows[name] != row}
    assert differing and all(result.rows[name][3].startswith("EngineKilled") for name in differing)
    assert len(differing) <= 4, "the four runs of one task"
    assert result.left_over() == [] and undisturbed.left_over() == [], "and no process of any of these runs is left"
