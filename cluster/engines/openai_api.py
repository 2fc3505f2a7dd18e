"""Models behind an OpenAI-compatible endpoint: a commercial API, or a server such as ``vllm serve``.

The key is read from the environment where the engine runs; it never enters a configuration, a log or the ledger.
"""

from __future__ import annotations

import asyncio
import base64
import email.utils
import functools
import io
import math
import os
import random
import re
import time
from collections.abc import Mapping
from typing import Any, Literal

import openai
from openai import AsyncOpenAI
from PIL import Image

from cluster.engine import EngineClosedError, EngineError, EngineLoad, Request, Sampling
from cluster.engines.limits import AdaptiveConcurrency, Payment, PerMinute, Spend, SpendCapReachedError
from envs.picture import Picture
from evals.contracts import Chat, LabelScores, Part, PlayerError, PromptTooLong, Reply

TOP_LOGPROBS = 20
"""The most that chat completions give."""
NO_KEY = "EMPTY"
"""Sent where no key is set; servers of one's own do without."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
"""Seconds before the first retry, doubled each time up to the longest, where the endpoint asks for no other."""
PATIENCE = 600.0
"""Seconds that the endpoint may ask all to wait; who asks for more stops the run, to be continued then."""

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
            max_num_seqs: most requests at once; fewer while the server says it has too many. Like all limits here and
                the cap, of this engine alone: two replicas may do twice as much.
            timeout_seconds: for one try of one request.
            max_tries: tries of one request before its episode fails.
            requests_per_minute: limit that the provider sets, if any.
            tokens_per_minute: likewise, prompt and completion tokens together.
            prompt_price: per million prompt tokens.
            completion_price: per million completion tokens.
            spend_cap: the run stops, to be continued, when so much was spent in this session; the last request may
                exceed it. An answer that is given up, or does not tell its tokens, counts with the most it may cost.
            choices: whether the server can constrain replies to options: ``vllm`` servers can.

        Raises:
            ValueError: there is no key that could be sent, or a limit or price is no good.
        """
        if max_num_seqs < 1 or max_tries < 1:
            raise ValueError(f"max_num_seqs={max_num_seqs}, max_tries={max_tries}: must be 1 at least")
        self.sampling = sampling
        self.model = model
        self.max_tries = max_tries
        self.choices = choices
        self.load = EngineLoad()
        self._most = max_num_seqs
        self._key = read_key(api_key_env, needed=not (base_url or os.environ.get("OPENAI_BASE_URL")))
        self._client = AsyncOpenAI(
            api_key=self._key or NO_KEY, base_url=base_url, timeout=timeout_seconds, max_retries=0
        )
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
            try:
                answer = await self._send(request, arguments)
            except SpendCapReachedError as error:
                raise EngineClosedError(
                    f"the spend cap of this replica and session is reached: {error} (model.engine.spend_cap)"
                ) from None
            except FATAL as error:
                raise EngineClosedError(self._clean(error)) from None
            except RETRYABLE as error:
                if attempt == self.max_tries:
                    raise PlayerError(f"the endpoint failed {attempt} times, last: {self._clean(error)}") from None
                if isinstance(error, openai.RateLimitError | openai.InternalServerError):
                    self._concurrency.too_many()
                await self._wait(attempt, error)
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

    async def _wait(self, attempt: int, error: Exception) -> None:
        """Wait before a request's next try; what the endpoint asks for holds back all requests."""
        asked = asked_seconds(error)
        if asked > PATIENCE:
            raise EngineClosedError(f"the endpoint asks to wait {asked / 3600:.1f} hours: {self._clean(error)}")
        self._concurrency.hold(asked)
        # with jitter, so that retries spread out
        doubling = min(FIRST_WAIT * 2.0 ** (attempt - 1), LONGEST_WAIT) * random.uniform(0.5, 1.0)
        await asyncio.sleep(0.0 if asked else doubling)

    async def _send(self, request: Request, arguments: Mapping[str, Any]) -> Any:
        """Ask once, when the limits allow it.

        Raises:
            SpendCapReachedError: nothing was sent.
        """
        prompt, completion = expected_tokens(request), arguments["max_tokens"]
        foretold = self._spend.price(prompt, completion)
        while True:
            async with self._concurrency.place():
                self.load.running = self._concurrency.inside
                await asyncio.sleep(max(self._requests.delay(1), self._tokens.delay(prompt + completion)))
                async with self._spend.payment(foretold) as payment:
                    if not self._concurrency.held:
                        payment.price = foretold  # stays so where the answer never comes or does not tell
                        return await self._ask(arguments, payment, prompt + completion)
            self._requests.correct(-1)
            self._tokens.correct(-(prompt + completion))

    async def _ask(self, arguments: Mapping[str, Any], payment: Payment, expected: int) -> Any:
        try:
            answer = await self._client.chat.completions.create(**arguments)
        except openai.APITimeoutError:
            raise
        except openai.OpenAIError:
            payment.price = 0.0
            raise
        except ValueError as error:  # a body that is no JSON
            raise openai.APIConnectionError(
                message=f"the answer cannot be read: {error}", request=_NO_REQUEST
            ) from None
        prompt, completion = used_tokens(getattr(answer, "usage", None))
        if prompt or completion:
            payment.price = self._spend.price(prompt, completion)
            self._tokens.correct(prompt + completion - expected)
        if not getattr(answer, "choices", None) or getattr(answer.choices[0], "message", None) is None:
            raise openai.APIConnectionError(message="the answer holds no message", request=_NO_REQUEST)
        return answer

    def _reply(self, request: Request, answer: Any, seconds: float) -> Reply:
        choice = answer.choices[0]
        prompt, completion = used_tokens(answer.usage)
        details = getattr(answer.usage, "prompt_tokens_details", None)
        scores = label_scores(request.labels, choice.logprobs) if request.labels else None
        text = reply_text(choice.message.content)
        if scores is not None and not all(math.isnan(value) for value in scores.logprobs):
            best = max(
                range(len(request.labels)), key=lambda n: (not math.isnan(scores.logprobs[n]), scores.logprobs[n])
            )
            text = request.labels[best]
        reply = Reply(
            text=text,
            finish="length" if choice.finish_reason == "length" and not request.labels else "stop",
            prompt_tokens=prompt,
            completion_tokens=completion,
            cached_tokens=getattr(details, "cached_tokens", 0) or 0,
            seconds=seconds,
            label_scores=scores,
        )
        self.load.completed += 1
        self.load.prompt_tokens += reply.prompt_tokens
        self.load.completion_tokens += reply.completion_tokens
        return reply

    def _clean(self, error: Exception) -> str:
        """An error's words without the key, which some endpoints repeat in part."""
        return " ".join(whole(without_key(f"{type(error).__name__}: {error}", self._key)).split())[:500]


_NO_REQUEST: Any = None


def read_key(variable: str, needed: bool) -> str:
    """The key in an environment variable, or nothing where it is not ``needed``.

    Raises:
        ValueError: it is needed and not there, or can be no key; the message shows nothing of it.
    """
    key = os.environ.get(variable, "").strip()
    if not key and needed:
        raise ValueError(
            f"{variable} is not set where the engine runs: export it before Ray starts there (another variable: "
            "model.engine.api_key_env; a server of your own, which may need no key: model.engine.base_url)"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError(f"{variable} holds no key: it has blanks or signs within that no key has")
    return key


def without_key(text: str, key: str) -> str:
    """``text`` with stars for every run of six characters of the key, and for its last four."""
    hidden: set[int] = set()
    for piece in {key[start : start + 6] for start in range(len(key) - 5)} | ({key[-4:]} if len(key) >= 4 else set()):
        for found in re.finditer(re.escape(piece), text):
            hidden.update(range(*found.span()))
    return "".join("*" if position in hidden else sign for position, sign in enumerate(text))


def whole(text: str) -> str:
    """``text`` without halves of surrogate pairs, which no UTF-8 file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def reply_text(content: Any) -> str:
    """What a message says; some endpoints send its text in parts."""
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return whole(content or "")


def used_tokens(usage: Any) -> tuple[int, int]:
    """Prompt and completion tokens as far as the endpoint tells, else 0."""
    return getattr(usage, "prompt_tokens", 0) or 0, getattr(usage, "completion_tokens", 0) or 0


def asked_seconds(error: Exception) -> float:
    """Seconds to wait that a refusal asks for (``retry-after-ms``, or ``retry-after`` in seconds or as a date), else 0."""
    response = getattr(error, "response", None)
    headers: Mapping[str, str] = response.headers if response is not None else {}
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        return max(0.0, seconds) if math.isfinite(seconds) else 0.0
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return 0.0
    return max(0.0, date.timestamp() - time.time())


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


def expected_tokens(request: Request) -> int:
    """A guess at a prompt's tokens."""
    return sum(len(part) // 4 if isinstance(part, str) else 500 for message in request.chat for part in message.parts)


def label_scores(labels: tuple[str, ...], logprobs: Any) -> LabelScores:
    """What the top tokens tell of the labels; a label that is not among them is nan, never zero."""
    top = logprobs.content[0].top_logprobs if logprobs and logprobs.content else []
    found = {entry.token: entry.logprob for entry in reversed(top)}
    values = tuple(found.get(label, math.nan) for label in labels)
    mass = sum(math.exp(value) for value in values if not math.isnan(value))
    return LabelScores(values, mass, bool(top) and top[0].token in labels, exact=False)
