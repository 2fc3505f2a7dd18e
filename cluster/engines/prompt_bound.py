"""The most tokens that a prompt can have, known before it is sent: what a spend cap reserves.

A tokenizer of bytes, as all providers' are, makes at most one token of each byte. What a picture costs follows rules that
differ by provider and model, but depends on its size only; so answers tell a bound for pictures of the same size.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from cluster.engines.base import Request
from envs.picture import Picture

PICTURE_TOKENS: Final = 50_000
"""More than any provider counts: gpt-4o-mini's 2,833 and 5,667 for each of at most eight tiles are 48,169."""
FRAME_TOKENS: Final = 16
"""More than a chat template writes around a message."""


class PromptBound:
    """Bounds prompts of one model."""

    def __init__(self) -> None:
        """Nothing is known of the model's pictures yet."""
        self._by_size: dict[tuple[int, int], int] = {}

    def most_tokens(self, request: Request, body: Mapping[str, Any]) -> int:
        """The most tokens that a request's prompt can have.

        Args:
            request: the turn that is asked.
            body: what is sent for it: instructions beside the chat, such as a schema, may become part of the prompt.
        """
        texts = [part for message in request.chat for part in message.parts if isinstance(part, str)]
        beside = {name: value for name, value in body.items() if not _is_chat(value)}
        thoughts = list[str]()
        for value in body.values():
            if _is_chat(value):
                thoughts += [json.dumps(each) for each in _thoughts(value)]
        words = sum(len(text.encode("utf-8", "replace")) for text in (*texts, *thoughts, json.dumps(beside)))
        pictures = sum(self._by_size.get(size, PICTURE_TOKENS) * count for size, count in _sizes(request).items())
        return words + FRAME_TOKENS * len(request.chat) + pictures

    def learn(self, request: Request, prompt_tokens: int) -> None:
        """Take what a prompt had in truth: all of it is more than its pictures of one size."""
        for size, count in _sizes(request).items():
            self._by_size[size] = min(self._by_size.get(size, PICTURE_TOKENS), -(-prompt_tokens // count))


def _is_chat(value: Any) -> bool:
    """Whether a field of a body holds messages, whatever the provider calls it."""
    if not isinstance(value, list) or not value:
        return False
    return isinstance(value[0], dict) and "role" in value[0]


def _thoughts(messages: list[Any]) -> list[Any]:
    """Earlier replies that are sent back with more than their words."""
    found = []
    for each in messages:
        if each.get("role") in ("system", "user"):
            continue
        has_further_fields = each.keys() > {"role", "content"}
        if has_further_fields or not isinstance(each.get("content"), str):
            found.append(each)
    return found


def _sizes(request: Request) -> Counter[tuple[int, int]]:
    """How many pictures of each size (pixels) a request holds."""
    parts = (part for message in request.chat for part in message.parts)
    return Counter(part.size for part in parts if isinstance(part, Picture))
