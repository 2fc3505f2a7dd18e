"""``raycade raven``: RAVEN problems: generate, import, check, show."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from envs.disk import exit_code, own_folder
from envs.files import FileError
from envs.printable import printable
from envs.raven.compose import load, puzzle
from envs.raven.files import file_stem, official, write
from envs.raven.generate import generate
from envs.raven.grammar import CONFIGURATIONS, configuration_named
from envs.raven.listing import ambiguous, read_files, twins, write_index
from envs.raven.scene import STYLES, Imported, Problem, Style
from envs.raven.solve import majority_vote, solve


def generate_files(directory: Path, configurations: Iterable[str], count: int, style: Style, seed: int) -> int:
    """Write ``count`` problems per configuration in the official format; returns the number of problems.

    The k-th problem of a configuration has seed ``seed + k`` and the official file name of k.

    Raises:
        ValueError: unknown configuration or style; another command is writing there, or a folder to write to is a link.
        FileExistsError: one of the files is there already.
    """
    names = [configuration_named(name).name for name in configurations]
    with own_folder(directory, names, lambda: True, inner=names[0]):
        for name in names:
            _generate_configuration(directory / name, name, count, style, seed)
    return len(names) * count


def _generate_configuration(folder: Path, name: str, count: int, style: Style, seed: int) -> None:
    """Write the problems of one configuration.

    Raises:
        FileExistsError: one of the files is there already.
    """
    folder.mkdir(exist_ok=True)
    for index in range(count):
        stem = folder / file_stem(index)
        if stem.with_name(stem.name + ".npz").exists():
            raise FileExistsError(f"{stem}.npz is there already; choose an empty directory")
        problem = generate(name, seed + index, style)
        write(official(problem), stem)


@dataclass
class Check:
    """Counts over problems of one configuration and style."""

    problems: int = 0
    solved: int = 0
    """The solver's one answer is the stated one."""
    ambiguous: int = 0
    """Several candidates complete the matrix equally well."""
    twins: int = 0
    """Two candidates have the same pixels."""
    majority: float = 0.0
    """Expected hits of the context-blind majority vote, ties broken at random."""

    def add(self, problem: Problem) -> None:
        """Count one problem."""
        verdict, popular = solve(problem), majority_vote(problem)
        self.problems += 1
        self.solved += verdict.answer == problem.target
        self.ambiguous += bool(ambiguous(problem))
        self.twins += bool(twins(problem))
        self.majority += (problem.target in popular) / len(popular)


def check(problems: Iterable[Problem]) -> dict[tuple[str, Style], Check]:
    """Check problems, by configuration and style."""
    checks: dict[tuple[str, Style], Check] = {}
    for problem in problems:
        checks.setdefault((problem.configuration.name, problem.style), Check()).add(problem)
    return checks


def check_lines(checks: dict[tuple[str, Style], Check]) -> Iterator[str]:
    """The counts as lines of a table."""
    yield f"{'configuration':40}{'style':>8}{'problems':>10}{'solved':>8}{'ambiguous':>11}{'twins':>7}{'majority':>10}"
    for (name, style), c in checks.items():
        share = f"{c.majority / c.problems:.1%}"
        yield f"{name:40}{style:>8}{c.problems:10}{c.solved:8}{c.ambiguous:11}{c.twins:7}{share:>10}"


def show(problem: Problem, image: Path | None) -> Iterator[str]:
    """Describe a problem in lines, and save the whole puzzle as PNG where a path is given."""
    form = problem.configuration
    yield f"{form.name} ({form.title}), {problem.style} candidates, answer {problem.target + 1}"
    for layout, rules in zip(form.layouts, problem.rules, strict=True):
        words = []
        for rule in rules:
            step = f" {rule.parameter:+d}" if rule.parameter else ""
            words.append(f"{rule.name} {rule.attribute}{step}")
        yield f"  {layout.component}: {', '.join(words)}"
    verdict = solve(problem)
    yield f"  rule groups that candidates 1..8 complete: {', '.join(map(str, verdict.satisfied))}"
    if image:
        pixels = puzzle(problem).render()[:, :, 0]
        Image.fromarray(np.ascontiguousarray(pixels)).save(image)
        yield f"  drawn to {image}"


# --- command line ----------------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the four commands to a parser."""
    commands = parser.add_subparsers(dest="raven_command", required=True, metavar="COMMAND")

    command = commands.add_parser("generate", help="write problems in the official format (npz and XML)")
    command.add_argument("directory", type=Path, help="where to; one folder per configuration is made in it")
    _add_choice(command)
    command.add_argument("--count", type=_positive, default=10, help="problems per configuration (default: 10)")

    command = commands.add_parser("import", help="read official files and list the sound ones, for suite.problems")
    command.add_argument("path", type=Path, help="an npz file, or a directory with RAVEN_*.npz and .xml below it")
    command.add_argument(
        "--index", type=Path, default=Path("raven_index.jsonl"), help="list to write (default: %(default)s)"
    )

    command = commands.add_parser("check", help="solve problems from their panels alone, look for identical candidates")
    command.add_argument("path", type=Path, nargs="?", help="official files; without it, problems are generated")
    _add_choice(command)
    command.add_argument("--count", type=_positive, default=100, help="problems per configuration (default: 100)")

    command = commands.add_parser("show", help="describe one problem and draw it")
    command.add_argument("path", type=Path, nargs="?", help="an npz file; without it, a problem is generated")
    _add_choice(command)
    command.add_argument("--png", type=Path, help="draw the whole puzzle to this file")


def _add_choice(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(CONFIGURATIONS)
    parser.add_argument(
        "--configuration", action="append", metavar="NAME", help=f"may be repeated (default: all): {names}"
    )
    parser.add_argument("--style", choices=STYLES, default="iraven", help="candidates: unbiased, or as RAVEN made them")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first problem (default: 0)")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def main(args: argparse.Namespace) -> int:
    """Run the parsed command; returns the exit code, 2 for bad input, 1 where something was wrong or the disk refuses."""
    try:
        return {"generate": _generate, "import": _import, "check": _check, "show": _show}[args.raven_command](args)
    except (ValueError, OSError) as error:
        print(printable(f"raven {args.raven_command}: {error}"), file=sys.stderr)
        return exit_code(error)


def _generate(args: argparse.Namespace) -> int:
    written = generate_files(args.directory, args.configuration or CONFIGURATIONS, args.count, args.style, args.seed)
    print(f"wrote {written} problems to {args.directory}")
    return 0


def _import(args: argparse.Namespace) -> int:
    if args.index.suffix != ".jsonl":
        raise ValueError(f"--index {args.index}: is replaced if it exists, so its name must end with .jsonl")
    chosen = _Chosen(args)
    problems = list(chosen)
    write_index(problems, args.index)
    for line in itertools.chain.from_iterable(map(doubts, problems)):
        print(printable(line), file=sys.stderr)
    print(f"listed {len(problems)} problems in {args.index}; {chosen.left_out} files left out")
    return 1 if chosen.left_out else 0


def doubts(problem: Problem) -> Iterator[str]:
    """Lines on what makes a listed problem doubtful."""
    assert isinstance(problem.source, Imported)
    path = problem.source.path
    if found := ambiguous(problem):
        yield f"ambiguous: {path}: candidates {', '.join(map(str, found))} complete the matrix equally well"
    for group in twins(problem):
        yield f"twins: {path}: candidates {', '.join(map(str, group))} look the same"


class _Chosen:
    """The problems that the arguments name; damaged files are told as they are met, and counted."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.left_out = args, 0

    def _generated(self) -> Iterator[Problem]:
        args = self.args
        names = [configuration_named(name).name for name in args.configuration or CONFIGURATIONS]
        for name in names:
            for index in range(args.count):
                yield generate(name, args.seed + index, args.style)

    def __iter__(self) -> Iterator[Problem]:
        if not self.args.path:
            yield from self._generated()
            return
        for file in read_files(self.args.path):
            if isinstance(file, FileError):
                self.left_out += 1
                print(printable(f"left out: {file}"), file=sys.stderr)
                continue
            source = file.problem.source
            assert isinstance(source, Imported)
            for remark in file.remarks:
                print(printable(f"strange: {source.path}: {remark}"), file=sys.stderr)
            yield file.problem


def _check(args: argparse.Namespace) -> int:
    chosen = _Chosen(args)
    checks = check(chosen)
    print(*check_lines(checks), sep="\n")
    sound = all(c.solved == c.problems and not c.twins for c in checks.values())
    return 0 if sound and not chosen.left_out else 1


def _show(args: argparse.Namespace) -> int:
    args.count = 1
    problem = next(iter(_Chosen(args)), None)
    if problem is None:
        return 2
    print(*show(load(problem.source), args.png), sep="\n")
    return 0


if __name__ == "__main__":
    _parser = argparse.ArgumentParser(prog="raycade raven", description=__doc__)
    add_arguments(_parser)
    sys.exit(main(_parser.parse_args()))
