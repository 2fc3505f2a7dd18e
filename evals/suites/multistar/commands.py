"""``raycade multistar import``: MultiStAR's published questions: import them."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from envs.disk import exit_code, own_folder

if TYPE_CHECKING:
    from evals.suites.multistar.published_questions.reader import Import
    from evals.suites.multistar.published_questions.store import Stored

WARNINGS = "warnings.txt"
"""In the folder: all that was left out or is doubtful."""
MOST_NAMED = 20
"""Lines of one kind on the terminal; all stand in the folder."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command to a parser."""
    commands = parser.add_subparsers(dest="multistar_command", required=True, metavar="COMMAND")
    command = commands.add_parser(
        "import",
        help="read the authors' question files and pictures",
        description="Reads the released question files (question.json, logical_chain_questions.json) and pictures of a "
        "checkout, or what its generator wrote, into FOLDER. Ask them with suite.wording=published suite.source=FOLDER. "
        "Keys that are known to be wrong are named, and left out of scores unless suite.doubtful=scored.",
    )
    command.add_argument("checkout", type=Path, metavar="CHECKOUT", help="the repository, or a folder of its questions")
    command.add_argument("folder", type=Path, metavar="FOLDER", help="where to write")

    described = commands.add_parser(
        "describe",
        help="count questions, words and steps of a set",
        description="Prints how many questions and pictures a set has, how long questions and prompts are, how many choices "
        "there are, and what has to be done to answer: as the paper's Table 6 and Figure 8.",
    )
    described.add_argument("--subtask", choices=("chain", "direct"), default="chain", help="default: chain")
    described.add_argument("--puzzles", type=int, metavar="N", help="of each configuration; default: as many as a run")


def main(args: argparse.Namespace) -> int:
    """Run the parsed command; returns the exit code, 2 for bad input and 1 where something was left out."""
    return _describe(args) if args.multistar_command == "describe" else _import(args)


def _describe(args: argparse.Namespace) -> int:
    from envs.raven import CONFIGURATIONS
    from evals.report.terminal import LaidOut, Output
    from evals.suites.multistar.data_set import asked_of, data_set_tables
    from evals.suites.multistar.suite import MultiStarSuite

    try:
        suite = MultiStarSuite(subtask=args.subtask, puzzles=args.puzzles)
    except ValueError as error:
        print(f"multistar describe: {str(error).replace('suite.puzzles=', '--puzzles ')}", file=sys.stderr)
        return 2
    asked = (one for name in CONFIGURATIONS for puzzle in suite.puzzles_of(name) for one in asked_of(puzzle))
    output = Output()
    for table in data_set_tables(asked, args.subtask):
        output.print(LaidOut(table))
        output.print()
    return 0


def _import(args: argparse.Namespace) -> int:
    from evals.suites.multistar.published_questions.reader import import_checkout
    from evals.suites.multistar.published_questions.store import INDEX, PICTURES, holds_questions, write_questions

    try:
        if not args.checkout.is_dir():
            raise ValueError(f"{args.checkout}: there is no such folder")
        with own_folder(args.folder, (INDEX, WARNINGS), lambda: holds_questions(args.folder), inner=PICTURES):
            found = import_checkout(args.checkout, args.folder)
            if not found.questions:
                raise ValueError(f"{args.checkout}: no question could be read; the first: {_safe(found.left_out[0])}")
            write_questions(args.folder, found.questions)
            _report(found, args.folder)
    except (ValueError, OSError) as error:
        print(f"multistar import: {error}", file=sys.stderr)
        return exit_code(error)
    return 1 if found.left_out else 0


def _report(found: Import, folder: Path) -> None:
    """Print what was imported, the first of what was left out, and counts of doubts; write all of it to a file."""
    doubtful = [question for question in found.questions if question.doubts]
    notes = [f"note: {note}" for note in found.notes]
    left_out = [f"left out: {line}" for line in found.left_out]
    lines = [*notes, *left_out]
    for question in doubtful:
        lines.append(f"doubtful key: {question.file}: {'; '.join(question.doubts)}")
    warnings = folder / WARNINGS
    text = "".join(f"{_safe(line)}\n" for line in lines)
    warnings.write_text(text, encoding="utf-8")
    for line in (*notes, *left_out[:MOST_NAMED]):
        print(_safe(line), file=sys.stderr)
    print(f"{'subtask':9}{'stage':8}{'questions':>10}{'doubtful keys':>15}")
    doubtful_of_kind = _counts(doubtful)
    for kind, count in _counts(found.questions).items():
        subtask, stage = kind
        print(f"{subtask:9}{stage:8}{count:10}{doubtful_of_kind[kind]:15}")
    reasons: Counter[str] = Counter()
    for question in doubtful:
        reasons.update(_reason(why) for why in question.doubts)
    for reason, count in reasons.most_common():
        print(f"doubtful: {count:5}  {_safe(reason)}")
    puzzles = {(question.subtask, question.configuration, question.puzzle) for question in found.questions}
    print(
        f"imported {len(found.questions)} questions on {len(puzzles)} puzzles to {folder}; {len(found.left_out)} left out; "
        f"{len(doubtful)} with doubtful keys; each is named in {warnings}"
    )


def _counts(questions: list[Stored]) -> Counter[tuple[str, str]]:
    return Counter((question.subtask, question.stage) for question in questions)


def _reason(why: str) -> str:
    """A doubt without what differs from question to question."""
    if why.startswith("the panels say"):
        return "the panels say otherwise"
    return "several objects have the shape that is named" if why.startswith("several") else why


def _safe(line: str) -> str:
    """Without what would steer a terminal."""
    return "".join(character if character.isprintable() else "?" for character in line)
