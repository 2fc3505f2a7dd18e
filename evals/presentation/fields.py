"""Templates of a user: texts with ``$fields``, checked by name when they are read, and filled with texts and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Template

from envs.picture import Picture
from evals.presentation.parts import joined
from evals.types import Part

Value = str | Picture | Sequence[Part]


def filled(source: str, values: Mapping[str, Value]) -> tuple[Part, ...]:
    """A template with its fields filled in: texts, and pictures where a field's value holds some."""
    position = 0
    parts: list[Part] = []
    for match in Template.pattern.finditer(source):
        value: Value = "$" if match["escaped"] else values[match["named"] or match["braced"]]
        parts += [source[position : match.start()], *([value] if isinstance(value, str | Picture) else value)]
        position = match.end()
    return joined([*parts, source[position:]])


def check_fields(file: str, text: str, required: frozenset[str], optional: frozenset[str]) -> None:
    """Check that a template has the fields that it must have, and no other than those that it may have.

    Raises:
        ValueError: it has not, or is empty, or has a lone dollar sign; the message names file, line and field.
    """
    known = ", ".join(f"${name}" for name in sorted(required | optional)) or "none"
    if not text:
        raise ValueError(f"template {file} is empty")
    found = _fields_of(file, text)
    for name in sorted(required - found):
        raise ValueError(f"template {file} lacks the field ${name}; its fields are {known}")
    for name in sorted(found - required - optional):
        raise ValueError(f"template {file} has a field ${name} that nothing fills; its fields are {known}")


def _fields_of(file: str, text: str) -> set[str]:
    """The names of a template's fields; a lone dollar sign is refused."""
    found: set[str] = set()
    for match in Template.pattern.finditer(text):
        if match["invalid"] is not None:
            line = text.count("\n", 0, match.start()) + 1
            raise ValueError(f"template {file}, line {line}: a lone '$'; a dollar sign is written '$$'")
        if not match["escaped"]:
            found.add(match["named"] or match["braced"])
    return found
