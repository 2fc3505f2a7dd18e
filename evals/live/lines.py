"""The lines of a live log: JSON objects, told apart by ``kind``."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import Field, FiniteFloat, TypeAdapter, ValidationError

from evals.conversation import PlayedTurn
from evals.ledger.records import shared
from evals.types import Episode, Turn

VERSION: Final = 1
"""Of the lines; it is part of the log's file name, so readers of another version find no log."""
PROMPT_CHARACTERS: Final = 2_000
REPLY_CHARACTERS: Final = 2_000
REASONING_CHARACTERS: Final = 3_000
"""A longer text keeps its beginning and, twice as long, its end."""
MOST_PICTURES: Final = 4
"""Of one prompt, the last ones."""
PICTURE_CHARACTERS: Final = 8_000
"""A picture with a longer description is left out."""
MOST_NUMBERS: Final = 32


@dataclass(frozen=True)
class Began:
    """An episode has begun, perhaps anew: what was said in it before does not count anymore."""

    episode: str
    """Its id."""
    suite: str
    task: str
    level: str
    mode: str
    index: int
    repeat: int
    player: str
    budget: int
    at: FiniteFloat
    """Seconds since 1970, by the clock of the machine that plays it."""
    attempt: int = 1
    kind: Literal["began"] = "began"

    @classmethod
    def of(cls, episode: Episode, at: float) -> Began:
        """The line for an episode that begins now; whoever writes the log knows which attempt it is."""
        return cls(
            episode.id,
            episode.suite,
            episode.task,
            episode.level,
            episode.mode,
            episode.index,
            episode.repeat,
            episode.player,
            episode.budget,
            at,
        )


@dataclass(frozen=True)
class PlayedLine:
    """A turn with its reply, texts shortened."""

    episode: str
    turn: int
    """Turns are numbered from 0."""
    at: FiniteFloat
    """When it was noted, as of ``Began``."""
    prompt: str
    """What it added to the chat, the reply to the turn before aside."""
    pictures: tuple[str, ...]
    """Descriptions of the pictures that it added."""
    reply: str
    reasoning: str
    action: str | None
    rule: str
    finish: str
    prompt_tokens: int
    completion_tokens: int
    seconds: FiniteFloat
    cost: FiniteFloat
    bare: bool = False
    """Texts and pictures were left out: more was played than the log takes."""
    kind: Literal["played"] = "played"

    @classmethod
    def of(cls, played: PlayedTurn, before: PlayedTurn | None, at: float, *, bare: bool = False) -> PlayedLine:
        """The line for a turn.

        Args:
            played: The turn.
            before: The one before it; None for the first.
            at: Seconds since 1970.
            bare: Leave out its texts and pictures.
        """
        turn, reply = played.turn, played.reply
        prompt, pictures, answer, reasoning = "", tuple[str, ...](), "", ""
        if not bare:
            prompt, pictures = _asked(turn, before)
            answer = shortened(reply.text, REPLY_CHARACTERS)
            reasoning = shortened(reply.reasoning, REASONING_CHARACTERS)
        action = played.action
        if action is not None:
            action = shortened(action, PROMPT_CHARACTERS)
        return cls(
            episode=turn.episode.id,
            turn=turn.number,
            at=at,
            prompt=prompt,
            pictures=pictures,
            reply=answer,
            reasoning=reasoning,
            action=action,
            rule=played.rule,
            finish=reply.finish,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            seconds=reply.seconds,
            cost=reply.cost,
            bare=bare,
        )

    @property
    def size(self) -> int:
        """Its bytes, about."""
        texts = (self.prompt, *self.pictures, self.reply, self.reasoning, self.action or "")
        return _OVERHEAD + sum(len(text.encode()) for text in texts)


def _asked(turn: Turn, before: PlayedTurn | None) -> tuple[str, tuple[str, ...]]:
    """The text that a turn adds to the chat, shortened, and the last of the pictures, those of short descriptions."""
    kept = 0
    if before is not None:
        kept = shared(before.turn.chat, turn.chat)
    texts, described = list[str](), list[str]()
    for said in turn.chat[kept:]:
        if said.role == "assistant":
            continue
        for part in said.parts:
            if isinstance(part, str):
                texts.append(part)
            else:
                described.append(part.description)
    pictures = tuple(each for each in described[-MOST_PICTURES:] if len(each) <= PICTURE_CHARACTERS)
    return shortened("\n".join(texts), PROMPT_CHARACTERS), pictures


_OVERHEAD = 300
"""Bytes of a line beside its texts."""


@dataclass(frozen=True)
class Ended:
    """An episode has ended; its row comes with the next commit."""

    episode: str
    kind: Literal["ended"] = "ended"


@dataclass(frozen=True)
class Gone:
    """Episodes whose rows are in the ledger now, or that wait to be played again."""

    episodes: tuple[str, ...]
    kind: Literal["gone"] = "gone"


@dataclass(frozen=True)
class Numbers:
    """How the run goes, in the driver's numbers (``RunStatistics.to_json``)."""

    at: FiniteFloat
    numbers: Annotated[dict[str, FiniteFloat], Field(max_length=MOST_NUMBERS)]
    kind: Literal["numbers"] = "numbers"


Line = Annotated[Began | PlayedLine | Ended | Gone | Numbers, Field(discriminator="kind")]

_ADAPTER: Final[TypeAdapter[Line]] = TypeAdapter(Line)


def written(line: Line) -> bytes:
    """A line as it stands in the log, with its line feed."""
    return json.dumps(dataclasses.asdict(line), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def read(text: bytes) -> Line | None:
    """The line that a text stands for; None for one that no writer of this version wrote."""
    try:
        return _ADAPTER.validate_json(text, strict=True)
    except ValidationError:
        return None


def shortened(text: str, most: int) -> str:
    r"""A text of at most ``most`` characters and a note of what was left out between its beginning and its end.

    >>> shortened("abcdefghijkl", 6)
    'ab\n[… 6 characters …]\nijkl'
    """
    text = text.encode("utf-8", "replace").decode()  # half a surrogate pair cannot be stored
    if len(text) <= most:
        return text
    first = most // 3
    return f"{text[:first]}\n[… {len(text) - most:,} characters …]\n{text[first - most :]}"
