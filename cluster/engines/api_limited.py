"""An endpoint asked within its limits: one try of a request, when concurrency, rates and budget allow it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from cluster.engines.api_answer import Answer, Usage, read_answer, read_usage
from cluster.engines.api_errors import EndpointError
from cluster.engines.api_request import expected_tokens
from cluster.engines.base import Request
from cluster.engines.limits import AdaptiveConcurrency, PerMinute
from cluster.engines.prompt_bound import PromptBound
from cluster.engines.spend import Payment, Spend


class EndpointClosedError(Exception):
    """Nothing more is sent: see ``LimitedEndpoint.closed``."""


class Connection(Protocol):
    """The way to an endpoint (``cluster.engines.api_endpoint.Endpoint``, or a provider's own client)."""

    base_url: str

    @property
    def silent_seconds(self) -> float:
        """Since the endpoint last answered anything but that it is out of order."""
        ...

    async def complete(self, body: Mapping[str, Any], name: str = "") -> Any:
        """The JSON that answers a request; ``name`` is that of the turn (``Request.id``).

        Raises:
            EndpointError: there is none.
        """
        ...

    @property
    def notes_reserved(self) -> bool:
        """Whether ``note_reserved`` does anything."""
        ...

    def counted_before(self, body: Mapping[str, Any], name: str = "") -> float | None:
        """What of the run's spending is for this very request, if it was sent before."""
        ...

    def note_reserved(self, body: Mapping[str, Any], name: str, most: float) -> None:
        """Note what the run's spending holds for a request that is about to be sent, until its price is known."""
        ...

    def note_price(self, body: Mapping[str, Any], name: str, price: float, failed: bool = False) -> None:
        """Note the price of a request that was answered, before it is counted; after a ``failed`` one it is sent again."""
        ...

    async def check(self) -> None:
        """See that the endpoint is there, at no cost.

        Raises:
            EndpointError: it is not, or refuses the key.
        """
        ...

    def redacted(self, text: str) -> str:
        """What a model wrote, without the secrets that the endpoint may have repeated in it."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


def read_error_usage(data: Any) -> Usage:
    """Tokens that an error of a chat completions endpoint says were used; there need be no reply."""
    return read_usage(data, wrote=False)


@dataclasses.dataclass(frozen=True)
class Reading:
    """How the JSON of an endpoint is read; that of chat completions by default."""

    answer: Callable[[Any, bool], Answer] = read_answer
    usage: Callable[[Any], Usage] = read_usage
    """Of an answer, read or not."""
    error_usage: Callable[[Any], Usage] = read_error_usage
    """Of an error that says what it used."""


CHAT_COMPLETIONS = Reading()


class LimitedEndpoint:
    """Sends one try of a request at a time through all limits, and pays for it."""

    def __init__(
        self,
        http: Connection,
        concurrency: AdaptiveConcurrency,
        requests: PerMinute,
        tokens: PerMinute,
        spend: Spend,
        reading: Reading = CHAT_COMPLETIONS,
        price: Callable[[Usage], float] | None = None,
    ) -> None:
        """Nothing is sent yet.

        Args:
            http: the way there.
            concurrency: limit of requests at once.
            requests: limit of requests per minute.
            tokens: limit of tokens per minute.
            spend: counts what they cost against the cap.
            reading: how answers and what they used are read from JSON.
            price: of an answer by its usage; that of ``spend`` by default, which has no prices of caches.
        """
        self.http = http
        self.concurrency = concurrency
        self.closed = ""
        """Why nothing more is sent, if so."""
        self._requests = requests
        self._tokens = tokens
        self.spend = spend
        self._bound = PromptBound()
        self._reading = reading
        self._price_of = price or self._price_without_cache

    async def send(self, request: Request, body: Mapping[str, Any], most_completion: int) -> tuple[Answer, float]:
        """Ask once; returns the answer and its price.

        Args:
            request: the turn that is asked.
            body: what is sent for it.
            most_completion: most tokens that the reply may have.

        Raises:
            SpendCapReachedError, EndpointClosedError: nothing was sent, and nothing more will be; be it that no minute has
                tokens enough for the request.
            EndpointError: it failed; ``price`` says at what cost.
        """
        # money: the most that it can cost; rates: what is likely, since a provider counts what was used
        most = Usage(self._bound.most_tokens(request, body), most_completion)
        most_price = self._most_price(most)
        tokens = expected_tokens(request) + most_completion
        budget = self._tokens.budget
        if budget is not None and tokens > budget:
            self.closed = self.closed or (
                f"model.engine.tokens_per_minute={budget:g}: a request needs {tokens:,} tokens, {most_completion:,} of them "
                "for its reply, so no minute has enough; set a higher limit, or a lower model.sampling.max_tokens"
            )
            raise EndpointClosedError
        while True:
            async with self.concurrency.slot():
                await asyncio.sleep(max(self._requests.delay(1), self._tokens.delay(tokens)))
                counted = self.http.counted_before(body, request.id)
                async with self.spend.payment(most_price, counted, self.http.notes_reserved) as payment:
                    if self.closed:
                        raise EndpointClosedError
                    if not self.concurrency.held:
                        if counted is None:
                            self.http.note_reserved(body, request.id, payment.most)
                        answer = await self._try(request, body, payment, most)
                        used = answer.usage
                        if used.prompt is not None and used.completion is not None:
                            self._tokens.correct(used.prompt + used.completion - tokens)
                        self.concurrency.success()
                        return answer, payment.price
            self._requests.correct(-1)
            self._tokens.correct(-tokens)

    async def _try(self, request: Request, body: Mapping[str, Any], payment: Payment, most: Usage) -> Answer:
        """Send a request and read what comes back, and note what that costs."""
        payment.price = self._price(Usage(), most, payment)  # stays so where the answer never comes or does not tell
        payment.priced = False
        was_answered = False
        try:
            data = await self.http.complete(body, request.id)
            was_answered = True
            payment.price = self._price(self._reading.usage(data), most, payment)
            payment.priced = True
            answer = self._reading.answer(data, bool(request.labels))
        except EndpointError as error:
            if error.stated is not None:
                payment.price = self._price(self._reading.error_usage(error.stated), most, payment)
            elif not was_answered:
                payment.price = payment.most
            payment.priced = True
            payment.price = error.price = payment.price if error.may_cost else 0.0
            if was_answered:
                # What a filter stopped stays the answer of its turn; all else is asked again.
                self.http.note_price(body, request.id, payment.price, failed=error.meaning != "filtered")
            raise
        payment.price = self._price(answer.usage, most, payment)
        if answer.usage.prompt is not None:
            self._bound.learn(request, answer.usage.prompt)
        self.http.note_price(body, request.id, payment.price)
        text, reasoning = self.http.redacted(answer.text), self.http.redacted(answer.reasoning)
        return dataclasses.replace(answer, text=text, reasoning=reasoning)

    def _price_without_cache(self, usage: Usage) -> float:
        """What ``spend`` says, whose prices tell nothing of caches."""
        return self.spend.price(usage.prompt or 0, usage.completion or 0)

    def _most_price(self, most: Usage) -> float:
        """The most that a request may cost, be its prompt written into a cache or not."""
        return max(self._price_of(most), self._price_of(dataclasses.replace(most, written=most.prompt or 0)))

    def _price(self, usage: Usage, most: Usage, payment: Payment) -> float:
        """What a request costs; tokens that are not told count with the most that they may be."""
        # The endpoint says the price itself.
        if usage.cost is not None:
            payment.told = True
            return usage.cost
        # Only the endpoint knows its prices, and tells none this time: what was reserved counts.
        if self.spend.unpriced:
            payment.told = False
            return payment.most
        # Prices are known, but the answer tells no tokens.
        payment.told = usage != Usage()
        if not payment.told:
            return self._most_price(most)
        # It may tell only some of them.
        prompt = most.prompt if usage.prompt is None else usage.prompt
        completion = most.completion if usage.completion is None else usage.completion
        return self._price_of(dataclasses.replace(usage, prompt=prompt, completion=completion))
