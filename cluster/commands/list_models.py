"""``raycade models``: what ``model=NAME`` can name, what each needs, and what was tried of it."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import yaml

from cluster.config.registry import names_without_file
from cluster.console import show
from cluster.errors import UserError
from cluster.models.cached_share import blocks_of
from cluster.models.grades import CONFIG, EXACT, GRADES, UNTRIED
from cluster.models.memory import cache_bytes, fit_on, parallel_sizes
from cluster.models.proofs import grade_of, proof_of
from cluster.models.table import CONTEXT, GIB, Model, gpus, rows, section_of
from envs.suggest import did_you_mean
from evals.tables import Cell, Table

SIZES = ("l40s", "h100", "h200")
"""GPUs of 48, 80 and 141 GB."""


def main(options: argparse.Namespace) -> None:
    """Print the table, or try a model.

    Raises:
        UserError: nothing is found.
    """
    if options.prove:
        from cluster.models.prove import prove_here

        show([prove_here(options.prove)])
        return
    found = [row for row in rows().values() if _is_wanted(row, options)]
    filters = (options.words, options.fits, options.vision, options.grade)
    if not found:
        near = did_you_mean(options.words[0], rows()) if options.words else ""
        raise UserError(f"no model of the table is like this{near}")
    if options.json:
        print(json.dumps([_facts(row) for row in found], indent=1))
        return
    if len(found) == 1:
        show([_one(found[0])])
        return
    tables = [list_models(found)]
    if not any(filters):
        tables.append(list_others(count_gpus(), os.environ))
    show(tables)


def _is_wanted(row: Model, options: argparse.Namespace) -> bool:
    """Whether a row passes every filter that was given."""
    family = row.family
    text = f"{row.name} {row.id} {family.name} {family.architecture} {row.license} {family.cache}".lower()
    if not all(word.lower() in text for word in options.words):
        return False
    if options.vision and not family.sees:
        return False
    return _fits_one(row, options.fits) and _came_to(row, options.grade)


def _fits_one(row: Model, memory: float | None) -> bool:
    """Whether a model fits one GPU of the table that has no more than this many GB."""
    if memory is None:
        return True
    small_enough = [gpu for gpu in gpus().values() if gpu.memory <= memory]
    return any(fit_on(row, gpu, CONTEXT, 1) for gpu in small_enough)


def _came_to(row: Model, grade: str | None) -> bool:
    """Whether a model, or another one of its family, was tried as far as this grade; the best grade stands first."""
    if grade is None:
        return True
    proof, _ = proof_of(row)
    return proof is not None and GRADES.index(proof.grade) <= GRADES.index(grade)


def list_models(found: Sequence[Model]) -> Table:
    """A line for each model of the table."""
    columns = ("model", "billions", "GiB", "48", "80", "141", "sees", "thinks", "tried")
    lines: list[tuple[Cell, ...]] = []
    for row in found:
        fewest = [_gpus(row, name) for name in SIZES]
        sees = "yes" if row.family.sees else ""
        thinks = row.thinking.default if row.thinking else ""
        tried = _short(grade_of(row))
        lines.append((row.name, _billions(row), f"{row.weights():.0f}", *fewest, sees, thinks, tried))
    notes = (
        "Billions: of parameters, and those that a token uses.",
        f"48, 80, 141: the fewest GPUs of so many GB that hold the published weights and one sequence of {CONTEXT:,} tokens.",
        "Tried: without weights, shrunken, on the real engine, as far as: config (it does not start on a CPU), loaded, played, "
        "exact (and labels as in transformers); in parentheses another model of the family.",
        "All of one model: `raycade models NAME`; of all: `--json`.",
    )
    return Table("models", "Open models", columns, tuple(lines), notes)


def _short(grade: str) -> str:
    for long, short in ((EXACT, "exact"), (CONFIG, "config"), (UNTRIED, "")):
        grade = grade.replace(long, short)
    return grade


def _billions(row: Model) -> str:
    return f"{row.total:g}" if row.active == row.total else f"{row.total:g}/{row.active:g}"


def _gpus(row: Model, gpu: str) -> str:
    fit = fit_on(row, gpus()[gpu], CONTEXT)
    return str(fit.gpus) if fit else "–"


def _one(row: Model) -> Table:
    """All that is known of one model."""
    lines = []
    for name, value in _facts(row).items():
        text = value if isinstance(value, str) else json.dumps(value)
        lines.append((name, text))
    return Table("model", row.name, ("", "value"), tuple(lines))


def _facts(row: Model) -> dict[str, Any]:
    family, proof = row.family, proof_of(row)[0]
    section = section_of(row.name, row)
    blocks = blocks_of(section["engine"])
    gated = ", gated" if row.gated else ""
    formats = dict.fromkeys((row.published, "bf16", "fp8", "int4"))
    facts = {
        "name": row.name,
        "id": row.id,
        "family": family.name,
        "architecture": family.architecture,
        "license": row.license + gated,
        "remote code": row.remote_code,
        "billions": row.total,
        "billions used": row.active,
        "published as": row.published,
        "GiB": {name: round(row.weights(name), 1) for name in formats},
        "GPUs of 48, 80, 141 GB": [_gpus(row, name) for name in SIZES],
        "tensor_parallel_size": parallel_sizes(row.shape),
        "cache": f"{family.cache}, {cache_bytes(row.shape, CONTEXT) / GIB:.2f} GiB for {CONTEXT:,} tokens",
        "cache blocks": f"{blocks.tokens:,} tokens: {blocks.rule}" if blocks is not None else "unknown",
        "step tokens": row.step,
        "template": _set(family.template),
        "thinking": _set(row.thinking),
        "pictures": _set(family.pictures) if family.sees else "none",
        "processor": family.processor,
        "sampling": section["sampling"],
        "verified": row.verified or "unverified",
        "tried": grade_of(row),
    }
    if proof is not None:
        used = ", ".join(f"{name} {version}" for name, version in proof.versions.items())
        facts["tried as"] = f"{proof.id}, {proof.date}, {used}"
    return facts


def _set(facts: object) -> Any:
    """The fields that say something; of a family without a rule that there is none."""
    if not facts:
        return "none known"
    return {name: value for name, value in vars(facts).items() if value}


def list_others(gpus: int, environment: Mapping[str, str]) -> Table:
    """A line for each model file, and each engine that a plugin registers.

    Args:
        gpus: Of this machine.
        environment: Where API keys are looked up.
    """
    lines: list[tuple[Cell, ...]] = []
    for path in sorted(resources.files("conf").joinpath("model").iterdir(), key=lambda path: path.name):
        if not path.name.endswith(".yaml"):
            continue
        name, model = path.name.removesuffix(".yaml"), yaml.safe_load(path.read_text())
        engine = model.get("engine")
        if engine is None:
            lines.append((name, "built-in", "yes"))
        else:
            usable = _obstacle(engine, environment) or "yes"
            lines.append((name, engine["type"], usable))
    lines += [(name, name, "yes, from a plugin") for name in names_without_file("model.engine")]
    title = f"Other players (this machine has {gpus} GPUs)"
    return Table("other_players", title, ("model", "engine", "usable here"), tuple(lines))


def _obstacle(engine: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    """Why a model cannot be used here; empty if it can, as far as can be told without loading it."""
    if engine["type"] == "vllm" and importlib.util.find_spec("vllm") is None:
        return "no: vLLM is not installed"
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
