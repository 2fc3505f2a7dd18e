"""Sends the beginning that prompts share on its own, once, before the prompts: a hybrid model then stores its state there.

vLLM stores a state at the end of a whole block and at the end of a prompt, but not where prompts part within a block. A prompt
that ends there makes it do so. Nothing that is asked changes, only what is computed twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from cluster.prefix_cache.predict import HybridCache, prefixes

logger = logging.getLogger(__name__)

MOST_PREFIXES = 2_000_000
"""Prefixes to remember; with more, all are forgotten."""
PROMPTS_WITHOUT_HITS = 100
"""After so many without any, somebody should know."""

Prompt = Mapping[str, Any]
"""vLLM's input: ``prompt_token_ids``, and for pictures ``mm_kwargs``, ``mm_hashes`` and ``mm_placeholders``."""


class SharedBeginnings:
    """Knows the prompts of one engine."""

    def __init__(self, block: int, unit: int | None, step: int) -> None:
        """As ``HybridCache``."""
        self._settings = (block, unit, step)
        self._cache = HybridCache(*self._settings)
        self._under_way: dict[int, asyncio.Future[Any]] = {}

    async def store(self, prompt: Prompt, send: Callable[[Prompt], Awaitable[Any]]) -> None:
        """Before a prompt is asked: have the state stored at the end of what it shares, if none is there.

        Prompts that share the same wait for one.

        Args:
            prompt: As vLLM takes it.
            send: Asks the engine for one token after a prompt.
        """
        if self._cache.size > MOST_PREFIXES:
            self._cache = HybridCache(*self._settings)
        tokens = tokens_of(prompt)
        end = self._cache.missing(tokens, before=pictures_of(prompt))
        self._cache.ask(tokens)
        if not end:
            return
        name = prefixes(tokens[:end], self._cache.unit)[-1]
        if name not in self._under_way:
            self._cache.ask([*tokens[:end], tokens[0]])
            self._under_way[name] = asyncio.ensure_future(send(beginning_of(prompt, end)))
            self._under_way[name].add_done_callback(lambda _: self._under_way.pop(name))
        with suppress(Exception):  # of the engine; it will meet the prompt itself in the same state
            await asyncio.shield(self._under_way[name])


def tokens_of(prompt: Prompt) -> list[int]:
    """Token ids, a picture's first one replaced by what tells it from other pictures."""
    tokens = list(prompt["prompt_token_ids"])
    for kind, places in prompt.get("mm_placeholders", {}).items():
        for place, name in zip(places, prompt["mm_hashes"][kind], strict=True):
            tokens[place.offset] = hash(name)
    return tokens


def pictures_of(prompt: Prompt) -> list[range]:
    """Where pictures stand among the tokens."""
    found = []
    for places in prompt.get("mm_placeholders", {}).values():
        found += [range(place.offset, place.offset + place.length) for place in places]
    return found


def beginning_of(prompt: Prompt, length: int) -> dict[str, Any]:
    """The first tokens of a prompt, with the pictures among them, none of which may be cut, and one more.

    A state is stored before the last token of a prompt, so there is one, of no meaning.
    """
    ids = prompt["prompt_token_ids"]
    short = {**prompt, "prompt_token_ids": [*ids[:length], ids[0]]}
    if "mm_placeholders" not in prompt:
        return short
    # How many pictures of each kind end before the cut.
    kept = {}
    for kind, places in prompt["mm_placeholders"].items():
        kept[kind] = sum(place.offset + place.length <= length for place in places)
    for key in ("mm_placeholders", "mm_hashes", "mm_kwargs"):
        by_kind = prompt[key]
        first = {kind: by_kind[kind][: kept[kind]] for kind in by_kind if kept.get(kind)}
        short[key] = type(by_kind)(first)
    return short


class HitWatch:
    """Warns once if prompts go by and the prefix cache serves none of them."""

    def __init__(self, block: int, *, hybrid: bool) -> None:
        """``block`` is the cache's, in tokens."""
        self._block, self._hybrid = block, hybrid
        self._prompts = self._tokens = 0

    def saw(self, prompt_tokens: int, cached: int) -> None:
        """Note one prompt."""
        if cached or self._prompts > PROMPTS_WITHOUT_HITS:
            self._prompts = PROMPTS_WITHOUT_HITS + 1
            return
        self._prompts += 1
        self._tokens += prompt_tokens
        if self._prompts < PROMPTS_WITHOUT_HITS:
            return
        self._prompts += 1
        remedy = ""
        if self._hybrid:
            remedy = "; try model.engine.vllm.prefix_match_unit=32 with model.engine.shared_beginnings=true"
        logger.warning(
            "the prefix cache served none of %d prompts of %d tokens on average; its blocks have %d%s",
            PROMPTS_WITHOUT_HITS,
            self._tokens // PROMPTS_WITHOUT_HITS,
            self._block,
            remedy,
        )
