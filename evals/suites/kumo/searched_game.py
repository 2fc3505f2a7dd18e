"""The games of a plan as a process needs them: generated, with their opening chat and their optimum, each made once."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, cast

from envs.files import read_json_lines
from envs.kumo import (
    BookStyle,
    Domain,
    Task,
    domain_from,
    generate_tasks,
    read_tasks,
    write_book,
)
from envs.kumo.domain_file import domains_with_table
from envs.kumo.published import PublishedDomain, PublishedTask, open_domain
from envs.kumo.world import World, generate_world_tasks
from evals.presentation import Presentation
from evals.sealed import seed_parts
from evals.suites.kumo.judge import CHEAP
from evals.suites.kumo.levels import level_of, size_of
from evals.suites.kumo.optima import is_known
from evals.suites.kumo.presentation import DEFAULT
from evals.suites.kumo.prompts import world_note
from evals.suites.kumo.searching import best_move, optimal_play
from evals.suites.kumo.wording import OwnWording, PromptStyle, PublishedWording, Wording
from evals.types import Chat, stable_seed

BookChoice = BookStyle | Literal["published", "written"]
"""How the knowledge book is written; an imported benchmark brings its own, and a task file may (``written``)."""


def drawn_from(seeds: str, seed: int) -> int:
    """The seed of generated tasks: the setting's own, or one that the secret or the block of ``suite.seeds`` makes of it."""
    secret = seed_parts(seeds)
    return stable_seed(*secret, seed) % 2**31 if secret else seed


@dataclass(frozen=True, eq=False)
class Puzzle:
    """One task of a domain with what playing it takes."""

    domain: Domain
    task: Task
    written: str = dataclasses.field(default="", kw_only=True)
    """The book that came with the task, if one did."""
    note: str = dataclasses.field(default="", kw_only=True)
    """What our prompts say besides the rules and the book."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All that may be replied: the actions, then the truths."""
        return (*self.task.action_names, *self.task.truths)

    @property
    def index(self) -> int:
        """The puzzle's place among those generated together."""
        return self.task.index

    def wording(
        self, prompt: PromptStyle, book: BookChoice, limit: int, presentation: Presentation = DEFAULT
    ) -> Wording:
        """What is said in a game with these prompts, a book in this style and so many rounds."""
        return OwnWording(self.task, self.domain, self.book(book), limit, presentation, self.note)

    def opening(self, book: BookChoice, limit: int) -> Chat:
        """The first turn's chat in our words."""
        return self.wording("own", book, limit).opening().sent

    def book(self, style: BookChoice) -> str:
        """The knowledge book."""
        if style not in self._books:
            self._books[style] = self._write_book(style)
        return self._books[style]

    def _write_book(self, style: BookChoice) -> str:
        if style == "written":
            if not self.written:
                raise ValueError(
                    f"suite.book=written: {self.domain.name}, task {self.index}: the task file has no book"
                )
            return self.written
        return write_book(self.task, self.domain, cast(BookStyle, style))

    @cached_property
    def _books(self) -> dict[BookChoice, str]:
        return {}

    @property
    def optimal_play(self) -> tuple[str, ...]:
        """The tests of perfect play on this task's outcomes, in order, and last the truth that it names.

        A task that is not of the default suite, nor in the user's cache, is searched, for seconds; threads that ask
        meanwhile wait for the same search.
        """
        # Not ``cached_property``: in Python 3.11 all puzzles share its lock, and one search at a time would run.
        found: tuple[str, ...] | None = self.__dict__.get("_optimal_play")
        if found is None:
            found = optimal_play(self.task)
            self.__dict__["_optimal_play"] = found
        return found

    @property
    def optimum_is_cheap(self) -> bool:
        """Whether ``optimal_play`` is on record or searched in no time."""
        return "_optimal_play" in self.__dict__ or is_known(self.task) or len(self.task.truths) <= CHEAP

    @property
    def guaranteed(self) -> bool:
        """Whether all tests together leave only the right truths, as players are told: not so in malformed tasks."""
        return True

    @property
    def benchmark_columns(self) -> Mapping[str, object]:
        """What an imported benchmark says of the task, as columns of the ledger."""
        return {}

    def best(self, taken: tuple[str, ...]) -> str:
        """What perfect play does after the actions in ``taken``."""
        if self.optimal_play[: len(taken)] == taken:
            return self.optimal_play[len(taken)]
        return best_move(self.task, taken)


@dataclass(frozen=True, eq=False)
class PublishedPuzzle(Puzzle):
    """One task of an imported benchmark."""

    published: PublishedTask
    of: PublishedDomain

    def wording(
        self, prompt: PromptStyle, book: BookChoice, limit: int, presentation: Presentation = DEFAULT
    ) -> Wording:
        """What is said in a game, in the benchmark's words if these are asked for."""
        if prompt == "published":
            return PublishedWording(self.published, self.of, self.book(book))
        return super().wording(prompt, book, limit, presentation)

    def _write_book(self, style: BookChoice) -> str:
        return self.published.book if style == "published" else super()._write_book(style)

    @property
    def optimal_play(self) -> tuple[str, ...]:
        """As searched when the benchmark was imported; where no truth survives, a guess at once."""
        return self.published.optimal_play or (self.task.valid_truth,)

    @property
    def optimum_is_cheap(self) -> bool:
        """It is on record."""
        return True

    @property
    def guaranteed(self) -> bool:
        """Whether the task is not malformed."""
        return not self.published.malformed

    @property
    def benchmark_columns(self) -> Mapping[str, object]:
        """The counts of the published search and over ties, and whether the task is malformed."""
        published = self.published
        return {
            "shipped_optimal_actions": published.shipped_actions,
            "tied_optimal_actions": published.tied_actions,
            "malformed": bool(published.malformed),
            **({} if published.optimal_play else {"optimal_actions": None}),
        }

    def best(self, taken: tuple[str, ...]) -> str:
        """What perfect play does after the actions in ``taken``; a guess where no truth survives them."""
        if self.published.malformed and not self.task.survivors(
            {name: self.task.observations[self.task.position(name)] for name in taken}
        ):
            return self.task.valid_truth
        return super().best(taken)


@functools.lru_cache(maxsize=256)
def domain_of(source: str) -> Domain:
    """A domain by its name, its file, or as one of ``structured_sources``; read or drawn once."""
    return domain_from(source)


def check_once(names: Iterable[str]) -> None:
    """Refuse domains that are played twice, since one may be named by its name and by its file.

    Raises:
        ValueError: a name stands twice.
    """
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(f"suite.domains names {', '.join(sorted(twice))} twice")


@functools.lru_cache(maxsize=256)
def puzzles_of(
    source: str,
    level: str,
    count: int,
    give_aways: bool = False,
    seed: int = 0,
    valid_truths: int = 1,
    numeric: float | None = None,
) -> tuple[Puzzle, ...]:
    """The puzzles of one domain and level, generated once.

    Raises:
        ValueError: the domain is too small, or has not so many different tasks.
    """
    domain = domain_of(source)
    tasks = generate_tasks(domain, *size_of(level), count, give_aways, seed, valid_truths, numeric)
    return tuple(Puzzle(domain, task) for task in tasks)


@functools.lru_cache(maxsize=256)
def world_puzzles_of(
    source: str, level: str, count: int, world: World, told: bool, give_aways: bool = False, seed: int = 0
) -> tuple[Puzzle, ...]:
    """The puzzles of one domain and level in a version that agrees with the real world, ignores or contradicts it.

    Raises:
        ValueError: the domain has no table of what is true, or one too small for such games.
    """
    domain = domain_of(source)
    if not domain.true_of:
        known = ", ".join(domains_with_table())
        raise ValueError(
            f"suite.world={world}: domain {domain.name!r} has no table of what is true in the real world; these have: {known}"
        )
    note = world_note(world, domain) if told else ""
    tasks = generate_world_tasks(domain, world, *size_of(level), count, give_aways, seed)
    return tuple(Puzzle(domain, task, note=note) for task in tasks)


@functools.lru_cache(maxsize=256)
def puzzles_in(path: str, sources: tuple[str, ...], source: str, level: str) -> tuple[Puzzle, ...]:
    """The puzzles of one domain and level that a task file holds, in its order.

    Raises:
        ValueError: the file is missing, or no task file.
    """
    domain = domain_of(source)
    tasks = [(task, book) for task, book in _tasks_in(path, sources) if task.domain == domain.name]
    size = size_of(level)
    return tuple(Puzzle(domain, t, written=book) for t, book in tasks if (len(t.truths), len(t.actions)) == size)


def sizes_in(path: str, sources: tuple[str, ...]) -> str:
    """What a task file holds, for errors: *2 of 7x9 (medical)*."""
    counts = Counter((level_of(len(t.truths), len(t.actions)), t.domain) for t, _ in _tasks_in(path, sources))
    return ", ".join(f"{count} of {level} ({domain})" for (level, domain), count in counts.items())


@functools.lru_cache(maxsize=16)
def _tasks_in(path: str, sources: tuple[str, ...]) -> tuple[tuple[Task, str], ...]:
    """The tasks of a file, each with the book that came with it."""
    tasks = read_tasks(Path(path), [domain_of(source) for source in sources])
    books = [str(fields.get("book", "")) for _, fields in read_json_lines(path)]
    return tuple(zip(tasks, books, strict=True))


@functools.lru_cache(maxsize=512)
def puzzles_from(folder: str, domain: str, level: str) -> tuple[Puzzle, ...]:
    """The puzzles of one domain and level of an imported benchmark, in its order; none where it has none.

    Raises:
        ValueError: the folder is no imported benchmark, or has no such domain.
    """
    of = open_domain(folder, domain)
    return tuple(PublishedPuzzle(of.domain, each.task, each, of) for each in of.tasks if each.level == level)
