"""``raycade kumo generate | import``: tasks as files, and the published benchmark."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from envs.kumo.domain import DomainError
from envs.kumo.domain_file import available_domains, load_domain
from envs.kumo.generate import DIFFICULTIES, GenerationError, generate_tasks
from envs.kumo.published import command as published
from envs.kumo.task import write_tasks


def add_arguments(parser: argparse.ArgumentParser) -> argparse._SubParsersAction[argparse.ArgumentParser]:
    """Declare the commands on ``raycade kumo``'s parser; more can be added to what is returned."""
    parser.description = f"{len(available_domains())} domains come with raycade; `raycade kumo validate` lists them."
    commands = parser.add_subparsers(dest="kumo_command", metavar="COMMAND", required=True)
    generate = commands.add_parser(
        "generate",
        help="write tasks as JSON lines",
        description="Generate tasks of a domain and write them as JSON lines; "
        "raycade run suite=kumo suite.domains=[FILE_OR_NAME] suite.tasks=OUT.jsonl plays them.",
    )
    generate.add_argument("domain", metavar="FILE_OR_NAME")
    generate.add_argument("out", type=Path, metavar="OUT.jsonl")
    generate.add_argument("--difficulty", choices=list(DIFFICULTIES), default="easy", help="default: easy")
    generate.add_argument("--truths", type=int, metavar="N", help="instead of those of the difficulty")
    generate.add_argument("--actions", type=int, metavar="N", help="likewise")
    generate.add_argument("--valid-truths", type=int, default=1, metavar="N", help="truths that are right (1)")
    generate.add_argument("--count", type=int, default=50, help="number of tasks (50)")
    generate.add_argument("--seed", type=int, default=0, help="another seed gives other tasks (0)")
    generate.add_argument("--overwrite", action="store_true", help="replace OUT.jsonl if it is there")
    generate.add_argument(
        "--give-aways", action="store_true", help="allow tasks that tell their answer before the first test"
    )
    published.add_arguments(commands.add_parser("import", help="import the published benchmark from a checkout of it"))
    return commands


def main(options: argparse.Namespace) -> int:
    """Run a command; 2 for bad input."""
    if options.kumo_command == "import":
        return published.main(options)
    try:
        return _generate(options)
    except (DomainError, GenerationError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _generate(options: argparse.Namespace) -> int:
    if options.out.exists() and not options.overwrite:
        raise FileExistsError(f"{options.out} is there already; --overwrite replaces it")
    truths, actions = DIFFICULTIES[options.difficulty]
    truths, actions = options.truths or truths, options.actions or actions
    domain = load_domain(options.domain)
    tasks = generate_tasks(
        domain, truths, actions, options.count, options.give_aways, options.seed, options.valid_truths
    )
    write_tasks(options.out, tasks)
    print(
        f"{options.out}: {len(tasks):,} tasks of {domain.name}, each with {truths} truths, {options.valid_truths} of them "
        f"valid, and {actions} actions; seed {options.seed}"
    )
    return 0
