"""How many of the earlier turns a question still shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar

from envs.settings import Index
from evals.types import Chat

T = TypeVar("T")

History = Literal["all", "none"] | Index
"""All earlier turns, none of them, or the last so many."""


def last(turns: Sequence[T], history: History) -> Sequence[T]:
    """Those of the earlier turns that are shown.

    >>> last("abc", 2), last("abc", "none"), last("abc", "all")
    ('bc', '', 'abc')
    """
    if history == "all":
        return turns
    count = 0 if history == "none" else history
    return turns[max(0, len(turns) - count) :]


def windowed(chat: Chat, history: History) -> Chat:
    """A chat that was only ever appended to, with those of its earlier turns that are shown.

    Args:
        chat: System messages, then questions and answers by turns, and last the question that is asked now.
        history: How many earlier pairs of question and answer stay.
    """
    rules = 0
    while chat[rules].role == "system":
        rules += 1
    pairs = range(rules, len(chat) - 1, 2)
    shown = last(pairs, history)
    first = shown[0] if shown else len(chat) - 1
    return (*chat[:rules], *chat[first:])


def note(history: History, step: str) -> str:
    """What a player is told about it, ``step`` being the word for a turn; nothing where all is shown.

    >>> note(1, "step"), note("all", "step")
    ('Of the earlier steps you are shown the last one only.', '')
    """
    if history == "all":
        return ""
    if history in ("none", 0):
        return f"You are not shown the earlier {step}s."
    return f"Of the earlier {step}s you are shown the last {'one' if history == 1 else history} only."
