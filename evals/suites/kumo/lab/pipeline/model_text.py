"""Text that a model wrote, read as plain data: YAML or JSON within bounds, nothing ever executed or constructed by name."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import yaml

from envs.kumo.domain_file import UniqueKeysLoader
from evals.printable import printable

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
    try:
        return _read_json(body) if body.lstrip()[0] in "{[" else _read_yaml(body)
    except NotDataError:
        raise
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise NotDataError(f"the reply cannot be read as data: {brief(str(error) or type(error).__name__)}") from None


def _read_json(text: str) -> Any:
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError:
        return _read_yaml(text)  # a flow mapping of YAML begins alike
    _check_bounds(value)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise NotDataError(f"key {key!r} occurs twice")
        found[key] = value
    return found


def _check_bounds(value: Any) -> None:
    nodes, level = 0, [value]
    for _ in range(DEEPEST + 1):
        nodes += len(level)
        if nodes > MOST_NODES:
            raise NotDataError(f"more than {MOST_NODES:,} values")
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise NotDataError(f"nested deeper than {DEEPEST} levels")


def _read_yaml(text: str) -> Any:
    """Looks through the events first, so that nothing large or unwanted is ever built."""
    depth = nodes = 0
    for event in yaml.parse(text, UniqueKeysLoader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise NotDataError("anchors and aliases (& and *) are not allowed; put such text in quotes")
        if getattr(event, "tag", None):
            raise NotDataError("tags (!) are not allowed; put such text in quotes")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        nodes += isinstance(event, yaml.NodeEvent)
        if depth > DEEPEST:
            raise NotDataError(f"nested deeper than {DEEPEST} levels")
        if nodes > MOST_NODES:
            raise NotDataError(f"more than {MOST_NODES:,} values")
    return yaml.load(text, UniqueKeysLoader)


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
