"""Whether trajectories are what they should be: each is replayed, and each of its tests searched once more."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from envs.files import parse_json
from envs.kumo import BOOK_STYLES, Game, OptimalSearch, Task
from evals.suites.kumo.lab.trajectories.plays import MOST_PLAYS, Row, chat_columns, chat_of, optimal_plays
from evals.suites.kumo.levels import is_level, size_of
from evals.suites.kumo.parallel import in_order
from evals.suites.kumo.searched_game import Puzzle, domain_of


@dataclass
class Checked:
    """What replaying a file has shown.

    Attributes:
        trajectories: Replayed.
        tasks: Different games among them.
        won: Of the trajectories, those whose last reply named a valid truth.
        tests: Taken in all of them.
        expected: Tests that perfect play expects in all of them, before anything is shown.
        domains: Trajectories by domain and level.
        problems: What is wrong, with the row.
    """

    trajectories: int = 0
    tasks: int = 0
    won: int = 0
    tests: int = 0
    expected: float = 0.0
    domains: Counter[tuple[str, str]] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def check(rows: Iterable[Row], processes: int | None = None) -> Checked:
    """Replay trajectories.

    Args:
        rows: Of a file.
        processes: Replays at a time; as many as there are cores if not given.
    """
    found = Checked()
    tasks: set[str] = set()
    places: dict[str, int] = {}
    """By task and play, the first row with it."""
    for results in in_order(_check_rows, enumerate(rows, 1), processes):
        for number, row, won, problem in results:
            # What it holds, as text: a domain may have several names, and a file may hold anything, also what has no hash.
            task = repr(row["task"])
            tasks.add(task)
            first = places.setdefault(f"{task}, {row['play']!r}", number)
            if first < number:
                problem = problem or f"is row {first:,} once more"
            found.trajectories += 1
            found.won += won
            found.tests += len(row["actions"]) - 1
            found.expected += row["expected_tests"]
            found.domains[row["domain"], row["level"]] += 1
            if problem:
                found.problems.append(f"row {number:,}: {problem}")
    found.tasks = len(tasks)
    return found


def _check_rows(rows: Sequence[tuple[int, Row]]) -> list[tuple[int, Row, bool, str]]:
    return [(number, row, *check_row(row)) for number, row in rows]


def check_row(row: Row) -> tuple[bool, str]:
    """Whether a trajectory wins its game, and what is wrong with it otherwise; empty if nothing is."""
    try:
        task = Task.from_json(parse_json(row["task"], "task"))
        puzzle = Puzzle(domain_of(row["domain"]), task)
        return _replay(puzzle, row)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as cause:
        return False, f"cannot be replayed ({type(cause).__name__}: {cause})"


def _numbered_play(search: OptimalSearch, number: int) -> tuple[str, ...] | None:
    """The perfect play that is written as this number; None if there are not so many."""
    return next(itertools.islice(optimal_plays(search), number, None), None)


def _replay(puzzle: Puzzle, row: Row) -> tuple[bool, str]:
    """Whether the game is won, and the first thing that is wrong."""
    task, game, moves = puzzle.task, Game(puzzle.task), row["actions"]
    search = OptimalSearch(task)
    problems = []
    for test in moves[:-1]:
        if test not in search.best_tests(game.observed):
            problems.append(f"{test!r} is not the best test, or none is needed any more")
        game.test(test)
    if search.best_tests(game.observed):
        problems.append("the truth is named too early")
    game.predict(moves[-1])
    if not game.won:
        return False, f"{moves[-1]!r} is not the right truth"
    if not math.isclose(row["expected_tests"], search.expected_steps, abs_tol=1e-6):
        problems.append(f"expected_tests is {row['expected_tests']}, not {search.expected_steps:.6f}")
    own = {"seed": task.seed, "index": task.index, "truths": [*task.truths], "tests": [*task.action_names]}
    wrong = [name for name, value in own.items() if row[name] != value]
    if wrong:
        problems.append(f"{' and '.join(wrong)} differ from those of its task")
    size = len(task.truths), len(task.action_names)
    if not is_level(row["level"]) or size_of(row["level"]) != size:
        problems.append(f"level is {row['level']!r}, and the task has {size[0]} truths and {size[1]} tests")
    if not 0 <= row["play"] < MOST_PLAYS or tuple(moves) != _numbered_play(search, row["play"]):
        problems.append(f"is not the perfect play number {row['play']} of its task")
    # Without a known book there is no chat to compare with.
    if row["book"] not in BOOK_STYLES:
        return True, f"no book {row['book']!r}"
    reasoned_by = search if row["reasons"] else None
    shown = chat_columns(chat_of(puzzle, moves, row["book"], reasoned_by))
    different = [name for name, value in shown.items() if row[name] != value]
    if different:
        problems.append(f"{' and '.join(different)} differ from what a run shows")
    if not problems:
        return True, ""
    return True, problems[0]
