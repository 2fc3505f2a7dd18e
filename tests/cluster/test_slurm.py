"""A real Slurm of two nodes: runs are submitted, killed, requeued, cancelled, and swept over models."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from submitit.slurm.slurm import SlurmJob

from benchmarks.slurm_preemption import preempt
from cluster.commands.sweep import _is_on_slurm
from cluster.errors import UserError
from cluster.launch.slurm_queue import QueueWatcher, watch_the_queue
from cluster.launch.start_nodes import (
    NODE_LABEL,
    await_listener,
    await_nodes,
    free_ports,
    listens,
)
from cluster.storage.stored_run import Run
from tests import slurm_world
from tests.cluster.conftest import ROOT, raycade

on_slurm = [
    pytest.mark.ray,
    pytest.mark.skipif(bool(slurm_world.why_not()), reason=slurm_world.why_not() or "Slurm can be started"),
]
SUBMIT = str(ROOT / "cluster" / "launch" / "slurm.sh")
"""What ``./launch.sh slurm`` runs once it has seen that raycade is installed."""
OPTIONS = ["--nodes=2", "--cpus-per-task=2"]
GAMES = [
    "suite=kumo",
    "suite.domains=[medical]",
    "suite.difficulties=[easy]",
    "suite.tasks_per_domain=25",
    "suite.repeats=4",
    "model=simulated",
    "model.engine.max_num_seqs=3",
    "model.engine.median_tokens=60",
    "model.engine.tail=0.3",
]
COMMITS = ["cluster.commit_seconds=0.3", "cluster.grace_seconds=1"]
CLUSTER = ["model.replica.cpus=1", *COMMITS]
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with slurm_world.slurm(tmp_path_factory.mktemp("slurm")) as started:
        yield started


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> dict:
    run_dir = tmp_path_factory.mktemp("uninterrupted") / "run"
    result = raycade("run", *GAMES, "cluster=inline", "model.engine.max_num_seqs=100", f"run_dir={run_dir}")
    assert result.returncode == 0, result.stderr
    return json.loads((run_dir / "summary.json").read_text())


class Job:
    """One submitted run."""

    def __init__(self, world: slurm_world.SlurmWorld, run_dir: Path, *overrides: str, **environment: str) -> None:
        self.world = world
        self.run_dir = run_dir
        submitted = subprocess.run(
            [SUBMIT, "submit", *OPTIONS, "--", *GAMES, *CLUSTER, f"run_dir={run_dir}", *overrides],
            env={**world.environment, **environment},
            cwd=world.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert submitted.returncode == 0, submitted.stderr
        self.number = submitted.stderr.split("submitted job ")[1].split(".")[0]
        self.log_file = world.folder / f"raycade-{self.number}.log"
        assert str(self.log_file) in submitted.stderr

    @property
    def log(self) -> str:
        return self.log_file.read_text() if self.log_file.exists() else ""

    def rows(self) -> int:
        return sum(pq.read_metadata(part).num_rows for part in (self.run_dir / "episodes").glob("part-*.parquet"))

    def until(self, condition, what: str, seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while not condition():
            state = self.world.job(self.number)
            assert time.monotonic() < end, f"{what}: not yet. Job: {state}\n{self.log}"
            time.sleep(0.1)

    def until_played(self, rows: int) -> None:
        self.until(lambda: self.rows() >= rows, f"{rows} rows")

    def until_ended(self) -> dict[str, str]:
        self.until(lambda: self.world.job(self.number)["JobState"] in ENDED, "the end")
        return self.world.job(self.number)

    def temporary(self) -> set[Path]:
        return set(Path("/tmp").glob(f"raycade-{self.number}.*"))

    def assert_nothing_is_left(self, but: frozenset[Path] = frozenset()) -> None:
        self.until(lambda: not self.world.processes(), f"no process left {self.world.processes()}", 60)
        assert self.temporary() == but


@pytest.mark.usefixtures("world")
class TestOnSlurm:
    pytestmark = on_slurm

    def test_a_lost_node_requeues_the_run_and_the_cap_on_requeues_holds(self, world, tmp_path):
        job = Job(world, tmp_path / "run", RAYCADE_MAX_REQUEUES="1")
        job.until_played(20)
        assert {slurm_world.node_of(each) for each in world.running("_ReplicaActor")} == {"n1", "n2"}, "on both nodes"
        token = Path(f"/tmp/raycade-{job.number}.0/token")
        assert token.stat().st_mode & 0o777 == 0o600
        secret = token.read_text()
        assert Path(f"/tmp/raycade-{job.number}.0.0").stat().st_mode & 0o777 == 0o700, (
            "closed to others, whatever Ray does"
        )
        world.lose("n2")
        on_lost_node = frozenset({Path(f"/tmp/raycade-{job.number}.0.1")})
        job.until(lambda: world.job(job.number)["JobState"] == "PENDING", "back in the queue")
        before = job.rows()
        world.mend("n2")
        job.until_played(before + 10)
        world.run("scancel", "--batch", "--signal=USR1", job.number)  # as Slurm does some time before the job's end
        state = job.until_ended()
        assert (state["JobState"], state["ExitCode"], state["Restarts"]) == ("FAILED", "75:0", "1"), job.log
        assert "stopped early; run the same command again to resume" in job.log
        assert "RAYCADE_MAX_REQUEUES=1" in job.log and job.log.count("2 Ray nodes are ready") == 2
        ledger = Run(job.run_dir).episodes()["episode_id"].to_pylist()
        assert before < len(ledger) == len(set(ledger))
        assert len(secret) == 64 and secret not in job.log
        job.assert_nothing_is_left(but=on_lost_node)
        shutil.rmtree(*on_lost_node)

    def test_a_canceled_job_leaves_only_its_ledger(self, world, tmp_path):
        job = Job(world, tmp_path / "run")
        job.until_played(10)
        world.run("scancel", job.number)
        assert job.until_ended()["JobState"] == "CANCELLED"
        job.assert_nothing_is_left()
        assert len(Run(job.run_dir).episodes()) >= 10
        assert world.job(job.number)["JobState"] == "CANCELLED" and "requeueing" not in job.log

    def test_an_array_plays_a_shard_in_each_job_and_one_whose_driver_is_killed_is_requeued_and_leaves_the_others_alone(
        self, world, tmp_path, uninterrupted
    ):
        run_dir = tmp_path / "run"
        command = [SUBMIT, "submit", "--array=1-2", "--cpus-per-task=2", "--", *GAMES, *CLUSTER, f"run_dir={run_dir}"]
        submitted = subprocess.run(
            command, env=world.environment, cwd=world.folder, capture_output=True, text=True, check=True
        )
        number = submitted.stderr.split("submitted job ")[1].split(",")[0]
        log = world.folder / f"raycade-{number}_2.log"
        parts = lambda: list(run_dir.glob("shard-2/episodes/part-*.parquet"))  # noqa: E731
        assert slurm_world.until(parts, 120), log.read_text()
        [driver] = world.running("-m cluster run ", "shard=2/2")
        driver.kill()
        ended = lambda: all(world.job(f"{number}_{task}")["JobState"] in ENDED for task in (1, 2))  # noqa: E731
        assert slurm_world.until(ended, 180), log.read_text()
        states = {task: world.job(f"{number}_{task}") for task in (1, 2)}
        assert [state["JobState"] for state in states.values()] == ["COMPLETED", "COMPLETED"], log.read_text()
        # Slurm calls the last job of an array by the number of the whole.
        assert (states[1]["Restarts"], states[2]["Restarts"]) == ("0", "1"), log.read_text()
        assert "not done (exit code 137); requeueing the job" in log.read_text()
        merged = raycade("merge", str(tmp_path / "merged"), *map(str, sorted(run_dir.glob("shard-*"))))
        assert merged.returncode == 0, merged.stderr
        assert json.loads((tmp_path / "merged" / "summary.json").read_text()) == uninterrupted

    @pytest.mark.skipif(not slurm_world.has_cgroups(), reason="needs cgroups (version 1, freezer) that can be written")
    def test_a_preempted_run_finishes_its_running_episodes_within_the_grace_time(self, world):
        outcome = preempt(world, "requeue_grace")
        assert outcome.requeued and outcome.sound and outcome.unfinished == 0, outcome.log

    def test_the_doctor_looks_at_every_node_of_a_job_by_its_name_in_slurm(self, world):
        doctor = [sys.executable, "-m", "cluster", "doctor", "--quick", "suite=kumo", "model=simulated"]
        done = subprocess.run(
            ["salloc", "--nodes=2", *doctor],
            env=world.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout
        assert "\nn1: " in done.stdout and "\nn2: " in done.stdout, "both are on a host of another name"

    def test_a_node_that_does_not_come_up_is_named(self, world, tmp_path):
        [number] = re.findall(r"NEXT_JOB_ID\s*=\s*(\d+)", world.run("scontrol", "show", "config"))
        in_the_way = Path(f"/tmp/raycade-{number}.0.1")
        in_the_way.write_text("the second node cannot make its temporary directory")
        try:
            job = Job(world, tmp_path / "run", RAYCADE_READY_SECONDS="20")
            assert job.number == number
            state = job.until_ended()
        finally:
            in_the_way.unlink()
        assert (state["JobState"], state["ExitCode"], state["Restarts"]) == ("FAILED", "1:0", "0")
        assert "have not joined Ray: n2." in job.log or "have not joined Ray: n1, n2." in job.log, job.log
        job.assert_nothing_is_left()

    def test_multirun_notices_that_a_job_was_cancelled_though_slurm_keeps_no_accounts(self, world, tmp_path):
        command = [sys.executable, "-m", "cluster", "run", "-m", "hydra/launcher=slurm", *GAMES]
        with (tmp_path / "log").open("wb") as log:
            sweep = subprocess.Popen(
                [*command, "hydra.launcher.cpus_per_task=1", "+hydra.launcher.additional_parameters.begin=now+1hour"],
                env={**world.environment, "PYTHONPATH": str(ROOT)},
                cwd=tmp_path,
                stdout=log,
                stderr=log,
            )
        queued = lambda: world.run("squeue", "--noheader", "--states=PENDING", "--format=%F").split()  # noqa: E731
        assert slurm_world.until(lambda: queued() or sweep.poll() is not None, 180) and sweep.poll() is None
        world.run("scancel", *queued())
        assert sweep.wait(timeout=120) == 1, (tmp_path / "log").read_text()
        said = (tmp_path / "log").read_text()
        assert "state: CANCELLED" in said and "other jobs of this multirun go on" in said and "sacct" not in said, said

    def test_multirun_resumes_after_a_time_limit_and_reports_each_jobs_exit_code(self, world, tmp_path):
        folder = f"hydra.sweep.dir={tmp_path}/sweep"
        command = [sys.executable, "-P", "-m", "cluster", "run", "-m", "hydra/launcher=slurm", folder]
        (tmp_path / "yaml.py").write_text("raise SystemExit('imported from the folder one stands in')")
        games = [override for override in GAMES if "repeats" not in override]
        with (tmp_path / "log").open("wb") as log:
            sweep = subprocess.Popen(
                [
                    *command,
                    *games,
                    "suite.repeats=4,9999999",
                    "hydra.launcher.cpus_per_task=2",
                    "cluster.replicas=4",
                    *COMMITS,
                ],
                env={**world.environment, "PYTHONPATH": str(ROOT)},
                cwd=tmp_path,
                stdout=log,
                stderr=log,
            )
        parts = lambda: list(tmp_path.glob("runs/*/episodes/*.parquet"))  # noqa: E731
        assert slurm_world.until(lambda: parts() or sweep.poll() is not None, 180) and sweep.poll() is None
        [job] = world.run("squeue", "--noheader", "--states=RUNNING", "--format=%F_%K").split()
        world.run("scancel", "--signal=USR2", job)  # what submitit asks Slurm to send some time before the job's end
        assert sweep.wait(timeout=120) == 2, (tmp_path / "log").read_text()
        log = (tmp_path / "log").read_text()
        assert "suite.repeats=4: exit code 0: runs/kumo-simulated-" in log
        assert "suite.repeats=9999999: exit code 2: suite: " in log
        said = "".join(path.read_text() for path in tmp_path.glob("sweep/.submitit/*/*_log.out"))
        assert "this job is preempted" in said and "episodes done; resuming" in said, said
        [run_dir] = {part.parents[1] for part in parts()}
        ledger = Run(run_dir).episodes()["episode_id"].to_pylist()
        assert len(ledger) == len(set(ledger)) == 100


def test_a_submission_without_the_double_dash_or_with_bad_overrides_is_refused(tmp_path):
    for arguments, told in (
        (["--nodes=2"], "missing -- between"),
        (["--", "-m", "model=a,b"], "hydra/launcher=slurm"),
        (["--array=1,3", "--", "run_dir=x"], "--array=1,3: must be --array=1-N"),
        (["-a", "1-4", "--", "run_dir=x"], "-a: must be --array=1-N"),
        (["--array=1-4%2", "--", "suite=kumo"], "name the run directory"),
        (["--array=1-4", "--", "run_dir=x", "shard=1/4"], "leave out shard="),
        (["--array=1-4", "--", "run_dir="], "run_dir= names no run directory"),
        (["--array=1-4", "--", "run_dir=Null"], "run_dir=Null names no run directory"),
    ):
        done = subprocess.run([SUBMIT, "submit", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 2 and told in done.stderr


@pytest.mark.parametrize("restarts", range(4))
def test_a_job_is_requeued_as_often_as_allowed_and_no_more(restarts, tmp_path):
    """A site's file that fails ends those that may go on."""
    (setup := tmp_path / "setup").write_text("return 9")
    job = {"JOB_ID": "7", "JOB_NUM_NODES": "1", "JOB_NODELIST": "here", "RESTART_COUNT": str(restarts)}
    environment = {f"SLURM_{name}": value for name, value in job.items()}
    environment["PATH"] = os.environ["PATH"]
    settings = ["RAYCADE_MAX_REQUEUES=2", f"RAYCADE_SETUP={setup}"]
    done = subprocess.run(
        [SUBMIT, "job", str(ROOT), *settings, "--"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    goes_on = restarts <= 2
    assert done.returncode == (2 if goes_on else 75), done.stderr
    assert ("exit code 9" in done.stderr) == goes_on != ("not done after 3 requeues" in done.stderr)


@pytest.mark.slow
def test_a_dry_run_shows_the_command_and_submits_nothing(tmp_path):
    setup = tmp_path / "setup.sh"
    setup.touch()
    options = ["--dry-run", "--qos=long", f"--setup={setup}", "--node-cache=/scratch/me"]
    command = [SUBMIT, "submit", *options, "--", *GAMES[:4], "model=oracle"]
    environment = {**os.environ, "RAYCADE_MAX_REQUEUES": "3"}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    last = done.stdout.splitlines()[-1]
    settings = f"RAYCADE_SETUP={setup} RAYCADE_NODE_CACHE=/scratch/me RAYCADE_MAX_REQUEUES=3"
    assert last.startswith("sbatch ") and " --qos=long " in last
    assert f" job {ROOT} {settings} -- suite=kumo " in last, "as words: --export=NONE keeps the environment back"
    assert "episodes" in done.stdout and "no --mem" in done.stderr
    array = [*command[:2], "--dry-run", "--array=1-2", *command[-6:], "run_dir='my runs'"]
    refused = subprocess.run(array, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "shard=1/2" in refused.stderr, "no shard could be played in 'my runs'/shard-1"
    for wrong in ("--setup=missing.sh", "--node-cache=relative"):
        refused = subprocess.run([*command[:2], wrong, "--"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert refused.returncode == 2 and wrong in refused.stderr


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("RAYCADE_MAX_REQUEUES=abc", "must be a whole number"),
        ("RAYCADE_MAX_REQUEUES=-1", "must be a whole number"),
        ("RAYCADE_READY_SECONDS=1.5", "must be a whole number"),
        ("RAYCADE_SETUP=/no/such/file", "there is no such file"),
        ("RAYCADE_NODE_CACHE=relative", "must be an absolute path"),
    ],
)
def test_a_wrong_setting_of_the_environment_is_refused_when_a_job_is_submitted(tmp_path, wrong, said):
    name, _, value = wrong.partition("=")
    command = [SUBMIT, "submit", "--dry-run", "--", *GAMES[:4], "model=oracle"]
    environment = {**os.environ, name: value}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and f"{wrong}: {said}" in done.stderr


@pytest.mark.slow
def test_multirun_on_this_machine_plays_what_it_can(tmp_path):
    games = ["suite=kumo", "suite.domains=[medical]", "suite.difficulties=[easy]", "suite.tasks_per_domain=1"]
    done = raycade("run", "-m", *games, "model=oracle", "suite.repeats=9999999,1", f"run_dir={tmp_path}/run",
                   f"hydra.sweep.dir={tmp_path}/sweep")  # fmt: skip
    assert done.returncode == 2
    assert "suite.repeats=9999999: exit code 2" in done.stderr and "suite.repeats=1: exit code 0" in done.stderr
    assert len(Run(tmp_path / "run").episodes()) == 1


def test_the_queue_tells_which_jobs_have_ended():
    watcher = QueueWatcher()
    for job in ("41_0", "41_1", "41_2", "41_3", "41_4", "7"):
        watcher.register_job(job)
    command = watcher._make_command()
    assert command[0] == "squeue" and {"--noheader", "--array", "--states=all"} < {*command}
    lines = b"41_0|RUNNING\n41_1|COMPLETED\n41_2|CONFIGURING\n41_3|CANCELLED\n 7|PENDING\nno job\n8|FAILED\n"
    watcher._info_dict = watcher.read_info(lines)
    told = {job: (watcher.get_state(job, "cache"), watcher.is_done(job, "cache")) for job in watcher._registered}
    assert told == {
        "41_0": ("RUNNING", False),
        "41_1": ("COMPLETED", True),
        "41_2": ("RUNNING", False),
        "41_3": ("CANCELLED", True),
        "41_4": ("GONE", True),
        "7": ("RUNNING", False),
    }
    watcher._finished = set(watcher._registered)
    assert watcher._make_command() is None, "nothing is left to ask for"


@pytest.mark.parametrize(("code", "asks_the_queue"), [(0, False), (1, True), (None, True)])
def test_the_queue_is_asked_where_slurm_keeps_no_accounts(code, asks_the_queue, tmp_path, monkeypatch):
    if code is not None:
        (tmp_path / "sacct").write_text(f"#!/bin/sh\nexit {code}\n")
        (tmp_path / "sacct").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    usual = SlurmJob.watcher
    monkeypatch.setattr(SlurmJob, "watcher", usual)
    watch_the_queue()
    assert (
        isinstance(SlurmJob.watcher, QueueWatcher) is asks_the_queue
        and (SlurmJob.watcher is usual) is not asks_the_queue
    )


@pytest.mark.parametrize(
    ("overrides", "is_on_slurm"),
    [
        (["hydra/launcher=slurm", "a=1"], True),
        (["hydra/launcher=submitit_slurm"], True),
        (["hydra/launcher=submitit_local"], False),
        (["hydra/launcher=basic", "name=slurm"], False),
        (["hydra.launcher.partition=slurm"], False),
        ([], False),
    ],
)
def test_jobs_are_on_slurm_where_the_launcher_is(overrides, is_on_slurm):
    assert _is_on_slurm(overrides) is is_on_slurm


@pytest.mark.slow
def test_a_port_in_use_is_skipped_and_accepts_connections():
    job = 41_000
    before = free_ports(job, 2)
    with socket.create_server(("127.0.0.1", before[0])):
        assert listens(f"127.0.0.1:{before[0]}")
        assert free_ports(job, 2)[0] == before[1]
    assert not listens(f"127.0.0.1:{before[0]}")
    with pytest.raises(UserError, match=r"no answer after 0\.1 s"):
        await_listener(f"127.0.0.1:{before[0]}", 0.1)


def test_a_node_that_died_while_it_started_has_not_joined(monkeypatch, capsys):
    nodes = [{"Labels": {NODE_LABEL: name}, "Alive": name != "died"} for name in ("first", "died")]
    fake = SimpleNamespace(init=lambda *given, **more: None, nodes=lambda: [*nodes, {"Labels": {}, "Alive": True}])
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setattr("cluster.launch.start_nodes.listens", lambda address: True)
    await_nodes("host:1", 0.0, ["first"])
    assert "1 Ray nodes are ready" in capsys.readouterr().out
    with pytest.raises(UserError, match="1 of 2 nodes have not joined Ray: died"):
        await_nodes("host:1", 0.0, ["first", "died"])
