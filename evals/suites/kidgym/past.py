"""The earlier steps of a chat: all of them, in messages that stay the same, or the last ones, built anew for each question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from evals.presentation import History, Presentation, joined, told
from evals.presentation.history import last
from evals.types import Chat, Message, Part, message


class Past(Protocol):
    """What was before the present question."""

    def asking(self, parts: Sequence[Part]) -> Chat:
        """The chat that ends in a question with these parts."""
        ...

    def forced(self, parts: Sequence[Part]) -> None:
        """A step that was not asked: it stands before the next question, in its message."""
        ...

    def answered(self, answer: Message) -> None:
        """The answer to the latest question."""
        ...


def past_of(presentation: Presentation, history: History, rules: Message, beginning: Sequence[Part]) -> Past:
    """An empty past.

    Args:
        presentation: How pictures of earlier and present steps are told.
        history: How many earlier steps are shown.
        rules: The system message.
        beginning: What stands before the first question that is shown.
    """
    if history == "all" and presentation.past_pictures == "kept":
        return _Growing(presentation, rules, beginning)
    return _Window(presentation, history, rules, beginning)


class _Growing:
    """A chat that is only ever appended to."""

    def __init__(self, presentation: Presentation, rules: Message, beginning: Sequence[Part]) -> None:
        self._shown = presentation
        self._chat: Chat = (rules,)
        self._pending = tuple(beginning)

    def asking(self, parts: Sequence[Part]) -> Chat:
        said = told(joined([*self._pending, *parts]), self._shown.modality, self._shown.detail)
        self._asked = (*self._chat, message("user", *said))
        return self._asked

    def forced(self, parts: Sequence[Part]) -> None:
        self._pending = joined([*self._pending, *parts, "\n\n"])

    def answered(self, answer: Message) -> None:
        self._chat, self._pending = (*self._asked, answer), ()


@dataclass(frozen=True)
class _Step:
    """An earlier step: its part of a user message, and what was answered; None where nothing was asked."""

    parts: Sequence[Part]
    answer: Message | None


class _Window:
    """The last steps, or all of them with their pictures told in words."""

    def __init__(self, presentation: Presentation, history: History, rules: Message, beginning: Sequence[Part]) -> None:
        self._shown, self._history, self._rules = presentation, history, rules
        self._beginning = tuple(beginning)
        self._steps: list[_Step] = []
        self._asked: tuple[Part, ...] = ()

    def asking(self, parts: Sequence[Part]) -> Chat:
        self._asked = tuple(parts)
        chat, user = [self._rules], [*self._beginning]
        for step in last(self._steps, self._history):
            user += step.parts
            if step.answer is None:
                user.append("\n\n")
            else:
                chat += [self._said(user), step.answer]
                user = []
        return (*chat, self._said([*user, *parts]))

    def forced(self, parts: Sequence[Part]) -> None:
        self._remember(parts, None)

    def answered(self, answer: Message) -> None:
        self._remember(self._asked, answer)

    def _remember(self, parts: Sequence[Part], answer: Message | None) -> None:
        if self._history == "none":  # nor is it kept alive
            return
        if self._shown.past_pictures == "text":
            parts = told(parts, "text", self._shown.detail)
        self._steps.append(_Step(parts, answer))

    def _said(self, parts: Sequence[Part]) -> Message:
        return message("user", *told(joined(parts), self._shown.modality, self._shown.detail))
