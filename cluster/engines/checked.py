"""An engine as its host sees it: what it returns is sound, and whatever it raises is an error of the contract.

Engines may be anybody's. A defect of one is told with the name of its class; it ends neither its host nor another request.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from cluster.concurrency import within
from cluster.engines.base import Account, Capabilities, Engine, EngineDefectError, EngineError, Request
from evals.conversation import cause_of
from evals.ledger.storable import COUNT, FINISH, MEASURED, MOST, TEXT, Storable, whole
from evals.types import LabelScores, PlayerError, Reply

T = TypeVar("T")

CLOSE_SECONDS = 30.0
"""How long an engine may take to close."""
SLOTS: Final = whole(1, MOST)
"""What ``Engine.max_num_seqs`` may be."""
_REPLY: Final[Mapping[str, Storable]] = {
    **dict.fromkeys(("text", "reasoning"), TEXT),
    "finish": FINISH,
    **dict.fromkeys(("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens"), COUNT),
    **dict.fromkeys(("retries", "preemptions"), COUNT),
    **dict.fromkeys(("seconds", "cost"), MEASURED),
}
"""What the ledger can hold in a reply's fields."""
_ACCOUNT: Final[Mapping[str, Storable]] = {
    **dict.fromkeys(("counted_before", "in_flight", "highest"), MEASURED),
    "number": COUNT,
}
"""What the spending journal can hold in an account's fields, besides ``spent``."""


def name_of(engine: type) -> str:
    """An engine's class, for people."""
    return f"{engine.__module__}.{engine.__name__}"


def check_reply(reply: object, request: Request) -> None:
    """See that the ledger can hold what an engine replied.

    Raises:
        ValueError: it cannot; the message is what was returned instead, and what it must be.
    """
    if not isinstance(reply, Reply):
        raise ValueError(f"{type(reply).__name__}, not a Reply")
    _check_fields("a reply", reply, _REPLY)
    scores = reply.label_scores
    if scores is not None:
        _check_scores(scores, request)


def check_account(account: object) -> None:
    """See that the spending journal can hold what an engine says it has spent.

    Raises:
        ValueError: it cannot; the message is what was returned instead.
    """
    if not isinstance(account, Account):
        raise ValueError(f"{type(account).__name__}, not an Account")
    _check_fields("an Account", account, _ACCOUNT)
    # An engine takes back no more than what earlier sessions counted; sums in another order differ in their last digits.
    is_number = isinstance(account.spent, int | float) and math.isfinite(account.spent)
    if not is_number or not MEASURED.holds(account.spent + account.counted_before + 1e-6):
        raise ValueError(
            f"an Account whose spent is {account.spent!r:.80}; it must be a number from -counted_before to 2**53"
        )


def _check_fields(what: str, returned: object, kinds: Mapping[str, Storable]) -> None:
    for field, (is_sound, wanted) in kinds.items():
        value = getattr(returned, field)
        if not is_sound(value):
            raise ValueError(f"{what} whose {field} is {value!r:.80}; it must be {wanted}")


def _check_scores(scores: object, request: Request) -> None:
    if not isinstance(scores, LabelScores):
        raise ValueError(f"a reply whose label_scores is {type(scores).__name__}, not LabelScores or None")
    if len(scores.logprobs) != len(request.labels):
        raise ValueError(f"scores of {len(scores.logprobs)} labels; {len(request.labels)} were asked for")
    if not all(isinstance(value, int | float) for value in (*scores.logprobs, scores.mass)):
        raise ValueError("label scores that are not all numbers")


def check_facts(facts: object) -> None:
    """See that what an engine says of itself can be kept.

    Raises:
        ValueError: it cannot; the message is what the engine says instead, and what it must be.
    """
    if not isinstance(facts, Mapping):
        raise ValueError(f"{type(facts).__name__}, not a mapping")
    for name, value in facts.items():
        is_number = isinstance(value, int | float) and math.isfinite(value)
        if not TEXT.holds(name) or not (is_number or TEXT.holds(value)):
            raise ValueError(f"{name!r:.80}: {value!r:.80}; names must be texts, values texts or finite numbers")


def check_capabilities(can: object) -> None:
    """See that an engine's capabilities can be compared with what a suite needs.

    Raises:
        ValueError: they cannot; the message is what they are instead, and what they must be.
    """
    if not isinstance(can, Capabilities):
        raise ValueError(f"{type(can).__name__}, not Capabilities")
    fields = {"pictures": COUNT, "without_labels": TEXT}
    if can.context is not None:
        fields["context"] = SLOTS
    for field, (is_sound, wanted) in fields.items():
        value = getattr(can, field)
        if not is_sound(value):
            raise ValueError(f"capabilities whose {field} is {value!r:.80}; it must be {wanted}")


class CheckedEngine:
    """An engine of this process, for its host. The methods are those of ``Engine``.

    Everything but an ``EngineError`` or a ``PlayerError`` that the engine raises becomes an ``EngineError``, also what is
    meant to end a program (``sys.exit``) or a task; only the cancellation of the task that asks stays one.
    """

    def __init__(self, engine: Engine) -> None:
        """``engine`` has not started yet."""
        self.engine = engine
        self._name = name_of(type(engine))

    @property
    def metered(self) -> bool:
        """Whether requests cost money."""
        return self.engine.metered

    @property
    def max_num_seqs(self) -> int:
        """Its batch slots.

        Raises:
            EngineDefectError: it has no such number.
        """
        slots: int = self._read("max_num_seqs")
        if not SLOTS.holds(slots):
            raise EngineDefectError(f"{self._name}.max_num_seqs is {slots!r:.80}; it must be {SLOTS.wanted}")
        return slots

    @property
    def facts(self) -> dict[str, str | float]:
        """What it says of itself.

        Raises:
            EngineDefectError: it cannot be kept.
        """
        facts = self._read("facts")
        try:
            check_facts(facts)
            return dict(facts)
        except Exception as error:  # a mapping of somebody's own may raise anything
            raise EngineDefectError(f"{self._name}.facts is {_reason(error)}") from error

    def add_spent_elsewhere(self, total: float, highest: float) -> None:
        """Count spending of earlier sessions and other replicas.

        Raises:
            EngineError: it fails.
        """
        self._do("add_spent_elsewhere", self.engine.add_spent_elsewhere, total, highest)

    def keep_in(self, directory: Path) -> None:
        """Give it the run directory.

        Raises:
            EngineError: it fails.
        """
        self._do("keep_in", self.engine.keep_in, directory)

    async def settle(self, covered: int, seconds: float) -> Account:
        """Have it tell what was spent.

        Raises:
            EngineError: it fails.
        """
        account = await self._done("settle", self.engine.settle, covered, seconds)
        try:
            check_account(account)
        except ValueError as wrong:
            raise EngineDefectError(f"{self._name}.settle returned {wrong}") from None
        return account

    async def start(self) -> None:
        """Load the model.

        Raises:
            EngineError: it cannot start.
        """
        await self._done("start", self.engine.start)

    async def load_weights(self, model: str) -> bool:
        """Have it take other weights.

        Raises:
            EngineError: it fails.
        """
        return await self._done("load_weights", self.engine.load_weights, model)

    async def complete(self, request: Request) -> Reply:
        """Answer one request.

        Raises:
            PlayerError: it can never be answered.
            EngineDefectError: the reply is none, or the engine raised what it should not.
            EngineError: the engine failed.
        """
        try:
            reply = await self.engine.complete(request)
        except (PlayerError, EngineError):
            raise
        except BaseException as error:
            # What is meant to end a program, or a task of the engine's own, would end the host or another task.
            if _ends_this_task(error):
                raise
            raise EngineDefectError(f"{self._name}.complete raised {cause_of(error)}") from error
        try:
            check_reply(reply, request)
        except Exception as error:  # a value of somebody's own may raise anything
            raise EngineDefectError(f"{self._name}.complete returned {_reason(error)}") from error
        return reply

    async def check_health(self) -> None:
        """Return if it can still answer.

        Raises:
            EngineError: it cannot.
        """
        await self._done("check_health", self.engine.check_health)

    async def close(self) -> None:
        """End it.

        Raises:
            EngineError: it fails, or takes longer than ``CLOSE_SECONDS``.
        """
        await self._done("close", lambda: within(CLOSE_SECONDS, self.engine.close()))

    def _read(self, name: str) -> Any:
        try:
            return getattr(self.engine, name)
        except BaseException as error:
            raise EngineDefectError(f"{self._name}.{name} raised {cause_of(error)}") from error

    def _do(self, name: str, act: Callable[..., None], *arguments: Any) -> None:
        try:
            act(*arguments)
        except EngineError:
            raise
        except BaseException as error:
            raise EngineError(f"{self._name}.{name} raised {cause_of(error)}") from error

    async def _done(self, name: str, act: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        try:
            return await act(*arguments)
        except EngineError:
            raise
        except BaseException as error:
            if _ends_this_task(error):
                raise
            raise EngineError(f"{self._name}.{name} raised {cause_of(error)}") from error


def _reason(error: Exception) -> str:
    """What a check says, else what a value raised that was looked at."""
    return str(error) if type(error) is ValueError else f"what cannot be looked at: {cause_of(error)}"


def _ends_this_task(error: BaseException) -> bool:
    """Whether an error comes from outside of the engine: its task is canceled, or its coroutine is closed."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs any more
        return True
    return task is None or (isinstance(error, asyncio.CancelledError) and task.cancelling() > 0)
