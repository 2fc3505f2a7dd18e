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
    told = _told(questions, settings)
    calls = planned_calls(questions, settings.prior, settings.sweep, settings.paper_literal)
    tokens = sum(tokens_of(question, settings) for question in questions)
    tokens_of_calls = calls / len(questions) * tokens
    # The order of earlier answers is part of the identity only where there are some, the sweep where it asks something.
    order = []
    tells_something = any(told)
    if tells_something and settings.order != "paper":
        order = [settings.order]
    sweeps = settings.sweep and bool(told)
    contents = [content_of(question) for question in questions]
    content = stable_hash(contents, told, sweeps, *order)
    return Draft(mode, CHAIN, content, 0, calls, tokens_of_calls)


def _told(questions: Sequence[Question], settings: AskSettings) -> list[list[str]]:
    """What every question would be told, with any answer of its parents."""
    told: list[list[str]] = []
    if settings.prior == "none":
        return told
    for question in questions:
        parents = [parent for parent in questions if parent.node in question.parents]
        for parent in parents:
            told.append(sorted(sentences_of(parent, question, settings.paper_literal)))
    return told


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
