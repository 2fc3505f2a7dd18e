"""Injects faults into real runs (simulated engines, real Ray, real signals): no episode is lost, no process is left.

``benchmarks.chaos`` plays every fault at every moment; ``tests/cluster/test_chaos.py`` plays some.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

from cluster.storage import stored_run
from evals.suites.kumo import KumoSuite

ROOT = Path(__file__).resolve().parents[1]
DOMAINS = ["medical", "music"]
MOMENTS = {"early": 0.1, "middle": 0.5, "last 1 %": 0.99}
TIMEOUT = 400.0


@dataclass
class Workload:
    """The games of a chaos run; ``scale`` multiplies their number."""

    scale: int = 1
    replicas: int = 4

    def rows_at(self, moment: str) -> int:
        """How many rows the ledger has at a moment."""
        return int(50 * self.scale * 4 * MOMENTS[moment])

    @property
    def overrides(self) -> list[str]:
        """Of the command that plays it."""
        return [
            "suite=kumo",
            f"suite.domains=[{','.join(DOMAINS)}]",
            "suite.difficulties=[easy]",
            f"suite.tasks_per_domain={25 * self.scale}",
            "suite.repeats=4",
            "model=simulated",
            "model.engine.max_num_seqs=4",
            "model.engine.median_tokens=40",
            "model.engine.tail=0.7",
            f"cluster.replicas={self.replicas}",
            "cluster.commit_seconds=0.3",
            "cluster.health_seconds=1",
            "cluster.health_timeout=10",
        ]


@dataclass
class Run:
    """One raycade process, and what is needed to inject faults."""

    command: list[str]
    run_dir: Path
    log: Path
    environment: dict[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None
    children: dict[int, psutil.Process] = field(default_factory=dict)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The latest driver; the run must have been started."""
        assert self._process is not None
        return self._process

    def start(self) -> None:
        """Start the driver, for the first time or again."""
        with self.log.open("ab") as log:
            environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", **self.environment}
            self._process = subprocess.Popen(
                self.command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True, env=environment
            )

    def done(self) -> int:
        """Rows in the ledger, read cheaply and while it grows."""
        return sum(pq.read_metadata(part).num_rows for part in (self.run_dir / "episodes").glob("part-*.parquet"))

    def wait_for(self, rows: int) -> None:
        """Wait until the ledger has so many rows or the driver has ended."""
        end = time.monotonic() + TIMEOUT
        while self.done() < rows and self.process.poll() is None:
            assert time.monotonic() < end, f"no progress: {self.log.read_text()[-3000:]}"
            self.note_children()
            time.sleep(0.05)

    def note_children(self) -> None:
        """Remember the processes that live below the driver now."""
        with suppress(psutil.NoSuchProcess):
            self.children |= {child.pid: child for child in psutil.Process(self.process.pid).children(recursive=True)}

    def victims(self, title: str) -> list[psutil.Process]:
        """Living processes of the run with this title."""
        self.note_children()
        return [child for child in self.children.values() if child.is_running() and title in " ".join(_command(child))]

    def wait(self) -> int:
        """Wait for the driver's end; its exit code."""
        end = time.monotonic() + TIMEOUT
        while self.process.poll() is None:
            assert time.monotonic() < end, f"never finished: {self.log.read_text()[-3000:]}"
            self.note_children()
            time.sleep(0.2)
        return self.process.returncode

    def surviving_processes(self, patience: float = 90.0) -> list[str]:
        """Processes that the run started and that are still alive after a while (Ray's agents take up to a minute)."""
        end = time.monotonic() + patience
        while alive := [child for child in self.children.values() if _lives(child)]:
            if time.monotonic() > end:
                return [" ".join(_command(child)) for child in alive]
            time.sleep(0.5)
        return []


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def prepare(folder: Path, workload: Workload, *overrides: str, **environment: str) -> Run:
    """A run that is not started yet; its fault file is ``folder/fault``."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "cluster",
        "run",
        *workload.overrides,
        f"model.engine.fault_file={folder / 'fault'}",
    ]
    return Run([*command, f"run_dir={folder / 'run'}", *overrides], folder / "run", folder / "log", environment)


@dataclass(frozen=True)
class Result:
    """What a run is compared by."""

    summary: dict[str, Any]
    rows: dict[str, tuple[Any, ...]]
    seconds: float
    """From the first ready replica to the last episode, as recorded by the run."""
    wall: float
    run: Run

    def surviving_processes(self) -> list[str]:
        """See ``Run.surviving_processes``."""
        return self.run.surviving_processes()


def finish(run: Run, started: float) -> Result:
    """Wait for the run's end and read what it left."""
    code = run.wait()
    assert code == 0, f"exit code {code}: {run.log.read_text()[-3000:]}"
    wall = time.monotonic() - started
    ledger = stored_run.Run(run.run_dir).episodes().to_pylist()
    planned = [episode.id for episode in stored_run.Run(run.run_dir).plan]
    assert sorted(row["episode_id"] for row in ledger) == sorted(planned), "each planned episode exactly once"
    timings = [json.loads(line) for line in (run.run_dir / "timings.jsonl").read_text().splitlines()]
    return Result(
        summary=json.loads((run.run_dir / "summary.json").read_text()),
        rows={row["episode_id"]: (row["status"], row["success"], row["steps"], row["error"]) for row in ledger},
        seconds=sum(session["playing_seconds"] for session in timings),
        wall=wall,
        run=run,
    )


# --- faults ----------------------------------------------------------------------------------------------------------


def engine_exits(run: Run) -> None:
    (run.run_dir.parent / "fault").write_text("exit")


def engine_hangs(run: Run) -> None:
    (run.run_dir.parent / "fault").write_text("hang")


def replica_slows_down(run: Run) -> None:
    (run.run_dir.parent / "fault").write_text("slow 20")


def replica_killed(run: Run) -> None:
    run.victims("_ReplicaActor")[0].send_signal(signal.SIGKILL)


def runner_killed(run: Run) -> None:
    run.victims("_RunnerActor")[0].send_signal(signal.SIGKILL)


def driver_killed(run: Run) -> None:
    """SIGKILL, then the same command again."""
    run.note_children()
    run.process.kill()
    run.process.wait()
    run.start()


def disk_fills_up(run: Run) -> None:
    """No byte left on the run's file system for three seconds."""
    filler = run.run_dir.parent / "run" / "filler"
    try:
        with filler.open("wb", buffering=0) as file:
            while True:
                file.write(b"\0" * 65536)
    except OSError:
        pass
    time.sleep(3)
    filler.unlink()


def nothing(run: Run) -> None:
    """The fault is part of how the run was prepared."""


FAULTS: dict[str, Callable[[Run], None]] = {
    "engine exits": engine_exits,
    "engine hangs": engine_hangs,
    "replica SIGKILL": replica_killed,
    "runner SIGKILL": runner_killed,
    "driver SIGKILL": driver_killed,
    "one replica 20x slower": replica_slows_down,
    "disk full": disk_fills_up,
    "node loss": nothing,
    "crashing prompt": nothing,
    "W&B unreachable": nothing,
}
"""All faults; those that do ``nothing`` here need a special setup, see ``run_with_fault``."""


def run_with_fault(folder: Path, workload: Workload, fault: str, moment: str) -> Result:
    """Play the workload with one fault at one moment."""
    rows = workload.rows_at(moment)
    if fault == "W&B unreachable":
        run = prepare(folder, workload, "tracker=wandb", "tracker.mode=online", **UNREACHABLE)
    elif fault == "crashing prompt":
        run = prepare(folder, workload, f"model.engine.poison='{poison(workload, moment)}'")
    elif fault == "node loss":
        with two_nodes(folder) as (address, lose_node):
            run = prepare(
                folder, workload, "cluster=ray", f"cluster.address={address}", f"cluster.replicas={workload.replicas}"
            )
            run.command += ["model.replica.cpus=1"]
            run.environment |= TOKEN
            return _play(run, [(rows, lambda run: lose_node())])
    elif fault == "disk full":
        run = prepare(folder, workload)
        with small_disk(folder / "run"):
            return _play(run, [(rows, disk_fills_up)])
    else:
        return run_with_faults(folder, workload, [(fault, moment)])
    return _play(run, [(rows, nothing)])


def run_with_faults(folder: Path, workload: Workload, faults: Sequence[tuple[str, str]]) -> Result:
    """Play the workload with faults that need no preparation, one after the other, each at its moment."""
    return _play(prepare(folder, workload), [(workload.rows_at(moment), FAULTS[fault]) for fault, moment in faults])


TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
UNREACHABLE = {"WANDB_BASE_URL": "http://127.0.0.1:9", "WANDB_API_KEY": "0" * 40}


def _play(run: Run, faults: Sequence[tuple[int, Callable[[Run], None]]]) -> Result:
    """Play a run, and do each of these to it when its ledger has so many rows."""
    started = time.monotonic()
    run.start()
    for rows, inject in faults:
        run.wait_for(max(rows, 1))
        inject(run)
    return finish(run, started)


def poison(workload: Workload, moment: str) -> str:
    """Text that occurs in one task's prompt only: an early, middle or late one in the order of play."""
    suite = KumoSuite(domains=DOMAINS, difficulties=["easy"], tasks_per_domain=25 * workload.scale, repeats=4)
    episodes = sorted(suite.plan(), key=lambda episode: -episode.prompt_tokens)
    chosen = episodes[min(int(len(episodes) * MOMENTS[moment]), len(episodes) - 1)]
    puzzle = suite._puzzles(chosen.task, chosen.level)[chosen.index]
    names = ", ".join(puzzle.task.action_names)
    openings = [
        "".join(str(part) for each in other.opening(suite.book, suite.max_steps) for part in each.parts)
        for name in DOMAINS
        for other in suite._puzzles(name, "easy")
    ]
    candidates = [
        line
        for line in _text(puzzle, suite).splitlines()
        if sum(line in opening for opening in openings) == 1 and "'" not in line
    ]
    assert candidates, f"no line of the prompt is unique to the task ({names})"
    return max(candidates, key=len)[:200].strip()


def _text(puzzle: Any, suite: KumoSuite) -> str:
    return "\n".join(str(part) for each in puzzle.opening(suite.book, suite.max_steps) for part in each.parts)


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system of 16 MiB at ``folder``; needs the right to mount."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=False, capture_output=True)


def can_mount() -> bool:
    """Whether this process may mount file systems."""
    probe = Path(f"/tmp/raycade-mount-{os.getpid()}")
    try:
        with small_disk(probe):
            return True
    except (subprocess.CalledProcessError, OSError):
        return False
    finally:
        if probe.is_dir():
            probe.rmdir()


@contextmanager
def two_nodes(folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """A Ray cluster of two nodes with four CPUs each; yields its address and a function that kills the second node."""
    port = 20_000 + os.getpid() % 20_000
    address = f"127.0.0.1:{port}"
    ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=4", "--disable-usage-stats"]
    temporary = f"/tmp/rc{os.getpid()}"
    memory = "--object-store-memory=100000000"
    commands = [
        [
            *ray,
            "--head",
            f"--port={port}",
            "--node-ip-address=127.0.0.1",
            "--include-dashboard=false",
            f"--temp-dir={temporary}",
            memory,
        ],
        [*ray, f"--address={address}", "--node-ip-address=127.0.0.1", memory],
    ]
    nodes = []
    try:
        for number, command in enumerate(commands):
            with (folder.parent / f"{folder.name}-node-{number}.log").open("wb") as log:
                environment = {**os.environ, **TOKEN}
                nodes.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment))
            time.sleep(8)
        yield address, lambda: _end(nodes[1])
    finally:
        for node in reversed(nodes):
            _end(node)


def _end(node: subprocess.Popen[bytes]) -> None:
    """Kill a process and all its descendants at once, as when a machine fails."""
    try:
        below = psutil.Process(node.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return
    for process in [psutil.Process(node.pid), *below]:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    node.wait()
