"""`raycade doctor` in broken environments: made for real where that works without a GPU; the mend is named."""

import contextlib
import ctypes
import dataclasses
import json
import os
import pickle
import pwd
import resource
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import constants
from hypothesis import given
from hypothesis import strategies as st

from cluster.cli import main
from cluster.config.settings import ClusterSettings
from cluster.doctor import command, files, gpus, machine, network, nodes
from cluster.doctor.check import Check, Need, Outcome, looked
from cluster.errors import UserError
from cluster.launch.start_nodes import ports_of_job
from cluster.ray_backend import actors, capacity
from cluster.stop_signals import StoppedError
from cluster.storage.durable import is_scratch
from cluster.storage.run_directory import RunDirectory
from tests.cluster.conftest import EASY, settings_at
from tests.cluster.hub_stub import hub

NEW_MOUNTS, PRIVATE, READ_ONLY, NOEXEC = 0x20000, 0x44000, 1, 8
"""Flags of unshare(2) and mount(2)."""


def need(folder: Path, *overrides: str) -> Need:
    settings = settings_at(folder / "run", *EASY, *overrides)
    return Need(settings.model, settings.cluster, settings.tracker, settings.run_dir)


def in_child(prepare: Callable[[], object], check: Callable[[Need], Outcome], asked: Need) -> Outcome:
    """What a check finds in a process of its own, whose environment is broken first."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            prepare()
            answer: object = check(asked)
        except BaseException:
            answer = traceback.format_exc()
        os.write(writer, pickle.dumps(answer))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pickle.loads(pipe.read())
    os.waitpid(child, 0)
    if isinstance(answer, str) and "PermissionError: mount" in answer:
        pytest.skip("this user may not mount")
    assert isinstance(answer, Outcome), answer
    return answer


def mounted(where: Path, options: str, flags: int = 0) -> None:
    """Mount a tmpfs that only this process sees."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_MOUNTS) or libc.mount(b"none", b"/", None, PRIVATE, None):
        raise PermissionError("mount")
    if libc.mount(b"tmpfs", str(where).encode(), b"tmpfs", flags, options.encode()):
        raise PermissionError("mount")


def assert_mended(outcome: Outcome, *words: str, status: str = "fail") -> None:
    assert outcome.status == status and outcome.breaks, outcome
    for word in words:
        assert word in f"{outcome.found} {outcome.mend}", (word, outcome)
    shown = looked(Check("x", "what was tried", lambda _: outcome), None).lines()
    assert max(map(len, shown)) <= 80 and any(line.startswith("     mend:") for line in shown), shown


def test_all_is_well_where_nothing_is_broken(tmp_path):
    asked = need(tmp_path, "model=simulated")
    for check in (files.run_folder, machine.clock, machine.packages, network.ports):
        assert check(asked).status in ("ok", "warn"), check(asked)
    assert not list(tmp_path.iterdir())  # nothing of what was tried is left


def test_little_shared_memory(tmp_path):
    outcome = in_child(
        lambda: mounted(Path("/dev/shm"), "size=16m"), machine.shared_memory, need(tmp_path, "model=simulated")
    )
    assert_mended(outcome, "16.0 MiB of 16.0 MiB free", "--shm-size", "mount -o remount")


@pytest.mark.slow
def test_old_files_in_shared_memory_are_named_but_not_those_in_use(tmp_path):
    def fill():
        mounted(Path("/dev/shm"), "size=600m")
        for name in ("psm_left", "psm_used", "of_others"):
            path = Path("/dev/shm") / name
            path.write_bytes(bytes(80 * 2**20))
            os.utime(path, (1, 1))
        used = os.open("/dev/shm/psm_used", os.O_RDONLY)
        libc.mmap(None, 4096, 1, 1, used, 0)

    libc = ctypes.CDLL(None)
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    outcome = in_child(fill, machine.shared_memory, need(tmp_path, "model=simulated"))
    assert_mended(outcome, "1 old file,", "rm /dev/shm/psm_left", status="warn")
    assert "psm_used" not in outcome.mend and "of_others" not in outcome.mend


def test_a_file_in_shared_memory_may_go_while_it_is_looked_at(tmp_path, monkeypatch):
    (tmp_path / "psm_left").touch()
    os.utime(tmp_path / "psm_left", (1, 1))
    listed = [tmp_path / "psm_gone", tmp_path / "psm_left"]
    monkeypatch.setattr(machine, "SHM", SimpleNamespace(iterdir=lambda: iter(listed)))
    monkeypatch.setattr(machine, "_mapped", lambda: (tmp_path / "psm_left").unlink() or set())
    assert list(machine._leftovers()) == [tmp_path / "psm_left"]
    monkeypatch.setattr(machine, "SHM", tmp_path)
    (tmp_path / "psm_broken").symlink_to("nowhere")
    os.utime(tmp_path / "psm_broken", (1, 1), follow_symlinks=False)
    monkeypatch.setattr(machine, "_mapped", set)
    sizes = SimpleNamespace(f_frsize=2**30, f_blocks=32, f_bavail=32)
    monkeypatch.setattr(machine, "os", SimpleNamespace(statvfs=lambda path: sizes, getuid=os.getuid))
    assert machine.shared_memory(need(tmp_path, "model=simulated")).status == "ok"


def test_few_open_files(tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    assert_mended(in_child(limit, machine.open_files, need(tmp_path)), "256", "LimitNOFILE=65536")


def test_a_run_directory_on_a_read_only_file_system(tmp_path):
    outcome = in_child(lambda: mounted(tmp_path, "size=1m", READ_ONLY), files.run_folder, need(tmp_path))
    assert_mended(outcome, "Read-only file system", "run_dir=...")


@pytest.mark.parametrize("below", ["", "run", "run/shard-1"])
def test_a_run_directory_below_a_file_or_a_link_that_leads_nowhere(below, tmp_path):
    asked = need(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "purged")
    (tmp_path / "file").touch()
    for name, said in (("link", "a link that leads nowhere"), ("file", "no folder")):
        outcome = files.run_folder(dataclasses.replace(asked, run_dir=tmp_path / name / below))
        assert_mended(outcome, f"{tmp_path / name} is {said}", "run_dir=...")
    (tmp_path / "purged").mkdir()
    assert files.run_folder(dataclasses.replace(asked, run_dir=tmp_path / "link" / below)).status == "ok"


@pytest.mark.parametrize(
    "wrong", ["created twice", "renamed over another", "flock does not work", "hold the same lock"]
)
def test_a_promise_that_a_file_system_breaks_is_named(wrong, tmp_path, monkeypatch):
    def flock(file, how):
        if wrong.startswith("flock"):
            raise OSError(37, "No locks available")

    if wrong.startswith("created"):
        monkeypatch.setattr(files, "create_durably", files.write_durably)
    elif wrong.startswith("renamed"):
        monkeypatch.setattr(Path, "replace", lambda path, other: None)
    else:
        monkeypatch.setattr(files, "fcntl", SimpleNamespace(flock=flock, LOCK_EX=1, LOCK_NB=2))
    assert_mended(files.run_folder(need(tmp_path)), wrong, "run_dir=... on another file system")
    assert not [*tmp_path.iterdir()]


def test_a_full_disk(tmp_path):
    def fill():
        mounted(tmp_path, "size=1m")
        (tmp_path / "full").write_bytes(bytes(1020 * 1024))

    assert_mended(in_child(fill, files.room, need(tmp_path)), "4.0 KiB free", "make room in", "run_dir=...")


def test_a_folder_of_caches_that_is_mounted_noexec(tmp_path, monkeypatch):
    monkeypatch.setenv("RAYCADE_CACHE", str(tmp_path))
    outcome = in_child(lambda: mounted(tmp_path, "size=1m", NOEXEC), files.caches, need(tmp_path))
    assert_mended(outcome, "mounted noexec", "export RAYCADE_CACHE=")


def test_a_user_without_a_home(tmp_path, monkeypatch):
    for variable in ("HOME", "RAYCADE_CACHE", "WANDB_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    asked = need(tmp_path, "model=simulated", "tracker=wandb", "tracker.mode=online")
    assert_mended(machine.keys(asked), "WANDB_API_KEY is not set", "export WANDB_API_KEY=")
    assert_mended(files.caches(asked), "this user has no home", "export RAYCADE_CACHE=")


def test_a_temporary_folder_whose_sockets_have_no_room(tmp_path, monkeypatch):
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("RAY_TMPDIR", str(long))
    assert_mended(files.temporary(need(tmp_path, "model=simulated")), "too long a path", "export RAY_TMPDIR=/tmp")


def test_a_temporary_folder_in_which_ray_does_not_start(monkeypatch):
    with tempfile.TemporaryDirectory(prefix="é", dir="/tmp") as folder:
        monkeypatch.setenv("RAY_TMPDIR", folder)
        asked = need(Path(folder), "model=simulated")
        assert_mended(files.temporary(asked), "letters beyond ASCII", "export RAY_TMPDIR=/tmp")
        with pytest.raises(UserError, match="letters beyond ASCII; export TMPDIR=/tmp"):
            actors.start_ray(ClusterSettings())


def test_too_little_memory_in_a_job(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "1024")
    assert_mended(machine.memory(need(tmp_path)), "--mem: 1.0 GiB", "ask Slurm for more: --mem=")


def test_a_jobs_ports_are_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "433")
    taken = [socket.socket() for _ in ports_of_job(433)]
    try:
        for port, each in zip(ports_of_job(433), taken, strict=True):
            each.bind(("", port))
        assert_mended(network.ports(need(tmp_path)), "fewer than 2 ports", "ss -ltnp")
    finally:
        for each in taken:
            each.close()


@pytest.mark.parametrize(
    ("replicas", "nodes_there", "status", "found"),
    [
        ("2", 1, "ok", "1 node, room for 2 replicas"),
        ("3", 1, "fail", "1 node, room for 2 replicas"),
        ("fit", 1, "ok", "1 node, room for 2 replicas"),
        ("fit", 2, "ok", "2 nodes, room for 4 replicas"),
        ("fit", 0, "fail", "0 nodes, room for 0 replicas"),
    ],
)
def test_a_cluster_must_have_room_for_all_replicas(replicas, nodes_there, status, found, tmp_path, monkeypatch):
    monkeypatch.setattr(network, "_greeted", lambda address: None)
    monkeypatch.setattr(actors, "start_ray", lambda cluster: None)
    monkeypatch.setattr(capacity, "living_nodes", lambda: [{}] * nodes_there)
    monkeypatch.setattr(capacity, "replicas_that_fit", lambda model: 2 * nodes_there)
    asked = ["model=simulated", "model.replica.cpus=1", "cluster=ray", "cluster.address=h:1"]
    outcome = network.ray_cluster(need(tmp_path, *asked, f"cluster.replicas={replicas}"))
    assert outcome.status == status and found in outcome.found


def test_a_signal_while_ray_is_up_takes_effect_when_ray_has_ended(tmp_path, monkeypatch):
    """Ray replaces the handlers, exits with its own code at SIGTERM, and leaves processes behind."""
    order = []

    def start(cluster):
        signal.signal(signal.SIGTERM, lambda *_: order.append("the handler of Ray"))
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, lambda *_: order.append("stopped"))
    try:
        monkeypatch.setattr(actors, "start_ray", start)
        monkeypatch.setattr(capacity, "living_nodes", lambda: [{}])
        monkeypatch.setattr(capacity, "replicas_that_fit", lambda model: 1)
        monkeypatch.setattr("ray.is_initialized", lambda: bool(order.append("looked")))
        assert network.ray_cluster(need(tmp_path, "model=simulated")).status == "ok"
    finally:
        signal.signal(signal.SIGTERM, before)
    assert order == ["looked", "looked", "stopped"], "at the start and at the end; then the signal"


def test_an_address_of_ray_where_nobody_or_another_program_listens(tmp_path):
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    asked = need(tmp_path, "model=simulated", "cluster=ray", f"cluster.address=127.0.0.1:{port}")
    assert_mended(network.ray_cluster(asked), "nobody listens", f"ray start --head --port={port}")
    server = HTTPServer(("127.0.0.1", port), SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    assert_mended(network.ray_cluster(asked), "something else than Ray answers", "ss -ltnp")
    server.shutdown()
    server.server_close()


def test_another_version_of_a_package_than_raycade_requires(tmp_path, monkeypatch):
    overlay = tmp_path / "httpx-0.26.0.dist-info"
    overlay.mkdir()
    (overlay / "METADATA").write_text("Metadata-Version: 2.1\nName: httpx\nVersion: 0.26.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    outcome = machine.packages(need(tmp_path))
    assert_mended(outcome, "httpx 0.26.0, raycade needs <1,>=0.27", "./launch.sh setup")


@pytest.mark.skipif(shutil.which("scontrol") is None, reason="needs Slurm's scontrol")
def test_a_controller_of_slurm_that_is_down(tmp_path, monkeypatch):
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    (tmp_path / "slurm.conf").write_text(
        f"ClusterName=x\nSlurmctldHost={socket.gethostname()}(127.0.0.1)\nSlurmctldPort={port}\nAuthType=auth/none\n"
        "NodeName=n1\nPartitionName=p Nodes=n1\nMessageTimeout=2\n"
    )
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert_mended(machine.slurm(need(tmp_path)), "DOWN", "systemctl status slurmctld")


def test_weights_that_are_not_there(tmp_path, monkeypatch):
    asked = need(tmp_path, "model=qwen3_8b")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert_mended(network.hub(asked), "HF_HUB_OFFLINE is set", "raycade fetch Qwen/Qwen3-8B")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with hub() as stub:
        monkeypatch.setattr(constants, "ENDPOINT", stub.address)
        stub.status = 429
        assert_mended(network.hub(asked), "429", "wait some minutes")
        stub.status = 0
        assert_mended(network.hub(asked), "the cache does not", "raycade fetch", status="warn")
    assert_mended(network.hub(asked), "no answer from http://127.0.0.1", "https_proxy")
    folder = tmp_path / "models--Qwen--Qwen3-8B" / "snapshots" / "main"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model-1.safetensors").touch()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert_mended(network.hub(asked), "lacks 1 of 2 files of weights (model-2.safetensors)", "raycade fetch")
    (folder / "model-2.safetensors").touch()
    assert network.hub(asked).status == "ok"


def smi(folder: Path, monkeypatch: pytest.MonkeyPatch, cuda: str, used: int) -> None:
    """An nvidia-smi in PATH that tells of one GPU of 80 GB: there is none on machines that run these tests."""
    script = folder / "nvidia-smi"
    script.write_text(
        f'#!/bin/sh\n[ $# = 0 ] && echo "Driver Version: 470.1  CUDA Version: {cuda}" || echo "0, H100, 81920, {used}"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(gpus, "_cuda_of_torch", lambda: "12.8")
    gpus.gpus_here.cache_clear()


def test_a_driver_that_is_too_old_and_a_gpu_in_use(tmp_path, monkeypatch):
    asked = need(tmp_path, "model=qwen3_8b")
    smi(tmp_path, monkeypatch, "11.4", 20_000)
    assert_mended(gpus.driver(asked), "driver for CUDA 11.4, vLLM's torch has 12.8", "a newer driver")
    assert_mended(gpus.gpu_memory(asked), "0 (75% free)", "nvidia-smi", "model.engine.gpu_memory_utilization=0.74")
    smi(tmp_path, monkeypatch, "12.4", 100)
    assert_mended(gpus.driver(asked), "a newer driver", status="warn")
    assert gpus.gpu_memory(asked).status == "ok"
    smi(tmp_path, monkeypatch, "13.0", 100)
    assert gpus.driver(asked).status == "ok"
    gpus.gpus_here.cache_clear()


@pytest.mark.parametrize(
    ("line", "version"), [("cuda: Optional[str] = '12.8'", "12.8"), ('cuda = "13.0"', "13.0"), ("cuda = None", "")]
)
def test_the_cuda_of_torch_is_read_without_importing_it(line, version, tmp_path, monkeypatch):
    spec = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(gpus.importlib.util, "find_spec", lambda name: spec)
    assert gpus._cuda_of_torch() == ""
    for none in (None, SimpleNamespace(origin=None)):
        monkeypatch.setattr(gpus.importlib.util, "find_spec", lambda name, none=none: none)
        assert gpus._cuda_of_torch() == "", "torch is not installed, or a folder of this name lies there"
    monkeypatch.setattr(gpus.importlib.util, "find_spec", lambda name: spec)
    (tmp_path / "version.py").write_text(f"debug = False\n{line}\nhip = '6.1'\n")
    assert gpus._cuda_of_torch() == version


def test_an_engine_that_does_not_start_is_named_by_its_gpu(tmp_path, monkeypatch):
    """Of two GPUs one is broken: the engine's process, here a stub, fails with its number."""
    program = tmp_path / "python"
    program.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        "if os.environ['CUDA_VISIBLE_DEVICES'] == '1':\n    sys.exit('EngineError: CUDA error: uncorrectable ECC error')\n"
        'print(\'{"label": "A", "seconds": 9.0, "runner": "V2", "step": 8192}\')\n'
    )
    program.chmod(0o755)
    two = tuple(gpus.Gpu(name, "H100", 81920, 0) for name in "01")
    monkeypatch.setattr(gpus, "gpus_here", lambda: two)
    monkeypatch.setattr(sys, "executable", str(program))
    asked = need(tmp_path, "model=qwen3_8b")
    assert_mended(gpus.engines(asked), "GPU 1: EngineError: CUDA error", "export CUDA_VISIBLE_DEVICES=0;")
    monkeypatch.setattr(gpus, "gpus_here", lambda: two[:1])
    assert "model runner V2, 8,192 tokens a step" in gpus.engines(asked).found


def test_clocks_ports_and_locks_between_machines(tmp_path):
    """Two machines, the second a stub whose clock is ahead; a third shares no lock, and no port reaches it."""
    with nodes.hosted(need(tmp_path), "127.0.0.1") as (host, meeting):
        assert nodes._meet(meeting, "n1").status == "ok"
        with (
            closing(socket.create_server(("127.0.0.1", 0))) as own,
            closing(socket.create_connection(("127.0.0.1", int(host.address.rpartition(":")[2])))) as connection,
        ):
            told = {"host": "n2", "port": own.getsockname()[1], "clock": time.time() + 300}
            connection.sendall(json.dumps(told).encode())
            assert connection.recv(10) == b"ok\n"
        assert nodes._other_lock(Path(meeting.lock), "n1").status == "ok"
        closed = nodes._meet(nodes.Meeting("127.0.0.1:1", meeting.lock), "n3")
        with Path(meeting.lock).open("rb") as lock:  # as a file system that locks on each machine only
            other = tmp_path / "unlocked"
            other.write_bytes(lock.read())
        unseen = nodes._other_lock(other, "n3")
    reports = [nodes.Report(name, (), {"vllm": version}) for name, version in (("n1", "0.32.0"), ("n2", "0.31.0"))]
    clocks, versions = nodes.compared(reports, host.clocks)
    for finding, words in (
        (clocks, ("n2 is 300 s ahead", "on n2: timedatectl")),
        (versions, ("vllm 0.31.0 on n2", "./launch.sh setup on each")),
        (closed, ("127.0.0.1:1 cannot be reached", "open the ports")),
        (unseen, ("both hold it", "flock")),
    ):
        assert_mended(Outcome(finding.status, finding.found, finding.breaks, finding.mend), *words)
    assert not list(tmp_path.glob(".doctor-*"))


def test_reports_cross_between_machines_whole():
    finding = looked(Check("x", "tried", lambda _: Outcome("fail", "a", "b", "c")), None, "n1")
    report = nodes.Report("n1", (finding,), {"python": "3.11"})
    assert nodes.report_from(json.loads(json.dumps(report.to_json()))) == report


@given(
    st.lists(st.lists(st.text(max_size=1500), min_size=1, max_size=3), min_size=1, max_size=3),
    st.data(),
)
def test_reports_through_srun_are_whole_in_whatever_order_it_prints_their_lines(found, data):
    """srun keeps the order of one task's lines, breaks those above 1,024 bytes, and mixes the lines of different tasks."""
    reports, left = [], []
    for task, words in enumerate(found):
        finding = looked(Check("x", "tried", lambda _, words=words: Outcome("fail", *words)), None, f"n{task}")
        reports.append(nodes.Report(f"n{task}", (finding,), {"python": "3.11"}))
        left.append(nodes.lines_of(reports[-1], str(task)))
    assert all(len(line.encode()) < 1024 for lines in left for line in lines)
    printed = ["srun: a word of its own"]
    while any(left):
        printed.append(data.draw(st.sampled_from([lines for lines in left if lines])).pop(0))
    assert sorted(nodes.reports_in("\n".join(printed)), key=lambda each: each.host) == reports
    cut_off = nodes.lines_of(reports[0], "0")[-1][:-1]
    assert nodes.reports_in(cut_off) == []


@pytest.mark.parametrize(
    ("address", "ray", "job", "through"),
    [
        (None, "ok", False, ""),
        ("h:1", "ok", False, "ray"),
        ("h:1", "fail", False, ""),
        (None, "ok", True, "slurm"),
        ("h:1", "fail", True, "slurm"),
    ],
)
def test_the_doctor_looks_at_all_machines_that_it_can_reach(address, ray, job, through, tmp_path, monkeypatch, capsys):
    asked = need(tmp_path, "model=random")
    asked = dataclasses.replace(asked, cluster=dataclasses.replace(asked.cluster, address=address))
    finding = looked(Check("far", "far", lambda _: Outcome("warn", "x", "b", "m")), asked, "n2")
    hosts, reports = [], [nodes.Report("n2", (finding,))]

    @contextlib.contextmanager
    def hosted(need, towards):
        hosts.append(towards)
        yield SimpleNamespace(clocks={"n2": 1.0}), "meeting"

    def of_ray(need, meeting, there):
        assert meeting == "meeting" and len(there) == 2
        return reports

    names = [{"NodeManagerHostname": name, "NodeManagerAddress": f"10.0.0.{name[1]}"} for name in ("n1", "n2")]
    monkeypatch.setattr("cluster.ray_backend.capacity.living_nodes", lambda: names)
    for name, stub in {
        "RAY_CHECKS": [Check("ray", "Ray", lambda _: Outcome(ray, "found", "b", "m"))],
        "ON_EACH": [Check("here", "here", lambda _: Outcome("ok", "fine"))],
        "need_of": lambda overrides, quick: dataclasses.replace(asked, quick=quick),
        "job_has_other_nodes": lambda: job,
        "hosted": hosted,
        "through_ray": of_ray,
        "through_slurm": lambda meeting, overrides, quick: reports if (overrides, quick) == (["a=b"], True) else None,
    }.items():
        monkeypatch.setattr(command, name, stub)
    monkeypatch.setattr(command.socket, "gethostname", lambda: "n1")
    monkeypatch.setenv("SLURMD_NODENAME", "" if address else "node1")
    code = command.main(SimpleNamespace(node="", overrides=["a=b"], quick=True, json=True))
    found = json.loads(capsys.readouterr().out)
    assert hosts == {"": [], "ray": ["10.0.0.2"], "slurm": ["n1" if address else "node1"]}[through]
    far = ["clocks", "same versions", "far"]
    assert [each["name"] for each in found["checks"]] == ["settings", "ray", *(far if through else ["here"])]
    assert code == (ray == "fail") == (not found["ok"])


def test_settings_that_are_wrong_are_a_finding_and_a_node_answers_in_lines(tmp_path, monkeypatch, capsys):
    def need_of(overrides, quick):
        if overrides == ["wrong"]:
            raise UserError("wrong: is no setting")
        return asked

    asked = need(tmp_path, "model=random")
    monkeypatch.setattr(command, "RAY_CHECKS", [])
    monkeypatch.setattr(command, "ON_EACH", [])
    monkeypatch.setattr(command, "job_has_other_nodes", lambda: False)
    monkeypatch.setattr(command, "need_of", need_of)
    assert command.main(SimpleNamespace(node="", overrides=["wrong"], quick=True, json=False)) == 1
    assert "wrong: is no setting" in capsys.readouterr().out
    assert command.main(SimpleNamespace(node="", overrides=["right"], quick=True, json=False)) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "none of 1 checks failed."
    monkeypatch.setattr(command, "look", lambda need, meeting: nodes.Report(f"{meeting.address} {meeting.lock}", ()))
    monkeypatch.setenv("SLURM_PROCID", "3")
    assert command.main(SimpleNamespace(node='["h:1", "/lock"]', overrides=["right"], quick=True, json=False)) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("raycade-report 3 ") and nodes.reports_in(line) == [nodes.Report("h:1 /lock", ())]


@pytest.mark.slow
def test_the_command_prints_lines_of_80_columns_and_fails_when_a_check_does(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "1024")
    arguments = ["doctor", "--quick", *EASY, "model=tiny", f"run_dir={tmp_path / 'run'}"]
    with pytest.raises(SystemExit) as end:
        main(arguments)
    out = capsys.readouterr().out
    assert end.value.code == 1 and "FAIL main memory" in out and "mend:" in out
    assert max(map(len, out.splitlines())) <= 80
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "0")
    monkeypatch.setattr(machine, "ENGINE_GIB", 0.0)
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--json"])
    found = json.loads(capsys.readouterr().out)
    names = {each["name"] for each in found["checks"]}
    assert end.value.code == (0 if found["ok"] else 1) and {"settings", "memory", "hub", "engine", "ray"} <= names


@pytest.mark.slow
def test_wrong_settings_are_a_finding_and_the_rest_is_still_tried(capsys):
    with pytest.raises(SystemExit) as end:
        main(["doctor", "--quick", "suite=kumoo"])
    out = capsys.readouterr().out
    assert end.value.code == 1 and "suite=kumoo: there is none" in out and "main memory" in out


def test_a_signal_takes_effect_once_the_folder_that_is_tried_is_removed(tmp_path, monkeypatch):
    came = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: came.append([*tmp_path.iterdir()]))
    try:
        with pytest.raises(StoppedError), files._scratch(tmp_path) as folder:
            assert is_scratch(folder)
            (folder / "file").touch()
            os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert came == [[]]


def test_a_run_begins_where_a_doctor_is_or_was_killed(tmp_path):
    (tmp_path / ".doctor-0123abcd").mkdir()
    RunDirectory(tmp_path).check_plan([])
    (tmp_path / ".doctor-of-mine").mkdir()
    with pytest.raises(UserError, match="not empty"):
        RunDirectory(tmp_path).check_plan([])
