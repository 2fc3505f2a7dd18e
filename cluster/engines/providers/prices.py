"""What closed models cost: the table ``prices.yaml``, and the price of one answer by what it used."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.engines.api_answer import Usage
from cluster.engines.providers.price_table import PriceTable, Row, RowWithLong, read_price_table

NAMES = ("prompt_price", "completion_price", "cache_read_price", "cache_write_price")
"""Settings of an engine that are prices; null takes that of the table."""


@dataclass(frozen=True)
class Prices:
    """Per million tokens, as they are paid: in a batch, those of a batch."""

    prompt: float = 0.0
    completion: float = 0.0
    """Reasoning included."""
    cache_read: float = 0.0
    cache_write: float = 0.0
    above: int = 0
    """Prompts of more tokens are paid by ``long``; 0 where there is no such limit."""
    long: Prices | None = None

    def of(self, usage: Usage) -> float:
        """The price of one answer. Tokens read from the cache or written into it are among those of the prompt."""
        prompt = usage.prompt or 0
        if self.long is not None and prompt > self.above:
            return self.long.of(usage)
        plain = prompt - usage.cached - usage.written
        paid = plain * self.prompt + usage.cached * self.cache_read + usage.written * self.cache_write
        return (paid + (usage.completion or 0) * self.completion) / 1e6


@functools.cache
def table() -> PriceTable:
    """``prices.yaml``.

    Raises:
        FileError: see ``read_price_table``.
    """
    return read_price_table(Path(__file__).with_name("prices.yaml"))


def listed(provider: str, model: str) -> RowWithLong | None:
    """A model's row of the table, also for a dated name of it (``gpt-5.4-2026-03-05``); None where it is not listed."""
    section = table().providers.get(provider)
    if section is None:
        return None
    undated = re.sub(r"-(?:\d{8}|\d{4}-\d\d-\d\d)$", "", model)
    return section.models.get(model) or section.models.get(undated)


def prices_for(provider: str, settings: Mapping[str, Any]) -> Prices:
    """The prices of an engine: those that its settings give, else those of the table; 0 where neither knows any.

    Args:
        provider: a section of the table.
        settings: the ``model.engine`` section.
    """
    row = listed(provider, str(settings.get("model")))
    hour = settings.get("cache") == "1h"
    discount = 1.0
    if row is not None and settings.get("batch"):
        discount = table().providers[provider].batch
    given = {}
    for name in NAMES:
        if settings.get(name) is not None:
            given[name] = float(settings[name])
    found = _prices(row, given, hour, discount)
    if row is None or row.long is None:
        return found
    # Prices by hand hold for prompts of any length; stored runs repeat those of the table.
    if found != _prices(row, {}, hour, discount):
        return found
    long = _prices(row.long, {}, hour, discount)
    return Prices(found.prompt, found.completion, found.cache_read, found.cache_write, row.long.above, long)


def _prices(row: Row | None, given: Mapping[str, float], hour: bool, discount: float) -> Prices:
    """The four prices; where a cache has none of its own, its tokens cost as much as others of the prompt."""
    row = row or Row(prompt=0, completion=0)
    prompt = given.get("prompt_price", row.prompt * discount)
    completion = given.get("completion_price", row.completion * discount)
    cache_read = cache_write = prompt
    # Beside a prompt's price by hand, the table's prices of caches do not hold.
    if "prompt_price" not in given:
        if row.cache_read is not None:
            cache_read = row.cache_read * discount
        written = row.cache_write
        if hour and row.cache_write_1h is not None:
            written = row.cache_write_1h
        if written is not None:
            cache_write = written * discount
    return Prices(
        prompt,
        completion,
        given.get("cache_read_price", cache_read),
        given.get("cache_write_price", cache_write),
    )
