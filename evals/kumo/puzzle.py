"""The games of a plan as a process needs them: generated, with their opening chat and their optimum, each made once."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from envs.kumo import (
    BookStyle,
    Domain,
    Task,
    domain_from,
    generate_tasks,
    read_tasks,
    write_book,
)
from evals.kumo import prompts
from evals.kumo.judge import CHEAP
from evals.kumo.levels import size_of
from evals.kumo.optima import is_known
from evals.kumo.searching import best_move, optimal_play
from evals.types import Chat


@dataclass(frozen=True, eq=False)
class Puzzle:
    """One task of a domain with what playing it takes."""

    domain: Domain
    task: Task

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All that may be replied: the actions, then the truths."""
        return (*self.task.action_names, *self.task.truths)

    def opening(self, book: BookStyle, limit: int) -> Chat:
        """The first turn's chat, with a book in this style and so many rounds."""
        if (book, limit) not in self._openings:
            text = write_book(self.task, self.domain, book)
            self._openings[book, limit] = prompts.opening(self.task, self.domain, text, limit)
        return self._openings[book, limit]

    @cached_property
    def _openings(self) -> dict[tuple[BookStyle, int], Chat]:
        return {}

    @cached_property
    def optimal_play(self) -> tuple[str, ...]:
        """The tests of perfect play on this task's outcomes, in order, and last the truth that it names.

        A task that is not of the default suite, nor in the user's cache, is searched, for seconds; threads that ask
        meanwhile wait for the same search.
        """
        return optimal_play(self.task)

    @property
    def optimum_is_cheap(self) -> bool:
        """Whether ``optimal_play`` is on record or searched in no time."""
        return "optimal_play" in self.__dict__ or is_known(self.task) or len(self.task.truths) <= CHEAP

    def best(self, taken: tuple[str, ...]) -> str:
        """What perfect play does after the actions in ``taken``."""
        if self.optimal_play[: len(taken)] == taken:
            return self.optimal_play[len(taken)]
        return best_move(self.task, taken)


@functools.lru_cache(maxsize=256)
def domain_of(source: str) -> Domain:
    """A domain by its name, its file, or as one of ``structured_sources``; read or drawn once."""
    return domain_from(source)


@functools.lru_cache(maxsize=256)
def puzzles_of(
    source: str, level: str, count: int, give_aways: bool = False, seed: int = 0, valid_truths: int = 1
) -> tuple[Puzzle, ...]:
    """The puzzles of one domain and level, generated once.

    Raises:
        ValueError: the domain is too small, or has not so many different tasks.
    """
    domain = domain_of(source)
    tasks = generate_tasks(domain, *size_of(level), count, give_aways, seed, valid_truths)
    return tuple(Puzzle(domain, task) for task in tasks)


@functools.lru_cache(maxsize=256)
def puzzles_in(path: str, sources: tuple[str, ...], source: str, level: str) -> tuple[Puzzle, ...]:
    """The puzzles of one domain and level that a task file holds, in its order.

    Raises:
        ValueError: the file is missing, or no task file.
    """
    domain = domain_of(source)
    tasks = [task for task in _tasks_in(path, sources) if task.domain == domain.name]
    return tuple(Puzzle(domain, task) for task in tasks if (len(task.truths), len(task.actions)) == size_of(level))


@functools.lru_cache(maxsize=16)
def _tasks_in(path: str, sources: tuple[str, ...]) -> tuple[Task, ...]:
    try:
        return tuple(read_tasks(Path(path), [domain_of(source) for source in sources]))
    except OSError as cause:
        raise ValueError(f"{path}: cannot be read: {cause.strerror}") from None
