"""``raycade kumo show``: one game, generated, or of an episode of a run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from cluster.commands.show_episode import read_episode
from cluster.console import raycade
from cluster.errors import UserError
from cluster.storage.stored_run import Run, read_runs
from envs.kumo import BOOK_STYLES, DIFFICULTIES
from evals.report.terminal import Output
from evals.suites.kumo import KumoSuite
from evals.suites.kumo.levels import is_level
from evals.suites.kumo.searched_game import puzzles_of
from evals.suites.kumo.show import game_text

MOST_TASKS = 10_000
"""Tasks of a domain and size, as they are generated one after the other."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``raycade kumo show``."""
    parser.description = (
        "Shows one game: the prompt with the knowledge book, the expected number of tests of perfect play, and the tree of "
        "best tests. With RUN and EPISODE it is the game of an episode, as its player was told."
    )
    parser.add_argument("what", metavar="DOMAIN|RUN", help="a domain's name or YAML file, or a run directory")
    parser.add_argument("episode", nargs="?", metavar="EPISODE", help="an episode's id, or its first few digits")
    parser.add_argument("--size", default="easy", help="easy, hard, or truths x actions such as 8x12 (easy)")
    parser.add_argument("--seed", type=int, default=0, help="default 0")
    parser.add_argument("--index", type=int, default=0, metavar="N", help="which task of the domain (0)")
    parser.add_argument("--valid-truths", type=int, default=1, metavar="N", help="truths that are right (1)")
    parser.add_argument("--book", choices=BOOK_STYLES, default="prose", help="style of the book (prose)")
    parser.add_argument("--depth", type=int, default=3, metavar="N", help="tests that the tree shows in a row (3)")


def main(options: argparse.Namespace) -> int:
    """Print the game.

    Raises:
        UserError: there is no such domain, size, task or episode.
    """
    try:
        parts = list(_of_episode(options) if Path(options.what).is_dir() else _generated(options))
    except ValueError as error:
        raise UserError(str(error)) from error
    console = Output()
    for part in parts:
        console.print(part)
    return 0


def _generated(options: argparse.Namespace) -> Any:
    if options.episode:
        raise UserError(f"{options.what} is no run directory, so it has no episode {options.episode}")
    if not is_level(options.size):
        raise UserError(
            f"--size must be {', '.join(DIFFICULTIES)} or truths x actions such as 8x12, not {options.size}"
        )
    suite = KumoSuite(valid_truths=options.valid_truths)
    if not 0 <= options.index < MOST_TASKS:
        raise UserError(f"--index must be from 0 to {MOST_TASKS - 1:,}, not {options.index:,}")
    puzzles = puzzles_of(options.what, options.size, options.index + 1, False, options.seed, options.valid_truths)
    return game_text(puzzles[options.index], "own", options.book, suite.max_steps, options.depth)


def _of_episode(options: argparse.Namespace) -> Any:
    if not options.episode:
        raise UserError(f"{options.what} is a run: name an episode, too; `{raycade('show', options.what)}` lists them")
    run = Run(Path(options.what))
    suite, row = read_runs([run], lambda: read_episode(run, options.episode))
    if not isinstance(suite, KumoSuite):
        raise UserError(f"episode {options.episode} is of {suite.name}, not of kumo")
    puzzle = suite.puzzle(row["task"], row["level"], row["index"])
    return game_text(puzzle, suite.prompt, suite.book, suite.max_steps, options.depth)
