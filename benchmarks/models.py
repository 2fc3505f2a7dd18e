"""Tries families of the table without weights, on the real engine, and writes what came of it into cluster/models/proofs.json.

    python -m benchmarks.models [NAME ...]

By default one model of each family of which a copy of the config lies in cluster/models/configs. Each has a process of its
own, one after the other: 20 to 60 s on an idle machine, half a gigabyte of disk for a while. Needs vLLM and no network.
Prints the table of docs/models.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from cluster.models.prove import CAUSAL
from cluster.models.table import rows

SECONDS = 1800
"""For one model."""
HEAD = (
    "| id | tried | labels: largest difference, text / with a picture | growing chat: cached of prompt tokens | "
    "what kept it from more | seconds |",
    "| --- | --- | --- | --- | --- | --- |",
)
SHIPPED = Path(__file__).resolve().parents[1] / "cluster" / "models" / "proofs.json"


def main() -> None:
    """Try models, and print a line of the table for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    print(*HEAD, sep="\n", flush=True)
    for name in parser.parse_args().names or copied():
        with tempfile.TemporaryDirectory(prefix="raycade-proofs-") as cache:
            print(tried(name, Path(cache)), flush=True)


def copied() -> list[str]:
    """The models of which there is a copy of the config."""
    folder = resources.files("cluster.models").joinpath("configs")
    there = {file.name.removesuffix(".json").replace("--", "/") for file in folder.iterdir()}
    return [row.name for row in rows().values() if row.id in there]


def tried(name: str, cache: Path) -> str:
    """Try one model, keep its record, and give its line of the table."""
    command = [sys.executable, "-m", "cluster", "models", "--prove", name]
    environment = {**os.environ, "RAYCADE_CACHE": str(cache)}
    try:
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"| {name} | no end within {SECONDS} s |"
    found = cache / "proofs.json"
    if not found.exists():
        return f"| {name} | exit code {ended.returncode}: {ended.stderr.strip()[-300:]} |"
    new = json.loads(found.read_text())
    SHIPPED.write_text(json.dumps(dict(sorted({**json.loads(SHIPPED.read_text()), **new}.items())), indent=1) + "\n")
    ((id, record),) = new.items()
    return line(id, record)


def line(id: str, record: Mapping[str, Any]) -> str:
    """What came of a model, as a line of the table."""
    of = {what: f"{value:.0e}" for what, value in record["label_difference"].items()}
    labels = " / ".join(of[what] for what in ("text", "with a picture") if what in of)
    labels += f" ({of[CAUSAL]})" if CAUSAL in of else ""
    cells = (id, record["grade"], labels, record["cached"], record["why"], f"{record['seconds']:.0f}")
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
