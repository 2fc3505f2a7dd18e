"""The games of a plan as a process needs them: generated, with their opening chat and their optimum, each made once."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from envs.kumo import DIFFICULTIES, Domain, Task, generate_tasks, read_tasks, write_book
from envs.kumo.search import check_size
from envs.kumo.structure import domain_from
from evals.kumo import prompts
from evals.kumo.searching import best_move, optimal_play
from evals.types import Chat


@dataclass(frozen=True)
class Puzzle:
    """One task of a domain with what playing it takes."""

    domain: Domain
    task: Task

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All that may be replied: the actions, then the truths."""
        return (*self.task.action_names, *self.task.truths)

    @cached_property
    def opening(self) -> Chat:
        """The first turn's chat."""
        return prompts.opening(self.task, self.domain, write_book(self.task, self.domain))

    @cached_property
    def optimal_play(self) -> tuple[str, ...]:
        """The tests of perfect play on this task's outcomes, in order, and last the truth that it names.

        A task that is not of the default suite, nor in the user's cache, is searched, for seconds; threads that ask
        meanwhile wait for the same search.
        """
        return optimal_play(self.task)

    def best(self, taken: tuple[str, ...]) -> str:
        """What perfect play does after the actions in ``taken``."""
        if self.optimal_play[: len(taken)] == taken:
            return self.optimal_play[len(taken)]
        return best_move(self.task, taken)


@functools.lru_cache(maxsize=256)
def domain_of(name_or_path: str) -> Domain:
    """A domain, read or drawn once."""
    return domain_from(name_or_path)


@functools.lru_cache(maxsize=256)
def puzzles_of(
    name_or_path: str,
    difficulty: str,
    count: int,
    give_aways: bool,
    seed: int = 0,
    valid_truths: int = 1,
    size: tuple[int, int] | None = None,
) -> tuple[Puzzle, ...]:
    """The puzzles of one domain and difficulty, or with ``size`` of so many truths and actions, generated once.

    Raises:
        ValueError: the domain is too small, has not so many different tasks, or these are too large to be searched.
    """
    domain = domain_of(name_or_path)
    truths, actions = size or DIFFICULTIES[difficulty]
    check_size(truths, actions)
    tasks = generate_tasks(domain, truths, actions, count, give_aways, seed, valid_truths)
    return tuple(Puzzle(domain, task) for task in tasks)


@functools.lru_cache(maxsize=256)
def puzzles_in(path: str, sources: tuple[str, ...], name_or_path: str, difficulty: str) -> tuple[Puzzle, ...]:
    """The puzzles of one domain and difficulty that a task file holds, in its order.

    Raises:
        ValueError: the file is missing, or no task file.
    """
    domain = domain_of(name_or_path)
    tasks = [task for task in _tasks_in(path, sources) if task.domain == domain.name]
    size = DIFFICULTIES[difficulty]
    return tuple(Puzzle(domain, task) for task in tasks if (len(task.truths), len(task.actions)) == size)


@functools.lru_cache(maxsize=16)
def _tasks_in(path: str, sources: tuple[str, ...]) -> tuple[Task, ...]:
    try:
        return tuple(read_tasks(Path(path), [domain_of(source) for source in sources]))
    except OSError as cause:
        raise ValueError(f"{path}: cannot be read: {cause.strerror}") from None
