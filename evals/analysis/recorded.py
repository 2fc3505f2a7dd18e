"""Stored replies played again: through the suite's own play loop, as long as it asks what was asked then."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from evals.ledger.records import chat_of
from evals.types import Chat, LabelScores, Part, PlayerError, Reply, Turn


class RecordedPlayer:
    """Answers the turns of one stored episode with its stored replies."""

    def __init__(self, row: Mapping[str, Any], replaced: Mapping[int, Reply] | None = None) -> None:
        """A player for one episode.

        Args:
            row: A ledger row with its ``turns``.
            replaced: Replies in place of the stored ones, by the number of the turn.
        """
        self._turns: Sequence[Mapping[str, Any]] = row["turns"]
        self._error = row["error"]
        self._replaced = replaced or {}
        self._chats: dict[int, Chat] = {}
        self.diverged = False
        """Whether a turn was asked otherwise than it was then, so that the stored reply is no answer to it."""
        self.failed = False
        """Whether the turn was asked at which the player failed then."""

    async def reply(self, turn: Turn) -> Reply:
        """The stored reply to a turn.

        Raises:
            PlayerError: the turn was not asked then, or otherwise; or it failed then.
        """
        if turn.number == len(self._turns) and self._error:
            self.failed = True
            raise PlayerError(self._error)
        if not self._was_asked(turn):
            self.diverged = True
            raise PlayerError(f"turn {turn.number} was not asked like this when the reply was stored")
        return self._replaced.get(turn.number) or stored_reply(self._turns[turn.number])

    def _was_asked(self, turn: Turn) -> bool:
        """Whether the stored turn of this number was asked like this one."""
        if turn.number >= len(self._turns):
            return False
        try:
            return _said(turn.chat) == _said(self.chat(turn.number))
        except ValueError:
            # A picture of another version.
            return False

    def chat(self, number: int) -> Chat:
        """What a stored turn asked.

        Raises:
            ValueError: a picture can no longer be rendered as it was.
        """
        if number not in self._chats:
            before = self._chats.get(number - 1)
            turn = self._turns[number]
            if before is None:
                self._chats[number] = chat_of(self._turns, number)
            else:
                added = chat_of([{**turn, "kept": 0}], 0)
                self._chats[number] = before[: turn["kept"]] + added
        return self._chats[number]


def _said(chat: Chat) -> list[tuple[str, tuple[Part, ...]]]:
    """Who said what: thoughts of earlier turns are stored with these, not with the prompt."""
    return [(message.role, message.parts) for message in chat]


def stored_reply(turn: Mapping[str, Any]) -> Reply:
    """The reply of a stored turn, as the player gave it."""
    names = {field.name for field in dataclasses.fields(Reply)} & turn.keys()
    scores = None
    if turn["labels"] is not None:
        logprobs = tuple(label["logprob"] for label in turn["labels"])
        scores = LabelScores(logprobs, turn["label_mass"], turn["argmax_is_label"], turn["exact"])
    return Reply(turn["reply"], label_scores=scores, **{name: turn[name] for name in names})
