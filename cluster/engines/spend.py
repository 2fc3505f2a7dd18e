"""Spending of an API engine, limited by a cap for the whole run."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Interval

from cluster.concurrency import within
from cluster.engines.base import Account, SpendCapReachedError
from evals.summary.cost import HIGHEST_PRICE, money

Price = Annotated[float, Interval(ge=0, le=HIGHEST_PRICE)]
"""Of a million tokens, as a setting."""

UNTIL_BILLED = 100.0
"""By how much an endpoint may bill above the most that a request costs, before the first bill shows what it does."""


class Spend:
    """Spending in the currency of the prices (per million tokens), kept within one request's price of a cap."""

    def __init__(
        self,
        prompt_price: float = 0.0,
        completion_price: float = 0.0,
        cap: float | None = None,
        cost_is_told: bool = False,
        until_billed: float = UNTIL_BILLED,
    ) -> None:
        """Nothing is spent yet.

        Args:
            prompt_price: Of a million tokens.
            completion_price: Of a million tokens.
            cap: Needs a price, without which it would never be reached, unless ``cost_is_told``.
            cost_is_told: Whether the endpoint tells each request's cost.
            until_billed: Until the first bill, so many times what requests may cost has to fit under the cap.

        Raises:
            ValueError: a price is below 0, or the cap is not above it, or comes without prices.
        """
        if not (0 <= prompt_price <= HIGHEST_PRICE and 0 <= completion_price <= HIGHEST_PRICE):
            raise ValueError(
                f"prompt_price={prompt_price}, completion_price={completion_price}: must be from 0 to {HIGHEST_PRICE:g}"
            )
        if cap is not None and not cap > 0:
            raise ValueError(f"spend_cap={cap}: must be above 0; null is no cap")
        if cap is not None and prompt_price + completion_price == 0 and not cost_is_told:
            raise ValueError(
                f"spend_cap={cap} would never be reached: give prompt_price and completion_price, per million tokens"
            )
        self.prompt_price = prompt_price
        self.completion_price = completion_price
        self.cap = math.inf if cap is None else cap
        self.spent = 0.0
        self._counted_before = 0.0
        """What earlier sessions counted for requests that this one has settled."""
        self._elsewhere = 0.0
        self._reserved: dict[int, Payment] = {}
        """Requests in flight, by their numbers."""
        self._unsent: set[int] = set()
        """Numbers of those that wait until they are covered."""
        self._number = 0
        """Of the latest request."""
        self._covered = math.inf
        """Requests up to this number may be sent: what they may cost is on disk. All, where nobody keeps a journal."""
        self._highest = 0.0
        self.unpriced = cost_is_told and prompt_price + completion_price == 0
        """Whether only answers tell what requests cost."""
        self._until_billed = until_billed
        self._told = False
        """Whether one has told what it costs, or an earlier session knew it."""
        self._untold = False
        """Whether one has not."""
        self._changed = asyncio.Condition()

    def price(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The price of a number of tokens."""
        return (prompt_tokens * self.prompt_price + completion_tokens * self.completion_price) / 1e6

    @property
    def total(self) -> float:
        """Spending of the run, as far as this engine knows."""
        return self.spent + self._elsewhere

    def add_elsewhere(self, total: float, highest: float = 0.0) -> None:
        """Count the run's other spending (in earlier sessions, by other engines) against the cap.

        Args:
            total: its sum so far; smaller than the last one, it changes nothing.
            highest: price of its most expensive request.

        Raises:
            ValueError: it is negative or not finite.
        """
        if not 0 <= total < math.inf:
            raise ValueError(f"spent elsewhere: {total}: must be a number from 0 up")
        self._elsewhere = max(self._elsewhere, total)
        self._reserve_at_least(highest)
        self._told |= highest > 0

    async def settle(self, covered: int, seconds: float, closed: bool = False) -> Account:
        """Allow requests up to number ``covered`` to be sent, and none later; see ``Engine.settle``.

        Those that wait are in flight unless the engine is ``closed``: it will not send them.
        """
        async with self._changed:
            self._covered = covered
            self._changed.notify_all()
            with contextlib.suppress(TimeoutError):
                await within(
                    seconds, self._changed.wait_for(lambda: any(number > covered for number in self._reserved))
                )
            owed = self._reserved.keys() - self._unsent if closed else self._reserved.keys()
            in_flight = sum(self._reserved[number].most for number in owed)
            return Account(self.spent, in_flight, self._highest, self._number, self._counted_before)

    @asynccontextmanager
    async def payment(self, most: float, counted: float | None = None, noted: bool = False) -> AsyncIterator[Payment]:
        """Wait until a request that costs ``most`` at most fits under the cap with those in flight, and reserve that price.

        Where the driver keeps a journal, also wait until the reservation is on disk (``settle``).

        At least the price of the most expensive request so far is reserved, in case an endpoint bills more than it says; also
        for requests that are in flight already. A request that nobody told the price of counts with what is reserved for it.
        While no price is known, a request may cost all that is left, so the first one is in flight alone. Until the
        first bill confirms the given prices (``until_billed``), few are in flight where the cap is small.
        A request that is in flight alone may cost more than is left: most cost far less than they could, and a cap that is
        nearly reached would else stop the run too early.

        Args:
            most: The most that the request can cost.
            counted: What has been counted for it already, if it was sent before; nothing is reserved then, and what it did
                cost takes the place of that.
            noted: Whether the caller writes down what is reserved, for a later session to give it as ``counted``: it is not
                raised then.

        Raises:
            SpendCapReachedError: the cap is reached.
        """
        if counted is not None:
            again = Payment(counted, most=counted)
            try:
                yield again
            finally:
                price = again.price if again.priced else counted
                self.spent += max(0.0, price) - counted
                self._counted_before += counted
            return
        number = await self._reserve(most, noted)
        payment = self._reserved[number]
        try:
            async with self._changed:
                self._unsent.add(number)
                # a free request owes nothing, whatever becomes of it
                await self._changed.wait_for(lambda: number <= self._covered or not payment.most)
                self._unsent.discard(number)
            yield payment
        finally:
            async with self._changed:
                del self._reserved[number]
                self._unsent.discard(number)
                price = payment.price if payment.priced else max(payment.price, payment.most)
                self.spent += max(0.0, price)
                self._reserve_at_least(price)
                self._told |= payment.told is not False and price > 0
                self._untold |= payment.told is False
                self._changed.notify_all()

    def _cap_reached(self) -> SpendCapReachedError:
        amounts = f"{money(self.total)} of {money(self.cap)}"
        hint = ""
        if self.unpriced and self._untold:
            hint = "; an answer did not say what it cost: set model.engine.prompt_price and completion_price"
        return SpendCapReachedError(f"the spend cap is reached: {amounts} (model.engine.spend_cap){hint}")

    async def _reserve(self, most: float, noted: bool) -> int:
        """Wait until a request fits under the cap, and note what it may cost; returns its number."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._reserved or self._fits(most) or self.total >= self.cap)
            if self.total >= self.cap:
                raise self._cap_reached()
            self._number += 1
            self._reserved[self._number] = Payment(most=self._most(most), noted=noted)
            self._changed.notify_all()
            return self._number

    def _fits(self, most: float) -> bool:
        in_flight = sum(max(payment.most, self._highest) for payment in self._reserved.values())
        doubt = 1.0 if self._told else self._until_billed
        return self.total + doubt * (in_flight + self._most(most)) <= self.cap

    def _reserve_at_least(self, price: float) -> None:
        """From now on reserve what a request did cost, for those in flight, too: they may be billed in the same way."""
        self._highest = max(self._highest, price)
        for payment in self._reserved.values():
            if not payment.noted:
                payment.most = max(payment.most, self._highest)

    def _most(self, most: float) -> float:
        """What is reserved for a request that can cost ``most`` by the prices that are known."""
        if self.unpriced and not self._told and self.cap < math.inf:
            return self.cap - self.total
        return max(most, self._highest)


@dataclass
class Payment:
    """The actual price of one request, set by the caller."""

    price: float = 0.0
    most: float = 0.0
    """What is reserved for it."""
    noted: bool = False
    """Whether the caller has written that down, so that it stays."""
    priced: bool = True
    """Whether the price is known; until then, what is reserved counts."""
    told: bool | None = None
    """Whether the endpoint said what it cost, or what it used; None where the caller knows."""
