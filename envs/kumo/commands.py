"""``raycade kumo check | generate``: domains of one's own, and tasks as files."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

from envs.kumo.book import write_book
from envs.kumo.book_reader import BookError, read_book, table_of
from envs.kumo.domain import Domain, DomainError, Phrasings
from envs.kumo.domain_file import available_domains, load_domain
from envs.kumo.generate import DIFFICULTIES, GenerationError, generate_tasks
from envs.kumo.task import Task, write_tasks

_OFTEN = 50
"""How often a phrasing stands among the others where it is to be tried."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands on ``raycade kumo``'s parser."""
    parser.description = f"Domains that come with raycade: {', '.join(available_domains())}."
    commands = parser.add_subparsers(dest="kumo_command", metavar="COMMAND", required=True)
    check = commands.add_parser(
        "check", help="validate domain files", description="Validate domains and say what is wrong."
    )
    check.add_argument("domains", nargs="+", metavar="FILE_OR_NAME")
    generate = commands.add_parser(
        "generate",
        help="write tasks as JSON lines",
        description="Generate tasks of a domain and write them as JSON lines; "
        "raycade run suite=kumo suite.domains=[FILE_OR_NAME] suite.tasks=OUT.jsonl plays them.",
    )
    generate.add_argument("domain", metavar="FILE_OR_NAME")
    generate.add_argument("out", type=Path, metavar="OUT.jsonl")
    generate.add_argument("--difficulty", choices=list(DIFFICULTIES), default="easy")
    generate.add_argument("--count", type=int, default=50)
    generate.add_argument("--seed", type=int, default=0)
    generate.add_argument(
        "--give-aways", action="store_true", help="allow tasks that tell their answer before the first test"
    )


def main(options: argparse.Namespace) -> int:
    """Run a command; 2 for bad input."""
    try:
        return _check(options) if options.kumo_command == "check" else _generate(options)
    except (DomainError, GenerationError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _check(options: argparse.Namespace) -> int:
    bad = 0
    for name in options.domains:
        try:
            domain = load_domain(name)
            if problems := _book_problems(domain):
                raise DomainError(problems)
            print(f"{name}: ok, {_summary(domain)}")
        except DomainError as error:
            for problem in error.problems:
                print(problem if name in problem else f"{name}: {problem}", file=sys.stderr)
            bad += 1
    return 2 if bad else 0


def _book_problems(domain: Domain) -> list[str]:
    """What a reader finds wrong with books of all truths and tests of a domain, each of its phrasings used often."""
    task = Task(domain.name, domain.truths, domain.actions, (), "")
    own = domain.phrasings
    variants = [own, *(Phrasings((each,) * _OFTEN) for each in own.rules_out)]
    variants += [Phrasings(nothing=(each,) * _OFTEN) for each in own.nothing]
    problems = []
    for phrasings in variants:
        variant = dataclasses.replace(domain, phrasings=phrasings)
        try:
            if read_book(write_book(task, variant), task, variant) != table_of(task):
                problems.append(f"domain {domain.name!r}: a book is read back as another table")
        except BookError as error:
            problems.append(f"domain {domain.name!r}: a book cannot be read back: {error}")
    return list(dict.fromkeys(problems))


def _summary(domain: Domain) -> str:
    """Size and density of a domain, as its author wants to see them."""
    truths, actions = len(domain.truths), len(domain.actions)
    states = [state for action in domain.actions for state in action.states]
    density = sum(len(state.rules_out) for state in states) / (len(states) * truths)
    numeric = sum(action.outcome == "float" for action in domain.actions)
    by = [sum(any(truth in s.rules_out for s in action.states) for action in domain.actions) for truth in domain.truths]
    rarest = domain.truths[by.index(min(by))]
    return (
        f"{truths} truths, {actions} actions ({numeric} with numbers); an outcome rules out {density:.1%} of the truths "
        f"on average; tests that can rule out a truth: {min(by)} ({rarest}) to {max(by)}"
    )


def _generate(options: argparse.Namespace) -> int:
    truths, actions = DIFFICULTIES[options.difficulty]
    domain = load_domain(options.domain)
    tasks = generate_tasks(domain, truths, actions, options.count, options.give_aways, options.seed)
    write_tasks(options.out, tasks)
    print(f"{options.out}: {len(tasks)} {options.difficulty} tasks of {domain.name}")
    return 0
