"""An endpoint asked within its limits: one try of a request, when concurrency, rates and budget allow it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any

from cluster.engines.api_answer import Answer, Usage, read_answer, read_usage
from cluster.engines.api_endpoint import Endpoint
from cluster.engines.api_errors import EndpointError
from cluster.engines.api_request import expected_tokens
from cluster.engines.base import Request
from cluster.engines.limits import AdaptiveConcurrency, PerMinute
from cluster.engines.prompt_bound import PromptBound
from cluster.engines.spend import Payment, Spend


class EndpointClosedError(Exception):
    """Nothing more is sent: see ``LimitedEndpoint.closed``."""


class LimitedEndpoint:
    """Sends one try of a request at a time through all limits, and pays for it."""

    def __init__(
        self, http: Endpoint, concurrency: AdaptiveConcurrency, requests: PerMinute, tokens: PerMinute, spend: Spend
    ) -> None:
        """Nothing is sent yet."""
        self.http = http
        self.concurrency = concurrency
        self.closed = ""
        """Why nothing more is sent, if so."""
        self._requests = requests
        self._tokens = tokens
        self.spend = spend
        """Counts what they cost against the cap."""
        self._bound = PromptBound()

    async def send(self, request: Request, body: Mapping[str, Any], most_completion: int) -> tuple[Answer, float]:
        """Ask once; returns the answer and its price.

        Args:
            request: the turn that is asked.
            body: what is sent for it.
            most_completion: most tokens that the reply may have.

        Raises:
            SpendCapReachedError, EndpointClosedError: nothing was sent, and nothing more will be.
            EndpointError: it failed; ``price`` says at what cost.
        """
        # money: the most that it can cost; rates: what is likely, since a provider counts what was used
        most = Usage(self._bound.most_tokens(request, body), most_completion)
        tokens = expected_tokens(request) + most_completion
        while True:
            async with self.concurrency.slot():
                await asyncio.sleep(max(self._requests.delay(1), self._tokens.delay(tokens)))
                async with self.spend.payment(self._price(most, most)) as payment:
                    if self.closed:
                        raise EndpointClosedError
                    if not self.concurrency.held:
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
        payment.price = self._price(most, most)  # stays so where the answer never comes or does not tell
        try:
            data = await self.http.complete(body)
            payment.price = self._price(read_usage(data), most)
            answer = read_answer(data, scored=bool(request.labels))
        except EndpointError as error:
            if error.stated is not None:
                payment.price = self._price(read_usage(error.stated, wrote=False), most)
            payment.price = error.price = payment.price if error.may_cost else 0.0
            raise
        payment.price = self._price(answer.usage, most)
        if answer.usage.prompt is not None:
            self._bound.learn(request, answer.usage.prompt)
        text, reasoning = self.http.redacted(answer.text), self.http.redacted(answer.reasoning)
        return dataclasses.replace(answer, text=text, reasoning=reasoning)

    def _price(self, usage: Usage, most: Usage) -> float:
        """What a request costs; tokens that are not told count with the most that they may be."""
        prompt = most.prompt if usage.prompt is None else usage.prompt
        completion = most.completion if usage.completion is None else usage.completion
        return self.spend.price(prompt or 0, completion or 0)
