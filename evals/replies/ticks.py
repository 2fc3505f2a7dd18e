"""Lists in which options are ticked or crossed: *- [x] B*, *A ✗ B ✓*."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

_MARK = re.compile(r"(?:(?P<tick>[✓✔✅☑]|\[[xX✓✔]\])|[✗✘❌✖☐]|\[ ?\])\ufe0f?")
_EDGE: Final = " \t\r\n/|,;•*-–—"
_REMARK = re.compile(r"\s[–—-]\s|[:(]")
"""What parts an option in a list from what is said of it."""

Named = Callable[[str], int | None]
"""The option that a text is the name of."""


@dataclass(frozen=True)
class Ticks:
    """The options that a list ticks, and what is said behind it."""

    options: frozenset[int]
    rest: str


def ticked(text: str, named: Named) -> Ticks | None:
    """What a reply ticks that is a list of options with marks, behind or before each; None for any other.

    Args:
        text: The reply.
        named: Finds the option that a text is the name of.
    """
    marks = list(_MARK.finditer(text))
    if not any(mark["tick"] for mark in marks):
        return None
    parts = list(_parts(text, marks))
    head, tail = parts[0], parts[-1]
    # each option with its mark
    if _option(head, named) is not None:
        members, rest = parts[:-1], tail
    elif _introduces(head):
        # a last mark in front may have the reply's next words behind its option
        last, _, rest = tail.lstrip().partition("\n")
        members = [*parts[1:-1], last]
    else:
        return None
    options = [_option(member, named) for member in members]
    if None in options:
        return None
    chosen: set[int] = set()
    for option, mark in zip(options, marks, strict=True):
        if mark["tick"] and option is not None:
            chosen.add(option)
    return Ticks(frozenset(chosen), rest.strip(_EDGE))


def _introduces(head: str) -> bool:
    """Whether what stands before the first mark is no option but leads to a list, or is nothing."""
    return not head.strip(_EDGE) or head.rstrip().endswith(":")


def _parts(text: str, marks: list[re.Match[str]]) -> Iterator[str]:
    """What stands before, between and behind the marks."""
    start = 0
    for mark in marks:
        yield text[start : mark.start()]
        start = mark.end()
    yield text[start:]


def _option(part: str, named: Named) -> int | None:
    """The option of a member of the list, or of what stands in it before a remark."""
    part = part.strip(_EDGE)
    if not part:
        return None
    option = named(part)
    return named(_REMARK.split(part)[0].strip(_EDGE)) if option is None else option
