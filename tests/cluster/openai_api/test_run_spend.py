"""The spend cap of a run: over killed replicas and over sessions, with a real Ray."""

import json
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest

from cluster.storage.spending import read_spending
from tests.cluster.conftest import ROOT
from tests.cluster.openai_api.stub import completion
from tests.cluster.openai_api.test_spend import PRICES

pytestmark = pytest.mark.ray

EACH = 0.11
"""What one of the stub's answers costs at these prices."""


def kill_replica() -> int:
    """SIGKILL to the process that holds the engine, of this test's Ray alone: others play on this machine too.

    Returns how many such processes there were.
    """
    killed = 0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "ray::_ReplicaActor" in " ".join(process.cmdline()):
                process.kill()
                killed += 1
    return killed


def test_the_cap_holds_over_sessions_and_killed_replicas(stub, tmp_path, ray_cluster):
    answered = killed = 0

    def answer(handler) -> None:
        nonlocal answered, killed
        answered += 1
        if answered == 25:
            killed = kill_replica()
        handler.send(200, json.dumps(completion(content="Nothing that can be read.")).encode())

    stub.script = [answer]
    prices = [f"model.engine.{name}={value}" for name, value in PRICES.items()]
    command = [
        *(sys.executable, "-m", "cluster", "run", "suite=kumo", "suite.domains=[medical]", "suite.tasks_per_domain=20"),
        *("model=openai", "model.engine.model=stub", f"model.engine.base_url={stub.url}", *prices, *ray_cluster),
        *(
            "model.sampling.max_tokens=50",
            "model.engine.max_num_seqs=2",
            "cluster.health_seconds=0.5",
            f"run_dir={tmp_path / 'run'}",
        ),
    ]
    # The prompts are long and the stub says that they are short: what was in flight counts with the most that it may cost,
    # about a hundred times as much.
    for cap in (20.0, 22.0):
        done = subprocess.run([*command, f"model.engine.spend_cap={cap}"], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 75 and "spend cap" in done.stderr, done.stderr
        lost = 2 * EACH  # what a killed replica had asked last may have been answered, but it could not say so
        assert len(stub.bodies) * EACH <= cap + 2 * EACH + lost, f"{len(stub.bodies)} requests of {EACH} under {cap}"
        assert read_spending(tmp_path / "run").total >= cap - EACH
    assert killed == 1
    assert len(stub.bodies) * EACH > 4, "what was in flight when the replica was killed counts as spent"


def test_the_cap_holds_when_the_driver_is_killed_again_and_again(stub, launch, tmp_path, ray_cluster):
    """Each answer costs 1, of 10 that may be spent; the driver is killed after ten answers, twice."""
    run_dir, log = tmp_path / "run", tmp_path / "log"
    stub.script = [
        lambda handler: handler.send(200, json.dumps(completion(content="Nothing that can be read.")).encode())
    ]
    price = f"{1 / EACH * PRICES['prompt_price']}"
    command = [
        *("run", "suite=kumo", "suite.domains=[medical]", "suite.tasks_per_domain=20", "model=openai"),
        *("model.engine.model=stub", f"model.engine.base_url={stub.url}", "model.engine.max_num_seqs=4", *ray_cluster),
        *(f"model.engine.prompt_price={price}", f"model.engine.completion_price={price}", f"run_dir={run_dir}"),
        *("model.sampling.max_tokens=50", "model.engine.spend_cap=10"),
    ]
    for session in (1, 2):
        process = launch(*command, log=log)
        while process.poll() is None and len(stub.bodies) < 10 * session:
            time.sleep(0.02)
        process.kill()
        process.wait()
        assert len(stub.bodies) <= read_spending(run_dir).total + 1e-6 and len(stub.bodies) <= 11, log.read_text()[
            -2000:
        ]
    assert len(stub.bodies) >= 5
