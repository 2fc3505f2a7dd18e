"""What the errors of an OpenAI-compatible endpoint say: whom they concern, what they ask for, and that without the key."""

from __future__ import annotations

import email.utils
import math
import re
import time
from collections.abc import Collection, Mapping

import openai

PASSING = frozenset({408, 409, 425, 429})
"""Refusals that pass, as do all from 500 on."""
LASTING = frozenset({401, 402, 403, 404})
"""Refusals of the key, the account or the model: every request would be refused so."""
NO_MONEY = ("insufficient_quota", "insufficient balance", "billing_hard_limit", "billing_not_active", "credit balance")
"""What endpoints say, whatever the status, when nothing is left to pay with."""


def words_of(error: openai.APIError) -> str:
    """All that an error says; the client's own text leaves out codes, and bodies of another form than its endpoint's."""
    known = isinstance(error.body, dict) and "message" in error.body
    more = (error.code, error.type) if known else (error.body,)
    return " ".join(str(word) for word in (error, *more) if word)


def named_in(error: openai.APIError, names: Collection[str]) -> list[str]:
    """Which parameters a refusal is about: names that are English words count in quotation marks or before a colon."""
    words = words_of(error)
    return [
        name
        for name in sorted(names)
        if name == error.param
        or ("_" in name and name in words)
        or (name != "model" and re.search(rf"""['"`]{name}['"`]|\b{name}: """, words))
    ]


def asked_seconds(error: Exception) -> float:
    """Seconds to wait that a refusal asks for (``retry-after-ms``, or ``retry-after`` in seconds or as a date), else 0."""
    response = getattr(error, "response", None)
    headers: Mapping[str, str] = response.headers if response is not None else {}
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        return max(0.0, seconds) if math.isfinite(seconds) else 0.0
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return 0.0
    return max(0.0, date.timestamp() - time.time())


def without_key(text: str, key: str) -> str:
    """``text`` with stars for every run of six characters of the key, and for its last four."""
    hidden: set[int] = set()
    for piece in {key[start : start + 6] for start in range(len(key) - 5)} | ({key[-4:]} if len(key) >= 4 else set()):
        for found in re.finditer(re.escape(piece), text):
            hidden.update(range(*found.span()))
    return "".join("*" if position in hidden else sign for position, sign in enumerate(text))


def whole(text: str) -> str:
    """``text`` without halves of surrogate pairs, which no UTF-8 file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
