"""What a stage asks for, one item an episode: what is asked first, and about how much it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from envs.kumo import Domain, Task, generate_tasks, load_domain, write_book
from evals.suites.kumo.lab.pipeline import book_prompts, prompts
from evals.suites.kumo.lab.pipeline.books import Draft
from evals.suites.kumo.lab.pipeline.configure import request_for
from evals.suites.kumo.lab.pipeline.dialogue import CONTINUATIONS
from evals.suites.kumo.lab.pipeline.folder import Stage
from evals.suites.kumo.lab.pipeline.proposals import Proposal, category_of
from evals.suites.kumo.levels import size_of
from evals.types import Chat

EXPECTED_CALLS = {"propose": 1.2, "configure": 2.5, "write": 1.1, "check": 1.5, "revise": 1.1}
"""Calls for one item, guessed: most replies are sound, most domains take a repair, half of the books are found faulty."""
EXPECTED_REVISIONS = 0.5
"""Share of books that a round of checks sends back."""
_CHARACTERS_PER_TOKEN = 4
_PROPOSAL_TOKENS = 150
_TRUTH_TOKENS, _ACTION_TOKENS = 35, 130
SAMPLE_DOMAIN = "medical"


@dataclass(frozen=True)
class Item:
    """One item of a stage."""

    number: int
    task: str
    level: str
    chat: Chat
    completion_tokens: float
    """Expected of one reply."""
    work: Proposal | Draft | None = None

    @property
    def prompt_tokens(self) -> float:
        """Of the first request."""
        parts = [part for each in self.chat for part in each.parts if isinstance(part, str)]
        return sum(map(len, parts)) / _CHARACTERS_PER_TOKEN


@dataclass(frozen=True)
class Estimate:
    """What a stage is expected to take."""

    stage: str
    items: int
    calls: float
    most_calls: int
    prompt_tokens: float
    completion_tokens: float

    @classmethod
    def of(cls, stage: Stage, items: Sequence[Item], repairs: int, count: float | None = None) -> Estimate:
        """For these items, or for ``count`` of their kind."""
        many = math.ceil(len(items) if count is None else count)
        share = many / len(items) if items else 0.0
        calls = EXPECTED_CALLS[stage]
        prompt = sum(item.prompt_tokens for item in items) * share * calls
        completion = sum(item.completion_tokens for item in items) * share * calls
        return cls(stage, many, calls * many, most_calls(stage, repairs) * many, prompt, completion)


def most_calls(stage: Stage, repairs: int) -> int:
    """The most calls that one item can take."""
    whole = CONTINUATIONS + 1
    if stage in ("write", "revise"):
        return whole
    repaired = whole * (repairs + 1)
    return repaired + whole if stage == "check" else repaired


def propose_items(proposals: int, per_reply: int, existing: Sequence[str]) -> list[Item]:
    """Requests for so many proposals in all, one field of knowledge after the other."""
    return [
        Item(
            number,
            category_of(number),
            "new",
            prompts.propose(category_of(number), per_reply, existing),
            _PROPOSAL_TOKENS * per_reply,
        )
        for number in range(math.ceil(proposals / per_reply))
    ]


def configure_items(proposals: Sequence[Proposal], truths: int, actions: int) -> list[Item]:
    """One domain for each proposal."""
    tokens = _TRUTH_TOKENS * truths + _ACTION_TOKENS * actions
    return [
        Item(number, each.name, f"{truths}x{actions}", request_for(each, truths, actions), tokens, each)
        for number, each in enumerate(proposals)
    ]


def book_items(stage: Stage, drafts: Sequence[tuple[int, Draft]], level: str) -> list[Item]:
    """One book for each draft."""
    return [_book_item(stage, number, draft, level) for number, draft in drafts]


def _book_item(stage: Stage, number: int, draft: Draft, level: str) -> Item:
    task, domain = draft.task, draft.domain
    if stage == "check":
        length = len(write_book(task, domain, "symbolic"))
        chat = book_prompts.extract(task, domain, draft.book)
    else:
        length = len(write_book(task, domain))
        chat = book_prompts.write(task, domain)
        if stage == "revise":
            chat = book_prompts.revise(task, domain, draft.book, draft.complaints)
    return Item(number, domain.name, level, chat, length / _CHARACTERS_PER_TOKEN, draft)


def tasks_of(domains: Sequence[Domain], level: str, count: int, seed: int) -> list[tuple[Domain, Task]]:
    """The first tasks of each domain.

    Raises:
        ValueError: a domain is too small for them.
    """
    return [(domain, task) for domain in domains for task in generate_tasks(domain, *size_of(level), count, seed=seed)]


def sample_items(stage: Stage, level: str, truths: int, actions: int) -> list[Item]:
    """An item as those of a stage whose own are not known yet."""
    domain = load_domain(SAMPLE_DOMAIN)
    if stage == "configure":
        nouns = {"singular": domain.truth.singular, "plural": domain.truth.plural}
        names = tuple(action.name for action in domain.actions[:3])
        like = Proposal("sample", domain.title, domain.goal, "", nouns, nouns, domain.truths[:6], names)
        return configure_items([like], truths, actions)
    task = generate_tasks(domain, *size_of(level), 1)[0]
    return book_items(stage, [(0, Draft(domain, task, write_book(task, domain)))], level)
