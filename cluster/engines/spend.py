"""What an API engine spends, kept under a cap that holds for the whole run."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


class SpendCapReachedError(Exception):
    """Nothing more may be paid for."""


class Spend:
    """What was spent, in the currency of the prices per million tokens, kept within one request's price of a cap."""

    def __init__(self, prompt_price: float = 0.0, completion_price: float = 0.0, cap: float | None = None) -> None:
        """``cap`` needs a price, without which it would never be reached.

        Raises:
            ValueError: a price is below 0, or the cap is not above it, or comes without prices.
        """
        if not (0 <= prompt_price < math.inf and 0 <= completion_price < math.inf):
            raise ValueError(
                f"prompt_price={prompt_price}, completion_price={completion_price}: must be numbers from 0 up"
            )
        if cap is not None and not cap > 0:
            raise ValueError(f"spend_cap={cap}: must be above 0; null is no cap")
        if cap is not None and prompt_price + completion_price == 0:
            raise ValueError(
                f"spend_cap={cap} would never be reached: give prompt_price and completion_price, per million tokens"
            )
        self.prompt_price = prompt_price
        self.completion_price = completion_price
        self.cap = math.inf if cap is None else cap
        self.spent = 0.0
        self._elsewhere = 0.0
        self._reserved: list[float] = []
        """Prices of requests that are out, as far as they can be foretold."""
        self._dearest = 0.0
        self._settled = asyncio.Condition()

    def price(self, prompt_tokens: int, completion_tokens: int) -> float:
        """What so many tokens cost."""
        return (prompt_tokens * self.prompt_price + completion_tokens * self.completion_price) / 1e6

    @property
    def total(self) -> float:
        """What the run has spent, as far as is known here."""
        return self.spent + self._elsewhere

    def add_elsewhere(self, total: float) -> None:
        """Count what the run has spent besides (in earlier sessions, through other engines) against the cap.

        Args:
            total: all of it until now; smaller than the last such total it changes nothing.

        Raises:
            ValueError: it is no amount of money.
        """
        if not 0 <= total < math.inf:
            raise ValueError(f"spent elsewhere: {total}: must be a number from 0 up")
        self._elsewhere = max(self._elsewhere, total)

    @asynccontextmanager
    async def payment(self, foretold: float) -> AsyncIterator[Payment]:
        """Wait until a request of the ``foretold`` price fits under the cap beside those that are out, and pay for it.

        A price that was foretold too low (of pictures, say) is corrected by the dearest request so far. The last request
        may exceed the cap, as it must be sent to be known.

        Raises:
            SpendCapReachedError: the cap is reached.
        """
        async with self._settled:
            await self._settled.wait_for(lambda: not self._reserved or self._fits(foretold) or self.total >= self.cap)
            if self.total >= self.cap:
                raise SpendCapReachedError(f"{self.total:.2f} of {self.cap:.2f}")
            reserved = max(foretold, self._dearest)
            self._reserved.append(reserved)
        payment = Payment()
        try:
            yield payment
        finally:
            async with self._settled:
                self._reserved.remove(reserved)
                self.spent += max(0.0, payment.price)
                self._dearest = max(self._dearest, payment.price)
                self._settled.notify_all()

    def _fits(self, foretold: float) -> bool:
        return self.total + sum(self._reserved) + max(foretold, self._dearest) <= self.cap


@dataclass
class Payment:
    """One request's price, noted by whoever sends it."""

    price: float = 0.0
