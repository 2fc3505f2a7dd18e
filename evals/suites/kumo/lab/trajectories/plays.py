"""Perfect plays as chats to train a model on (the paper's golden trajectories), as many as are asked for.

A trajectory is the chat of a game as ``play`` holds it, word for word, with the replies of perfect play; so what is
trained on it can be evaluated by ``raycade run``. ``loss_mask`` marks the replies: the loss counts there only.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from envs.kumo import BUDGET, BookStyle, OptimalSearch, Task
from envs.kumo.generate import stream_tasks
from evals.suites.kumo.lab.trajectories.reasons import reasons_to_name, reasons_to_test
from evals.suites.kumo.levels import size_of
from evals.suites.kumo.parallel import in_order
from evals.suites.kumo.searched_game import Puzzle, domain_of
from evals.types import Chat, Message, message

MOST_PLAYS = 1000
"""Plays of one task that are written at most: some hard tasks have millions that are equally good."""

Row = dict[str, Any]
"""One trajectory as it is written; docs/kumo_trajectories.md describes the columns."""


@dataclass(frozen=True)
class Recipe:
    """Which trajectories to make of one domain.

    Attributes:
        domain: As ``suite.domains`` takes it: a name, a file, or a part such as ``reptiles@in``.
        level: ``easy``, ``hard``, or a size such as ``6x8``.
        book: How the guidebook is written.
        seed: Of the tasks, as ``suite.seed``.
        reserve: Tasks to leave out at the beginning, those that a run with this seed plays.
        count: Tasks after these.
        plays: Of each task, at most; perfect play may choose among equally good tests.
        reasons: Whether each reply says why, from the search, before it answers.
    """

    domain: str
    level: str = "easy"
    book: BookStyle = "symbolic"
    seed: int = 0
    reserve: int = 50
    count: int = 1000
    plays: int = 1
    reasons: bool = False


def trajectories(recipe: Recipe, processes: int | None = None) -> Iterator[list[Row]]:
    """The rows of a recipe in the order of its tasks, some at a time; memory does not grow with their number.

    Args:
        recipe: What to make.
        processes: Searches at a time; as many as there are cores if not given.

    Raises:
        ValueError: the domain is too small, or has not so many different tasks.
    """
    tasks = stream_tasks(domain_of(recipe.domain), *size_of(recipe.level), seed=recipe.seed)
    chosen = islice(tasks, recipe.reserve, recipe.reserve + recipe.count)
    return in_order(functools.partial(_rows, recipe), chosen, processes)


def _rows(recipe: Recipe, tasks: Sequence[Task]) -> list[Row]:
    return [row for task in tasks for row in rows_of(recipe, task)]


def rows_of(recipe: Recipe, task: Task) -> list[Row]:
    """The trajectories of one task."""
    puzzle, search = Puzzle(domain_of(recipe.domain), task), OptimalSearch(task)
    plays = [search.rollout()] if recipe.plays == 1 else islice(optimal_plays(search), recipe.plays)
    return [_row(recipe, puzzle, search, place, moves) for place, moves in enumerate(plays)]


def optimal_plays(search: OptimalSearch) -> Iterator[tuple[str, ...]]:
    """All ways of perfect play on what the task shows: tests, and last the truth; the first is the search's rollout.

    Their numbers of tests may differ: equally good tests promise the same on average, and then show what they show.
    """

    @functools.cache
    def best_tests(taken: frozenset[str]) -> tuple[str, ...]:
        return search.best_tests(_shown(search.task, taken))

    def following(taken: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        tests = best_tests(frozenset(taken))
        if not tests:
            yield (*taken, search.best(_shown(search.task, taken)))
        for test in tests:
            yield from following((*taken, test))

    return following(())


def _shown(task: Task, taken: Sequence[str] | frozenset[str]) -> dict[str, str | float]:
    return {name: task.observations[task.position(name)] for name in taken}


def chat_of(puzzle: Puzzle, moves: Sequence[str], book: BookStyle, search: OptimalSearch | None = None) -> Chat:
    """The whole chat of a game in which these tests are taken, and last this truth is named.

    Args:
        puzzle: The game.
        moves: The tests, and last the truth.
        book: Style of the guidebook.
        search: Of the game's task, where replies are to give reasons.
    """
    words, task = puzzle.wording("own", book, BUDGET), puzzle.task
    chat = words.opening().kept
    *tests, truth = moves
    for number, test in enumerate(tests):
        why = reasons_to_test(task, search, tests[:number], test) if search else ""
        chat = (*chat, _reply(test, why), *words.outcome(test, task.observation_text(test)).kept)
    return (*chat, _reply(truth, reasons_to_name(task, tests, truth) if search else ""))


def _reply(name: str, why: str) -> Message:
    answer = f"<ANSWER> {name} </ANSWER>"
    return message("assistant", f"{why}\n{answer}" if why else answer)


def chat_columns(chat: Chat) -> Row:
    """The columns of a row that hold its chat."""
    return {
        "messages": [{"role": entry.role, "content": "".join(map(str, entry.parts))} for entry in chat],
        "loss_mask": [int(entry.role == "assistant") for entry in chat],
    }


def _row(recipe: Recipe, puzzle: Puzzle, search: OptimalSearch, place: int, moves: Sequence[str]) -> Row:
    task = puzzle.task
    chat = chat_of(puzzle, moves, recipe.book, search if recipe.reasons else None)
    return {
        "domain": recipe.domain,
        "level": recipe.level,
        "seed": recipe.seed,
        "index": task.index,
        "play": place,
        "book": recipe.book,
        "reasons": recipe.reasons,
        **chat_columns(chat),
        "actions": list(moves),
        "truths": list(task.truths),
        "tests": list(task.action_names),
        "expected_tests": search.expected_steps,
        "task": json.dumps(task.to_json(), ensure_ascii=False),
    }
