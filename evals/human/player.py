"""The human player: shows each turn through an interface, and replies with the option that the person chose."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from evals.players import certain
from evals.types import Chat, Episode, Message, Part, PlayerError, Reply, Turn

HUMAN: Final = "human"
_PARTICIPANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,31}")
_PERSON = re.compile(r"person-[a-z0-9]{1,32}")
"""The pseudonym of a participant in a study (``evals.people``)."""


def human_name(participant: str = "") -> str:
    """The player's name of a participant: ``human``, or ``human_NAME``.

    Raises:
        ValueError: the participant's name has other characters than letters, digits and hyphens, or too many.
    """
    if participant and not _PARTICIPANT.fullmatch(participant):
        raise ValueError(f"{participant!r} must be up to 32 letters, digits and hyphens, such as ann or p07")
    return f"{HUMAN}_{participant}" if participant else HUMAN


def is_human(player: str) -> bool:
    """Whether a player's name is that of a person."""
    if _PERSON.fullmatch(player):
        return True
    name, _, participant = player.partition("_")
    return name == HUMAN and (player == HUMAN or _PARTICIPANT.fullmatch(participant) is not None)


class QuitError(Exception):
    """The person stops; the game in progress leaves no row and begins anew when the run is resumed."""


@dataclass(frozen=True)
class Question:
    """One turn as a person sees it."""

    episode: Episode
    number: int
    """Of the turn in its game, from 0."""
    rules: tuple[Part, ...]
    """What holds for the whole game (the system message)."""
    past: tuple[Message, ...]
    """What was said earlier in the game, where it is still part of the prompt."""
    shown: tuple[Part, ...]
    """What this turn adds, without the lines that are the options' captions."""
    options: tuple[str, ...]
    captions: tuple[str, ...]
    """What each option stands for, as far as the texts say; else the option itself."""
    for_models: bool = True
    """Whether the texts are the prompt itself: people may skip what it says of how to write or explain an answer."""


class Interface(Protocol):
    """Asks a person: the terminal, or a page in the browser."""

    def begin(self, number: int, games: int) -> None:
        """A game begins: the ``number``-th of so many, from 1."""
        ...

    async def ask(self, question: Question) -> int:
        """Show a question; the index of the option that the person chose.

        Raises:
            QuitError: the person stops.
        """
        ...


Words = Callable[[Turn], Chat]
"""What a person reads in place of a turn's prompt (``evals.suite.words_for_people``)."""


def words_of_models(turn: Turn) -> Chat:
    """The prompt itself."""
    return turn.chat


class HumanPlayer:
    """Asks a person one question at a time. A reply is always one of the options, as with ``decoding=choice``."""

    def __init__(self, interface: Interface, words: Words = words_of_models) -> None:
        """Nothing is shown yet."""
        self._interface = interface
        self._questions = Questions(words)
        self._one_at_a_time = asyncio.Lock()

    async def reply(self, turn: Turn) -> Reply:
        """Show the turn and wait for an answer; the reply's ``seconds`` are the time that the person took.

        Raises:
            PlayerError: the turn offers no options.
            QuitError: the person stops.
        """
        async with self._one_at_a_time:
            question = self._questions.of(turn)
            start = time.monotonic()
            text = question.options[await self._interface.ask(question)]
            seconds = time.monotonic() - start
        return chosen(turn, text, seconds)


def chosen(turn: Turn, text: str, seconds: float) -> Reply:
    """The reply of a person who chose an option or a label."""
    return Reply(text, seconds=seconds, label_scores=certain(turn.labels, text) if turn.labels else None)


class Questions:
    """Turns as a person sees them, in the order in which they are asked."""

    def __init__(self, words: Words) -> None:
        """Nothing was asked yet."""
        self._words = words
        self._before: Chat = ()
        self._episode = ""

    def of(self, turn: Turn) -> Question:
        """The next question: what is new, apart from the rules and from what was said before.

        Raises:
            PlayerError: the turn offers no options.
        """
        if not (turn.options or turn.labels):
            raise PlayerError(
                f"the suite {turn.episode.suite!r} offers no options for this turn, so no person can play it"
            )
        return self.seen(turn)

    def seen(self, turn: Turn) -> Question:
        """The same for whoever only looks at it: a turn may offer no options."""
        options = turn.options or turn.labels
        chat = self._words(turn)
        before = self._before if self._episode == turn.episode.id else ()
        self._before, self._episode = chat, turn.episode.id
        kept = _known(before, chat)
        shown = _parts(chat[kept:], "user")
        captions = tuple(_caption(option, shown) for option in options)
        return Question(
            episode=turn.episode,
            number=turn.number,
            rules=_parts(chat, "system"),
            past=tuple(message for message in chat[:kept] if message.role != "system"),
            shown=_without_captions(shown, captions),
            options=options,
            captions=captions,
            for_models=chat == turn.chat,
        )


def _known(before: Chat, chat: Chat) -> int:
    """How many messages a person has seen already: those that both chats begin with, and their own last reply."""
    known = 0
    while known < min(len(before), len(chat)) and before[known] == chat[known]:
        known += 1
    if known < len(chat) and chat[known].role == "assistant":  # the person's own last reply
        known += 1
    return known


def _parts(chat: Sequence[Message], role: str) -> tuple[Part, ...]:
    return tuple(part for message in chat if message.role == role for part in message.parts)


def _caption(option: str, shown: Sequence[Part]) -> str:
    """The last line of the texts that explains the option (``B) unlock the door``, ``B: red``), or the option."""
    line = re.compile(rf"^{re.escape(option)}[):] \S.*$", re.MULTILINE)
    found = [match for part in shown if isinstance(part, str) for match in line.findall(part)]
    return found[-1] if found else option


def _without_captions(shown: Sequence[Part], captions: Sequence[str]) -> tuple[Part, ...]:
    """The parts without the captions that follow one another in the last text: both interfaces show them as choices."""
    parts = list(shown)
    block = "\n".join(captions)
    for place in reversed(range(len(parts))):
        part = parts[place]
        if isinstance(part, str) and f"\n{block}\n" in f"\n{part}\n":
            before, _, after = f"\n{part}\n".rpartition(f"\n{block}\n")
            parts[place] = f"{before.rstrip()}\n\n{after.lstrip()}".strip("\n")
            break
    return tuple(part for part in parts if part)
