"""``raycade kumo lab trajectories | verify-trajectories | split``: perfect plays as training data, and what to split by."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from envs.disk import exit_code
from envs.kumo import BOOK_STYLES, Domain, available_domains, load_domain
from envs.kumo.search import check_size
from envs.kumo.split import PARTS, components, parse_part, split_of
from envs.printable import printable
from evals.suites.kumo.lab.trajectories import file as trajectory_file
from evals.suites.kumo.lab.trajectories.check import check
from evals.suites.kumo.lab.trajectories.forms import FORMS, in_form
from evals.suites.kumo.lab.trajectories.plays import MOST_PLAYS, Recipe, Row, trajectories
from evals.suites.kumo.levels import is_level, size_of
from evals.suites.kumo.searched_game import domain_of

_SHOWN = 10
"""Problems of a file that are printed."""
_SECONDS = 10
"""Between two lines of progress."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command that the parser's default ``kumo_command`` names."""
    _ARGUMENTS[parser.get_default("kumo_command")](parser)


def _make_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Searches tasks of the domains to the optimum and writes each perfect play as the chat that raycade run would show, "
        "with a mask that puts the loss on the replies. NAME@in and NAME@out are the parts of a domain's train/test split."
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="a new .parquet or .jsonl file")
    parser.add_argument("domains", nargs="+", metavar="DOMAIN", help="FILE_OR_NAME, NAME@in, NAME@out")
    parser.add_argument("--count", type=int, default=1000, metavar="N", help="tasks of each domain (default 1000)")
    parser.add_argument("--difficulty", default="easy", metavar="LEVEL", help="easy, hard, or a size such as 6x8")
    parser.add_argument(
        "--book", choices=BOOK_STYLES, default="symbolic", help="style of the guidebook (default symbolic)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the tasks, as suite.seed (default 0)")
    parser.add_argument(
        "--reserve", type=int, default=50, metavar="N", help="first tasks to leave out, for evaluation (default 50)"
    )
    parser.add_argument("--reasons", action="store_true", help="replies say why before they answer, from the search")
    forms = "; ".join(f"{name}: {form.help}" for name, form in FORMS.items())
    parser.add_argument("--format", choices=FORMS, default="raycade", help=f"columns of the file ({forms})")
    parser.add_argument(
        "--plays",
        default="1",
        metavar="N",
        help=f"perfect plays of each task where several are equally good: a number, or all (up to {MOST_PLAYS:,})",
    )


def _verify_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Replays each trajectory: whether it wins, each of its tests is a best one by the optimal search, and its chat is "
        "what raycade run shows."
    )
    parser.add_argument("file", type=Path, metavar="FILE")


def _split_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Lists the connected components of domains, and the parts NAME@in and NAME@out of those that have a "
        "balanced split."
    )
    parser.add_argument("domains", nargs="*", metavar="FILE_OR_NAME", help="default: those that come with raycade")


def main(options: argparse.Namespace) -> int:
    """Run a command; 2 for bad input, 1 where the disk refuses."""
    try:
        return _COMMANDS[options.kumo_command](options)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_code(error)


def _make(options: argparse.Namespace) -> int:
    form = FORMS[options.format]
    trajectory_file.check_new(options.out, form.kinds)
    recipes = [_recipe(options, domain) for domain in _each_once(options.domains)]
    for recipe in recipes:
        print(_described(recipe.domain))
    rows = tasks = tests = 0
    expected = 0.0

    def counted() -> Iterator[list[Row]]:
        nonlocal rows, tasks, tests, expected
        shown = time.monotonic()
        for recipe in recipes:
            for batch in trajectories(recipe):
                yield batch
                rows += len(batch)
                tasks += sum(row["play"] == 0 for row in batch)
                tests += sum(len(row["actions"]) - 1 for row in batch)
                expected += sum(row["expected_tests"] for row in batch)
                if time.monotonic() - shown > _SECONDS:
                    print(f"{tasks:,} of {len(recipes) * options.count:,} tasks", file=sys.stderr, flush=True)
                    shown = time.monotonic()

    trajectory_file.write(options.out, in_form(form, counted()), form.schema)
    last = options.reserve + options.count - 1
    print(
        f"{options.out}: {rows:,} trajectories of {tasks:,} {options.difficulty} tasks with the {options.book} book, "
        f"seed {options.seed}, numbers {options.reserve:,} to {last:,} of each domain"
    )
    print(f"tests of perfect play: {tests / rows:.2f} taken on average, {expected / rows:.2f} expected")
    return 0


def _each_once(names: Sequence[str]) -> list[str]:
    """The names of domains, one that is repeated once.

    Raises:
        ValueError: two different names are of one domain, by its name and by its file: its tasks would be written twice.
    """
    found: dict[tuple[object, ...], str] = {}
    for name in dict.fromkeys(names):
        domain = domain_of(name)
        first = found.setdefault((domain.truths, domain.actions), name)
        if first != name:
            raise ValueError(
                f"{name}: has the truths and tests of {first}; its tasks would be the same, so name one of them"
            )
    return list(found.values())


def _recipe(options: argparse.Namespace, domain: str) -> Recipe:
    """The recipe of one domain."""
    if not is_level(options.difficulty):
        raise ValueError(f"--difficulty: {options.difficulty!r} is neither easy nor hard nor a size such as 6x8")
    check_size(*size_of(options.difficulty))
    for name, least in (("count", 1), ("reserve", 0), ("seed", 0)):
        value = getattr(options, name)
        if value < least:
            raise ValueError(f"--{name} must be at least {least}, not {value}")
    plays = 0
    if options.plays == "all":
        plays = MOST_PLAYS
    elif options.plays.isdecimal():
        plays = int(options.plays)
    if not 1 <= plays <= MOST_PLAYS:
        raise ValueError(f"--plays must be a number from 1 to {MOST_PLAYS:,}, or all, not {options.plays!r}")
    return Recipe(
        domain,
        options.difficulty,
        options.book,
        options.seed,
        options.reserve,
        options.count,
        plays,
        options.reasons,
    )


def _described(name: str) -> str:
    """A domain's size, and that of the other part of its split."""
    domain = domain_of(name)
    size = f"{name}: {_size(domain)}"
    part = parse_part(name)
    if part is None:
        return size
    other = f"{part[0]}@{next(each for each in PARTS if each != part[1])}"
    return f"{size}; {other}: {_size(domain_of(other))}; none in common"


def _size(domain: Domain) -> str:
    return f"{len(domain.truths)} truths, {len(domain.actions)} tests"


def _verify(options: argparse.Namespace) -> int:
    found = check(trajectory_file.read(options.file))
    if not found.trajectories:
        raise ValueError(f"{options.file} holds no trajectories")
    for (domain, level), count in found.domains.items():
        print(printable(f"{domain}, {level}: {count:,} trajectories"))
    print(
        f"{found.trajectories:,} trajectories of {found.tasks:,} tasks replayed: {found.won:,} won "
        f"({found.won / found.trajectories:.1%}); tests {found.tests / found.trajectories:.2f} taken on average, "
        f"{found.expected / found.trajectories:.2f} expected"
    )
    for problem in found.problems[:_SHOWN]:
        print(printable(f"{options.file}, {problem}"), file=sys.stderr)
    if len(found.problems) > _SHOWN:
        print(f"... and {len(found.problems) - _SHOWN:,} more", file=sys.stderr)
    if not found.problems:
        print("every test is a best one, and every chat is what a run shows")
    return 2 if found.problems else 0


def _split(options: argparse.Namespace) -> int:
    names = options.domains or available_domains()
    domains = {name: load_domain(name) for name in names}
    width = max(map(len, domains))
    print(f"{'domain':<{width}}  {'@in':>7}  {'@out':>7}  components (truths + tests)")
    for name, domain in domains.items():
        parts = components(domain)
        if len(parts) == 1 and not options.domains:
            # Cannot be split; shown where it is asked for by name.
            continue
        within, without = "-", "-"
        split = split_of(domain)
        if split:
            larger, smaller = split
            within = f"{len(larger.truths)} + {len(larger.actions)}"
            without = f"{len(smaller.truths)} + {len(smaller.actions)}"
        found = ", ".join(f"{len(part.truths)} + {len(part.tests)}" for part in parts)
        print(f"{name:<{width}}  {within:>7}  {without:>7}  {found}")
    return 0


_ARGUMENTS: Mapping[str, Callable[[argparse.ArgumentParser], None]] = {
    "trajectories": _make_arguments,
    "verify-trajectories": _verify_arguments,
    "split": _split_arguments,
}
_COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "trajectories": _make,
    "verify-trajectories": _verify,
    "split": _split,
}
