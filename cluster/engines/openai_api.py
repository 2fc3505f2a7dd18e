"""Models behind an OpenAI-compatible endpoint: a commercial API, or a server such as ``vllm serve``.

The key is read from the environment where the engine runs; it never enters a configuration, a log or the ledger.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import io
import math
import os
import random
import time
from collections.abc import Mapping
from typing import Any, Literal

import openai
from openai import AsyncOpenAI
from PIL import Image

from cluster.engine import EngineClosedError, EngineError, EngineLoad, Request, Sampling
from cluster.engines.limits import AdaptiveConcurrency, PerMinute, Spend
from envs.picture import Picture
from evals.contracts import Chat, LabelScores, Part, PlayerError, PromptTooLong, Reply

TOP_LOGPROBS = 20
"""The most that chat completions give."""
NO_KEY = "EMPTY"
"""Sent where no key is set; servers of one's own do without."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
"""Seconds before the first retry, doubled each time up to the longest."""

RETRYABLE = (
    openai.APIConnectionError,
    openai.InternalServerError,
    openai.RateLimitError,
    openai.APIResponseValidationError,
)
FATAL = (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError)


class OpenAIEngine:
    """Completes chats through ``chat.completions``."""

    def __init__(
        self,
        sampling: Sampling,
        model: str,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        max_num_seqs: int = 32,
        timeout_seconds: float = 600.0,
        max_tries: int = 8,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        prompt_price: float = 0.0,
        completion_price: float = 0.0,
        spend_cap: float | None = None,
        choices: Literal["refuse", "vllm"] = "refuse",
    ) -> None:
        """Build a client; nothing is sent yet.

        Args:
            sampling: temperature, top_p, max_tokens and stop are sent; top_k only to servers with ``choices=vllm``.
            model: the name that the endpoint knows.
            base_url: the endpoint; by default the client's own.
            api_key_env: name of the environment variable that holds the key.
            max_num_seqs: most requests at once; fewer while the server says it has too many.
            timeout_seconds: for one try of one request.
            max_tries: tries of one request before its episode fails.
            requests_per_minute: limit that the provider sets, if any.
            tokens_per_minute: likewise, prompt and completion tokens together.
            prompt_price: per million prompt tokens.
            completion_price: per million completion tokens.
            spend_cap: the run stops, to be continued, when so much was spent in this session.
            choices: whether the server can constrain replies to options: ``vllm`` servers can.
        """
        self.sampling = sampling
        self.model = model
        self.max_tries = max_tries
        self.choices = choices
        self.load = EngineLoad()
        self._most = max_num_seqs
        self._key = os.environ.get(api_key_env, NO_KEY)
        self._client = AsyncOpenAI(api_key=self._key, base_url=base_url, timeout=timeout_seconds, max_retries=0)
        self._concurrency = AdaptiveConcurrency(max_num_seqs)
        self._requests = PerMinute(requests_per_minute)
        self._tokens = PerMinute(tokens_per_minute)
        self._spend = Spend(prompt_price, completion_price, spend_cap)

    @property
    def max_num_seqs(self) -> int:
        """Most requests at once."""
        return self._most

    @property
    def metered(self) -> bool:
        """Tokens are paid for."""
        return True

    async def start(self) -> None:
        """Nothing to load; a wrong key or model shows with the first request."""

    async def check_health(self) -> None:
        """An endpoint's trouble shows in its requests, which are retried."""

    async def close(self) -> None:
        """Close connections."""
        await self._client.close()

    async def complete(self, request: Request) -> Reply:
        """Answer one request, with retries.

        Raises:
            PromptTooLong: the endpoint says so.
            PlayerError: the endpoint refuses this request, or failed it too often.
            EngineClosedError: the key or model is refused, or the spend cap is reached.
        """
        if request.options and self.choices == "refuse":
            raise EngineClosedError("this endpoint cannot constrain replies to options: use decoding=free")
        start = time.monotonic()
        arguments = self._arguments(request)
        for attempt in range(1, self.max_tries + 1):
            if self._spend.exhausted:
                raise EngineClosedError(f"the spend cap is reached: {self._spend.spent:.2f} of {self._spend.cap:.2f}")
            try:
                answer = await self._send(request, arguments)
            except FATAL as error:
                raise EngineClosedError(self._clean(error)) from None
            except RETRYABLE as error:
                if attempt == self.max_tries:
                    raise PlayerError(f"the endpoint failed {attempt} times, last: {self._clean(error)}") from None
                if isinstance(error, openai.RateLimitError | openai.InternalServerError):
                    self._concurrency.too_many()
                await asyncio.sleep(wait_seconds(attempt, error))
            except openai.APIStatusError as error:
                cause = self._clean(error)
                too_long = "context_length" in cause or "maximum context length" in cause
                raise (PromptTooLong(cause) if too_long else PlayerError(cause)) from None
            else:
                self._concurrency.success()
                return self._reply(request, answer, time.monotonic() - start)
        raise EngineError("unreachable")

    def _arguments(self, request: Request) -> dict[str, Any]:
        sampling = self.sampling
        arguments: dict[str, Any] = {
            "model": self.model,
            "messages": chat_to_json(request.chat),
            "max_tokens": 1 if request.labels else sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
        }
        if sampling.stop:
            arguments["stop"] = list(sampling.stop)
        if sampling.temperature > 0:
            arguments["seed"] = request.seed % 2**31
        if request.labels:
            arguments |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
        extra: dict[str, Any] = {}
        if self.choices == "vllm" and request.options:
            extra["structured_outputs"] = {"choice": list(request.options)}
        if self.choices == "vllm" and sampling.top_k:
            extra["top_k"] = sampling.top_k
        return {**arguments, "extra_body": extra} if extra else arguments

    async def _send(self, request: Request, arguments: Mapping[str, Any]) -> Any:
        expected = _expected_tokens(request) + arguments["max_tokens"]
        await asyncio.sleep(max(self._requests.delay(1), self._tokens.delay(expected)))
        async with self._concurrency.place():
            self.load.running = self._concurrency.inside
            try:
                answer = await self._client.chat.completions.create(**arguments)
            except ValueError as error:  # a body that is no JSON
                raise openai.APIConnectionError(
                    message=f"the answer cannot be read: {error}", request=_NO_REQUEST
                ) from None
        if not getattr(answer, "choices", None) or getattr(answer.choices[0], "message", None) is None:
            raise openai.APIConnectionError(message="the answer holds no message", request=_NO_REQUEST)
        usage = answer.usage
        if usage is not None:
            self._tokens.correct(usage.total_tokens - expected)
            self._spend.add(usage.prompt_tokens, usage.completion_tokens)
        return answer

    def _reply(self, request: Request, answer: Any, seconds: float) -> Reply:
        choice, usage = answer.choices[0], answer.usage
        details = getattr(usage, "prompt_tokens_details", None)
        scores = label_scores(request.labels, choice.logprobs) if request.labels else None
        text = choice.message.content or ""
        if scores is not None and not all(math.isnan(value) for value in scores.logprobs):
            best = max(
                range(len(request.labels)), key=lambda n: (not math.isnan(scores.logprobs[n]), scores.logprobs[n])
            )
            text = request.labels[best]
        reply = Reply(
            text=text,
            finish="length" if choice.finish_reason == "length" and not request.labels else "stop",
            prompt_tokens=usage.prompt_tokens if usage else 0,
            completion_tokens=usage.completion_tokens if usage else 0,
            cached_tokens=(getattr(details, "cached_tokens", 0) or 0) if details else 0,
            seconds=seconds,
            label_scores=scores,
        )
        self.load.completed += 1
        self.load.prompt_tokens += reply.prompt_tokens
        self.load.completion_tokens += reply.completion_tokens
        return reply

    def _clean(self, error: Exception) -> str:
        """An error's words without the key, which some endpoints repeat in part."""
        text = f"{type(error).__name__}: {error}"
        if self._key != NO_KEY:
            for shown in (self._key, self._key[:8], self._key[-4:]):
                text = text.replace(shown, "***") if len(shown) >= 4 else text
        return " ".join(text.split())[:500]


_NO_REQUEST: Any = None


def wait_seconds(attempt: int, error: Exception) -> float:
    """Seconds before the next try: what the server asks for, else doubling with jitter so that retries spread out."""
    response = getattr(error, "response", None)
    asked = response.headers.get("retry-after") if response is not None else None
    try:
        if asked is not None:
            return min(max(0.0, float(asked)), LONGEST_WAIT)
    except ValueError:
        pass  # a date; fall back on doubling
    return min(FIRST_WAIT * 2.0 ** (attempt - 1), LONGEST_WAIT) * random.uniform(0.5, 1.0)


def chat_to_json(chat: Chat) -> list[dict[str, Any]]:
    """A chat in the endpoint's form, pictures as PNG data URLs."""
    return [
        {"role": message.role, "content": message.parts[0]}
        if len(message.parts) == 1 and isinstance(message.parts[0], str)
        else {"role": message.role, "content": [_part(part) for part in message.parts]}
        for message in chat
    ]


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image_url", "image_url": {"url": _data_url(part)}}


@functools.lru_cache(maxsize=512)
def _data_url(picture: Picture) -> str:
    out = io.BytesIO()
    Image.fromarray(picture.render()).save(out, format="PNG")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def _expected_tokens(request: Request) -> int:
    return sum(len(part) // 4 if isinstance(part, str) else 500 for message in request.chat for part in message.parts)


def label_scores(labels: tuple[str, ...], logprobs: Any) -> LabelScores:
    """What the top tokens tell of the labels; a label that is not among them is nan, never zero."""
    top = logprobs.content[0].top_logprobs if logprobs and logprobs.content else []
    found = {entry.token: entry.logprob for entry in reversed(top)}
    values = tuple(found.get(label, math.nan) for label in labels)
    mass = sum(math.exp(value) for value in values if not math.isnan(value))
    return LabelScores(values, mass, bool(top) and top[0].token in labels, exact=False)
