"""Models behind an OpenAI-compatible endpoint: a commercial API, or a server such as ``vllm serve``.

The key is read from the environment where the engine runs; it never enters a configuration, a log or the ledger.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import io
import itertools
import math
import os
import random
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import openai
from openai import AsyncOpenAI
from PIL import Image

from cluster.engines.api_errors import LASTING, NO_MONEY, PASSING, asked_seconds, named_in, whole, without_key, words_of
from cluster.engines.base import MANY, Capabilities, Engine, EngineClosedError, EngineError, Request, Sampling
from cluster.engines.limits import AdaptiveConcurrency, Payment, PerMinute, Spend, SpendCapReachedError
from envs.picture import Picture
from evals.types import Chat, LabelScores, Part, PlayerError, PromptTooLong, Reply, message

TOP_LOGPROBS = 20
"""The most that chat completions give."""
NO_KEY = "EMPTY"
"""Sent where no key is set; servers of one's own do without."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
"""Seconds before the first retry, doubled each time up to the longest, where the endpoint asks for no other."""
REPORT_SECONDS = 600.0
"""Seconds that the endpoint may answer nobody, or ask all to wait; then the run stops, to be continued."""


class OpenAIEngine(Engine):
    """Completes chats through ``chat.completions``."""

    metered: ClassVar[bool] = True
    operational: ClassVar[frozenset[str]] = frozenset(
        {
            "api_key_env",
            "base_url",
            "completion_price",
            "max_num_seqs",
            "max_tries",
            "prompt_price",
            "requests_per_minute",
            "spend_cap",
            "timeout_seconds",
            "tokens_per_minute",
        }
    )
    fixed_for_run: ClassVar[frozenset[str]] = frozenset({"base_url"})

    @classmethod
    def capabilities(cls, settings: Mapping[str, Any]) -> Capabilities:
        """Pictures as the endpoint's model takes them; what ``choices=vllm`` servers add."""
        server = settings.get("choices") == "vllm"
        return Capabilities(pictures=MANY, options=server, label_scores=True)

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
        reasoning: bool = False,
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
            max_tries: tries of one request, while others are answered, before its episode fails.
            requests_per_minute: limit that the provider sets, if any.
            tokens_per_minute: likewise, prompt and completion tokens together.
            prompt_price: per million prompt tokens.
            completion_price: per million completion tokens.
            spend_cap: the run stops, to be continued, when so much was spent in this session; the last request may
                exceed it. An answer that is given up, or does not tell its tokens, counts with the most it may cost.
            choices: whether the server can constrain replies to options: ``vllm`` servers can.
            reasoning: the model thinks before it writes, as the o-series does: the limit of tokens, thoughts included,
                is sent as ``max_completion_tokens``; temperature and top_p, which must be 1, are not sent.

        Raises:
            ValueError: there is no key that could be sent, or a limit or price is no good.
        """
        if max_num_seqs < 1 or max_tries < 1:
            raise ValueError(f"max_num_seqs={max_num_seqs}, max_tries={max_tries}: must be 1 at least")
        if reasoning and not sampling.temperature == sampling.top_p == 1:
            raise ValueError(
                "reasoning=true: such models draw at temperature 1 and top_p 1 only: model.sampling.temperature=1"
            )
        self.sampling = sampling
        self.model = model
        self.max_tries = max_tries
        self.choices = choices
        self.reasoning = reasoning
        self._most = max_num_seqs
        self._key = read_key(api_key_env, needed=not (base_url or os.environ.get("OPENAI_BASE_URL")))
        self._client = AsyncOpenAI(
            api_key=self._key or NO_KEY, base_url=base_url, timeout=timeout_seconds, max_retries=0
        )
        self._concurrency = AdaptiveConcurrency(max_num_seqs)
        self._requests = PerMinute(requests_per_minute)
        self._tokens = PerMinute(tokens_per_minute)
        self._spend = Spend(prompt_price, completion_price, spend_cap)
        self._answered = 0
        self._accepted: set[str] = set()
        """Names of what requests held that were answered."""
        self._silent_since = math.inf
        """When the endpoint began to answer nobody."""
        self._probing = asyncio.Lock()
        self._closed = ""
        """Why nothing more is sent, if so."""

    @property
    def max_num_seqs(self) -> int:
        """Most requests at once."""
        return self._most

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
            PlayerError: the endpoint refuses this request, or failed it too often while it answered others.
            EngineClosedError: every request would fail: the key, account, model or a setting is refused, the spend cap
                is reached, or the endpoint answers nobody for ``REPORT_SECONDS`` seconds.
        """
        if request.options and self.choices == "refuse":
            raise EngineClosedError("this endpoint cannot constrain replies to options: use decoding=free")
        start = time.monotonic()
        arguments = self._arguments(request)
        answered, failures = self._answered, 0
        for attempt in itertools.count(1):
            try:
                answer = await self._send(request, arguments)
                return self._reply(request, answer, time.monotonic() - start)
            except openai.APIError as caught:
                error = caught
            # out of the handler: what is raised from here on must not carry the endpoint's own words, key and all, along
            if (verdict := self._verdict(error, arguments)) is not None:
                raise verdict
            # tries count while others are answered; when nobody is, it is the endpoint's trouble
            failures += self._answered > answered
            self._silent_since = min(self._silent_since, time.monotonic())
            if time.monotonic() - self._silent_since >= REPORT_SECONDS:
                if not await self._answers_at_all():
                    raise self._close(
                        f"the endpoint answered nobody for {REPORT_SECONDS:g} s, last: {self._clean(error)}"
                    )
                failures = attempt
            answered = self._answered
            if failures >= self.max_tries:
                raise PlayerError(f"the endpoint failed {failures} times, last: {self._clean(error)}")
            await self._wait(attempt, error)
        raise EngineError("unreachable")

    def _verdict(self, error: openai.APIError, arguments: Mapping[str, Any]) -> Exception | None:
        """What an error means to the request or to all of them; nothing if it may pass."""
        status, words, cause = getattr(error, "status_code", 500), words_of(error), self._clean(error)
        if status in LASTING or any(word in words.lower() for word in NO_MONEY):
            return self._close(cause)
        if status in PASSING or status >= 500 or isinstance(error, openai.APIResponseValidationError):
            return None
        if "context_length" in words or "maximum context length" in words:
            return PromptTooLong(cause)
        refused = named_in(error, _names(arguments) - self._accepted)
        if refused:
            hint = (
                " (model.engine.reasoning=true sends max_completion_tokens)" if "max_completion_tokens" in words else ""
            )
            return self._close(f"the endpoint does not take {' and '.join(refused)}{hint}: {cause}")
        return PlayerError(cause)

    def _close(self, cause: str) -> EngineClosedError:
        """From now on nothing is sent."""
        self._closed = self._closed or cause
        return EngineClosedError(self._closed)

    async def _answers_at_all(self) -> bool:
        """Whether the endpoint answers the least of requests: if it does, the trouble is that of the one at hand."""
        async with self._probing:
            if self._silent_since == math.inf:
                return True  # somebody else was answered meanwhile
            probe = Request("probe", (message("user", "Hello."),))
            arguments = self._arguments(probe)
            try:
                await self._send(probe, arguments)
                return True
            except openai.APIError as caught:
                error = caught
            verdict = self._verdict(error, arguments)
            if isinstance(verdict, EngineClosedError):
                raise verdict
            if verdict is not None:
                self._silent_since = math.inf
            return verdict is not None

    def _arguments(self, request: Request) -> dict[str, Any]:
        sampling = self.sampling
        arguments: dict[str, Any] = {
            "model": self.model,
            "messages": chat_to_json(request.chat),
            "max_completion_tokens" if self.reasoning else "max_tokens": self._most_tokens(request),
        }
        if not self.reasoning:
            arguments |= {"temperature": sampling.temperature, "top_p": sampling.top_p}
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

    def _most_tokens(self, request: Request) -> int:
        return 1 if request.labels else self.sampling.max_tokens

    async def _wait(self, attempt: int, error: openai.APIError) -> None:
        """Wait before a request's next try; what the endpoint asks for holds back all requests."""
        asked = asked_seconds(error)
        if asked > REPORT_SECONDS:
            raise self._close(f"the endpoint asks to wait {asked / 3600:.1f} hours: {self._clean(error)}")
        self._concurrency.hold(asked)
        if isinstance(error, openai.RateLimitError | openai.InternalServerError):
            self._concurrency.too_many()
        # with jitter, so that retries spread out
        doubling = min(FIRST_WAIT * 2.0 ** (attempt - 1), LONGEST_WAIT) * random.uniform(0.5, 1.0)
        await asyncio.sleep(0.0 if asked else doubling)

    async def _send(self, request: Request, arguments: Mapping[str, Any]) -> Any:
        """Ask once, when the limits allow it.

        Raises:
            EngineClosedError: nothing was sent, and nothing more will be.
            openai.APIError: it failed.
        """
        prompt, completion = expected_tokens(request), self._most_tokens(request)
        foretold = self._spend.price(prompt, completion)
        while True:
            async with self._concurrency.place():
                await asyncio.sleep(max(self._requests.delay(1), self._tokens.delay(prompt + completion)))
                try:
                    async with self._spend.payment(foretold) as payment:
                        if self._closed:
                            raise EngineClosedError(self._closed)
                        if not self._concurrency.held:
                            payment.price = foretold  # stays so where the answer never comes or does not tell
                            return await self._ask(arguments, payment, prompt + completion)
                except SpendCapReachedError as error:
                    cause = f"the spend cap of this replica and session is reached: {error} (model.engine.spend_cap)"
                    raise self._close(cause) from None
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
        self._answered += 1
        self._accepted |= _names(arguments)
        self._silent_since = math.inf
        self._concurrency.success()
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
        return Reply(
            text=text,
            finish="length" if choice.finish_reason == "length" and not request.labels else "stop",
            prompt_tokens=prompt,
            completion_tokens=completion,
            cached_tokens=getattr(details, "cached_tokens", 0) or 0,
            seconds=seconds,
            label_scores=scores,
        )

    def _clean(self, error: openai.APIError) -> str:
        """An error's words without the key, which some endpoints repeat in part."""
        return " ".join(whole(without_key(f"{type(error).__name__}: {words_of(error)}", self._key)).split())[:500]


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


def _names(arguments: Mapping[str, Any]) -> set[str]:
    """What an endpoint may not take of a request: its parameters, and pictures."""
    pictures = any(
        part["type"] == "image_url"
        for sent in arguments["messages"]
        if isinstance(sent["content"], list)
        for part in sent["content"]
    )
    return {*arguments, *arguments.get("extra_body", ()), *(["image_url"] if pictures else [])} - {
        "messages",
        "extra_body",
    }


def reply_text(content: Any) -> str:
    """What a message says; some endpoints send its text in parts."""
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return whole(content or "")


def used_tokens(usage: Any) -> tuple[int, int]:
    """Prompt and completion tokens as far as the endpoint tells, else 0."""
    return getattr(usage, "prompt_tokens", 0) or 0, getattr(usage, "completion_tokens", 0) or 0


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
