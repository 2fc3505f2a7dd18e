"""Sets of options that give nothing away: writes evals/suites/multistar/questions/option_sets.json.

Run: nice python -m benchmarks.multistar_sets [problems]

For rules on positions, where statements often hold together, options that are drawn one by one tell which statement holds:
of two that go together only one can be offered. So sets are drawn as a whole. Let a case be the true statement with those
that must not stand beside it. A linear program gives each case the sets that it is asked with, so that every option of every
set is true in equally many questions, and as many questions as possible are asked. Cases are counted on ``problems`` (20,000)
of each configuration that are played nowhere else. Run it again whenever the generation of problems or the statements change.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.optimize import linprog

from benchmarks.arguments import whole_numbers
from benchmarks.multistar_rates import FIRST_SEED
from envs.raven import CONFIGURATIONS, generate
from evals.suites.multistar.questions import options
from evals.suites.multistar.questions.question import Draft
from evals.suites.multistar.questions.sketch import ROW_STAGES, row_sketch
from evals.suites.multistar.questions.words import PARTS

FILE = Path(options.__file__).with_name("option_sets.json")
LEAST_SHARE = 0.001
"""Smaller shares of a case are left out: they are errors of the counting."""

Case = tuple[str, frozenset[str]]
"""The true statement, and the statements that must not stand beside it."""


def drafts(configuration: str, problems: int) -> Iterator[tuple[str, Draft]]:
    """Questions on rules of positions, with the names of their kinds, where a part has several positions."""
    for number in range(problems):
        problem = generate(configuration, FIRST_SEED + number)
        for part, component in PARTS[problem.configuration.structure]:
            if len(problem.configuration.layouts[component].slots) == 1:
                continue
            for stage in ROW_STAGES:
                sketch = row_sketch(problem, 0, stage, "position", part, component)
                yield options.kind_of(sketch.name, sketch.draft), sketch.draft


def sets_of(rates: Mapping[Case, float], size: int) -> dict[Case, dict[tuple[str, ...], float]]:
    """For each case the sets that it is asked with, with the share of its questions; the rest is not asked."""
    names = sorted({truth for truth, _ in rates})
    sets = [
        (case, chosen)
        for case in rates
        for chosen in combinations(names, size)
        if case[0] in chosen and not case[1].intersection(chosen)
    ]
    # One row for each case: no more of its questions are asked than there are.
    upper = np.array([[float(case == each) for case, _ in sets] for each in rates])
    # One row for each option of each set but the first: it is true as often as the first.
    equal = np.array(
        [
            [float(chosen == each) * (float(case[0] == other) - float(case[0] == each[0])) for case, chosen in sets]
            for each in sorted({chosen for _, chosen in sets})
            for other in each[1:]
        ]
    )
    found = linprog(-np.ones(len(sets)), upper, [*rates.values()], equal, np.zeros(len(equal)), method="highs-ipm")
    shares: dict[Case, dict[tuple[str, ...], float]] = {case: {} for case in rates}
    for (case, chosen), asked in zip(sets, found.x, strict=True):
        share = round(asked / rates[case], 4)
        if share >= LEAST_SHARE:
            shares[case][chosen] = share
    return shares


def main(problems: int = 20_000) -> int:
    lines = []
    for name in CONFIGURATIONS:
        counts: dict[str, Counter[Case]] = {}
        for kind, draft in drafts(name, problems):
            counts.setdefault(kind, Counter())[draft.truth, options.excluded(draft)] += 1
        for kind, cases in counts.items():
            rates = {case: count / cases.total() for case, count in sorted(cases.items(), key=str)}
            sets = sets_of(rates, 4)
            asked = sum(rates[case] * share for case, own in sets.items() for share in own.values())
            print(f"{name} {kind}: {len(rates)} cases, {100 * asked:.1f} % of the questions asked")
            for case, own in sets.items():
                said = options.case_name(*case)
                entries = [[*chosen, share] for chosen, share in own.items()]
                lines.append(f" {json.dumps(f'{name} {kind} {said}')}: {json.dumps(entries)}")
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*whole_numbers(__doc__, problems=20_000)))
