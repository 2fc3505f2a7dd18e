"""What was tried of a model without its weights: the records of ``raycade models --prove``, shipped ones and one's own.

A record says how far a shrunken model with random weights came on the real engine. It holds for the architecture, the
template and the processor of that id, and so, in parentheses, for the other models of its family.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from cluster.engines.tiny_model import cache_directory
from cluster.errors import UserError
from cluster.models.grades import GRADES, UNTRIED
from cluster.models.table import Model, rows
from envs.files import MissingFileError, read_json


@dataclass(frozen=True)
class Proof:
    """How far an id came."""

    id: str
    grade: str
    date: str
    versions: Mapping[str, str]
    config: str = ""
    """Where its config and chat template came from."""
    played: Mapping[str, str] = field(default_factory=dict)
    """What was asked, with what came of it."""
    label_difference: Mapping[str, float] = field(default_factory=dict)
    """Largest difference of log-probabilities of labels from those of transformers, with and without a picture."""
    cached: str = ""
    """Cached tokens of the prompts of a chat that gains a picture with each turn."""
    why: str = ""
    """What kept it from a better grade."""
    seconds: float = 0.0


def proof_of(model: Model) -> tuple[Proof | None, bool]:
    """The record for a model, and whether it is of its own id; else the best one of its family."""
    known = proofs()
    if model.id in known:
        return known[model.id], True
    ids = [row.id for row in rows().values() if row.family is model.family]
    family = [known[id] for id in ids if id in known]
    return min(family, key=lambda proof: GRADES.index(proof.grade), default=None), False


def grade_of(model: Model) -> str:
    """As the table prints it: in parentheses where another model of the family was tried."""
    proof, own = proof_of(model)
    if proof is None:
        return UNTRIED
    return proof.grade if own else f"({proof.grade})"


@lru_cache(maxsize=1)
def proofs() -> Mapping[str, Proof]:
    """All records by id: those that come with raycade, and before them one's own."""
    shipped: dict[str, Any] = json.loads(resources.files(__package__).joinpath("proofs.json").read_text("utf-8"))
    return {id: Proof(id=id, **values) for id, values in (shipped | _own()).items()}


def record(proof: Proof, into: Path | None = None) -> Path:
    """Write a record, in place of an earlier one of its id.

    Args:
        proof: The record.
        into: The file of records; by default one's own, in the cache directory.
    """
    path = into or _own_file()
    values = dataclasses.asdict(proof)
    del values["id"]
    before = json.loads(path.read_text("utf-8")) if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(dict(sorted({**before, proof.id: values}.items())), indent=1) + "\n", encoding="utf-8")
    proofs.cache_clear()
    return path


def _own_file() -> Path:
    return cache_directory() / "proofs.json"


def _own() -> dict[str, Any]:
    try:
        found = read_json(_own_file())
    except (MissingFileError, UserError):  # none yet, or no folder of caches
        return {}
    return found if isinstance(found, dict) else {}
