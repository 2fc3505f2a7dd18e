"""What raycade does on a GPU, without weights and without network.

    python -m benchmarks.gpu [--out gpu.json] [--stages all_suites,full_size] [--minutes 8]
    python -m benchmarks.gpu --dry          the same on the CPU, with tiny models and a few episodes

Plays slices of the three suites with models of published sizes and random weights, then the same calls in bare vLLM, and
sees whether answers are right under both of vLLM's model runners. Each stage's results are written as soon as it is done; a
stage that fails, or that the time does not suffice for, says so. Runs and logs are kept in a folder beside the results.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.gpu.device import describe
from benchmarks.gpu.plays import DRY, FULL
from benchmarks.gpu.stages import STAGES, Kit
from cluster.console import show
from evals.tables import Cell, Table

WIDEST = 40
"""Characters of a value in a table; the file has all of it."""
NO_GPU = "no NVIDIA GPU here: nothing was measured; --dry runs the same code on the CPU with tiny models"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("gpu.json"), help="results (default gpu.json)")
    parser.add_argument(
        "--stages", default=",".join(STAGES), help=f"of {', '.join(STAGES)}, without spaces; default all"
    )
    parser.add_argument("--minutes", type=float, default=8.0, help="start no stage after so long (default 8)")
    parser.add_argument("--dry", action="store_true", help="tiny models on the CPU")
    options = parser.parse_args(arguments)
    chosen = options.stages.split(",")
    if unknown := [name for name in chosen if name not in STAGES]:
        parser.error(f"--stages: unknown {', '.join(unknown)}; choose from {', '.join(STAGES)}")
    if not options.dry and not describe()["gpus"]:
        print(NO_GPU, file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix=f"{options.out.stem}-", dir=options.out.parent)).resolve()
    print(f"runs and logs: {folder}", flush=True)
    sizes = ("vision_tiny", "vision_tiny", "text_tiny") if options.dry else ("vision_7b", "vision_3b", "text_7b")
    kit = Kit(*sizes, DRY if options.dry else FULL, folder, options.dry, timeout=60 * options.minutes)
    found = run_stages(kit, chosen, options.out, options.minutes)
    return 1 if any("error" in each for each in found.values()) else 0


def run_stages(kit: Kit, chosen: list[str], out: Path, minutes: float) -> dict[str, Any]:
    """Run stages in their order, write ``out`` after each, and show each one's figures."""
    found: dict[str, Any] = {}
    begun = time.monotonic()
    for name, stage in STAGES.items():
        if name not in chosen:
            continue
        start = time.monotonic()
        if start - begun > 60 * minutes:
            found[name] = {"skipped": f"after {minutes:g} minutes"}
        else:
            try:
                found[name] = stage(kit, found)
            except Exception as error:  # the other stages' figures still count
                found[name] = {"error": f"{type(error).__name__}: {error}"[-2000:]}
        found[name]["stage_seconds"] = time.monotonic() - start
        draft = out.with_name(f"{out.name}.draft")
        draft.write_text(json.dumps(found, indent=1) + "\n")
        draft.replace(out)
        show([Table(name, name.replace("_", " "), ("metric", "value"), tuple(rows(found[name])))])
    return found


def rows(figures: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Cell]]:
    """Figures as rows of a table at 80 columns: those of a mapping one by one, of a list the smallest and the largest."""
    for name, value in figures.items():
        label = prefix + name.replace("_", " ")
        if isinstance(value, Mapping):
            yield from rows(value, f"{label}: ")
        elif isinstance(value, list) and value and all(isinstance(each, int | float) for each in value):
            yield label, f"{min(value):.3g} to {max(value):.3g}"
        elif isinstance(value, list):
            yield label, f"{len(value)} entries"
        else:
            yield label, value if isinstance(value, int | float) else str(value)[:WIDEST]


if __name__ == "__main__":
    sys.exit(main())
