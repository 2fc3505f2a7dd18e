"""What tells the episodes of one puzzle apart: what each asks, and about how many tokens that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from envs.picture import Picture
from evals.suite import picture_tokens
from evals.suites.multistar.play import AskSettings
from evals.suites.multistar.prompts import prompt
from evals.suites.multistar.puzzles import CHAIN, planned_calls, sentences_of
from evals.suites.multistar.questions import Question
from evals.types import stable_hash

_CHARACTERS_PER_TOKEN: Final = 4


@dataclass(frozen=True)
class Draft:
    """One episode of a puzzle."""

    mode: str
    level: str
    content: str
    """Hash of all that the player is asked, and of the right answers."""
    number: int = 0
    calls: int = 1
    tokens: float = 0.0


def chain_draft(mode: str, questions: Sequence[Question], settings: AskSettings) -> Draft:
    """The episode of a whole chain."""
    # What every question would be told, with any answer of its parents.
    told = []
    asked_after_others = questions if settings.prior != "none" else ()
    for question in asked_after_others:
        parents = [parent for parent in questions if parent.node in question.parents]
        told += [sorted(sentences_of(parent, question, settings.paper_literal)) for parent in parents]
    calls = planned_calls(questions, settings.prior, settings.sweep, settings.paper_literal)
    tokens = sum(tokens_of(question, settings) for question in questions)
    tokens_of_calls = calls / len(questions) * tokens
    # The order of earlier answers is part of the identity only where there are some.
    order = []
    if settings.order != "paper" and any(told):
        order = [settings.order]
    contents = [content_of(question) for question in questions]
    content = stable_hash(contents, told, settings.sweep and bool(told), *order)
    return Draft(mode, CHAIN, content, 0, calls, tokens_of_calls)


def content_of(question: Question) -> list[object]:
    """What of a question a player sees, the right answer, and whether that counts."""
    shown = question.picture.key, question.setting, question.text, [*question.options]
    return [*shown, question.key, question.counts]


def tokens_of(question: Question, settings: AskSettings) -> float:
    """Prompt tokens, roughly."""
    total = 0.0
    for said in prompt(question, (), settings.style, settings.order, settings.presentation, settings.templates):
        for part in said.parts:
            if isinstance(part, Picture):
                total += picture_tokens(part)
            else:
                total += len(part) / _CHARACTERS_PER_TOKEN
    return total
