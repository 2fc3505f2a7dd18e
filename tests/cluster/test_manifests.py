"""The manifests for Kubernetes and SkyPilot, by field names of their schemas; and ``ray job submit`` to a real Ray."""

import importlib.util
import json
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml

from cluster.config.settings import load_settings
from cluster.storage.stored_run import Run
from tests.cluster.conftest import ROOT
from tests.slurm_world import free_ports, until

MANIFESTS = ROOT / "cluster" / "launch" / "manifests"
FIELDS = yaml.safe_load(Path(__file__).with_name("manifest_fields.yaml").read_text())
KINDS = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "number": (int, float),
    "object": dict,
    "integer|string": (int, str),
}


def manifest(name: str):
    return yaml.safe_load((MANIFESTS / name).read_text())


def faults(value, fields, path="") -> list[str]:
    """Fields of a manifest that do not exist, are missing, or have another type."""
    if isinstance(fields, list):
        if not isinstance(value, list):
            return [f"{path}: is no list"]
        return [fault for n, each in enumerate(value) for fault in faults(each, fields[0], f"{path}[{n}]")]
    if isinstance(fields, str):
        return [] if fields == "any" or isinstance(value, KINDS[fields]) else [f"{path}: is no {fields}"]
    known = {name.rstrip("!"): each for name, each in fields.items()}
    found = [f"{path}.{name[:-1]}: missing" for name in fields if name[-1] == "!" and name[:-1] not in value]
    for name, each in value.items():
        found += faults(each, known[name], f"{path}.{name}") if name in known else [f"{path}.{name}: unknown"]
    return found


def test_the_manifests_have_the_fields_of_their_schemas():
    job, cluster, task = manifest("rayjob.yaml"), manifest("raycluster.yaml"), manifest("skypilot.yaml")
    assert faults(job["spec"], FIELDS["RayJob"]) == []
    assert cluster["spec"] == job["spec"]["rayClusterSpec"], "the same pods in both"
    assert [each["apiVersion"] for each in (job, cluster)] == ["ray.io/v1", "ray.io/v1"]
    assert faults(task, FIELDS["SkyPilot"]) == []
    mounted = [(pod["volumes"], pod["containers"][0]["volumeMounts"]) for pod in pods(cluster["spec"])]
    assert all({each["name"] for each in volumes} == {each["name"] for each in mounts} for volumes, mounts in mounted)


def test_a_wrong_field_is_a_fault():
    job = manifest("rayjob.yaml")["spec"]
    job["backoffLimits"] = job.pop("backoffLimit")
    container = pods(job["rayClusterSpec"])[1]["containers"][0]
    container["env"][0] = {"nam": "HF_HOME", "value": 1}
    where = ".rayClusterSpec.workerGroupSpecs[0].template.spec.containers[0].env[0]"
    assert faults(job, FIELDS["RayJob"]) == [
        f"{where}.name: missing", f"{where}.nam: unknown", f"{where}.value: is no string", ".backoffLimits: unknown",
    ]  # fmt: skip


def pods(cluster) -> list:
    return [each["template"]["spec"] for each in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]


def test_the_job_s_command_is_one_that_can_be_planned(tmp_path):
    job = manifest("rayjob.yaml")["spec"]
    program, command, *overrides = shlex.split(job["entrypoint"])
    assert (Path(program).name, command) == ("raycade", "run")
    settings = load_settings([*overrides, "suite.episodes=1", f"run_dir={tmp_path / 'run'}"])
    waits = float(yaml.safe_load(job["runtimeEnvYAML"])["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"])
    drains = pods(job["rayClusterSpec"])[1]["terminationGracePeriodSeconds"]
    assert settings.plan and settings.cluster.grace_seconds < min(waits, drains), "stopped only after the grace time"


def test_each_machine_of_skypilot_plays_its_shard(tmp_path):
    task = manifest("skypilot.yaml")
    stub = tmp_path / "raycade"
    stub.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    stub.chmod(0o755)
    script = task["run"].replace("/opt/raycade/.venv/bin/raycade", str(stub))
    nodes = {"SKYPILOT_NODE_RANK": "1", "SKYPILOT_NUM_NODES": "2"}
    done = subprocess.run(
        ["bash", "-c", script], env={**os.environ, **task["envs"], **nodes}, text=True, capture_output=True
    )
    words = ["suite=kidgym", "model=qwen2_5_vl_7b", "cluster.replicas=fit", "shard=2/2", "run_dir=/runs/kidgym/shard-2"]
    assert done.stdout.split() == ["run", *words], done.stderr


@pytest.fixture
def head():
    """The dashboard's address of a Ray cluster of one node, and the environment of its users."""
    port, client, dashboard, agent = free_ports(4)
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0",
           "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0"}  # fmt: skip
    environment = {**os.environ, **own, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    folder = tempfile.mkdtemp(prefix="rj-", dir="/tmp")  # short, for the paths of Unix sockets
    command = ["ray", "start", "--head", "--block", f"--port={port}", f"--ray-client-server-port={client}", "--num-cpus=4",
               f"--dashboard-port={dashboard}", f"--dashboard-agent-listen-port={agent}", "--min-worker-port=0",
               "--max-worker-port=0", "--node-ip-address=127.0.0.1", f"--temp-dir={folder}",
               "--object-store-memory=200000000", "--disable-usage-stats"]  # fmt: skip
    with Path(folder, "start.log").open("wb") as log:
        ray = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    yield f"http://127.0.0.1:{dashboard}", environment
    ray.send_signal(signal.SIGTERM)
    try:
        ray.wait(60)
    finally:
        if ray.poll() is None:
            os.killpg(ray.pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.ray
@pytest.mark.skipif(not importlib.util.find_spec("aiohttp_cors"), reason="needs Ray's dashboard: raycade[metrics]")
def test_a_submitted_job_can_be_stopped_and_submitted_again(head, tmp_path):
    address, environment = head

    def ray_job(*words: str) -> str:
        command = ["ray", "job", words[0], "--address", address, *words[1:]]
        done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=300)
        return done.stdout + done.stderr

    run_dir = tmp_path / "run"
    games = ["suite=kumo", "suite.domains=[medical]", "suite.difficulties=[easy]", "suite.tasks_per_domain=25",
             "suite.repeats=4", "model=simulated", "model.engine.median_tokens=60", "model.engine.tail=0.3",
             "model.replica.cpus=1", "cluster=ray", "cluster.commit_seconds=0.3", "cluster.grace_seconds=2"]  # fmt: skip
    passed = json.dumps(
        {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "60", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}}
    )
    submit = ["submit", f"--runtime-env-json={passed}", "--submission-id"]
    run = ["--", sys.executable, "-m", "cluster", "run", *games, f"run_dir={run_dir}"]
    assert until(lambda: "No jobs" in ray_job("list") or "[]" in ray_job("list"), 120), ray_job("list")
    ray_job(*submit, "first", "--no-wait", *run, "model.engine.max_num_seqs=1")  # so slow that it is stopped in time
    assert until(lambda: len(list((run_dir / "episodes").glob("part-*"))) > 2, 120), ray_job("logs", "first")
    ray_job("stop", "first")
    assert "stopped early; run the same command again to resume" in ray_job("logs", "first")
    kept = len(Run(run_dir).episodes())
    planned = sorted(episode.id for episode in Run(run_dir).plan)
    assert 0 < kept < len(planned)
    again = ray_job(*submit, "second", *run)
    assert f"{kept} of {len(planned)} episodes done; resuming" in again and "Job 'second' succeeded" in again, again
    assert sorted(Run(run_dir).episodes()["episode_id"].to_pylist()) == planned
