"""What ``raycade doctor`` says of machines in all states, on record in ``tests/golden``: any word or figure shows."""

import json
import subprocess
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from huggingface_hub import constants, errors

from cluster.config.model import ReplicaNeeds
from cluster.doctor import check as check_module
from cluster.doctor import command, fetch, files, gpus, machine, network, nodes, weights
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
    return SimpleNamespace(f_bavail=free, f_frsize=1, f_blocks=total, f_files=inodes[0], f_favail=inodes[1])


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
