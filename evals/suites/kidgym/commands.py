"""``raycade kidgym record``: KidGym's published environment: record its games, to play them."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from envs.disk import own_folder

if TYPE_CHECKING:
    from evals.suites.kidgym.published_environment.process import EnvironmentProcess
    from evals.suites.kidgym.published_environment.recording import RecordedGame

TASKS = ("CL", "SE", "SO", "MA", "FI", "PU", "PL", "CO", "DMA", "MMA", "MDE", "MFI")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command to a parser."""
    commands = parser.add_subparsers(dest="kidgym_command", required=True, metavar="COMMAND")
    command = commands.add_parser(
        "record",
        help="record which games the published environment makes, to play them",
        description="Opens each game of the published environment once and records how it begins. Runs the code of CHECKOUT, "
        "in a process that gets none of your keys. Afterwards play it with suite.environments=[own,published] "
        "suite.recording=OUT suite.checkout=CHECKOUT suite.python=PYTHON.",
    )
    command.add_argument("checkout", type=Path, metavar="CHECKOUT", help="the published repository")
    command.add_argument("out", type=Path, metavar="OUT", help="folder to write; pictures of runs are added to it")
    command.add_argument(
        "--python", default=sys.executable, help="interpreter with what CHECKOUT needs (default: this one)"
    )
    command.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS, metavar="TASK", help="default: all twelve")
    command.add_argument("--levels", nargs="+", type=int, choices=(1, 2, 3), default=(1, 2, 3), metavar="LEVEL")
    command.add_argument("--episodes", type=_positive, default=100, help="of each task and level (default: 100)")
    command.add_argument(
        "--seconds",
        type=_positive,
        default=10,
        help="processor time for one game or step at most: some mazes are generated for ever (default: 10)",
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def main(args: argparse.Namespace) -> int:
    """Run the parsed command; returns the exit code, 2 for bad input and 1 where games could not be made."""
    from evals.suites.kidgym.published_environment.process import EnvironmentProcess, PublishedEnvironmentError
    from evals.suites.kidgym.published_environment.recording import ABOUT, INDEX, PICTURES, is_recording

    checkout = args.checkout.absolute()
    if not (checkout / "tasks" / "__init__.py").is_file():
        print(f"kidgym record: {args.checkout}: no checkout of KidGym (it has no tasks/__init__.py)", file=sys.stderr)
        return 2
    lost = _lost_games(args)
    if lost:
        print(
            f"kidgym record: {args.out}: holds {len(lost)} games that this recording would remove, such as {lost[0]}; name "
            "another folder, or record all of them",
            file=sys.stderr,
        )
        return 2
    process = EnvironmentProcess(str(checkout), args.python, args.seconds)
    try:
        with own_folder(args.out, (ABOUT, INDEX), lambda: is_recording(args.out), inner=PICTURES):
            process.start()
            (args.out / PICTURES).mkdir(exist_ok=True)
            return _record(args, process)
    except (PublishedEnvironmentError, ValueError, OSError) as error:
        print(f"kidgym record: {error}", file=sys.stderr)
        return 2
    finally:
        process.close()


def _lost_games(args: argparse.Namespace) -> list[str]:
    """The games of a recording in the folder that the new one would not have."""
    from evals.suites.kidgym.published_environment.recording import read_recording

    try:
        before = read_recording(str(args.out))
    except ValueError:  # there is none that could be played
        return []
    lost = []
    for (task, level), games in before.games.items():
        most = args.episodes if task in args.tasks and level in args.levels else 0
        lost += [f"{task}, level {level}, game {game.index + 1}" for game in games if game.index >= most]
    return lost


def _record(args: argparse.Namespace, process: EnvironmentProcess) -> int:
    from evals.suites.kidgym.published_environment.recording import record_game, write_recording

    games: list[RecordedGame] = []
    print(f"{'task':6}{'level':>6}{'recorded':>10}{'failed':>8}  cause")
    for task in args.tasks:
        for level in args.levels:
            cell = [record_game(process, args.out, task, level, index) for index in range(args.episodes)]
            games += cell
            failed = Counter(game.error for game in cell if game.error)
            cause = failed.most_common(1)[0][0].replace(f"{process.checkout}: ", "") if failed else ""
            print(f"{task:6}{level:6}{len(cell) - failed.total():10}{failed.total():8}  {cause[:48]}", flush=True)
    write_recording(args.out, process, games)
    failed_games = [game for game in games if game.error]
    for game in failed_games:
        print(f"failed: {game.task} level {game.level}, game {game.index + 1}: {game.error}", file=sys.stderr)
    recorded = len(games) - len(failed_games)
    print(f"recorded {recorded} of {len(games)} games in {args.out}; a game that failed here fails in every run")
    played = ["suite=kidgym", "suite.environments=[own,published]", "suite.modes=[zero_shot]"]
    places = [f"suite.recording={args.out}", f"suite.checkout={args.checkout}", f"suite.python={args.python}"]
    print(f"play them: {shlex.join(['raycade', 'run', *played, *places, 'model=...'])}")
    return 0 if recorded == len(games) else 1
