"""Suites that are no games: a data set of questions with one answer each.

A whole suite::

    @dataclass(frozen=True)
    class Capitals(QuestionSuite):
        name: ClassVar[str] = "capitals"
        file: str = "capitals.csv"

        def questions(self) -> Iterable[Question]:
            for country, capital in csv.reader(open(self.file)):
                yield Question(f"What is the capital of {country}? Reply with its name only.", capital)
"""

from __future__ import annotations

import abc
import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from evals.conversation import Conversation
from evals.suite import Suite
from evals.types import Episode, Outcome, message, stable_hash, stable_seed

CHARACTERS_PER_TOKEN = 4
"""For the estimate of prompt tokens."""
_AROUND = string.whitespace + string.punctuation
_SIGN_BEFORE = re.compile(r"(?:(?<![-.])-)?(?:(?<!\.)\.)?\Z")
"""What makes another number of digits behind it."""
_SIGNS_BEHIND = re.compile(r"[-+#]*")
"""What makes another name of a word before it."""


@dataclass(frozen=True)
class Question:
    """One item of a data set."""

    prompt: str
    answer: str
    task: str = "questions"
    """Tables have a row for each task and level."""
    level: str = "1"
    options: tuple[str, ...] = ()
    """Replies that are possible; ``decoding=choice`` allows no others."""


class QuestionSuite(Suite):
    """Asks each question of a data set once; only ``name`` and ``questions`` are required.

    Where a reply is right in more than one form, override ``match``, and raise ``version`` whenever it changes.
    """

    @abc.abstractmethod
    def questions(self) -> Iterable[Question]:
        """The data set, in a fixed order.

        Raises:
            ValueError: a setting names something that does not exist.
        """

    def match(self, question: Question, reply: str) -> bool:
        """Whether a reply is right: by default, equal to the answer but for case, surrounding space and punctuation.

        Signs count: -5 is not 5, .5 is not 5, C# is not C, and > is not <.
        """
        return _bare(reply) == _bare(question.answer)

    def plan(self) -> Sequence[Episode]:
        """An episode for each question."""
        return [self._episode(index, question) for index, question in enumerate(self._questions)]

    async def play(self, episode: Episode, conversation: Conversation) -> Outcome:
        """Ask the question and compare the reply."""
        question = self._questions[episode.index]
        played = await conversation.ask(
            (message("user", question.prompt),), options=question.options, oracle=lambda: question.answer
        )
        played.action, played.rule = played.reply.text.strip(), "whole reply"
        return Outcome(success=self.match(question, played.action), steps=1)

    @cached_property
    def _questions(self) -> tuple[Question, ...]:
        return tuple(self.questions())

    def _episode(self, index: int, question: Question) -> Episode:
        return Episode(
            suite=self.name,
            task=question.task,
            level=question.level,
            mode="zero_shot",
            index=index,
            repeat=0,
            seed=stable_seed(self.name, question.prompt),
            fingerprint=stable_hash(question.prompt, question.answer, [*question.options]),
            budget=1,
            calls=1,
            prompt_tokens=len(question.prompt) / CHARACTERS_PER_TOKEN,
        )


def _bare(text: str) -> str:
    bare = text.strip(_AROUND)
    if not bare:
        return text.strip()
    before, _, behind = text.partition(bare)
    sign = _SIGN_BEFORE.search(before) if bare[0].isdigit() else None
    signs = _SIGNS_BEHIND.match(behind)
    return f"{sign[0] if sign else ''}{bare}{signs[0] if signs else ''}".casefold()
