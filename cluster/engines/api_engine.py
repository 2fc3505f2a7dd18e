"""What all engines behind a paid endpoint do alike: retries, limits, spending, and what an error means for the run.

An engine adds how a turn is written for its endpoint (``RequestFormat``) and how it is sent there (``Client``).
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import math
import random
import re
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn, Protocol

from cluster.engines.api_answer import Answer, Usage
from cluster.engines.api_errors import EndpointError
from cluster.engines.api_limited import EndpointClosedError, LimitedEndpoint
from cluster.engines.base import Account, Engine, EngineClosedError, EngineWaitsError, Request, SpendCapReachedError
from evals.types import PlayerError, PromptTooLong, Reply, message

FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
"""Seconds before the first retry, doubled each time up to the longest, unless the endpoint asks for another."""
OUTAGE_SECONDS = 600.0
"""How long an outage of the endpoint may last before the run stops; it can be resumed."""
QUIET_SECONDS = 30.0
"""A health check sends a request only if the endpoint has been silent for this long."""
UNREADABLE_REQUESTS = 10
"""Requests in a row that fail on unreadable answers before the run stops: more would only cost money."""


REFUSED_REQUESTS = 10
"""Requests that are refused in the same words, before any was answered, until the run stops: all would be."""


class RequestFormat(Protocol):
    """A turn as its endpoint wants it."""

    def body(self, request: Request) -> dict[str, Any]:
        """What is sent for one turn."""
        ...

    def most_tokens(self, request: Request) -> int:
        """Most tokens that the reply may have."""
        ...

    def parameter_names(self, body: Mapping[str, Any]) -> set[str]:
        """What the endpoint may not take of a request."""
        ...

    def lacks(self, request: Request) -> str:
        """What the endpoint cannot do for any such request, in words; empty where it can answer it."""
        ...


class ApiEngine(Engine):
    """Completes chats at one endpoint. A subclass's constructor checks its settings and calls ``_connect``."""

    metered: ClassVar[bool] = True
    starts_processes: ClassVar[bool] = False
    operational: ClassVar[frozenset[str]] = frozenset(
        {
            "api_key_env",
            "base_url",
            "cache_read_price",
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

    def _connect(self, form: RequestFormat, endpoint: LimitedEndpoint, max_num_seqs: int, max_tries: int) -> None:
        """Take what requests are written and sent with; nothing is sent yet.

        Raises:
            ValueError: a limit is below 1.
        """
        if max_num_seqs < 1 or max_tries < 1:
            raise ValueError(f"max_num_seqs={max_num_seqs}, max_tries={max_tries}: must be 1 at least")
        self.max_tries = max_tries
        self._most = max_num_seqs
        self._form = form
        self._endpoint = endpoint
        self._spend = endpoint.spend
        self._closed_as: type[EngineClosedError] = EngineClosedError
        self._answered = 0
        self._refused: Counter[str] = Counter()
        """How often requests were refused in which words (those with digits left out) before the first answer."""
        self._accepted: set[str] = set()
        """Names of what requests held that were answered."""
        self._scored = False
        """Whether label probabilities have been given."""
        self._silent_since = math.inf
        """When the endpoint began to give no answers."""
        self._unreadable = 0
        """Requests in a row that failed on unreadable answers."""
        self._probing = asyncio.Lock()

    @property
    def max_num_seqs(self) -> int:
        """Most requests at once."""
        return self._most

    def add_spent_elsewhere(self, total: float, highest: float = 0.0) -> None:
        """As ``Engine.add_spent_elsewhere``; a smaller total than the last one changes nothing."""
        self._spend.add_elsewhere(total, highest)

    async def settle(self, covered: int, seconds: float) -> Account:
        """As ``Engine.settle``; failed and abandoned tries are included, replies carry their part as ``cost``."""
        return await self._spend.settle(covered, seconds, closed=bool(self._endpoint.closed))

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
        """Send nothing more, and close connections."""
        self._close("the engine is closed")
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
        body = self._body(request)
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
                reply = self._reply(request, filtered, cost, time.monotonic() - start)
                return dataclasses.replace(reply, retries=attempt - 1)
            # An endpoint that gave probabilities before may have passed this request to a server that does not.
            if error.unscored and not self._scored:
                raise self._close(f"{error}; the suite asks for probabilities of labels, written answers need none")
            if error.meaning != "passing":
                self._refuse(error, body)
            # tries count while other requests are answered; when none is, the endpoint is at fault
            others_are_answered = self._answered > answered
            # a rate limit says nothing of the request, which may wait as long as an outage may last
            may_wait = error.status == 429 and time.monotonic() - start < OUTAGE_SECONDS
            failures += error.unreadable or (others_are_answered and not may_wait)
            if not error.unreadable and await self._fails_alone(error):
                failures = attempt
            answered = self._answered
            if failures >= self.max_tries:
                raise self._given_up(failures, error)
            await self._wait(attempt, error)
        raise AssertionError("unreachable")

    def _body(self, request: Request) -> dict[str, Any]:
        """The request's JSON.

        Raises:
            PlayerError: it cannot be made, as where the file of a picture is damaged.
        """
        try:
            return self._form.body(request)
        except (OSError, ValueError) as error:
            raise PlayerError(f"the request cannot be made: {type(error).__name__}: {error}", kind="suite") from error

    def _check(self, request: Request) -> None:
        """Refuse what the endpoint cannot do for any request."""
        lacking = self._form.lacks(request)
        if lacking:
            raise EngineClosedError(lacking)

    def _refuse(self, error: EndpointError, body: Mapping[str, Any]) -> NoReturn:
        """Raise what a refusal means to its request, or to all of them."""
        if error.goes_on:
            raise self._close(str(error), EngineWaitsError)
        if error.meaning == "lasting":
            raise self._close(f"the endpoint refuses all requests: {error}")
        if error.meaning == "too long":
            raise PromptTooLong(str(error))
        refused = error.named(self._form.parameter_names(body) - self._accepted)
        if refused:
            hint = ""
            if "max_completion_tokens" in error.words:
                hint = " (model.engine.reasoning=true sends max_completion_tokens)"
            raise self._close(f"the endpoint does not take {' and '.join(refused)}{hint}: {error}")
        if not self._answered:
            words = re.sub(r"\S*\d\S*", "", error.words)  # without numbers and ids of requests
            self._refused[words] += 1
            if self._refused[words] >= REFUSED_REQUESTS:
                raise self._close(
                    f"the endpoint has answered no request and refused {REFUSED_REQUESTS} in the same words: {error}"
                )
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
        self._accepted |= self._form.parameter_names(body)
        self._scored |= bool(request.labels)
        self._silent_since = math.inf
        return answer, price

    def _reply(self, request: Request, answer: Answer, cost: float, seconds: float) -> Reply:
        text, finish, scores = answer.text, answer.finish, None
        if request.labels:
            if not answer.top:
                raise PlayerError("a content filter of the endpoint stopped the question", kind="endpoint")
            scores = answer.label_scores(request.labels)
            known = [n for n, value in enumerate(scores.logprobs) if not math.isnan(value)]
            if known:
                text = request.labels[max(known, key=lambda n: scores.logprobs[n])]
            # A label is one token, so its length is no limit that it met.
            if finish == "length":
                finish = "stop"
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
