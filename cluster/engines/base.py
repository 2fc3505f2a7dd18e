"""The engine contract. A replica hosts one engine.

An engine is a subclass of ``Engine``; only ``complete`` is required. It is registered by a short name (docs/new_engine.md)
and is independent of suites.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from annotated_types import Interval

from envs.settings import Count, Index, NotNegative, Positive, Share
from evals.types import Chat, ErrorKind, Reply


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters; part of an episode's id."""

    max_tokens: Count = 1024
    temperature: NotNegative = 0.0
    top_p: Annotated[float, Interval(gt=0, le=1)] = 1.0
    top_k: Index = 0
    """0 keeps all tokens."""
    min_p: Share = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: Positive = 1.0
    stop: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further parameters that the engine takes (``Engine.sampling_keys``)."""


@dataclass(frozen=True)
class Request:
    """One turn as sent to an engine: a few kB, with pictures as descriptions."""

    id: str
    chat: Chat
    options: tuple[str, ...] = ()
    """If given, the reply must be exactly one of these."""
    labels: tuple[str, ...] = ()
    """If given, score these labels as the next token instead of generating text."""
    seed: int = 0
    priority: int = 0
    """Lower goes first."""
    schema: str = ""
    """If given, and no options are, the reply must be JSON of this schema."""


class EngineError(Exception):
    """The engine failed, not the request: the turn is retried, on another replica if there is one."""

    kind: ErrorKind = "engine"


class EngineDiedError(EngineError):
    """The engine died; its replica is replaced."""


class HubBusyError(EngineError):
    """The engine cannot start now, as the hub that has its model's files is busy."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        """``retry_after``: seconds that the hub asks to wait; 0 if it does not say."""
        super().__init__(message)
        self.retry_after = retry_after


class EngineSettingsError(EngineError):
    """The engine cannot start with its settings, wherever it is tried; the run ends."""


class EngineDefectError(EngineError):
    """The engine breaks its contract, and the message names its class: a bad reply is asked for again; a start fails."""


class EngineClosedError(EngineError):
    """The engine will answer no further requests (an invalid key, for example): the run stops and can be resumed."""


class EngineWaitsError(EngineClosedError):
    """Nothing is wrong: the engine has spent or waited as much as it may. The same command goes on, with a higher limit."""


class SpendCapReachedError(EngineWaitsError):
    """The engine has spent what the run may spend."""


@dataclass(frozen=True)
class Capabilities:
    """What an engine can do; compared with ``Suite.needs`` when planning."""

    pictures: int = 0
    """Most pictures in one prompt; 0 for engines that read text only."""
    options: bool = False
    """Whether replies can be constrained to given options, or a JSON schema (``decoding=choice``)."""
    label_scores: bool = False
    """Whether it gives exact log-probabilities of labels."""
    without_labels: str = "no model can that reasons first: switch its reasoning off"
    """Why not, or what would help, for people."""
    context: int | None = None
    """Most tokens of prompt and reply together; None if unknown before the model is loaded."""


@dataclass(frozen=True)
class Account:
    """What a metered engine has spent, and may owe for requests whose answers are not there yet."""

    spent: float
    in_flight: float
    """The most that these requests may cost, as far as that can be told before."""
    highest: float
    """Price of the most expensive request so far."""
    number: int
    """Of the latest request that ``in_flight`` includes; requests are numbered from 1."""
    counted_before: float = 0.0
    """What earlier sessions counted for requests that this one has settled; ``spent`` has only the differences from it."""


MANY = 10_000
"""Pictures of an engine without a limit."""


class Engine(abc.ABC):
    """Completes requests concurrently. The constructor's arguments except ``sampling`` are its settings."""

    version: ClassVar[int] = 1
    """Part of every episode's id: raise it when the same settings give different answers."""
    metered: ClassVar[bool] = False
    """Whether requests cost money: then none is hedged, and there is only one replica."""
    operational: ClassVar[frozenset[str]] = frozenset()
    """Settings that affect speed or placement but not the answers; they are not part of an episode's id. Those within a
    mapping are named with a dot: ``vllm.enable_prefix_caching``."""
    fixed_for_run: ClassVar[frozenset[str]] = frozenset()
    """Operational settings that must not change within a run: another endpoint may serve another model of that name."""
    starts_processes: ClassVar[bool] = True
    """Whether it may start processes, which a guard then ends if the engine's own process is killed."""
    reads_files: ClassVar[bool] = False
    """Whether settings may name files and folders of the machine that decide answers; these are part of the id by content."""
    given_again: ClassVar[frozenset[str]] = frozenset()
    """Settings that run code or say which keys are sent where: commands that ask a stored run's engine take these from
    their command line, not from a stored configuration, which may be somebody else's."""

    @classmethod
    def capabilities(cls, settings: Mapping[str, Any]) -> Capabilities:
        """What an engine with these settings can do; loads nothing.

        Args:
            settings: the ``model.engine`` section.
        """
        return Capabilities()

    @classmethod
    def check_settings(cls, settings: Mapping[str, Any]) -> None:
        """Reject settings before anything else is done with them: before they are stored, or quoted in an error.

        Args:
            settings: the ``model.engine`` section, its types not checked yet.

        Raises:
            ValueError: they hold a secret, or need an optional dependency; the message quotes no secret.
        """
        return

    @classmethod
    def check_environment(cls, settings: Mapping[str, Any]) -> None:
        """See, before Ray starts on this machine, that the environment holds what the engine reads from it.

        Args:
            settings: the ``model.engine`` section, checked.

        Raises:
            ValueError: a key is missing, or can be none; the message shows nothing of it.
        """
        return

    @classmethod
    def known_prices(cls, settings: Mapping[str, Any]) -> Mapping[str, float]:
        """Prices that the engine knows of its model, by the settings that they are for; they fill in those that are null.

        Args:
            settings: the ``model.engine`` section, checked.
        """
        return {}

    @classmethod
    def texts_of_files(cls, settings: Mapping[str, Any]) -> Mapping[str, str]:
        """Settings that are a text or name its file, as texts: these are stored with the run and sent to replicas.

        Args:
            settings: the ``model.engine`` section, checked.

        Raises:
            ValueError: a file is missing, or not what it should be.
        """
        return {}

    @classmethod
    def price_note(cls, settings: Mapping[str, Any]) -> str:
        """What people should know of the prices when a run is planned; empty for nothing."""
        return ""

    @classmethod
    def keys_within(cls) -> Mapping[str, Mapping[str, Any]]:
        """For settings that are mappings with known keys: the keys with their types; none known is any."""
        return {}

    @classmethod
    def sampling_keys(cls) -> Mapping[str, Any]:
        """Sampling parameters beyond those of ``Sampling`` that the engine takes, with their types."""
        return {}

    @property
    def max_num_seqs(self) -> int:
        """Number of batch slots: requests that the engine runs at once, 1 or more; read once the engine has started."""
        return 1

    @property
    def facts(self) -> Mapping[str, str | float]:
        """What a started engine is, by names in plain words (``cache_blocks``), for versions.json and the performance table.

        Texts and finite numbers.
        """
        return {}

    def add_spent_elsewhere(self, total: float, highest: float) -> None:  # noqa: B027 - optional
        """Count spending of earlier sessions and replicas of the run against a spend cap.

        Args:
            total: The sum, without this engine's own.
            highest: Price of the most expensive request of theirs, which another one may cost too.
        """

    def keep_in(self, directory: Path) -> None:  # noqa: B027 - optional
        """Take the run directory, for what the engine must remember over deaths; called before ``start``.

        Raises:
            EngineSettingsError: it cannot be used.
        """

    async def settle(self, covered: int, seconds: float) -> Account:
        """Tell what was spent and what is in flight; only metered engines are asked.

        From the first call on, no request is sent before a call has ``covered`` it: the driver writes down first what the
        request may cost. So a death costs no more than was noted. ``Spend`` implements this.

        Args:
            covered: The ``number`` of the latest account that is on disk.
            seconds: Answer after this long at most, and as soon as a request waits to be covered.
        """
        raise NotImplementedError

    async def start(self) -> None:  # noqa: B027 - optional
        """Load the model and warm up.

        Raises:
            EngineError: it cannot start; the message says why and what would help.
        """

    async def load_weights(self, model: str) -> bool:
        """Take the weights of another folder of the same model, and answer from then on as if started with it.

        Called while no request is inside; config, tokenizer and the shapes of all tensors are those of the model that runs.

        Returns:
            Whether it did; False for an engine that must be started anew.
        """
        return False

    @abc.abstractmethod
    async def complete(self, request: Request) -> Reply:
        """Answer one request; ``seconds`` of the reply is the time inside this engine.

        Raises:
            PlayerError: this request can never be answered (``PromptTooLong``: it does not fit the context).
            EngineError: the engine failed and the request is retried. Any other exception is treated the same, and so is a
                reply that no ledger can hold (``cluster.engines.checked``).
        """

    async def check_health(self) -> None:  # noqa: B027 - optional
        """Return promptly if the engine can still answer; may hang if the engine does, since the caller has a timeout.

        Raises:
            EngineError: it cannot.
        """

    async def close(self) -> None:  # noqa: B027 - optional
        """End all processes and free all devices of the engine. May be called more than once."""


def is_among(key: str, names: Iterable[str]) -> bool:
    """Whether a dotted key is one of ``names``, or within one of them."""
    return any(f"{key}.".startswith(f"{name}.") for name in names)


def answering_settings(settings: Mapping[str, Any], operational: Iterable[str], above: str = "") -> dict[str, Any]:
    """Settings without the operational ones, and without mappings that are empty or consist of those."""
    kept = {}
    for key, value in settings.items():
        if is_among(f"{above}{key}", operational):
            continue
        if isinstance(value, Mapping):
            value = answering_settings(value, operational, f"{above}{key}.")
        if value != {}:
            kept[key] = value
    return kept
