"""One stage of writing KUMO domains and books as a suite, so that it runs, resumes and is stored as any run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pyarrow as pa
from annotated_types import Ge, Interval, MinLen

from envs.kumo import Domain, Task, available_domains
from envs.kumo.likeness import Profile, shipped_profiles, shipped_titles
from envs.settings import Count, Index, check_instance
from evals.conversation import Conversation
from evals.ledger.run_data import RunData
from evals.suite import Column, Suite, check_plan_size
from evals.suites.kumo.lab.pipeline import book_prompts, prompts
from evals.suites.kumo.lab.pipeline.books import Draft, check_book, revise_book, write_book
from evals.suites.kumo.lab.pipeline.configure import configure
from evals.suites.kumo.lab.pipeline.folder import Folder, Stage, load_all
from evals.suites.kumo.lab.pipeline.items import (
    EXPECTED_CALLS,
    Item,
    book_items,
    configure_items,
    most_calls,
    propose_items,
    tasks_of,
)
from evals.suites.kumo.lab.pipeline.proposals import Proposal, propose
from evals.suites.kumo.lab.pipeline.tables import stage_table
from evals.tables import Section, Table
from evals.types import Episode, Outcome, stable_hash, stable_seed

_RULES = "2"
"""Raise it when replies are read or judged otherwise: part of every episode's id."""


@dataclass(frozen=True)
class KumoPipeline(Suite):
    """One stage of writing domains and books with a model. ``raycade kumo lab make`` runs all stages.

    Args:
        folder: Where the stages leave what they make; see ``evals.suites.kumo.lab.pipeline.folder``.
        stage: What is played: propose, configure, write, check or revise.
        round: Which round of checks and revisions, from 1.
        proposals: Domains to propose in all.
        per_reply: Of these, how many in one reply.
        existing: Files of domains besides raycade's own that proposals must not repeat.
        truths: Fewest truths of a domain.
        actions: Fewest tests of a domain.
        repairs: Times that a reply is sent back with what is wrong with it.
        domains: Domains, by name or file, whose tasks get books; by default those of the folder.
        difficulty: Of the tasks that get books: easy or hard.
        tasks_per_domain: Tasks of each domain that get a book.
        seed: Another seed gives other tasks.
        rounds: Of checks, in all; between them, refused books are revised.
    """

    name: ClassVar[str] = "kumo_pipeline"
    title: ClassVar[str] = "KUMO pipeline"
    columns: ClassVar[Mapping[str, Column]] = {
        "result": Column(
            pa.string(), "What was made: proposals as JSON, a domain as YAML, or a book; empty if refused."
        ),
        "complaints": Column(
            pa.list_(pa.string()), "What is wrong with the last try, or was set right in an accepted one."
        ),
        "continuations": Column(pa.int32(), "Truncated replies that were continued.", "replies"),
        "repairs": Column(pa.int32(), "Replies that were sent back.", "replies"),
        "accepted_by": Column(
            pa.string(), "Whose table of a book was right: `parser`, `model` or `both`; empty if refused."
        ),
        "parser": Column(pa.string(), "What our parser read from a book: `equal`, `differs` or `unreadable`."),
        "model": Column(pa.string(), "What a model extracted from a book: `equal`, `differs` or `unreadable`."),
    }

    folder: Annotated[str, MinLen(1)]
    stage: Stage = "propose"
    round: Count = 1
    proposals: Count = 20
    per_reply: Annotated[int, Interval(ge=1, le=10)] = 5
    existing: str | Sequence[str] = ()
    truths: Annotated[int, Ge(5)] = 50
    actions: Annotated[int, Ge(6)] = 30
    repairs: Index = 2
    domains: str | Sequence[str] = ()
    difficulty: Literal["easy", "hard"] = "easy"
    tasks_per_domain: Count = 5
    seed: Index = 0
    rounds: Count = 2
    items: tuple[Item, ...] = field(init=False, repr=False, compare=False, default=())
    """What there is to ask for; read when the suite is made, so that runners need no access to the folder."""

    def __post_init__(self) -> None:
        check_instance("suite", self)
        for setting in ("existing", "domains"):
            given = getattr(self, setting)
            names: list[str] = []
            for each in [given] if isinstance(given, str) else given:
                names += available_domains() if each == "all" else [each]
            object.__setattr__(self, setting, tuple(names))
        object.__setattr__(self, "items", tuple(self._items()))

    def plan(self) -> Sequence[Episode]:
        """An episode for each item of the stage; none if there is nothing to do."""
        return [self._episode(item) for item in self.items]

    async def play(self, episode: Episode, conversation: Conversation) -> Outcome:
        """Ask for one item until it is accepted or given up; success is acceptance."""
        item = self._by_number[episode.index]
        if isinstance(item.work, Draft):
            match self.stage:
                case "check":
                    outcome, tally = await check_book(conversation, item.work, self.repairs)
                case "write":
                    outcome, tally = await write_book(conversation, item.work)
                case _:
                    outcome, tally = await revise_book(conversation, item.work)
        elif isinstance(item.work, Proposal):
            outcome, tally = await configure(conversation, item.work, self.truths, self.actions, self.repairs)
        else:
            outcome, tally = await propose(conversation, item.number, self.per_reply, item.chat, self.repairs)
        counts = {"continuations": tally.continuations, "repairs": tally.repairs}
        return dataclasses.replace(outcome, extra={**outcome.extra, **counts})

    def results(self, run: RunData, section: Section) -> Iterable[Table]:
        """What was accepted and refused, with the calls and tokens that it took."""
        return [stage_table(self.name, run)] if section == "scores" else []

    @property
    def tasks(self) -> list[tuple[Domain, Task]]:
        """The tasks that get books, in a fixed order: their places are the numbers of the books.

        Raises:
            ValueError: a domain is missing, wrong or too small.
        """
        domains = load_all(self.domains or Folder(Path(self.folder)).domains())
        check_plan_size(domains=len(domains), tasks=self.tasks_per_domain)
        return tasks_of(domains, self.difficulty, self.tasks_per_domain, self.seed)

    def known(self) -> list[Profile]:
        """The domains that new ones must not repeat."""
        return [*shipped_profiles(), *map(Profile.of_domain, load_all(self.existing))]

    @cached_property
    def _by_number(self) -> Mapping[int, Item]:
        return {item.number: item for item in self.items}

    def _items(self) -> list[Item]:
        folder = Folder(Path(self.folder))
        if self.stage == "propose":
            titles = [*shipped_titles(), *(domain.title for domain in load_all(self.existing))]
            return propose_items(self.proposals, self.per_reply, titles)
        if self.stage == "configure":
            return configure_items(folder.proposals(), self.truths, self.actions)
        return book_items(self.stage, folder.drafts(self.stage, self.round, self.tasks), self.difficulty)

    def _episode(self, item: Item) -> Episode:
        calls = EXPECTED_CALLS[self.stage]
        mode = f"{self.stage}-{self.round}" if self.stage in ("check", "revise") else self.stage
        of_book = isinstance(item.work, Draft)
        return Episode(
            suite=self.name,
            task=item.task,
            level=item.level,
            mode=mode,
            index=item.number,
            repeat=0,
            seed=stable_seed(self.name, item.task, item.level, item.number),
            fingerprint=stable_hash(
                _RULES,
                book_prompts.FINGERPRINT if of_book else prompts.FINGERPRINT,
                self.repairs,
                [part for said in item.chat for part in said.parts],
            ),
            budget=most_calls(self.stage, self.repairs),
            calls=calls,
            prompt_tokens=item.prompt_tokens * calls,
        )
