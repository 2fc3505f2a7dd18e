"""Tries families of the table without weights, on the real engine, and writes what came of it into cluster/models/proofs.json.

    python -m benchmarks.models [NAME ...]

By default one model of each family of which a copy of the config lies in cluster/models/configs. Each has a process of its
own, one after the other: 20 to 60 s on an idle machine, half a gigabyte of disk for a while. Needs vLLM and no network.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

from cluster.models.table import rows

SECONDS = 1800
"""For one model."""
SHIPPED = Path(__file__).resolve().parents[1] / "cluster" / "models" / "proofs.json"


def main() -> None:
    """Try models, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    for name in parser.parse_args().names or copied():
        with tempfile.TemporaryDirectory(prefix="raycade-proofs-") as cache:
            print(f"{name}: {tried(name, Path(cache))}", flush=True)


def copied() -> list[str]:
    """The models of which there is a copy of the config."""
    folder = resources.files("cluster.models").joinpath("configs")
    there = {file.name.removesuffix(".json").replace("--", "/") for file in folder.iterdir()}
    return [row.name for row in rows().values() if row.id in there]


def tried(name: str, cache: Path) -> str:
    """Try one model, keep its record, and say what came of it."""
    command = [sys.executable, "-m", "cluster", "models", "--prove", name]
    environment = {**os.environ, "RAYCADE_CACHE": str(cache)}
    try:
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"no end within {SECONDS} s"
    found = cache / "proofs.json"
    if not found.exists():
        return f"exit code {ended.returncode}: {ended.stderr.strip()[-300:]}"
    new = json.loads(found.read_text())
    SHIPPED.write_text(json.dumps(dict(sorted({**json.loads(SHIPPED.read_text()), **new}.items())), indent=1) + "\n")
    (record,) = new.values()
    differences = ", ".join(f"{what} {value:.1e}" for what, value in record["label_difference"].items())
    return f"{record['grade']}; labels: {differences or '–'}; {record['seconds']:.0f} s; {record['why'] or 'as it should be'}"


if __name__ == "__main__":
    main()
