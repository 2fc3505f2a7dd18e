"""Starts that go wrong on purpose, with real processes: the run plays on, or ends where it must, and names the cause.

GPUs are slots that Ray was told of; everything else is real: its actors, vLLM on the CPU, its workers, ports, a hub.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from cluster.engines.tiny_model import ensure_tiny_model
from cluster.errors import BAD_INPUT
from cluster.storage.stored_run import Run
from tests.cluster.conftest import EASY, ROOT
from tests.stub_hub import stub_hub

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]

SECONDS = 840
"""For one run, on a busy machine."""
HUB_SECONDS = 60.0
"""How long the hub answers 429."""
ENGINES = '''
"""Engines whose start fails as a GPU's or a site's would make it fail."""

import asyncio, json, os
from pathlib import Path
from types import SimpleNamespace

import psutil

from cluster.engines import torch_compat
from cluster.engines.base import EngineError
from cluster.engines.simulated import SimulatedEngine
from cluster.engines.vllm import VLLMEngine

HERE = Path(__file__).parent


class OneBroken(SimulatedEngine):
    async def start(self):
        if os.environ["CUDA_VISIBLE_DEVICES"] == "3":
            print("NVRM: Xid 79, GPU has fallen off the bus")
            raise RuntimeError("CUDA error: unspecified launch failure")
        await super().start()

    async def complete(self, request):
        while not (HERE / "go").exists():
            await asyncio.sleep(0.1)
        return await super().complete(request)


class TakenPort(SimulatedEngine):
    """Opens the store at which vLLM's workers meet when they are on several nodes, on a port that was free before."""

    async def start(self):
        torch_compat.apply()
        from torch.distributed import DistNetworkError, TCPStore

        try:
            TCPStore("127.0.0.1", int((HERE / "port").read_text()), is_master=True)
        except DistNetworkError as error:
            raise EngineError(f"vLLM cannot start a model: {error}") from error
        await super().start()


class LateMemory(VLLMEngine):
    async def start(self):
        torch_compat.apply()  # as the engine does before it imports vLLM
        from vllm.v1.worker.utils import request_memory

        job = json.loads((HERE / "job_before.json").read_text())
        used = job["bytes"] if psutil.pid_exists(job["pid"]) else 0
        device = SimpleNamespace(device_="cuda:0", total_memory=80 * 2**30, free_memory=80 * 2**30 - used)
        try:
            request_memory(device, SimpleNamespace(gpu_memory_utilization=0.9))
        except ValueError as error:
            raise EngineError(f"vLLM cannot start {self.model}: {error}") from error
        await super().start()
'''


class Site:
    """A folder with plug-in engines, and runs from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run_dir = folder / "run"
        self.log = folder / "output.txt"
        self.environment = {
            **os.environ,
            "RAYCADE_PLUGINS": str(folder),
            "PYTHONPATH": str(ROOT),
            "VLLM_CPU_OMP_THREADS_BIND": "0|1",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_AUTH_MODE": "token",
        }
        (folder / "bad_engines.py").write_text(ENGINES)
        names = {"one_broken": "OneBroken", "taken_port": "TakenPort", "late_memory": "LateMemory"}
        lines = [f'{name} = "bad_engines:{kind}"\n' for name, kind in names.items()]
        (folder / "plugins.toml").write_text('["raycade.engines"]\n' + "".join(lines))

    @contextlib.contextmanager
    def running(self, *overrides: str, games: int = 4) -> Iterator[subprocess.Popen]:
        """A run, which is ended with all its processes when the block ends."""
        size = [f"suite.tasks_per_domain={games}", "suite.repeats=1", "baselines=[]", f"run_dir={self.run_dir}"]
        command = [sys.executable, "-m", "cluster", "run", *EASY, *size, *overrides]
        with self.log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=ROOT, env=self.environment, stdout=output, stderr=output, start_new_session=True
            )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def until(self, process: subprocess.Popen, condition: Callable[[], object]) -> None:
        """Wait while the run plays."""
        end = time.monotonic() + SECONDS
        while not condition():
            assert process.poll() is None and time.monotonic() < end, self.output
            time.sleep(0.05)

    def assert_played(self, process: subprocess.Popen) -> None:
        """The run comes to its end, with each planned episode played once."""
        assert process.wait(SECONDS) == 0, self.output
        played = Run(self.run_dir).episodes(["episode_id", "status"]).to_pylist()
        planned = [episode.id for episode in Run(self.run_dir).plan]
        assert Counter(each["episode_id"] for each in played) == Counter(planned)
        assert {each["status"] for each in played} == {"done"}

    def assert_named(self, cause: str) -> None:
        """The cause is on the screen, and in the kept end of a failed replica's output."""
        assert cause in self.output, self.output
        logs = {path.name: path.read_text() for path in (self.run_dir / "logs").glob("replica-*.log")}
        assert any(cause in text for text in logs.values()), logs
        assert all(len(text.splitlines()) <= 2 * 200 + 3 for text in logs.values())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@contextlib.contextmanager
def ray_with_gpus(number: int, environment: dict[str, str], output: Path) -> Iterator[str]:
    """A Ray head that was told of so many GPUs; yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", f"--port={port}"]
    ray += [f"--num-gpus={number}", "--num-cpus=16", "--include-dashboard=false", "--node-ip-address=127.0.0.1"]
    ray += ["--object-store-memory=100000000", "--disable-usage-stats"]
    with output.open("wb") as said:
        head = subprocess.Popen(ray, env=environment, stdout=said, stderr=said)
    status = [ray[0], "status", f"--address=127.0.0.1:{port}"]
    try:
        while "GPU" not in subprocess.run(status, env=environment, capture_output=True, text=True).stdout:
            assert head.poll() is None, output.read_text()
        yield f"127.0.0.1:{port}"
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(head.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        head.kill()
        head.wait(30)


def test_one_of_eight_slots_is_broken(site):
    with ray_with_gpus(8, site.environment, site.folder / "ray.txt") as address:
        engine = ["model=simulated", "model.engine.type=one_broken", "model.engine.max_num_seqs=2"]
        where = ["cluster=ray", f"cluster.address={address}", "model.replica.gpus=1", "model.replica.cpus=0"]
        with site.running(*engine, *where, "cluster.replicas=8", games=60) as process:
            site.until(process, lambda: "is not used anymore" in site.output)
            (site.folder / "go").touch()
            site.assert_played(process)
    site.assert_named("CUDA error: unspecified launch failure")
    assert "failed to start on GPU 3 of " in site.output
    assert f"GPU 3 of {socket.gethostname()} is not used anymore" in site.output
    kept = [path.read_text() for path in (site.run_dir / "logs").iterdir()]
    assert len(kept) == 3 and all("fallen off the bus" in text for text in kept)
    (timings,) = Run(site.run_dir).timings
    assert len(timings["use"]) == timings["replicas"] == 7


@pytest.mark.vllm
def test_weights_that_are_cut_end_a_run_whose_engines_have_two_workers_each(site):
    cut = site.folder / "cut"
    shutil.copytree(ensure_tiny_model(), cut)
    weights = cut / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    parallel = ["model.engine.tensor_parallel_size=2", "cluster.replicas=2", "model.replica.cpus=0"]
    with site.running("model=tiny", f"model.engine.model={cut}", *parallel) as process:
        assert process.wait(SECONDS) == BAD_INPUT, site.output
    assert "WorkerProc initialization failed" not in site.output.replace("\n", " ")
    site.assert_named("SafetensorError: Error while deserializing header: incomplete metadata")


def test_a_port_is_taken_between_choice_and_use(site):
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        (site.folder / "port").write_text(str(taken.getsockname()[1]))
        with site.running("model=simulated", "model.engine.type=taken_port") as process:
            site.until(process, lambda: "failed to start" in site.output)
            taken.close()
            site.assert_played(process)
    site.assert_named("EADDRINUSE")


@pytest.mark.vllm
def test_the_hub_answers_too_many_requests_for_a_minute(site):
    with stub_hub("org/tiny") as hub:
        commit = hub.publish("main", ensure_tiny_model(), 1)
        hub.be_busy(math.inf)
        site.environment |= {"HF_ENDPOINT": hub.address, "HF_HOME": str(site.folder / "hf")}
        with site.running("model=tiny", "model.engine.model=org/tiny") as process:
            site.until(process, lambda: "asking for org/tiny again" in site.output)
            end = time.monotonic() + HUB_SECONDS
            site.until(process, lambda: time.monotonic() > end)
            hub.be_busy(math.inf, files_only=True)
            site.until(process, lambda: "failed to start" in site.output)
            hub.be_busy(0.0)
            site.assert_played(process)
    site.assert_named("the hub is busy (429 Too Many Requests")
    assert Run(site.run_dir).sessions[0]["surroundings"]["weights"] == commit


@pytest.mark.vllm
def test_memory_of_the_job_before_is_freed_late(site):
    before = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(10_000)"])
    try:
        (site.folder / "job_before.json").write_text(json.dumps({"pid": before.pid, "bytes": 70 * 2**30}))
        with site.running("model=tiny", "model.engine.type=late_memory") as process:
            site.until(process, lambda: "failed to start" in site.output)
            before.kill()
            before.wait()
            site.assert_played(process)
    finally:
        before.kill()
    site.assert_named("Free memory on device cuda:0 (10.0/80.0 GiB) on startup is less than desired")
