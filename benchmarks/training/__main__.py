"""Steps per second through each training library, and its own checks; what is not beside us gets an environment of its own.

    python -m benchmarks.training [--only gymnasium openenv verifiers nemo_gym] [--folder FOLDER] [--seconds 5]

The libraries are installed from the registry into FOLDER (kept, so that a second run is faster), with Python 3.12. Rates are
steps per CPU second of everything in the process, relative to ``play_episode`` alone in the same process; the rollouts of
verifiers and NeMo Gym, which go through servers, are steps per second of wall time and have no such relation. A fixed policy
plays the tutorial's suite (text), KUMO (text) and KidGym (pictures); a model server of ours replies the same to everything.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cluster.console import show
from cluster.engines import torch_compat
from cluster.engines.tiny_model import ensure_tiny_model
from evals.tables import Cell, Table

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"openenv": "openenv==0.10.0", "verifiers": "verifiers==0.4.0", "nemo_gym": "nemo-gym==0.4.0"}
NEEDED = [
    *(
        "numpy",
        "pillow",
        "pyyaml",
        "defusedxml",
        "pydantic",
        "annotated-types",
        "typing-extensions",
        "pyarrow",
        "scipy",
    ),
    *("rich", "jinja2", "starlette", "uvicorn", "httpx", "gymnasium", "resvg-py==0.5.0", "emosvg==0.1.7", "python-sat"),
    *("numba", "networkx"),
]
"""Of raycade's dependencies, what playing needs: Ray, Hydra and W&B are left out."""
BLOCK = re.compile(r"^\*\*(\S+)\*\*\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
READY_SECONDS = 300
HUNT = {"highest": 50, "episodes": 50}


def environment(library: str, folder: Path) -> Path:
    """The interpreter of an environment with a library and raycade; made if it is not there."""
    python = folder / library / "bin" / "python"
    if not python.exists():
        found = shutil.which("python3.12")
        if found is None or subprocess.run([found, "--version"], capture_output=True).returncode:
            raise SystemExit("skipped: there is no python3.12 on PATH")
        start = time.monotonic()
        subprocess.run([found, "-m", "venv", str(folder / library)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, PACKAGES[library]], check=True)
        subprocess.run([*pip, *NEEDED], check=True)
        print(f"{PACKAGES[library]}: installed in {time.monotonic() - start:.0f} s", file=sys.stderr)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--editable", str(ROOT)], check=True)
    return python


def plugins(folder: Path) -> Path:
    """The tutorial's suite as a plugin folder."""
    place = folder / "plugins"
    place.mkdir(exist_ok=True)
    files = dict(BLOCK.findall((ROOT / "docs" / "new_suite.md").read_text()))
    for name in ("number_hunt.py", "plugins.toml"):
        (place / name).write_text(files[name])
    return place


def call(command: Sequence[object], folder: Path, **more: str) -> str:
    """Run a command of an environment; its standard output."""
    variables = {**os.environ, "RAYCADE_PLUGINS": str(folder / "plugins"), "PYTHONPATH": str(ROOT), **more}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env=variables, cwd=folder)
    if done.returncode:
        raise SystemExit(f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


@contextmanager
def running(command: Sequence[object], folder: Path, port: int, **more: str) -> Iterator[str]:
    """A server in a process of its own, once it listens; its address."""
    variables = {**os.environ, "RAYCADE_PLUGINS": str(folder / "plugins"), "PYTHONPATH": str(ROOT), **more}
    log = folder / f"server-{port}.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [*map(str, command)], env=variables, cwd=folder, stdout=out, stderr=out, start_new_session=True
        )
    try:
        for _ in range(1200):
            if process.poll() is not None:
                raise SystemExit(log.read_text()[-3000:])
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, 2)
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def measured(python: object, what: str, seconds: float, folder: Path) -> list[dict[str, Any]]:
    """The lines of ``benchmarks.training.plays``."""
    said = call([python, "-m", "benchmarks.training.plays", what, seconds], folder)
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


def gymnasium(folder: Path, seconds: float) -> list[dict[str, Any]]:
    """Beside us, so in this interpreter; ``check_env`` is part of the tests."""
    return measured(sys.executable, "gymnasium", seconds, folder)


def openenv(folder: Path, seconds: float) -> list[dict[str, Any]]:
    """Its client and its validator."""
    python = environment("openenv", folder)
    port = free_port()
    serve = [python, "-m", "cluster", "environment", "openenv", "number_hunt", "highest=50", "--port", port]
    with running(serve, folder, port) as address:
        said = call([python.with_name("openenv"), "validate", "--url", address], folder)
    verdict = next(line for line in said.splitlines() if line.startswith("Verdict"))
    return [
        *measured(python, "openenv", seconds, folder),
        {"library": "openenv", "check": f"openenv validate: {verdict}"},
    ]


def verifiers(folder: Path, seconds: float) -> list[dict[str, Any]]:
    """Rollouts by its own client: against a model server that answers at once, and against vLLM with the tiny model."""
    python = environment("verifiers", folder)
    port, found = free_port(), []
    kidgym = {"tasks": ["CL", "SE"], "levels": [1], "modes": ["zero_shot"], "episodes": 25, "reward": "regret"}
    with running([python, "-m", "benchmarks.training.plays", "model", port], folder, port) as address:
        for name, settings in (("number_hunt", HUNT), ("kidgym", kidgym)):
            traces = rollouts(python, address, "fixed", name, settings, 10, folder)
            spans = [trace["timing"]["agent"] for trace in traces]
            turns = sum(len(trace["info"]["turn_rewards"]) for trace in traces)
            rate = turns / (max(span["end"] for span in spans) - min(span["start"] for span in spans))
            found.append({"library": "verifiers", "suite": name, "pictures": name == "kidgym", "wall": rate})
    port = free_port()
    serve = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", ensure_tiny_model()]
    serve += ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", port, "--dtype", "float32"]
    serve += ["--max-model-len", 8192, "--max-num-seqs", 16, "--enforce-eager"]
    cure = str(Path(torch_compat.__file__).parent)
    quiet = {"VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": cure}
    with running(serve, folder, port, **quiet) as address:
        for name, settings in (("number_hunt", HUNT), ("kidgym", kidgym)):
            rollouts(python, address, "tiny", name, settings, 2, folder)
    return [*found, {"library": "verifiers", "check": "vf-eval: 40 of 40 rollouts ok, 8 of 8 with vLLM"}]


def rollouts(
    python: Path, address: str, model: str, suite: str, settings: dict[str, Any], games: int, folder: Path
) -> list[dict[str, Any]]:
    """What ``vf-eval`` recorded of two rollouts of so many games, of which none may have failed."""
    with tempfile.TemporaryDirectory() as out:
        play = [python.with_name("vf-eval"), "raycade", "--env.taskset.suite", suite]
        play += ["--env.taskset.settings", json.dumps(settings), "--model", model]
        play += ["--client.base-url", f"{address}/v1", "--client.api-key-var", "NO_KEY"]
        play += ["--select.limit", games, "-r", 2, "--no-push", "--no-rich", "--output-dir", out]
        call(play, folder, NO_KEY="x")
        (file,) = Path(out).glob("*/traces.jsonl")
        episodes = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(episodes) == 2 * games and all(episode["ok"] for episode in episodes)
    return [trace for episode in episodes for trace in episode["traces"]]


def nemo_gym(folder: Path, seconds: float) -> list[dict[str, Any]]:
    """Its validator, and rollouts by its own agent through its servers."""
    python = environment("nemo_gym", folder)
    shutil.rmtree(folder / "resources_servers", ignore_errors=True)
    words = [f"{key}={value}" for key, value in HUNT.items()]
    write = [python, "-m", "cluster", "environment", "nemo-gym", "--out", "resources_servers/hunt", "--games", 20]
    call([*write, "number_hunt", *words], folder)
    config = "resources_servers/hunt/configs/hunt.yaml"
    said = call([python.with_name("gym"), "env", "validate", "--config", config], folder)
    check = {"library": "nemo_gym", "check": f"gym env validate: {said.strip().splitlines()[-1].strip('✓ ')}"}
    # Its servers would each get an environment from the registry; ours has all that they need.
    for server in ("resources_servers/hunt", "responses_api_agents/gymnasium_agent", "responses_api_models/vllm_model"):
        (folder / "venvs" / server).mkdir(parents=True, exist_ok=True)
        link = folder / "venvs" / server / ".venv"
        if not link.exists():
            link.symlink_to(folder / "nemo_gym")
    port, head = free_port(), 11000
    model = "responses_api_models/vllm_model/configs/vllm_model.yaml"
    with running([python, "-m", "benchmarks.training.plays", "model", port], folder, port) as address:
        start = [python.with_name("gym"), "env", "start", "--config", config, "--config", model]
        start += [f"+policy_base_url={address}/v1", "+policy_api_key=x", "+policy_model_name=fixed"]
        start += ["+skip_venv_if_present=true", f"+uv_venv_dir={folder / 'venvs'}"]
        with running(start, folder, head, RAY_ADDRESS="local", RAY_TMPDIR=tempfile.mkdtemp(prefix="ray")):
            collect = [python.with_name("ng_collect_rollouts"), "+agent_name=hunt_gymnasium_agent"]
            rows, out = "resources_servers/hunt/data/train.jsonl", folder / "rollouts.jsonl"
            log = folder / f"server-{head}.log"
            for _ in range(READY_SECONDS):  # the head server answers before the others do
                if "policy_model (" in log.read_text():
                    break
                time.sleep(1)
            else:
                raise SystemExit(f"NeMo Gym's servers did not come up within {READY_SECONDS} s, see {log}")
            begun = time.monotonic()
            call([*collect, f"+input_jsonl_fpath={rows}", f"+output_jsonl_fpath={out}", "+limit=20"], folder)
            took = time.monotonic() - begun
    rollouts = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rollouts) == 20 and all(rollout["terminated"] for rollout in rollouts)
    turns = sum(
        sum(item["type"] == "message" and item["role"] == "assistant" for item in r["response"]["output"])
        for r in rollouts
    )
    rate = {"library": "nemo_gym", "suite": "number_hunt", "pictures": False, "wall": turns / took}
    return [rate, check, {"library": "nemo_gym", "check": "ng_collect_rollouts: 20 of 20 rollouts terminated"}]


LIBRARIES = {"gymnasium": gymnasium, "openenv": openenv, "verifiers": verifiers, "nemo_gym": nemo_gym}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "raycade-training"))
    parser.add_argument("--seconds", type=float, default=5.0, help="of CPU for each measurement (default %(default)s)")
    options = parser.parse_args()
    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    plugins(folder)
    rates: list[tuple[Cell, ...]] = []
    checks: list[tuple[Cell, ...]] = []
    for name in options.only:
        for found in LIBRARIES[name](folder, options.seconds):
            print(json.dumps(found), file=sys.stderr, flush=True)
            if "check" in found:
                checks.append((name, found["check"]))
            elif "episodes" in found:
                same = found["same"] and not found["different"]
                result = "identical" if same else f"different: {', '.join(found['different'])}"
                checks.append((name, f"{found['episodes']} episodes of {found['suite']} against direct play: {result}"))
            else:
                bare, rate = found.get("bare"), found.get("rate")
                ratio = rate / bare if bare and rate else None
                rates.append(
                    (name, found["suite"], "yes" if found["pictures"] else "no", bare, rate, ratio, found.get("wall"))
                )
    columns = (
        "library",
        "suite",
        "pictures",
        "bare, steps per CPU s",
        "library, steps per CPU s",
        "ratio",
        "rollouts, steps per s",
    )
    show([Table("training", "Steps through each library", columns, tuple(rates))])
    if checks:
        show([Table("training_checks", "Checks", ("library", "result"), tuple(checks))])


if __name__ == "__main__":
    main()
