"""The engine contract: what a replica hosts. A new engine is one class that keeps it and one file in ``conf/model``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Protocol

from evals.types import Chat, ErrorKind, Reply


@dataclass(frozen=True)
class Sampling:
    """How a model's replies are drawn; part of an episode's identity."""

    max_tokens: int = 1024
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    """0 keeps all tokens."""
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()


@dataclass(frozen=True)
class Request:
    """One turn on its way to an engine: a few kB, pictures as descriptions."""

    id: str
    chat: Chat
    options: tuple[str, ...] = ()
    """Where given, the reply must be exactly one of these."""
    labels: tuple[str, ...] = ()
    """Where given, score these labels as the next token instead of writing text."""
    seed: int = 0
    priority: int = 0
    """Lower goes first."""


class EngineError(Exception):
    """The engine failed, not the request: the turn may be asked again elsewhere."""

    kind: ErrorKind = "engine"


class EngineDiedError(EngineError):
    """The engine is gone for good; its replica has to be replaced."""


class EngineClosedError(EngineError):
    """The engine will answer nothing more (its key is refused, its spend cap reached): the run stops, to be continued."""


@dataclass
class EngineLoad:
    """What an engine is doing now and has done since it started."""

    running: int = 0
    waiting: int = 0
    completed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    busy_seconds: float = 0.0
    """Time with at least one request inside."""
    slot_seconds: float = 0.0
    """Sum of the requests' times inside; over ``max_num_seqs`` it is the work done."""

    def to_json(self) -> dict[str, float]:
        """Plain numbers."""
        return dataclasses.asdict(self)


class Engine(Protocol):
    """Completes requests, many at a time."""

    metered: ClassVar[bool]
    """Whether every answer costs money: nothing is asked twice to save time, and there is one replica only."""

    @property
    def max_num_seqs(self) -> int:
        """How many requests the engine runs at once."""
        ...

    async def start(self) -> None:
        """Load the model and warm up.

        Raises:
            EngineError: it cannot start; the message says why and what would help.
        """
        ...

    async def complete(self, request: Request) -> Reply:
        """Answer one request; ``seconds`` of the reply is the time inside this engine.

        Raises:
            PlayerError: this request can never be answered (``PromptTooLong``: it does not fit the context).
            EngineError: the engine failed; another one may answer.
        """
        ...

    async def check_health(self) -> None:
        """Return soon if the engine can still answer, never if it stands still: whoever asks has a time-out.

        Raises:
            EngineError: it cannot.
        """
        ...

    async def close(self) -> None:
        """End every process and free every device that the engine holds."""
        ...
