"""``raycade kumo validate``: what is wrong with domains, which are near-duplicates, and the quality of the others."""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from envs.disk import whole_file
from envs.kumo import Domain, DomainError, available_domains, load_domain
from envs.kumo.book_check import book_problems
from envs.kumo.domain_file import DOMAINS
from envs.kumo.likeness import near_duplicates
from envs.kumo.quality import Quality, quality_of
from evals.report.terminal import LaidOut, Output
from evals.suites.kumo.parallel import process_pool
from evals.tables import WRITERS, Cell, Table, rounded

_COLUMNS: dict[str, Callable[[Quality], float | None]] = {
    "truths": lambda quality: quality.truths,
    "tests": lambda quality: quality.actions,
    "density": lambda quality: quality.density,
    "overlap": lambda quality: quality.overlap,
    "E[S] easy": lambda quality: quality.steps["easy"],
    "E[S] hard": lambda quality: quality.steps["hard"],
    "parts": lambda quality: quality.components,
    "tests with numbers": lambda quality: quality.numeric,
    "outcomes": lambda quality: quality.outcomes,
    "idle outcomes": lambda quality: quality.idle,
    "fewest tests": lambda quality: quality.fewest,
    "counterfactual": lambda quality: quality.counterfactual,
    "easy tasks, log10": lambda quality: quality.tasks["easy"],
    "hard tasks, log10": lambda quality: quality.tasks["hard"],
}
_DIGITS = {"density": 3, "overlap": 3, "idle outcomes": 2, "counterfactual": 2, "E[S] easy": 2, "E[S] hard": 2}
_BRIEF = ("domain", "truths", "tests", "density", "overlap", "E[S] easy", "E[S] hard", "parts", "easy tasks, log10")


MOST_TASKS = 100_000
"""Of one kind that are searched for each domain."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``raycade kumo validate``."""
    parser.description = (
        "Checks domains and measures their quality. Every mistake is named with its place; domains that share half of their "
        "truths' names, or of their rules under other names, with another one are refused as near-duplicates."
    )
    parser.add_argument("domains", nargs="*", metavar="FILE_OR_NAME", help="default: all that come with raycade")
    parser.add_argument("--easy", type=int, default=20, metavar="N", help="easy tasks searched for E[S] (20)")
    parser.add_argument(
        "--hard", type=int, default=0, metavar="N", help="hard ones, each about a second of a core (default: none)"
    )
    parser.add_argument("--full", action="store_true", help="all columns")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write all columns as .csv, .json or .md")


def main(options: argparse.Namespace) -> int:
    """Print the problems, then the tables; 2 if there are problems."""
    mistake = _mistake_in(options)
    if mistake:
        print(f"error: {mistake}", file=sys.stderr)
        return 2
    names: Sequence[str] = options.domains or available_domains()
    domains, problems = read(names)
    problems += duplicates(domains)
    bad = set()
    for name, problem in problems:
        bad.add(name)
        text = problem if name in problem else f"{name}: {problem}"
        print(text, file=sys.stderr)
    measured = measure([*domains.values()], options.easy, options.hard)
    good = set(names) - bad
    print(f"{len(good)} of {len(set(names))} domains valid\n")
    if measured:
        _show(measured, options.full, options.out)
    return 2 if problems else 0


def _show(measured: Sequence[Quality], full: bool, out: Path | None) -> None:
    """Print the tables; the one of the domains is written, too, where that is wanted."""
    table = quality_table(measured)
    Output().print(LaidOut(table, brief=not full))
    categories = {quality.category for quality in measured}
    if len(categories) > 1:
        print()
        Output().print(LaidOut(category_table(measured)))
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(out) as beside:
            beside.write_text(WRITERS[out.suffix](table), encoding="utf-8")
        print(f"\nwritten: {out}")


def _mistake_in(options: argparse.Namespace) -> str:
    """What is wrong with the options; empty where nothing is."""
    if options.out and options.out.suffix not in WRITERS:
        return f"--out {options.out}: the name must end in {', '.join(WRITERS)}"
    if options.out and options.out.exists():
        return f"--out {options.out}: exists already"
    if not all(0 <= tasks <= MOST_TASKS for tasks in (options.easy, options.hard)):
        return f"--easy and --hard must be from 0 to {MOST_TASKS:,}"
    return ""


def read(names: Iterable[str]) -> tuple[dict[str, Domain], list[tuple[str, str]]]:
    """The sound domains by the names they were asked for, and the problems of the others, each with that name."""
    domains, problems = {}, []
    for name in names:
        try:
            domain = load_domain(name)
            found = book_problems(domain)
            if found:
                raise DomainError(found)
            domains[name] = domain
        except DomainError as error:
            for problem in error.problems:
                problems.append((name, problem))
    return domains, problems


def duplicates(domains: dict[str, Domain]) -> list[tuple[str, str]]:
    """Which of the domains are near-duplicates of earlier ones, or of one that comes with raycade; see ``read``."""
    asked = {id(domain): name for name, domain in domains.items()}
    files = {Path(name).resolve() for name in domains}
    others = [
        load_domain(name)
        for name in available_domains()
        if name not in domains and (DOMAINS / f"{name}.yaml").resolve() not in files
    ]
    return [
        (asked[id(domain)], f"domain {domain.name!r}: {reason}")
        for domain, reason in near_duplicates([*others, *domains.values()])
        if id(domain) in asked
    ]


def measure(domains: Sequence[Domain], easy: int, hard: int) -> list[Quality]:
    """The quality of each domain; as many at a time as there are cores."""
    if len(domains) < 3 and not hard:
        return [quality_of(domain, easy, hard) for domain in domains]
    found = []
    shows_progress = sys.stderr.isatty()
    with process_pool() as pool:
        for quality in pool.map(partial(quality_of, easy=easy, hard=hard), domains):
            found.append(quality)
            if shows_progress:
                print(f"\r{len(found)} of {len(domains)} measured", end="", file=sys.stderr, flush=True)
    if shows_progress:
        # Clear the line.
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    return found


def quality_table(measured: Sequence[Quality]) -> Table:
    """A row for each domain, and their means."""
    rows: list[tuple[Cell, ...]] = [
        (quality.name, quality.category, *(_cell(name, value(quality)) for name, value in _COLUMNS.items()))
        for quality in measured
    ]
    if len(measured) > 1:
        rows.append(("mean", None, *(_mean(name, measured) for name in _COLUMNS)))
    return Table(
        name="kumo_quality",
        title="Quality of the domains",
        columns=("domain", "category", *_COLUMNS),
        rows=tuple(rows),
        notes=(
            "density: share of all pairs of an outcome and a truth in which the outcome rules the truth out. overlap: how "
            "alike two truths are, the mean of outcomes that rule out both among those that rule out either.",
            "E[S]: mean of the expected tests of perfect play. parts: connected components, groups of truths that no test "
            "connects. idle outcomes: share of outcomes that rule out nothing. fewest tests: those that can rule out the "
            "truth that the fewest can. counterfactual: share of shown outcomes that are false of the right truth, if just one "
            "outcome of each test is true of it.",
            "tasks, log10: common logarithm of the number of different tasks (choices of truths, tests and outcomes that "
            "solve the generator's constraints), estimated.",
        ),
        brief=_BRIEF,
    )


def category_table(measured: Sequence[Quality]) -> Table:
    """Means by category."""
    names = ("truths", "tests", "density", "overlap", "E[S] easy", "E[S] hard")
    rows: list[tuple[Cell, ...]] = []
    for category in sorted({quality.category for quality in measured}):
        members = [quality for quality in measured if quality.category == category]
        rows.append((category or "none", len(members), *(_mean(name, members) for name in names)))
    return Table("kumo_categories", "Means by category", ("category", "domains", *names), tuple(rows))


def _mean(name: str, measured: Sequence[Quality]) -> Cell:
    values = [_COLUMNS[name](quality) for quality in measured]
    known = [value for value in values if value is not None]
    return _cell(name, statistics.mean(known), least=1) if known else None


def _cell(name: str, value: float | None, least: int = 0) -> Cell:
    if value is None or math.isinf(value):
        return None
    usual = 1 if name.endswith("log10") else 0
    return rounded(value, max(least, _DIGITS.get(name, usual)))
