"""``raycade models``: the files of ``conf/model``, and which of them can be used on this machine."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Mapping
from importlib import resources
from typing import Any

import yaml

from cluster.config.registry import names_without_file
from cluster.console import show
from evals.reference import parameters_of
from evals.tables import Cell, Table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """``raycade models`` has no options."""
    parser.description = (
        "Lists what model=NAME can name: engine, parameters in billions (where the name says so), GPUs of a replica, most "
        "tokens of a reply, and whether it can be used on this machine."
    )


def main(options: argparse.Namespace) -> None:
    """Print the table."""
    show([list_models(count_gpus(), os.environ)])


def list_models(gpus: int, environment: Mapping[str, str]) -> Table:
    """A line for each model file, and each engine that a plugin registers.

    Args:
        gpus: Of this machine.
        environment: Where API keys are looked up.
    """
    rows = []
    for path in sorted(resources.files("conf").joinpath("model").iterdir(), key=lambda path: path.name):
        if path.name.endswith(".yaml"):
            rows.append(_row(path.name.removesuffix(".yaml"), yaml.safe_load(path.read_text()), gpus, environment))
    for name in names_without_file("model.engine"):
        rows.append((name, name, None, 0, None, "yes, from a plugin"))
    columns = ("model", "engine", "billions", "GPUs", "max tokens", "usable here")
    return Table("models", f"Models (this machine has {gpus} GPUs)", columns, tuple(rows))


def _row(name: str, model: Mapping[str, Any], gpus: int, environment: Mapping[str, str]) -> tuple[Cell, ...]:
    engine = model.get("engine")
    if engine is None:
        return (name, "built-in", None, 0, None, "yes")
    replica, needed = model.get("replica") or {}, 0
    needed = int(replica.get("gpus", 1) * replica.get("nodes", 1))
    size = parameters_of(str(engine.get("model") or "")) or parameters_of(name)
    obstacle = _obstacle(engine, needed, gpus, environment)
    tokens = (model.get("sampling") or {}).get("max_tokens")
    return (name, engine["type"], None if size is None else f"{size:g}", needed, tokens, obstacle or "yes")


def _obstacle(engine: Mapping[str, Any], needed: int, gpus: int, environment: Mapping[str, str]) -> str:
    """Why a model cannot be used here; empty if it can, as far as can be told without loading it."""
    if engine["type"] == "vllm" and importlib.util.find_spec("vllm") is None:
        return "no: vLLM is not installed"
    if needed > gpus:
        return f"no: needs {needed} GPU{'s' if needed > 1 else ''}"
    key = engine.get("api_key_env")
    if key and not environment.get(key) and not engine.get("base_url"):
        return f"with {key} in the environment"
    return ""


def count_gpus() -> int:
    """NVIDIA GPUs of this machine."""
    if shutil.which("nvidia-smi") is None:
        return 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines())
