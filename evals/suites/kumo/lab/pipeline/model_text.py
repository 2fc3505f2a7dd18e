"""Text that a model wrote, read as plain data: YAML or JSON within bounds, nothing ever executed or constructed by name."""

from __future__ import annotations

import contextlib
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from envs.files import Bounds, FileError, parse_json, parse_yaml
from envs.printable import printable

MOST_CHARACTERS = 300_000
"""Of a reply that is looked at: five times a large domain."""
DEEPEST = 8
"""Levels of nesting; a domain file has six."""
MOST_NODES = 30_000

_FENCE = re.compile(r"^```[\w-]*[ \t]*\n(.*?)(?:^```[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories without a visible character: controls, marks of writing direction, surrogates, private use."""


class NotDataError(ValueError):
    """A reply that is not YAML or JSON within the bounds; the message says why, for the model."""


def read_data(text: str) -> Any:
    """The value that a reply holds: its longest fenced block, or all of it.

    Raises:
        NotDataError: it is too long, too deep, not YAML or JSON, repeats a key, or uses anchors, aliases or tags.
    """
    if len(text) > MOST_CHARACTERS:
        raise NotDataError(f"the reply has {len(text):,} characters, where {MOST_CHARACTERS:,} are allowed")
    blocks = [match[1] for match in _FENCE.finditer(text)]
    body = max(blocks, key=len) if blocks else text
    if not body.strip():
        raise NotDataError("the reply is empty")
    bounds = Bounds(MOST_CHARACTERS, DEEPEST, MOST_NODES)
    if body.lstrip().startswith(("{", "[")):
        # What is no JSON may still be YAML, whose flow mappings begin alike.
        with contextlib.suppress(FileError):
            return parse_json(body, "the reply", bounds)
    try:
        return parse_yaml(body, "the reply", bounds, plain=True)
    except FileError as error:
        raise NotDataError(brief(str(error))) from None


def hidden_character(text: str) -> str:
    """The first character that a reader cannot see, escaped; empty if there is none. Line feeds count as seen."""
    for character in text:
        if character != "\n" and unicodedata.category(character) in _HIDDEN:
            return character.encode("unicode_escape").decode()
    return ""


def hidden_in(value: Any) -> str:
    """The first hidden character in any text within a value (as ``read_data`` returns it), keys included."""
    if isinstance(value, str):
        return hidden_character(value)
    items: Sequence[Any] = ()
    if isinstance(value, dict):
        items = [*value.keys(), *value.values()]
    elif isinstance(value, list):
        items = value
    return next(filter(None, map(hidden_in, items)), "")


def brief(text: str, most: int = 300) -> str:
    """A text on one line, cut and made safe to show."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= most else f"{line[:most]}…"
