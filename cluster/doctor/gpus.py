"""Checks of GPUs and of engines: the driver, and a small engine with random weights on each GPU alone."""

from __future__ import annotations

import functools
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.doctor.check import Check, Need, Outcome, first_words, ok, skipped

ENGINE_SECONDS = 300.0
"""For the first engine, which may compile kernels."""
BUSY_SHARE = 0.05
"""A GPU of which more than this is in use before anything started belongs to someone else too."""


@dataclass(frozen=True)
class Gpu:
    """One GPU, as nvidia-smi tells of it."""

    index: str
    name: str
    total_mib: float
    used_mib: float

    @property
    def free_share(self) -> float:
        """Of its memory."""
        return 1 - self.used_mib / self.total_mib if self.total_mib else 0.0


def ask_driver(*options: str) -> str | None:
    """What nvidia-smi prints; None where there is no driver, or it does not answer."""
    try:
        done = subprocess.run(["nvidia-smi", *options], capture_output=True, timeout=30, text=True, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


@functools.cache
def gpus_here() -> tuple[Gpu, ...]:
    """The GPUs of this machine that this process may use."""
    text = ask_driver("--query-gpu=index,name,memory.total,memory.used", "--format=csv,noheader,nounits") or ""
    found = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 4:
            index, name, total, used = fields
            found.append(Gpu(index, name, _mib(total), _mib(used)))
    return _visible(found)


def _mib(size: str) -> float:
    """A size as the driver says it; 0 for one that it does not know, which is a word in brackets."""
    return float(size) if re.fullmatch(r"[\d.]+", size) else 0.0


def _visible(gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Those that ``CUDA_VISIBLE_DEVICES`` leaves."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not visible:
        return tuple(gpus)
    chosen = [each.strip() for each in visible.split(",")]
    by_index = tuple(gpu for gpu in gpus if gpu.index in chosen)
    # CUDA takes other names too (GPU-6f..., MIG-...), which this list lacks: then all of them may be meant.
    return by_index or tuple(gpus)


def driver(need: Need) -> Outcome:
    """The driver's CUDA against that of the installed torch, which vLLM's kernels are built with."""
    built = _cuda_of_torch()
    text = ask_driver()
    asked = need.vllm and need.model.replica.gpus > 0
    setup = "RAYCADE_BUILD=gpu ./launch.sh setup, on a machine or file system that this one reads"
    if text is None:
        if Path("/proc/driver/nvidia").is_dir() or list(Path("/dev").glob("nvidia[0-9]*")):
            mend = "in a container: --gpus all (Docker), --nv (Apptainer); else as root: modprobe nvidia, or a restart"
            return Outcome("fail", "GPUs are here, but nvidia-smi does not answer", "every engine on a GPU", mend)
        if asked:
            mend = "run the doctor where the replicas will run: in a job with --gpus-per-node, or cluster.address=HOST:PORT"
            return Outcome("warn", f"no GPU here; model={need.model.name} needs one", "replicas on this machine", mend)
        return skipped("no GPU here")
    if not built:
        if asked:
            return Outcome("fail", "GPUs are here, but torch is a build for CPUs", "engines would use the CPU", setup)
        return ok("GPUs are here; torch is a build for CPUs, as the model asks")
    found = re.search(r"CUDA Version:\s*(\d+)\.(\d+)", text)
    if found is None:
        return Outcome(
            "warn", "nvidia-smi does not tell its version", "perhaps engines on GPUs", "nvidia-smi, and read it"
        )
    offered = (int(found[1]), int(found[2]))
    wanted = tuple(int(part) for part in built.split(".")[:2])
    said = f"driver for CUDA {offered[0]}.{offered[1]}, vLLM's torch has {built}"
    if offered[0] < wanted[0]:
        mend = f"a newer driver (ask the site), or a build of vLLM for CUDA {offered[0]}"
        return Outcome("fail", said, "every kernel (CUDA driver version is insufficient)", mend)
    if offered < wanted:
        mend = "a newer driver, if an engine below fails"
        return Outcome("warn", said, "kernels that are compiled when an engine starts (unsupported toolchain)", mend)
    return ok(said)


def _cuda_of_torch() -> str:
    """The version of CUDA that torch was built with, without importing it; empty for a build for CPUs."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return ""
    version = Path(spec.origin).with_name("version.py")
    found = re.search(r"^cuda\b[^=]*= *['\"]([\d.]+)", version.read_text(), re.MULTILINE) if version.is_file() else None
    return found[1] if found else ""


def gpu_memory(need: Need) -> Outcome:
    """Memory of each GPU that is free before anything starts."""
    gpus = gpus_here()
    if not gpus:
        return skipped("no GPU here")
    wanted = float(need.engine.get("gpu_memory_utilization") or 0.9)
    on_gpu = need.vllm and need.model.replica.gpus
    used = [gpu for gpu in gpus if gpu.free_share < wanted]
    if on_gpu and used:
        # Whole percents that are free: rounding up would show what is wanted.
        names = ", ".join(f"{gpu.index} ({math.floor(100 * gpu.free_share)}% free)" for gpu in used)
        # A little less than the fullest GPU has left.
        least = min(gpu.free_share for gpu in used)
        possible = max(0.1, least - 0.02)
        return Outcome(
            "fail",
            f"too little is free on GPU {names}; {wanted:.0%} is wanted",
            "vLLM (Free memory on device ... is less than desired)",
            "end who holds it (nvidia-smi names processes; those of a job before may take a minute), or "
            f"model.engine.gpu_memory_utilization={possible:.2f}",
        )
    found = f"{len(gpus)} x {gpus[0].name}, {gpus[0].total_mib / 1024:.0f} GB"
    busy = [gpu.index for gpu in gpus if gpu.free_share < 1 - BUSY_SHARE]
    if busy:
        found += f"; in use: {', '.join(busy)}"
    return ok(found)


def engines(need: Need) -> Outcome:
    """A small engine with random weights on each GPU alone, asked for a label; on the CPU without one."""
    if need.quick:
        return skipped("--quick")
    if not need.vllm:
        return skipped(f"model={need.model.name} is not loaded by vLLM")
    on_gpu = need.model.replica.gpus > 0
    places = [gpu.index for gpu in gpus_here()] if on_gpu else [""]
    if not places:
        return skipped("no GPU here")
    # The first alone, for it fills the caches of compiled kernels; then all others at once.
    answers = [_probed(need, places[0])]
    with ThreadPoolExecutor(8) as pool:
        answers += pool.map(lambda place: _probed(need, place), places[1:])
    failed = [(place, answer["error"]) for place, answer in zip(places, answers, strict=True) if "error" in answer]
    if failed:
        return _not_answering(failed, places, on_gpu)
    if len(places) > 1:
        where = f"{len(places)} GPUs, each"
    elif on_gpu:
        where = "GPU " + places[0]
    else:
        where = "CPU"
    first = answers[0]
    return ok(
        f"{where} answered {first['label']} after {first['seconds']:.0f} s; model runner {first['runner']}, "
        f"{first['step']:,} tokens a step"
    )


def _not_answering(failed: Sequence[tuple[str, str]], places: Sequence[str], on_gpu: bool) -> Outcome:
    """Where engines did not answer, with the first one's error.

    Args:
        failed: Places with errors, one at least.
        places: All that were tried.
        on_gpu: Whether they are GPUs; else the only place is the CPU.
    """
    broken = [place for place, _ in failed]
    others = [place for place in places if place not in broken]
    where = f"GPU {', '.join(broken)}" if on_gpu else "the CPU"
    mend = "the text above names the cause; the checks of driver, memory, /dev/shm and packages may say more"
    # Where other GPUs have answered, these can be left out.
    if others:
        mend = (
            f"leave it out: export CUDA_VISIBLE_DEVICES={','.join(others)}; on Slurm "
            "--exclude=NODE; and have the site look at it (nvidia-smi -q, dmesg)"
        )
    return Outcome("fail", f"{where}: {first_words(failed[0][1])}", "every replica there", mend)


def _probed(need: Need, gpu: str) -> dict[str, Any]:
    """What a small engine in a process of its own says; its error where it did not start."""
    environment = dict(os.environ)
    if gpu:
        environment["CUDA_VISIBLE_DEVICES"] = gpu
    asked = {"step": need.engine.get("max_num_batched_tokens")}
    command = [sys.executable, "-P", "-m", "cluster.doctor.small_engine", json.dumps(asked)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=ENGINE_SECONDS, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {ENGINE_SECONDS:.0f} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode == 0 and lines:
        answer: dict[str, Any] = json.loads(lines[-1])
        return answer
    said = [line for line in done.stderr.splitlines() if line.strip()]
    if not said:
        return {"error": f"ended with exit code {done.returncode}"}
    return {"error": said[-1]}


CHECKS = (
    Check("driver", "driver against vLLM's CUDA", driver),
    Check("GPU memory", "free memory of each GPU", gpu_memory),
    Check("engine", "a small engine, asked for a label", engines),
)
