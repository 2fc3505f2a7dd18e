"""The values that suites and players exchange: episodes, messages, turns, replies, outcomes; and the player contract.

Everything here is small and immutable, and can be pickled into another process. The suite contract is in ``evals.suite``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, Protocol

from envs.picture import Picture

_to_json = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def stable_hash(*parts: object) -> str:
    """Thirty-two hexadecimal digits that depend on the JSON of ``parts`` only (never on process, machine or hash seed).

    >>> stable_hash("kumo", 3) == stable_hash("kumo", 3) != stable_hash("kumo", 4)
    True
    """
    return hashlib.blake2b(_to_json(parts).encode(), digest_size=16).hexdigest()


def stable_seed(*parts: object) -> int:
    """A seed of 63 bits drawn from ``parts`` as ``stable_hash`` is."""
    return int(stable_hash(*parts)[:16], 16) >> 1


# --- what is planned -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Episode:
    """One planned episode: what defines it, and what the scheduler may expect of it.

    ``seed`` seeds the environment and depends only on the task, level, index and the setting ``suite.seeds``, so that all
    players and repeats meet the identical game. ``fingerprint`` is a hash of what else defines the episode: the suite's
    prompts and settings, and, once the episode is ``assigned``, the model, its sampling and decoding.

    >>> game = Episode("toy", "colors", "easy", "zero_shot", index=0, repeat=0, seed=7, fingerprint="prompts", budget=3)
    >>> game.assigned("tiny", "sampling").id != game.assigned("other", "sampling").id
    True
    """

    suite: str
    task: str
    level: str
    mode: str
    index: int
    repeat: int
    seed: int
    """Seed of the environment, equal for all players and repeats. Episodes of one task with one seed are about the same puzzle,
    and so are not independent; 0 where nothing is drawn."""
    fingerprint: str
    budget: int
    """Most steps that the game allows."""
    calls: float = 1.0
    """Expected number of model calls."""
    prompt_tokens: float = 0.0
    """Expected prompt tokens, summed over all calls; with ``calls`` it orders the queue, longest expected first."""
    group: str = ""
    """Episodes of one group share a prompt prefix (a puzzle's picture, say) and prefer the same replica."""
    player: str = ""

    @cached_property
    def id(self) -> str:
        """Hash of what defines the episode; never of rank, shard or world size."""
        return stable_hash(
            self.suite,
            self.task,
            self.level,
            self.mode,
            self.index,
            self.repeat,
            self.seed,
            self.fingerprint,
            self.player,
        )

    @property
    def affinity(self) -> str:
        """What the router keeps together: the group, or the episode itself."""
        return self.group or self.id

    def assigned(self, player: str, fingerprint: str) -> Episode:
        """The same episode for a named player; ``fingerprint`` hashes the model, its sampling and decoding."""
        return dataclasses.replace(self, player=player, fingerprint=stable_hash(self.fingerprint, fingerprint))


# --- what is asked ---------------------------------------------------------------------------------------------------

Part = str | Picture


@dataclass(frozen=True)
class Message:
    """One chat message; its parts are texts and pictures in reading order."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[Part, ...]
    reasoning: str = ""
    """What the model thought before it said this; engines leave it out of prompts unless ``history.reasoning=kept``."""


Chat = tuple[Message, ...]


def message(role: Literal["system", "user", "assistant"], *parts: Part) -> Message:
    """Shorthand for ``Message(role, (part, ...))``.

    >>> message("user", "Which color?")
    Message(role='user', parts=('Which color?',), reasoning='')
    """
    return Message(role, parts)


class OptionFeatures(NamedTuple):
    """What can be told of one option of a turn, as plain data: what the search for shortcuts learns from.

    >>> OptionFeatures("open the red box", {"text: place in the list": 2, "color: box as the key": True}).action
    'open the red box'
    """

    action: str
    """The option as ``PlayedTurn.action`` names it."""
    values: Mapping[str, str | float | bool]
    """Values by name. A name begins with what a player must perceive to know the value, one word or several with blanks
    between, and a colon: ``color position: ...``. What the prompt says in words is ``text``."""


def reworded(chat: Chat, changes: Mapping[str, str]) -> Chat:
    """The same chat with some passages of its texts replaced; pictures stay.

    >>> reworded((message("user", "Which? Reply in tags."),), {" Reply in tags.": ""})[0].parts
    ('Which?',)
    """

    def changed(part: Part) -> Part:
        if isinstance(part, str):
            for old, new in changes.items():
                part = part.replace(old, new)
        return part

    return tuple(dataclasses.replace(each, parts=tuple(map(changed, each.parts))) for each in chat)


@dataclass(frozen=True)
class Turn:
    """One question to a player.

    Within an episode chats should only ever be appended to, so that the prefix cache holds.
    """

    episode: Episode
    number: int
    """Turns are numbered from 0 within their episode."""
    chat: Chat
    options: tuple[str, ...] = ()
    """The replies that constrained decoding allows and among which ``random`` draws; empty where any text will do."""
    labels: tuple[str, ...] = ()
    """Where given, the player scores these labels (exact log-probabilities of the next token) instead of writing text."""
    oracle: Callable[[], str] | None = None
    """What perfect play would reply; called by the ``oracle`` player only and never sent anywhere."""
    shortcuts: Mapping[str, Callable[[], str]] = dataclasses.field(default_factory=dict)
    """What each of the suite's shortcut players (``Suite.shortcuts``) would reply; like ``oracle`` never sent anywhere."""
    schema: str = ""
    """The JSON schema that constrained decoding holds the reply to, where there are no options; empty for any text."""
    remaining: Callable[[str | None], float] | None = None
    """Expected steps that perfect play takes to win from here on, or with an action first (as ``PlayedTurn.action`` names it);
    infinite where the game cannot be won any more. For rewards in training; like ``oracle`` never sent anywhere."""
    features: Callable[[], Sequence[OptionFeatures]] | None = None
    """What can be told of each option (or label), in their order, for the search for shortcuts; like ``oracle`` never sent."""

    @property
    def seed(self) -> int:
        """Seeds whatever chance the player needs, so that asking a turn again gives the same reply."""
        return stable_seed(self.episode.id, self.number)


@dataclass(frozen=True)
class LabelScores:
    """Log-probabilities (natural log, over the whole vocabulary) of the labels as the next token."""

    logprobs: tuple[float, ...]
    """In the order of the turn's labels; an engine that cannot give one says nan, never zero probability."""
    mass: float
    """Sum of the labels' probabilities."""
    argmax_is_label: bool
    exact: bool = True
    """False where an engine gives only its top few tokens (API models)."""


Finish = Literal["stop", "length", "content_filter", "refusal"]
"""Why a reply ended: the model was done; the token limit; the provider's filter; the provider says the model refused."""


@dataclass(frozen=True)
class Reply:
    """A player's answer to one turn."""

    text: str
    """Without reasoning (see ``reasoning``); for label turns the label with the highest score."""
    finish: Finish = "stop"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that the prefix cache served."""
    seconds: float = 0.0
    """From asking to answer, queueing and retries included."""
    label_scores: LabelScores | None = None
    reasoning: str = ""
    """What the model thought before it answered, kept apart and never decoded."""
    reasoning_tokens: int = 0
    """Of ``completion_tokens``, where the engine says so; else 0."""
    cost: float = 0.0
    """What the reply and the failed tries before it cost, in the currency of the engine's prices; 0 without prices."""
    retries: int = 0
    """Failed tries before it that the engine itself repeated, as with an endpoint that is overloaded."""
    preemptions: int = 0
    """How often the engine put the request back into its queue and began anew, since its cache was full."""

    @property
    def cut_off(self) -> bool:
        """Whether the reply ended before the model was done: only a complete answer in it may be read."""
        return self.finish in ("length", "content_filter")


ErrorKind = Literal["endpoint", "engine", "model", "suite"]
"""Whose failure it was: an API's (or the way to it), the engine's that hosts the model, the model's or its prompt's, or a
defect in the suite or in a file that it plays."""


class PlayerError(Exception):
    """The player cannot answer this turn, now or later: the episode fails with this cause and the run goes on."""

    kind: ErrorKind = "model"

    def __init__(self, message: str = "", kind: ErrorKind | None = None) -> None:
        """``message`` is for people; ``kind`` is by default the class's."""
        super().__init__(message)
        self.kind = kind or self.kind


class CannotPlayNow(PlayerError):  # noqa: N818 - a cause that is read by people
    """Neither the game nor its player is at fault: the machine lacks what the game needs, such as room on a disk.

    A run stops and can be resumed, so that no episode fails for it. Elsewhere it is a player's error like any other.

    Example: a suite whose games are played by another program, which has been uninstalled meanwhile.
    """

    kind: ErrorKind = "suite"


class PromptTooLong(PlayerError):  # noqa: N818 - a cause that is read by people
    """The prompt does not fit the model's context."""


class Player(Protocol):
    """Answers turns; stateless, so that one player serves all episodes at once."""

    async def reply(self, turn: Turn) -> Reply:
        """Answer one turn.

        Raises:
            PlayerError: the turn cannot be answered.
        """
        ...


# --- what comes out --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """How an episode ended; tokens, times and turns are recorded by the conversation, not by the suite.

    >>> Outcome(success=False, steps=4, score=0.75).credit
    0.75
    """

    success: bool
    steps: int
    score: float | None = None
    """From 0 to 1; by default 1 for success and 0 otherwise. Partial credit goes here."""
    extra: Mapping[str, object] = dataclasses.field(default_factory=dict)
    """Values of the columns that the suite adds to the ledger (``Suite.columns``): scalars, or lists, a struct being a
    tuple in the order of its fields."""

    def __post_init__(self) -> None:
        """See that a ledger can hold it.

        Raises:
            TypeError: ``success`` is no truth value, or ``steps`` no whole number.
            ValueError: a number is outside of its range.
        """
        if self.success not in (True, False):
            raise TypeError(f"an outcome's success is {self.success!r}, neither True nor False")
        if operator.index(self.steps) < 0:
            raise ValueError(f"an outcome's steps are {self.steps}; they count from 0")
        if self.score is not None and not 0 <= self.score <= 1:
            raise ValueError(f"an outcome's score is {self.score}; it must be from 0 to 1")

    @property
    def credit(self) -> float:
        """The score, or what success stands for where the suite gives none."""
        return float(self.success) if self.score is None else self.score
