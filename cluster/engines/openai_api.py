"""Models behind an OpenAI-compatible endpoint: a commercial API, or a server such as ``vllm serve``.

Keys are read from the environment where the engine runs; they never enter a configuration, a log or the ledger.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.util
import itertools
import math
import os
import random
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NoReturn

from cluster.engines.api_answer import Answer, Usage
from cluster.engines.api_endpoint import Endpoint
from cluster.engines.api_errors import EndpointError
from cluster.engines.api_limited import EndpointClosedError, LimitedEndpoint
from cluster.engines.api_request import RequestForm, parameter_names
from cluster.engines.api_secrets import check_base_url, check_no_secrets, read_headers, read_key
from cluster.engines.base import (
    MANY,
    Account,
    Capabilities,
    Engine,
    EngineClosedError,
    Request,
    Sampling,
    SpendCapReachedError,
)
from cluster.engines.limits import AdaptiveConcurrency, PerMinute
from cluster.engines.spend import Spend
from envs.settings import Count, NotNegative, Positive, Seconds
from evals.types import PlayerError, PromptTooLong, Reply, message

OPENAI_URL = "https://api.openai.com/v1"
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
"""Seconds before the first retry, doubled each time up to the longest, unless the endpoint asks for another."""
OUTAGE_SECONDS = 600.0
"""How long an outage of the endpoint may last before the run stops; it can be resumed."""
QUIET_SECONDS = 30.0
"""A health check sends a request only if the endpoint has been silent for this long."""
UNREADABLE_REQUESTS = 10
"""Requests in a row that fail on unreadable answers before the run stops: more would only cost money."""


class OpenAIEngine(Engine):
    """Completes chats through ``chat/completions``."""

    metered: ClassVar[bool] = True
    operational: ClassVar[frozenset[str]] = frozenset(
        {
            "api_key_env",
            "base_url",
            "completion_price",
            "headers",
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
    given_again: ClassVar[frozenset[str]] = frozenset({"api_key_env", "base_url", "headers"})

    @classmethod
    def capabilities(cls, settings: Mapping[str, Any]) -> Capabilities:
        """Pictures as the endpoint's model takes them; label scores except from models that reason first."""
        server = settings.get("choices") == "vllm"
        reasons = _reasons(bool(settings.get("reasoning")), settings.get("reasoning_effort"))
        return Capabilities(pictures=MANY, options=server, label_scores=not reasons)

    def __init__(
        self,
        sampling: Sampling,
        model: str,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        headers: Mapping[str, str] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        max_num_seqs: Count = 32,
        timeout_seconds: Seconds = 600.0,
        max_tries: Count = 8,
        requests_per_minute: Positive | None = None,
        tokens_per_minute: Positive | None = None,
        prompt_price: NotNegative = 0.0,
        completion_price: NotNegative = 0.0,
        spend_cap: Positive | None = None,
        choices: Literal["refuse", "vllm"] = "refuse",
        reasoning: bool = False,
        reasoning_effort: str | None = None,
    ) -> None:
        """Build a client; nothing is sent yet.

        Args:
            sampling: temperature, top_p, max_tokens and stop are sent; the others where they are not neutral.
            model: the name that the endpoint knows.
            base_url: the endpoint; OpenAI's own by default.
            api_key_env: name of the environment variable that holds the key.
            headers: sent with every request; a value ``env:NAME`` is read from the environment, as secrets must be.
            extra_body: further parameters of a request as the endpoint knows them; null takes one out.
            max_num_seqs: most requests at once; fewer while the server says it has too many. Like the limits per minute
                of this engine alone: two replicas may do twice as much.
            timeout_seconds: for one try of one request, up to the answer's last byte.
            max_tries: tries of one request, while others are answered, before its episode fails.
            requests_per_minute: limit that the provider sets, if any.
            tokens_per_minute: likewise, prompt and completion tokens together.
            prompt_price: per million prompt tokens.
            completion_price: per million completion tokens, reasoning included.
            spend_cap: the run stops when this much was spent (see ``add_spent_elsewhere``) and can be resumed; the
                last request may exceed it. A try that was sent and is given up, breaks off, or reports no tokens,
                counts with the most it can cost.
            choices: whether the server can constrain replies to options: ``vllm`` servers can.
            reasoning: the model reasons before it answers, as the o-series does: the limit of tokens, reasoning
                included, is sent as ``max_completion_tokens``; temperature and top_p, which must be 1, are not sent.
            reasoning_effort: sent unchanged, if given: ``low``, ``high``, or another value that the endpoint knows.

        Raises:
            ValueError: there is no key that could be sent, a setting holds a secret, or a limit or price is invalid.
        """
        self.check_settings(
            {
                "model": model,
                "base_url": base_url,
                "api_key_env": api_key_env,
                "headers": headers,
                "extra_body": extra_body,
            }
        )
        if max_num_seqs < 1 or max_tries < 1:
            raise ValueError(f"max_num_seqs={max_num_seqs}, max_tries={max_tries}: must be 1 at least")
        if not 0 < timeout_seconds < math.inf:
            raise ValueError(f"timeout_seconds={timeout_seconds}: must be above 0")
        if base_url is None and os.environ.get("OPENAI_BASE_URL"):
            raise ValueError("OPENAI_BASE_URL is set, but no run would record it: give model.engine.base_url")
        self.max_tries = max_tries
        self._most = max_num_seqs
        self._form = RequestForm(model, sampling, choices, reasoning, reasoning_effort, dict(extra_body or {}))
        limit = "max_completion_tokens" if reasoning else "max_tokens"
        if spend_cap is not None and limit in self._form.extra_body:
            raise ValueError(f"spend_cap: without {limit} (model.engine.extra_body) nothing bounds what a reply costs")
        key, sent, secrets = _read_secrets(api_key_env, headers or {}, base_url)
        url = check_base_url(base_url) or OPENAI_URL
        self._closed_as: type[EngineClosedError] = EngineClosedError
        self._spend = Spend(prompt_price, completion_price, spend_cap)
        self._endpoint = LimitedEndpoint(
            Endpoint(url, key, sent, secrets, timeout_seconds, max_num_seqs),
            AdaptiveConcurrency(max_num_seqs),
            PerMinute(requests_per_minute),
            PerMinute(tokens_per_minute),
            self._spend,
        )
        self._answered = 0
        self._accepted: set[str] = set()
        """Names of what requests held that were answered."""
        self._silent_since = math.inf
        """When the endpoint began to give no answers."""
        self._unreadable = 0
        """Requests in a row that failed on unreadable answers."""
        self._probing = asyncio.Lock()

    @classmethod
    def check_settings(cls, settings: Mapping[str, Any]) -> None:
        """Check, before anything is stored or started, that settings hold no secret and what they need is installed.

        Raises:
            ValueError: a secret or a missing package; the message repeats no secret.
        """
        check_no_secrets(settings)
        if importlib.util.find_spec("httpx") is None:
            raise ValueError("model=openai needs the Python package httpx: pip install httpx")

    @classmethod
    def check_environment(cls, settings: Mapping[str, Any]) -> None:
        """As ``Engine.check_environment``: the key, and headers with values from the environment."""
        variable = settings.get("api_key_env", "OPENAI_API_KEY")
        _read_secrets(variable, settings.get("headers") or {}, settings.get("base_url"))

    @property
    def max_num_seqs(self) -> int:
        """Most requests at once."""
        return self._most

    def add_spent_elsewhere(self, total: float, highest: float = 0.0) -> None:
        """As ``Engine.add_spent_elsewhere``; a smaller total than the last one changes nothing."""
        self._spend.add_elsewhere(total, highest)

    async def settle(self, covered: int, seconds: float) -> Account:
        """As ``Engine.settle``; failed and abandoned tries are included, replies carry their part as ``cost``."""
        return await self._spend.settle(covered, seconds)

    async def start(self) -> None:
        """Check that the endpoint is up and accepts the key.

        Raises:
            EndpointError: it is down, or refuses the key.
        """
        try:
            await self._endpoint.http.check()
        except EndpointError as error:
            raise EndpointError(f"the endpoint {self._endpoint.http.base_url} cannot be used: {error}") from None

    async def check_health(self) -> None:
        """Ask the endpoint whether it is up, unless it answered lately; this costs nothing.

        Raises:
            EndpointError: it has been silent for ``OUTAGE_SECONDS``. Retries bridge shorter outages, and a new replica
                would not help.
        """
        if self._endpoint.closed or self._endpoint.http.silent_seconds < QUIET_SECONDS:
            return
        try:
            await self._endpoint.http.check()
        except EndpointError as error:
            if self._endpoint.http.silent_seconds >= OUTAGE_SECONDS:
                raise EndpointError(f"the endpoint has not answered for {OUTAGE_SECONDS:g} s: {error}") from None

    async def close(self) -> None:
        """Close connections."""
        await self._endpoint.http.close()

    # --- one request ---

    async def complete(self, request: Request) -> Reply:
        """Complete one request, with retries.

        Raises:
            PromptTooLong: the endpoint says so.
            PlayerError: the endpoint refuses this request, or failed it too often while it answered others; or its
                filter stopped a question about label probabilities (of other questions ``Reply.finish`` says so).
            EngineClosedError: every request would fail: the key, account, model or a setting is refused, the spend cap
                is reached, or the endpoint gives no answers for ``OUTAGE_SECONDS``.
        """
        self._check(request)
        start, cost = time.monotonic(), 0.0
        body = self._form.body(request)
        answered, failures = self._answered, 0
        for attempt in itertools.count(1):
            try:
                answer, price = await self._send(request, body)
                reply = self._reply(request, answer, cost + price, time.monotonic() - start)
                return dataclasses.replace(reply, retries=attempt - 1)
            except EndpointError as caught:
                error = caught
            cost += error.price
            if error.meaning == "filtered":
                filtered = Answer("", "content_filter", "", Usage(), {})
                return self._reply(request, filtered, cost, time.monotonic() - start)
            # An endpoint that gave probabilities before may have passed this request to a server that does not.
            if error.unscored and "top_logprobs" not in self._accepted:
                raise self._close(f"{error}; the suite asks for probabilities of labels, written answers need none")
            if error.meaning != "passing":
                self._refuse(error, body)
            # tries count while other requests are answered; when none is, the endpoint is at fault
            failures += error.unreadable or self._answered > answered
            if not error.unreadable and await self._fails_alone(error):
                failures = attempt
            answered = self._answered
            if failures >= self.max_tries:
                raise self._given_up(failures, error)
            await self._wait(attempt, error)
        raise AssertionError("unreachable")

    def _check(self, request: Request) -> None:
        """Refuse what the endpoint cannot do for any request."""
        if (request.options or request.schema) and self._form.choices == "refuse":
            raise EngineClosedError("this endpoint cannot constrain replies: use decoding=free")
        if request.labels and _reasons(self._form.reasoning, self._form.reasoning_effort):
            raise EngineClosedError(
                "a model that reasons first (reasoning=true, or reasoning_effort) gives no label probabilities"
            )

    def _refuse(self, error: EndpointError, body: Mapping[str, Any]) -> NoReturn:
        """Raise what a refusal means to its request, or to all of them."""
        if error.meaning == "lasting":
            raise self._close(f"the endpoint refuses all requests: {error}")
        if error.meaning == "too long":
            raise PromptTooLong(str(error))
        if refused := error.named(parameter_names(body) - self._accepted):
            hint = " (model.engine.reasoning=true sends max_completion_tokens)"
            hint = hint if "max_completion_tokens" in error.words else ""
            raise self._close(f"the endpoint does not take {' and '.join(refused)}{hint}: {error}")
        raise PlayerError(f"the endpoint refuses the request: {error}", kind="endpoint")

    def _given_up(self, failures: int, error: EndpointError) -> Exception:
        """The error of a request that failed too often; it ends the run if no answer can be read."""
        cause = f"the endpoint failed {failures} times, last: {error}"
        self._unreadable += error.unreadable
        if self._unreadable >= UNREADABLE_REQUESTS:
            return self._close(f"{self._unreadable} requests in a row could not be read: {cause}")
        return PlayerError(cause, kind="endpoint")

    def _close(self, cause: str, kind: type[EngineClosedError] = EngineClosedError) -> EngineClosedError:
        """Stop sending requests, for good; all further errors are of the first one's kind."""
        if not self._endpoint.closed:
            self._endpoint.closed, self._closed_as = cause, kind
        return self._closed_as(self._endpoint.closed)

    async def _fails_alone(self, error: EndpointError) -> bool:
        """Note that a try got no answer; after an outage of ``OUTAGE_SECONDS``, tell whether only this request fails.

        Raises:
            EngineClosedError: the endpoint answers no request.
        """
        self._silent_since = min(self._silent_since, time.monotonic())
        if time.monotonic() - self._silent_since < OUTAGE_SECONDS:
            return False
        if await self._answers_at_all():
            return True
        raise self._close(f"the endpoint gave no answers for {OUTAGE_SECONDS:g} s, last: {error}")

    async def _answers_at_all(self) -> bool:
        """Whether the endpoint answers a minimal request: if it does, only the current request fails."""
        async with self._probing:
            if self._silent_since == math.inf:
                return True  # another request was answered meanwhile
            probe = Request("probe", (message("user", "Hello."),))
            body = self._form.body(probe)
            try:
                await self._send(probe, body)
                return True
            except EndpointError as error:
                if error.meaning == "passing" and not error.unreadable:
                    return False
                if error.meaning == "lasting":
                    raise self._close(f"the endpoint refuses all requests: {error}") from None
            self._silent_since = math.inf
            return True

    async def _wait(self, attempt: int, error: EndpointError) -> None:
        """Wait before a request's next try; a wait that the endpoint asks for applies to all requests."""
        asked = error.retry_after
        if asked > OUTAGE_SECONDS:
            raise self._close(f"the endpoint asks to wait {asked / 3600:.1f} hours: {error}")
        self._endpoint.concurrency.hold(asked)
        if error.too_many:
            self._endpoint.concurrency.too_many()
        # with jitter, so that retries spread out
        doubling = min(FIRST_WAIT * 2.0 ** min(attempt - 1, 20), LONGEST_WAIT) * random.uniform(0.5, 1.0)
        await asyncio.sleep(0.0 if asked else doubling)

    async def _send(self, request: Request, body: Mapping[str, Any]) -> tuple[Answer, float]:
        """Ask once; returns the answer and its price.

        Raises:
            EngineClosedError: nothing was sent, and no later request will be.
            EndpointError: it failed.
        """
        try:
            answer, price = await self._endpoint.send(request, body, self._form.most_tokens(request))
        except SpendCapReachedError as error:
            raise self._close(str(error), SpendCapReachedError) from None
        except EndpointClosedError:
            raise self._closed_as(self._endpoint.closed) from None
        self._answered += 1
        self._unreadable = 0
        self._accepted |= parameter_names(body)
        self._silent_since = math.inf
        return answer, price

    def _reply(self, request: Request, answer: Answer, cost: float, seconds: float) -> Reply:
        text, finish, scores = answer.text, answer.finish, None
        if request.labels:
            if not answer.top:
                raise PlayerError("a content filter of the endpoint stopped the question", kind="endpoint")
            scores = answer.label_scores(request.labels)
            known = [n for n, value in enumerate(scores.logprobs) if not math.isnan(value)]
            text = request.labels[max(known, key=lambda n: scores.logprobs[n])] if known else text
            finish = "stop" if finish == "length" else finish
        return Reply(
            text=text,
            finish=finish,
            prompt_tokens=answer.usage.prompt or 0,
            completion_tokens=answer.usage.completion or 0,
            cached_tokens=answer.usage.cached,
            seconds=seconds,
            label_scores=scores,
            reasoning=answer.reasoning,
            reasoning_tokens=answer.usage.reasoning,
            cost=cost,
        )


def _reasons(reasoning: bool, effort: str | None) -> bool:
    """Whether the settings say that the model reasons before it answers."""
    return reasoning or effort not in (None, "none")


def _read_secrets(
    variable: str, headers: Mapping[str, str], base_url: str | None
) -> tuple[str, dict[str, str], list[str]]:
    """The key, headers as they are sent, and which of their values are secret.

    Raises:
        ValueError: a variable of the environment is missing; only an endpoint of one's own does without a key.
    """
    sent, secrets = read_headers(headers)
    if any(name.lower() == "authorization" for name in sent):
        return "", sent, secrets
    return read_key(variable, needed=base_url is None), sent, secrets
