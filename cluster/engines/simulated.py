"""An engine without a model: simulates continuous batching, heavy-tailed lengths and a prefix cache; seeded answers.

It implements the engine contract for tests and benchmarks. All randomness is seeded by the request, so a retried or
hedged turn gets the same answer.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import os
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from cluster.concurrency import within
from cluster.engines.base import MANY, Capabilities, Engine, EngineDiedError, EngineError, Request, Sampling
from envs.settings import Count, Index, NotNegative, Positive, Share
from evals.types import Chat, LabelScores, PromptTooLong, Reply

PICTURE_TOKENS = 256
CHARACTERS_PER_TOKEN = 4

FAULT_SECONDS = 0.1
"""Between checks for a fault file."""

Answer = Callable[[Request], str]


def prompt_length(chat: Chat) -> int:
    """Tokens of a chat: four characters each, a picture counting as 256."""
    return sum(
        math.ceil(len(part) / CHARACTERS_PER_TOKEN) if isinstance(part, str) else PICTURE_TOKENS
        for message in chat
        for part in message.parts
    )


@dataclass(frozen=True)
class Speed:
    """Speed of the simulated engine; all running requests share its steps, as in continuous batching.

    One step generates one token per running request and takes ``step_seconds`` + running * ``step_seconds_per_seq``.
    Prefill blocks generation for uncached tokens / ``prefill_tokens_per_second``.
    """

    step_seconds: float = 0.01
    step_seconds_per_seq: float = 0.0
    prefill_tokens_per_second: float = 20_000.0

    def step(self, running: int) -> float:
        """Seconds of one step with ``running`` requests in the batch."""
        return max(1e-9, self.step_seconds + self.step_seconds_per_seq * running)  # steps may take no time

    def work(self, uncached: int, tokens: int, batch: int) -> float:
        """Engine seconds of one request at full batch; the sum over all requests is the lower bound of makespans."""
        return uncached / self.prefill_tokens_per_second + tokens * self.step(batch) / batch


@dataclass(order=True)
class _Running:
    ends_at_step: float
    order: int
    done: asyncio.Future[None] = field(compare=False)


@dataclass
class Load:
    """Current load, and totals since the start."""

    running: int = 0
    completed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    slot_seconds: float = 0.0
    """Sum of the requests' running times; divided by ``max_num_seqs``, the work done."""


class SimulatedEngine(Engine):
    """See the module's docstring; every argument may be set in ``conf/model/simulated.yaml``."""

    starts_processes: ClassVar[bool] = False
    operational: ClassVar[frozenset[str]] = frozenset(
        {"cache_tokens", "fault_file", "max_num_seqs", "poison", "start_seconds"}
    )

    @classmethod
    def capabilities(cls, settings: Mapping[str, Any]) -> Capabilities:
        """Everything; prompts up to ``max_model_len``."""
        context = settings.get("max_model_len", 32_768)
        return Capabilities(pictures=MANY, options=True, label_scores=True, context=context)

    def __init__(
        self,
        sampling: Sampling,
        max_num_seqs: Count = 64,
        max_model_len: Count = 32_768,
        step_seconds: NotNegative = 0.01,
        step_seconds_per_seq: NotNegative = 0.0,
        prefill_tokens_per_second: Positive = 20_000.0,
        median_tokens: NotNegative = 100.0,
        tail: NotNegative = 1.0,
        cache_tokens: Index = 1_000_000,
        failure_rate: Share = 0.0,
        start_seconds: NotNegative = 0.0,
        fault_file: str | None = None,
        poison: str | None = None,
        answer: Answer | None = None,
    ) -> None:
        """Build an engine that is not started yet.

        Args:
            sampling: only ``max_tokens`` matters here.
            max_num_seqs: requests in one batch.
            max_model_len: longer prompts are rejected, in tokens of four characters.
            step_seconds: time of a step, see ``Speed``.
            step_seconds_per_seq: further time of a step for each running request.
            prefill_tokens_per_second: prefill speed for uncached tokens.
            median_tokens: median length of a reply.
            tail: sigma of the log-normal length distribution; 0 makes all lengths equal, 1 has a heavy tail.
            cache_tokens: size of the prefix cache.
            failure_rate: share of requests whose first try fails with an engine error.
            start_seconds: simulated loading time.
            fault_file: when this file appears, the first engine to remove it injects the fault that it names: ``exit``,
                ``hang``, or ``slow 20`` (twenty times slower).
            poison: a prompt that contains this text crashes the engine.
            answer: what to reply; by default one of the options, drawn with the request's seed.
        """
        self.sampling = sampling
        self._max_num_seqs = max_num_seqs
        self.max_model_len = max_model_len
        self.speed = Speed(step_seconds, step_seconds_per_seq, prefill_tokens_per_second)
        self.median_tokens, self.tail = median_tokens, tail
        self.failure_rate, self.start_seconds = failure_rate, start_seconds
        self._fault_file = Path(fault_file) if fault_file else None
        self._poison = poison
        self._fault = ""
        self._slower = 1.0
        self.answer = answer or random_answer
        self.load = Load()
        self._failed_once: set[str] = set()
        self._cache = PrefixCache(cache_tokens)
        self._slots = asyncio.Semaphore(max_num_seqs)
        self._batch: list[_Running] = []
        self._steps = 0.0
        self._clock = 0.0
        self._prefill_debt = 0.0
        self._changed = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None

    @property
    def max_num_seqs(self) -> int:
        """Requests in one batch."""
        return self._max_num_seqs

    async def start(self) -> None:
        """Wait for ``start_seconds``, then start stepping."""
        await asyncio.sleep(self.start_seconds)
        self._clock = time.monotonic()
        self._loop = asyncio.create_task(self._step())

    async def complete(self, request: Request) -> Reply:
        """Answer after the simulated time.

        Raises:
            PromptTooLong: longer than ``max_model_len``.
            EngineError: the simulated failure, or the engine is not started.
            EngineDiedError: a simulated death.
        """
        if self._loop is None:
            raise EngineError("the simulated engine is not started")
        if self._poison and _holds(request.chat, self._poison):
            self._die("a prompt killed it")
        if self._fault == "exit":
            raise EngineDiedError("it died before")
        prompt_tokens = prompt_length(request.chat)
        if prompt_tokens >= self.max_model_len:
            raise PromptTooLong(f"the prompt has {prompt_tokens} tokens, the model's context {self.max_model_len}")
        start = time.monotonic()
        rng = random.Random(request.seed)
        # A label is one token.
        tokens = 1 if request.labels else self._length(rng, self.max_model_len - prompt_tokens)
        fails = rng.random() < self.failure_rate and request.id not in self._failed_once
        await self._slots.acquire()
        try:
            cached = self._cache.admit(request.chat)
            await self._generate(prompt_tokens - cached, tokens)
        finally:
            self._slots.release()
        if fails:
            self._failed_once.add(request.id)
            raise EngineError("simulated failure")
        self.load.completed += 1
        self.load.prompt_tokens += prompt_tokens
        self.load.cached_tokens += cached
        self.load.completion_tokens += tokens
        text = self.answer(request)
        has_ended = request.labels or request.options or tokens < self.sampling.max_tokens
        return Reply(
            text=text,
            finish="stop" if has_ended else "length",
            prompt_tokens=prompt_tokens,
            completion_tokens=tokens,
            cached_tokens=cached,
            seconds=time.monotonic() - start,
            label_scores=random_scores(request) if request.labels else None,
        )

    async def check_health(self) -> None:
        """Raise if the engine died; never return if it hangs."""
        if self._fault == "exit":
            raise EngineDiedError("the simulated engine died")
        if self._fault == "hang":
            await asyncio.Event().wait()

    async def close(self) -> None:
        """Stop stepping."""
        if self._loop is not None:
            self._loop.cancel()
            self._loop = None

    def _die(self, cause: str) -> NoReturn:
        self._fault = "exit"
        for running in self._batch:
            if not running.done.done():
                running.done.set_exception(EngineDiedError(cause))
        self._batch.clear()
        raise EngineDiedError(cause)

    def _check_fault_file(self) -> None:
        if self._fault_file is None or self._fault:
            return
        if not self._fault_file.exists():
            return
        mine = self._fault_file.with_suffix(f".{os.getpid()}")
        try:
            self._fault_file.rename(mine)
        except OSError:
            return  # another engine took it
        self._fault, _, factor = mine.read_text().strip().partition(" ")
        if self._fault == "slow":
            self._slower = float(factor)
        if self._fault == "exit":
            with suppress(EngineDiedError):
                self._die("the fault file says exit")

    def _length(self, rng: random.Random, room: int) -> int:
        drawn = self.median_tokens * math.exp(self.tail * rng.gauss(0.0, 1.0))
        return max(1, min(round(drawn), self.sampling.max_tokens, room))

    async def _generate(self, uncached: int, tokens: int) -> None:
        self._advance()
        self._prefill_debt += uncached / self.speed.prefill_tokens_per_second
        running = _Running(self._steps + tokens, self.load.completed, asyncio.get_running_loop().create_future())
        heapq.heappush(self._batch, running)
        self.load.running = len(self._batch)
        self._changed.set()
        try:
            await running.done
        except asyncio.CancelledError:  # the request was canceled
            self._advance()
            self._batch = [each for each in self._batch if each is not running]
            heapq.heapify(self._batch)
            self._changed.set()
            raise

    def _advance(self) -> None:
        """Bring the step counter up to now; prefill time is paid before any step."""
        now = time.monotonic()
        elapsed, self._clock = now - self._clock, now
        if not self._batch:
            self._prefill_debt = 0.0
            return
        self.load.slot_seconds += elapsed * len(self._batch)
        paid = min(elapsed, self._prefill_debt)
        self._prefill_debt -= paid
        self._steps += (elapsed - paid) / (self.speed.step(len(self._batch)) * self._slower)

    async def _step(self) -> None:
        while True:
            self._changed.clear()
            self._check_fault_file()
            if self._fault == "hang":
                await asyncio.Event().wait()
            self._advance()
            while self._batch and self._batch[0].ends_at_step <= self._steps + 1e-6:
                finished = heapq.heappop(self._batch)
                if not finished.done.done():
                    finished.done.set_result(None)
            self.load.running = len(self._batch)
            try:
                await within(self._seconds_to_next(), self._changed.wait())
            except TimeoutError:
                continue

    def _seconds_to_next(self) -> float | None:
        """Until a request is answered or the fault file is looked for again; None where neither is to come."""
        wait = None
        if self._batch:
            left = self._batch[0].ends_at_step - self._steps
            wait = self._prefill_debt + left * self.speed.step(len(self._batch)) * self._slower
        if self._fault_file is not None:
            wait = min(wait or FAULT_SECONDS, FAULT_SECONDS)
        return wait


class PrefixCache:
    """Prefixes of chats that are cached, with LRU eviction."""

    def __init__(self, capacity: int) -> None:
        """``capacity`` is in tokens."""
        self.capacity = capacity
        self._used = 0
        self._prefixes: OrderedDict[int, int] = OrderedDict()

    def admit(self, chat: Chat) -> int:
        """Cache the chat; returns how many tokens of its prefix were cached before."""
        cached, prefix, known = 0, 0, True
        for message in chat:
            prefix = hash((prefix, message))
            tokens = prompt_length((message,))
            if prefix in self._prefixes:
                self._prefixes.move_to_end(prefix)
                cached += tokens if known else 0
                continue
            known = False
            self._prefixes[prefix] = tokens
            self._used += tokens
        while self._used > self.capacity and self._prefixes:
            self._used -= self._prefixes.popitem(last=False)[1]
        return cached


def _holds(chat: Chat, words: str) -> bool:
    """Whether a text of a chat has these words in it."""
    for each in chat:
        for part in each.parts:
            if isinstance(part, str) and words in part:
                return True
    return False


def random_answer(request: Request) -> str:
    """One of the options (or labels), drawn with the request's seed; filler text where there are none."""
    choices = request.options or request.labels
    return random.Random(request.seed).choice(choices) if choices else "I cannot tell."


def random_scores(request: Request) -> LabelScores:
    """Seeded log-probabilities that sum to 0.9; the reply's label is the most probable."""
    rng = random.Random(request.seed)
    best = rng.choice(request.labels)
    weights = [rng.random() + (1.0 if label == best else 0.0) for label in request.labels]
    total = sum(weights)
    return LabelScores(tuple(math.log(0.9 * weight / total) for weight in weights), mass=0.9, argmax_is_label=True)
