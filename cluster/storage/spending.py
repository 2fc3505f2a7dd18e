"""What a run has spent on a metered engine, over all its sessions."""

from __future__ import annotations

import json
import math
from pathlib import Path

from cluster.errors import UserError
from cluster.storage.durable import write_durably
from envs.files import read_json

SPENDING = "spending.json"


def read_spent(run_dir: Path) -> float:
    """The sum that earlier sessions noted; 0 for a new run.

    Raises:
        UserError: the note is damaged: starting at 0 would let the spend cap be exceeded.
    """
    path = run_dir / SPENDING
    if not path.exists():
        return 0.0
    try:
        spent = float(read_json(path)["spent"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: damaged, cannot be read as what the run has spent: {error}") from error
    if not math.isfinite(spent) or spent < 0:
        raise UserError(f"{path}: damaged: spent={spent}")
    return spent


def write_spent(run_dir: Path, spent: float) -> None:
    """Note what all sessions have spent together."""
    write_durably(run_dir / SPENDING, (json.dumps({"spent": spent}) + "\n").encode())
