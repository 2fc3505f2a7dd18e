"""What ``raycade doctor`` says of machines in all states, on record in ``tests/golden``: any word or figure shows."""

import json
import socket
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import httpx
import huggingface_hub
import pytest
from huggingface_hub import constants, errors

from cluster import ray_backend
from cluster.config.model import ReplicaNeeds
from cluster.doctor import check as check_module
from cluster.doctor import command, fetch, files, gpus, machine, network, nodes, small_engine, weights
from cluster.doctor.check import Check, Finding, Need, Outcome, looked
from cluster.doctor.gpus import Gpu
from cluster.doctor.nodes import Report
from cluster.doctor.weights import HubFile, Listing
from cluster.engines.openai_api import OpenAIEngine
from tests.golden import check_said, plain

GIB = 2**30
NOW = time.time
MODULES = {"machine": machine, "files": files, "gpus": gpus, "network": network, "nodes": nodes, "weights": weights}
MODULES |= {"check": check_module, "constants": constants}
VARIABLES = (
    "SLURM_JOB_ID",
    "SLURM_MEM_PER_NODE",
    "SLURM_JOB_NUM_NODES",
    "http_proxy",
    "HTTP_PROXY",
    "grpc_proxy",
    "no_proxy",
)
VARIABLES += ("NO_PROXY", "WANDB_API_KEY", "OPENAI_API_KEY", "RAY_TMPDIR", "TMPDIR", "CUDA_VISIBLE_DEVICES", "HF_TOKEN")
OFFERED = """0, NVIDIA H100, 81920, 4096
1, NVIDIA H100, 81920, [N/A]
2, odd
7, NVIDIA H100, [Unknown], 5
"""


def shown(value) -> str:
    if isinstance(value, Finding):
        return "\n".join(value.lines())
    if isinstance(value, list) and value and isinstance(value[0], Finding):
        return "\n".join(line for finding in value for line in finding.lines())
    return value if isinstance(value, str) else plain(value)


def need(engine=None, gpus=0, cpus=1, nodes=1, quick=False, tracker=None, metered=False, **cluster) -> Need:
    """What a run asks for: a model under a name, and a cluster."""
    kind = OpenAIEngine if metered else SimpleNamespace(check_environment=lambda engine: None)
    replica = ReplicaNeeds(gpus=gpus, cpus=cpus, nodes=nodes)
    model = SimpleNamespace(name="m", engine=engine, replica=replica, metered=metered, engine_class=kind)
    given = {"ray": True, "replicas": 1, "address": None, **cluster}
    return Need(model, SimpleNamespace(**given), tracker, Path("runs/x"), quick)


VLLM = {"type": "vllm", "model": "Qwen/Qwen2.5-7B-Instruct"}
SIMULATED = {"type": "simulated"}


def _put(patch, place, value) -> None:
    """Have a name of a module stand for a value, or for a function that returns or raises it."""
    module, *names, last = place.split(".")
    holder = MODULES[module]
    for name in names:
        holder = getattr(holder, name)
    given = value

    def answer(*arguments, **named):
        if isinstance(given, Exception):
            raise given
        return given

    is_function = callable(getattr(holder, last)) and not callable(value)
    patch.setattr(holder, last, answer if is_function else value)


def within(world, call, *arguments, **environment):
    """What a call returns where names stand for other things."""
    with pytest.MonkeyPatch.context() as patch:
        for name in VARIABLES:
            patch.delenv(name, raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        for place, value in world.items():
            _put(patch, place, value)
        return call(*arguments)


def seen(look, asked, world=None, **environment) -> Finding:
    """A check of a machine on which names stand for other things."""
    return within(world or {}, lambda: looked(Check("x", "what was tried", look), asked), **environment)


def disk(free, total=100 * GIB, inodes=(0, 0)):
    """Of a file system: bytes that are free, of all, and how many files it has and takes."""
    blocks = {"f_frsize": 0.5, "f_bavail": 2 * free, "f_blocks": 2 * total}
    return SimpleNamespace(**blocks, f_files=inodes[0], f_favail=inodes[1])


def ram(gib):
    return SimpleNamespace(available=gib * GIB, total=64 * GIB)


def cards(*used, total=81920.0):
    return tuple(Gpu(str(number), "NVIDIA H100", total, mib) for number, mib in enumerate(used))


def done(stdout="", stderr="", code=0):
    return SimpleNamespace(stdout=stdout, stderr=stderr, returncode=code)


def with_scratch(made) -> str:
    """Whether a folder is there within its block, and after it."""
    with made(Path.cwd()) as folder:
        inside = folder.is_dir()
    return f"{inside} {folder.exists()}"


def lock(text) -> str:
    """A file two folders below one with tested versions."""
    Path("constraints.txt").write_text(text)
    return str(Path.cwd() / "x" / "y" / "z.py")


def groups(**contents) -> Path:
    """Files of control groups, of which this process has three."""
    root = Path.cwd() / f"groups{len([*Path.cwd().glob('groups*')])}"
    root.mkdir()
    for name, text in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    Path("of_process").write_text("0::/a/b\n3:cpu:/a\n4:memory:/a\n5:pids:/c\n")
    return root


def printed(*outcomes, as_json=False, report=()) -> str:
    """What the command prints of findings, and its exit code."""
    lines = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "print", lambda *said, **how: lines.append(" ".join(map(str, said))), raising=False)
        printer = command.Printer(as_json)
        for outcome in outcomes:
            printer.add(looked(Check("x", "what was tried", lambda _, outcome=outcome: outcome), need()))
        if report:
            printer.report(
                Report("n1", tuple(Finding("x", "tried", status, "found", "breaks", "mend") for status in report))
            )
        code = printer.end()
    return "\n".join([*lines, f"exit code {code}"])


def small(*words, step=2048, v2=False, answer="B") -> str:
    """What the small engine is started with, and what its process prints and ends with."""
    said, seconds = [], iter((100.0, 102.5))

    class Engine:
        def __init__(self, *given, **named):
            said.append(plain((given, named)))
            settings = SimpleNamespace(max_num_batched_tokens=step)
            self._engine = SimpleNamespace(
                vllm_config=SimpleNamespace(use_v2_model_runner=v2, scheduler_config=settings)
            )

        async def start(self):
            said.append("started")

        async def complete(self, request):
            said.append(plain(request))
            if isinstance(answer, Exception):
                raise answer
            return SimpleNamespace(text=answer)

        async def close(self):
            said.append("closed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_engine, "VLLMEngine", Engine)
        patch.setattr(small_engine, "ensure_tiny_model", lambda: said.append("tiny model"))
        patch.setattr(small_engine, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
        patch.setattr(sys, "argv", ["small_engine", *words])
        wrong = sys.stderr
        patch.setattr(
            small_engine,
            "print",
            lambda text, file=None, flush=False: said.append(f"{'error' if file is wrong else 'out'} {text}"),
            raising=False,
        )
        said.append(f"exit code {small_engine.main()}")
    return "\n".join(said)


def fetched(model, terminal=False, revision="v1") -> str:
    """What is fetched of a model in which order, and what is printed."""
    said = []

    def noting(name, answer=None):
        return lambda *given: said.append(f"-> {name} {[each for each in given if not callable(each)]}") or answer

    listing = SimpleNamespace(id=model, commit="c" * 40, files=[SimpleNamespace(size=GIB)] * 3, lacking=2 * GIB)
    world = {f"weights.{name}": noting(name) for name in ("check_model", "check_room", "pin")}
    world |= {"weights.listed": noting("listed", listing), "constants.HF_HOME": "/hf"}
    world["weights.download"] = lambda listing, say: say("a.bin: 3 bytes") or "FOLDER"
    logging, print_ = huggingface_hub.utils.logging, lambda text, flush=False: said.append(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch, "print", print_, raising=False)
        patch.setattr(logging, "set_verbosity_error", noting("quiet"))
        patch.setattr(huggingface_hub.utils, "disable_progress_bars", noting("no bars"))
        patch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: terminal))
        code = within(world, fetch.main, SimpleNamespace(model=model, revision=revision))
    return "\n".join([*said, f"exit code {code}"])


def process(uid=7, threads=1, maps=(), fails=None):
    """A process as psutil tells of it."""

    def memory_maps():
        if fails is not None:
            raise fails
        return [SimpleNamespace(path=path) for path in maps]

    told = {"uids": uid and SimpleNamespace(real=uid), "num_threads": threads}
    return SimpleNamespace(info=told, memory_maps=memory_maps)


def left_over(**old) -> dict:
    """Old files in a folder that no process has mapped, of these with their sizes; those of size 0 vanish while one looks."""
    folder = Path("shm").absolute()
    folder.mkdir()
    for name, size in old.items():
        (folder / name).write_bytes(b"x" * size) if size else (folder / name).symlink_to("nowhere")
    mapped = [
        process(maps=["/lib/x", f"{folder}/psm_b"]),
        process(fails=machine.psutil.AccessDenied()),
        process(fails=OSError()),
    ]
    world = {"machine.SHM": folder, "machine._is_old_leftover": lambda name, status: name != "new"}
    world["machine.psutil.process_iter"] = lambda: iter(mapped)
    return {path.name: size for path, size in within(world, machine._leftovers).items()}


class Answers(nodes.Host):
    """The first machine, which gives such an answer to whoever tells it something."""

    def _answer(self, connection, peer):
        self.told = json.loads(connection.recv(4096))
        connection.sendall(self.answer)


def met(answer) -> str:
    """What a machine finds of the first one, and what it tells it."""
    host = Answers("127.0.0.1")
    host.answer, place = answer, nodes.Meeting(host.address, "/lock")
    world = {"nodes.address_towards": "127.0.0.1", "nodes.time": SimpleNamespace(time=lambda: 1000.5)}
    found = within(world, nodes._meet, place, "n1")
    host.close()
    host.told["port"] = type(host.told["port"]).__name__
    return "\n".join([*found.lines(), found.name, found.host, plain(host.told)])


def heard(*lines) -> str:
    """What the first machine answers to lines, each over a connection of its own, and the clocks that it notes."""
    said, host = [], nodes.Host("127.0.0.1")
    port = host.address.rpartition(":")[2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nodes, "time", SimpleNamespace(time=lambda: 1000.0))
        for line in lines:
            with socket.create_connection(("127.0.0.1", int(port))) as connection:
                connection.sendall(line.replace("PORT", port).encode())
                connection.shutdown(socket.SHUT_WR)
                said.append(connection.recv(99))
    host.close()
    return f"{said} {host.clocks}"


def kept_locked(removed) -> list:
    """A file that is locked while others look, and what is left of it and of the host."""
    with nodes.hosted(need(), "127.0.0.1") as (host, meeting):
        path = Path(meeting.lock)
        said = [path.name[:8], path.parent.resolve() == Path.cwd().resolve(), host.address == meeting.address]
        said.append(nodes._other_lock(path, "n1").status)
        if removed:
            path.unlink()
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", int(host.address.rpartition(":")[2]))):
        pass
    return [*said, path.exists()]


def from_ray(*answers) -> str:
    """What is asked of nodes of a Ray cluster, and their reports; a text stands for what Ray says of a lost one."""
    said, clock = [], iter((100.0, 110.0, 699.5, 900.0))

    class LostError(Exception):
        pass

    def get(answer, timeout):
        said.append(f"waits {timeout:g}")
        if isinstance(answers[answer], str):
            raise LostError(answers[answer])
        return answers[answer]

    def remote(function):
        def options(**given):
            said.append(plain(given))
            number = len(said) - 1
            return SimpleNamespace(remote=lambda *given: said.append(plain(given[1:])) or number // 2)

        return SimpleNamespace(options=options)

    with pytest.MonkeyPatch.context() as patch:
        scheduling = SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node, soft: f"{node} {soft}")
        patch.setitem(sys.modules, "ray", SimpleNamespace(remote=remote, get=get))
        patch.setitem(sys.modules, "ray.exceptions", SimpleNamespace(RayError=LostError))
        patch.setitem(sys.modules, "ray.util.scheduling_strategies", scheduling)
        patch.setattr(nodes, "time", SimpleNamespace(monotonic=lambda: next(clock)))
        there = [{"NodeID": f"id{n}", "NodeManagerHostname": f"h{n}"} for n in range(len(answers))]
        reports = nodes.through_ray("need", "meeting", there)
    return "\n".join([*said, *map(plain, reports)])


def joined(asked, runs=False, fails=None, nodes=1, fit=2) -> str:
    """What the check of Ray says, and which Ray it starts and ends where one runs already or none."""
    said, state = [], [runs]

    def start(cluster):
        said.append("started")
        if fails is not None:
            raise fails
        state[0] = True

    ray = SimpleNamespace(is_initialized=lambda: state[0], shutdown=lambda: said.append("ended"))
    capacity = SimpleNamespace(living_nodes=lambda: [{}] * nodes, replicas_that_fit=lambda model: fit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ray", ray)
        patch.setattr(ray_backend, "actors", SimpleNamespace(start_ray=start), raising=False)
        patch.setattr(ray_backend, "capacity", capacity, raising=False)
        patch.setattr(network, "_greeted", lambda address: None)
        found = looked(Check("x", "what was tried", network.ray_cluster), asked)
    return "\n".join([*found.lines(), *said])


def response(status, **headers):
    return httpx.Response(status, request=httpx.Request("GET", "https://hub/x"), headers=headers)


def hub_error(kind, status, words="it failed"):
    """An error of the hub's client, with the hub's answer where it has a status."""
    found = getattr(errors, kind)
    try:
        return found(words, response=response(status))
    except TypeError:
        return found(words)


def explained(error, token="") -> str:
    world = {
        "weights.build_hf_headers": {"authorization": token} if token else {},
        "constants.ENDPOINT": "https://u:p@hub:8443/x",
    }
    return " / ".join(within(world, weights.explained, error, "org/m"))


def cached(*names, index=None, revision="main", reference="c" * 40):
    """The folder of a model in a cache that has these files, below the commit that a branch stands for."""
    home = Path("hub/models--org--m")
    folder = home / "snapshots" / ("c" * 40)
    for file in [*home.rglob("*")][::-1]:
        file.unlink() if file.is_file() else file.rmdir()
    (home / "refs").mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True)
    if reference:
        (home / "refs" / "main").write_text(f"{reference}\n")
    for name in names:
        (folder / name).write_text("{}")
    if index is not None:
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return str(within({"constants.HF_HUB_CACHE": "hub"}, weights.cached_folder, "org/m", revision))


def offered(commit, *named, git="f" * 40) -> str:
    """What is listed of a model of which the hub has files with these names, sizes and hashes of weights."""
    asked = []

    def siblings():
        for name, size, sha256 in named:
            lfs = sha256 and SimpleNamespace(sha256=sha256)
            yield SimpleNamespace(rfilename=name, size=size, lfs=lfs, blob_id=git)

    def model_info(id, **how):
        asked.append(f"{id} {how}")
        return SimpleNamespace(sha=commit or None, siblings=[*siblings()] or None)

    world = {"weights.HfApi": lambda: SimpleNamespace(model_info=model_info), "constants.ENDPOINT": "http://hub"}
    try:
        found = within(world, weights.listed, "org/m", "v1")
    except weights.UserError as error:
        return str(error)
    return "\n".join([*asked, found.id, found.commit, *map(plain, found.files)])


def two_files() -> Listing:
    return Listing("org/m", "c" * 40, (HubFile("w", 10, "a" * 64, "b" * 40), HubFile("t", 5, "", "f" * 40)))


def lacking(sizes) -> int:
    """Bytes to be downloaded where these are in the cache."""
    blobs = Path(f"lacks{len([*Path.cwd().glob('lacks*')])}", "models--org--m", "blobs")
    blobs.mkdir(parents=True)
    for name, size in sizes.items():
        (blobs / name).write_bytes(b"x" * size)
    return within({"constants.HF_HUB_CACHE": str(blobs.parents[1])}, lambda: two_files().lacking)


def fits_the_disk(free) -> str:
    """What is said of so much room in a cache that is not there yet."""
    cache, asked = Path.cwd() / "of" / "caches", []
    world = {"constants.HF_HUB_CACHE": str(cache)}
    world["weights.shutil.disk_usage"] = lambda path: asked.append(path) or SimpleNamespace(free=free)
    try:
        return str(within(world, weights.check_room, two_files()))
    except weights.UserError as error:
        return str(error).replace(str(Path.cwd()), "HERE")
    finally:
        assert asked == [Path.cwd()]


@pytest.mark.parametrize("text", ["machine", "network", "nodes"])
def test_the_doctor_says_what_is_on_record(text, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    named = {name: value for module in MODULES.values() for name, value in vars(module).items() if name[:2] != "__"}
    named |= {
        "id_of": fetch.id_of,
        "done": done,
        "subprocess": subprocess,
        "Outcome": Outcome,
        "nullcontext": nullcontext,
    }
    named |= {"HubFile": HubFile, "Listing": Listing}
    check_said(f"doctor_{text}", {**named, **MODULES, **globals(), "check": check_module}, shown)
