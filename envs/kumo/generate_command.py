"""``raycade kumo generate``: tasks as files."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from envs.disk import exit_code
from envs.kumo.domain_file import load_domain
from envs.kumo.generate import DIFFICULTIES, generate_tasks
from envs.kumo.search import check_size
from envs.kumo.task import write_tasks


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``raycade kumo generate``."""
    parser.description = (
        "Generate tasks of a domain and write them as JSON lines; "
        "raycade run suite=kumo suite.domains=[FILE_OR_NAME] suite.difficulties=[SIZE] suite.tasks=OUT.jsonl plays them."
    )
    parser.add_argument("domain", metavar="FILE_OR_NAME")
    parser.add_argument("out", type=Path, metavar="OUT.jsonl")
    parser.add_argument("--difficulty", choices=list(DIFFICULTIES), default="easy", help="default: easy")
    parser.add_argument("--truths", type=int, metavar="N", help="instead of those of the difficulty")
    parser.add_argument("--actions", type=int, metavar="N", help="likewise")
    parser.add_argument("--valid-truths", type=int, default=1, metavar="N", help="truths that are right (1)")
    parser.add_argument("--count", type=int, default=50, help="number of tasks (50)")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other tasks (0)")
    parser.add_argument("--overwrite", action="store_true", help="replace OUT.jsonl if it is there")
    parser.add_argument(
        "--give-aways", action="store_true", help="allow tasks that tell their answer before the first test"
    )


def main(options: argparse.Namespace) -> int:
    """Write the file; 2 for bad input, 1 where the disk refuses."""
    try:
        return _generate(options)
    except (ValueError, OSError) as error:  # a wrong domain, too few tasks, a size that is too large
        print(f"error: {error}", file=sys.stderr)
        return exit_code(error)


def _generate(options: argparse.Namespace) -> int:
    if options.out.exists() and not options.overwrite:
        raise FileExistsError(f"{options.out} is there already; --overwrite replaces it")
    truths, actions = DIFFICULTIES[options.difficulty]
    truths = truths if options.truths is None else options.truths
    actions = actions if options.actions is None else options.actions
    for name, count in (("truths", truths), ("actions", actions)):
        if count < 1:
            raise ValueError(f"--{name} {count}: must be from 1 up")
    check_size(truths, actions)  # what the search cannot solve, no run plays
    domain = load_domain(options.domain)
    tasks = generate_tasks(
        domain, truths, actions, options.count, options.give_aways, options.seed, options.valid_truths
    )
    write_tasks(options.out, tasks)
    print(
        f"{options.out}: {len(tasks):,} tasks of {domain.name}, each with {truths} truths, {options.valid_truths} of them "
        f"valid, and {actions} actions; seed {options.seed}"
    )
    size = next((name for name, each in DIFFICULTIES.items() if each == (truths, actions)), f"{truths}x{actions}")
    games = [f"suite.domains=[{options.domain}]", f"suite.difficulties=[{size}]", f"suite.tasks={options.out}"]
    print(f"play them: {shlex.join(['raycade', 'run', 'suite=kumo', *games])}")
    return 0
