"""Checks many RAVEN problems: solvable from their panels, no duplicate candidates, bias of the answer sets.

python -m benchmarks.raven_check                     1,000 problems per configuration and answer style
python -m benchmarks.raven_check --count 50
python -m benchmarks.raven_check --official DIR      also compares official files with our rendering
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from envs.raven import CONFIGURATIONS, STYLES, read, render_problem, solve
from envs.raven.commands import Check, check_lines
from envs.raven.generate import draw
from envs.raven.listing import find_files


def check_generated(count: int) -> bool:
    sound, total = True, {style: Check() for style in STYLES}
    redrawn = given_up = solved_first = tied_first = 0
    for name in CONFIGURATIONS:
        for style in STYLES:
            check = Check()
            for seed in range(count):
                problem, tries = draw(name, seed, style)
                check.add(problem)
                redrawn += tries > 1
                given_up += tries > 20
                first = problem if tries == 1 else draw(name, seed, style, redraw=False)[0]
                solved_first += solve(first).answer == first.target
                tied_first += first.target in solve(first).answers
            for line in list(check_lines({(name, style): check}))[name != "center_single" or style != STYLES[0] :]:
                print(line, flush=True)
            sound &= check.solved == check.problems and not check.ambiguous and not check.twins
            total[style].problems += check.problems
            total[style].majority += check.majority
    for style, sum_ in total.items():
        print(f"majority vote on all {style} sets: {sum_.majority / sum_.problems:.2%} of {sum_.problems}")
    of_all = f"of {2 * len(CONFIGURATIONS) * count}"
    print(
        f"answer sets redrawn because a wrong candidate also fits: {redrawn} {of_all}; matrices discarded: {given_up}"
    )
    print(f"without redrawing: answer among the best {tied_first}, found {solved_first} {of_all}")
    return sound


def check_official(directory: Path) -> bool:
    sound = True
    for path in find_files(directory):
        file = read(path)
        apart = np.abs(render_problem(file.problem).astype(int) - file.images)
        found = solve(file.problem).answer == file.problem.target
        sound &= found
        name = f"{file.problem.configuration.name}/{path.stem}"
        print(f"{name:56} solved {found!s:6} mean difference {apart.mean():.2f} of 255, worst panel ", end="")
        print(f"{apart.mean((1, 2)).max():.2f}")
    return sound


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="problems per configuration and style")
    parser.add_argument("--official", type=Path, help="directory of official files")
    args = parser.parse_args()
    fine = check_generated(args.count)
    if args.official:
        fine &= check_official(args.official)
    sys.exit(not fine)
