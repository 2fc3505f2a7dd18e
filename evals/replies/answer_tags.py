"""What all suites do alike with the text of a reply before they look for its answer."""

from __future__ import annotations

import json
import re
from typing import Any, Final

_CLOSING: Final = re.compile(r"(<\s*(answer)\s*>[^<>]*)<\s*/\s*(?:a|an|ans|answ|answe|answer)?\s*$", re.IGNORECASE)
_FIELDS: Final = re.compile(
    r".*answer.*|(?:final|next|my)?_?(?:prediction|predict|choice|decision|action|test|conclusion|diagnosis|final)",
    re.IGNORECASE,
)

_OTHER_SIDE: Final = re.compile(r"(?:\n|\A)\W{0,4}(?:human|user|player)\s{0,3}:", re.IGNORECASE)
_ASSISTANT: Final = re.compile(r"\n\W{0,4}(?:assistant|ai|model)\s{0,3}:", re.IGNORECASE)


def closed(text: str) -> str:
    """The text with its last answer tag closed, if the reply ended within the closing tag: ``<answer>B</ans``."""
    return _CLOSING.sub(r"\1</\2>", text)


def own_turn(text: str) -> str | None:
    """What a reply says before it makes up a turn of the other side; None if it then answers a second time."""
    parts = _OTHER_SIDE.split(text, maxsplit=1)
    return parts[0] if len(parts) == 1 or not _ASSISTANT.search(parts[1]) else None


def json_answers(text: str) -> list[str]:
    """The texts in fields of a flat JSON object, at the end of a reply, that are called answers, choices, predictions or so."""
    match = re.search(r"(\{[^{}]*\})[\s`]*$", text)
    try:
        fields: Any = json.loads(match[1]) if match else {}
    except ValueError:
        return []
    return [value for key, value in fields.items() if _FIELDS.fullmatch(key) and isinstance(value, str)]
