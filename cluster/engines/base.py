"""The engine contract: what a replica hosts.

An engine is a subclass of ``Engine``; only ``complete`` is required. It is registered by a short name (docs/new_engine.md)
and knows no suite.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

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
    """The engine failed, not the request: the turn may be retried elsewhere."""

    kind: ErrorKind = "engine"


class EngineDiedError(EngineError):
    """The engine is gone for good; its replica has to be replaced."""


class EngineClosedError(EngineError):
    """The engine will answer nothing more (its key is refused, its spend cap reached): the run stops, to be continued."""


@dataclass(frozen=True)
class Capabilities:
    """What an engine can do, matched with ``Suite.needs`` before anything starts."""

    pictures: int = 0
    """Most pictures in one prompt; 0 for engines that read text only."""
    options: bool = False
    """Whether replies can be constrained to given options (``decoding=choice``)."""
    label_scores: bool = False
    """Whether it gives exact log-probabilities of labels."""
    context: int | None = None
    """Most tokens of prompt and reply together; None where that is not known before the model is loaded."""


MANY = 10_000
"""Pictures of an engine that sets no limit of its own."""


class Engine(abc.ABC):
    """Completes requests, many at a time. Arguments of the constructor but ``sampling`` are its settings."""

    version: ClassVar[int] = 1
    """Part of every episode's id: raise it when the same settings come to mean other answers."""
    metered: ClassVar[bool] = False
    """Whether every answer costs money: nothing is hedged, and there is one replica only."""
    operational: ClassVar[frozenset[str]] = frozenset()
    """Settings that change how fast or where answers come from, not which: they are no part of an episode's id."""
    fixed_for_run: ClassVar[frozenset[str]] = frozenset()
    """Operational settings that a run must keep all the same: another endpoint may serve another model by that name."""

    @classmethod
    def capabilities(cls, settings: Mapping[str, Any]) -> Capabilities:
        """What an engine of these settings can do; loads nothing.

        Args:
            settings: the ``model.engine`` section.
        """
        return Capabilities()

    @classmethod
    def check_settings(cls, settings: Mapping[str, Any]) -> None:
        """Refuse settings before anything else is done with them: before they are stored, or repeated in an error.

        Args:
            settings: the ``model.engine`` section, its types not checked yet.

        Raises:
            ValueError: they hold a secret, or need what is not installed; the message repeats no secret.
        """
        return

    @property
    def max_num_seqs(self) -> int:
        """How many requests the engine runs at once."""
        return 1

    @property
    def spent(self) -> float:
        """Money spent by this engine so far, failed tries included; 0 for engines that cost nothing by the request."""
        return 0.0

    def add_spent_elsewhere(self, total: float) -> None:  # noqa: B027 - optional
        """Count what the run spent in earlier sessions and through earlier replicas against a spend cap.

        Args:
            total: All of it, without this engine's own ``spent``.
        """

    async def start(self) -> None:  # noqa: B027 - optional
        """Load the model and warm up.

        Raises:
            EngineError: it cannot start; the message says why and what would help.
        """

    @abc.abstractmethod
    async def complete(self, request: Request) -> Reply:
        """Answer one request; ``seconds`` of the reply is the time inside this engine.

        Raises:
            PlayerError: this request can never be answered (``PromptTooLong``: it does not fit the context).
            EngineError: the engine failed; another one may answer. So is any other exception read.
        """

    async def check_health(self) -> None:  # noqa: B027 - optional
        """Return soon if the engine can still answer, never if it hangs: whoever asks has a timeout.

        Raises:
            EngineError: it cannot.
        """

    async def close(self) -> None:  # noqa: B027 - optional
        """End every process and free every device that the engine holds."""
