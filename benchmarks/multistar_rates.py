"""Base rates of the answers to each kind of MultiStAR question: writes evals/suites/multistar/questions/answer_rates.json.

Run: nice python -m benchmarks.multistar_rates [problems]

``problems`` (3,000) are generated per configuration. Run it again whenever the generation of problems or
questions changes; options are drawn with these rates.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

from benchmarks.arguments import whole_numbers
from envs.raven import CONFIGURATIONS, generate
from evals.suites.multistar.questions import options
from evals.suites.multistar.questions.chain import chain_sketches
from evals.suites.multistar.questions.direct import direct_sketches

FILE = Path(options.__file__).with_name("answer_rates.json")
FIRST_SEED = 10_000_000
"""Other problems than anybody is asked about."""


def counted(configuration: str, problems: int) -> dict[str, dict[str, float]]:
    """Rates of all kinds of questions on one configuration."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for number in range(problems):
        problem = generate(configuration, FIRST_SEED + number)
        sketches = {
            sketch.name: sketch.draft for make in (direct_sketches, chain_sketches) for sketch in make(problem, 0)
        }
        for name, draft in sketches.items():
            if name != "final":
                found[options.kind_of(name, draft)][draft.truth] += 1
    return {
        kind: {answer: round(count / counts.total(), 4) for answer, count in sorted(counts.items())}
        for kind, counts in sorted(found.items())
    }


def main(problems: int = 3000) -> int:
    rates = {name: counted(name, problems) for name in CONFIGURATIONS}
    lines = [
        f" {json.dumps(name)}: {{\n"
        + ",\n".join(f"  {json.dumps(kind)}: {json.dumps(own)}" for kind, own in kinds.items())
        + "\n }"
        for name, kinds in rates.items()
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(
        f"{sum(map(len, rates.values()))} kinds of questions on {problems} problems of each configuration: {FILE.name}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(*whole_numbers(__doc__, problems=3000)))
