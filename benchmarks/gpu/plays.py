"""What the kit plays: overrides of ``raycade run`` for models without weights, and one run with the GPU watched."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.gpu.device import Watch
from benchmarks.gpu.models import SIZES, model_folder
from cluster.storage.stored_run import Run

BASES = {"vision_3b": "qwen2_5_vl_3b", "vision_7b": "qwen2_5_vl_7b", "text_7b": "qwen2_5_7b"}
"""The row of ``conf/models.yaml`` with the settings of each size; tiny ones have those of ``tiny``."""


@dataclass(frozen=True)
class Slices:
    """How much is played."""

    reply_tokens: int
    kidgym: str
    multistar: str
    kumo: str
    kumo_long: str
    """Long enough to lose an engine in the middle."""

    def suites(self, *names: str) -> list[str]:
        """Overrides for a run of some suites."""
        return ["suite.suites=[" + ", ".join(getattr(self, name) for name in names) + "]", "baselines=[]"]


_KUMO = "{type: kumo, domains: [medical, fantasy], tasks_per_domain: 25, repeats: 2, max_steps: 10}"
FULL = Slices(
    reply_tokens=256,
    kidgym="{type: kidgym, modes: [zero_shot, cot], episodes: 3}",
    multistar="{type: multistar, puzzles: 1, priors: [none, model]}",
    kumo=_KUMO,
    kumo_long=_KUMO,
)
"""216 KidGym episodes of all tasks and levels, seven MSEval chains with their sweep, 200 KUMO episodes."""
DRY = Slices(
    reply_tokens=8,
    kidgym="{type: kidgym, tasks: [CL], levels: [1], modes: [zero_shot], episodes: 2}",
    multistar="{type: multistar, configurations: [center_single], attributes: [color], puzzles: 1, priors: [model]}",
    kumo="{type: kumo, domains: [medical], difficulties: [easy], tasks_per_domain: 16, repeats: 1, max_steps: 3}",
    kumo_long="{type: kumo, domains: [medical], difficulties: [easy], tasks_per_domain: 16, repeats: 60, max_steps: 3}",
)


def model_overrides(size: str, reply_tokens: int) -> list[str]:
    """A model of ``SIZES`` with random weights, whose free replies have exactly ``reply_tokens`` tokens."""
    base = BASES.get(size, "tiny")
    shared = [
        f"model={base}",
        f"model.name={size}",
        f"model.engine.model={model_folder(size)}",
        "model.engine.vllm={load_format: dummy}",
        f"model.sampling.max_tokens={reply_tokens}",
        f"model.sampling.min_tokens={reply_tokens}",
        "decoding=free",
    ]
    if base != "tiny":
        return shared
    small = ["model.engine.max_model_len=8192", "model.engine.max_num_seqs=8", "model.engine.kv_cache_gib=0.25"]
    return [*shared, *small, f"model.engine.limit_mm_per_prompt={{image: {16 if SIZES[size].vision else 0}}}"]


def play(
    overrides: list[str], run_dir: Path, timeout: float, during: Callable[[psutil.Process, Path], Any] | None = None
) -> dict[str, Any]:
    """One ``raycade run``: its speed, the GPU's utilization, and what ``during`` returns, called while it plays.

    Raises:
        RuntimeError: the run failed; the message ends with its errors.
    """
    command = [sys.executable, "-m", "cluster", "run", *overrides, f"run_dir={run_dir}"]
    start = time.monotonic()
    log = run_dir.with_suffix(".log")
    with Watch() as watch, log.open("wb") as output:
        process = psutil.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            found = during(process, run_dir) if during else None
            code = process.wait(timeout)
        except (psutil.TimeoutExpired, TimeoutError):
            end_all(process)
            code = -1
    if code:
        raise RuntimeError(f"exit code {code}: {log.read_text(errors='replace')[-1500:]}")
    (session,) = Run(run_dir).timings
    status = Run(run_dir).episodes(["status"])["status"].to_pylist()
    playing, requests = session["playing_seconds"], session["turns"] + session["shared"]
    slots = [each for each in session["use"].values() if each["slot_seconds"]]
    return {
        "seconds": time.monotonic() - start,
        "playing_seconds": playing,
        "episodes": len(status),
        "failed_episodes": status.count("failed"),
        "requests": requests,
        "requests_shared": session["shared"],
        "requests_per_second": requests / playing,
        "completion_tokens_per_second": session["completion_tokens"] / playing,
        "prompt_tokens_per_request": session["prompt_tokens"] / session["turns"],
        "prefix_cache_hit_rate": session["cached_tokens"] / session["prompt_tokens"],
        "slots_idle_while_work_was_queued": sum(each["idle_slot_seconds"] for each in slots)
        / max(1e-9, sum(each["slot_seconds"] for each in slots)),
        "replicas_lost": session["replicas_lost"],
        **watch.while_playing(playing),
        **(found or {}),
    }


def kill_an_engine(process: psutil.Process, run_dir: Path) -> dict[str, Any]:
    """Kill one of a run's engine processes as soon as its first episodes are in the ledger.

    Raises:
        TimeoutError: the run ended, or committed nothing, before one could be killed.
    """
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        if any((run_dir / "episodes").glob("*.parquet")):
            cores = [child for child in process.children(recursive=True) if is_engine(child)]
            if cores:
                cores[0].kill()
                return {"killed_engine": True}
        time.sleep(0.1)
    raise TimeoutError("the run ended before an engine could be killed")


def is_engine(process: psutil.Process) -> bool:
    """Whether a process is vLLM's EngineCore."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return "EngineCore" in process.name()
    return False


def end_in_time(
    command: list[str], log: Path, timeout: float, environment: Mapping[str, str] | None = None
) -> int | None:
    """A command's exit code, with its output in ``log``; None if it was killed, with its children, after ``timeout`` s."""
    with log.open("wb") as output:
        process = psutil.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            return int(process.wait(timeout))
        except psutil.TimeoutExpired:
            end_all(process)  # an engine left behind would hold the GPU's memory
            return None


def end_all(process: psutil.Process) -> None:
    """Kill a process and its descendants."""
    for each in [*process.children(recursive=True), process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
