r"""Secrets that an endpoint repeats: found in whatever form they come, and replaced.

Texts and secrets are compared by their letters and digits alone, after encodings of single characters (``%2D``,
``\u002d``, ``&#45;``) are undone and marks of models are left out, which are taken out of replies later. Of a secret
also its words (the token behind ``Bearer``) and its base64 and hexadecimal forms are known.
"""

from __future__ import annotations

import base64
import functools
import html
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from urllib.parse import quote, unquote

from evals.replies.reasoning import ANSWER_MARKS, THINKING_MARKS

SHORTEST = 8
"""Characters: a shorter secret, as some servers of one's own have (``EMPTY``), may be a word of the game."""
LONGEST_RUN = 12
"""So many characters of a secret are hidden wherever they follow one another."""

_MARKS = sorted(
    {*ANSWER_MARKS, *(mark for pair in THINKING_MARKS for mark in pair if not mark.isalpha())},
    key=lambda mark: (len(mark), mark),
)
_UNIT = re.compile(
    "(?P<mark>" + "|".join(map(re.escape, reversed(_MARKS))) + ")"
    r"|(?P<percent>%[0-9a-f]{2})|\\(?:u00|x)(?P<escape>[0-9a-f]{2})|(?P<entity>&(?:#x?[0-9a-f]{1,6}|[a-z]{2,6});)"
    r"|(?P<word>[a-z0-9]+)",
    re.IGNORECASE,
)


def redacted(text: str, secrets: Collection[str]) -> str:
    """A text with ``[redacted]`` for each secret of eight characters or more, and for every run of twelve of its characters."""
    runs = _runs(tuple(secrets))
    if not runs:
        return text
    bare, places = _bare(text)
    hidden: set[int] = set()
    for length, known in runs.items():
        for start in range(len(bare) - length + 1):
            if bare[start : start + length] in known:
                hidden.update(range(start, start + length))
    shown, end = [], 0
    for place in sorted(hidden):
        begins = place - 1 not in hidden
        if begins:
            shown += [text[end : places[place][0]], "[redacted]"]
        end = places[place][1]
    return "".join([*shown, text[end:]])


def _bare(text: str) -> tuple[str, list[tuple[int, int]]]:
    """A text's letters and digits, and where each begins and ends in the text."""
    signs = list[str]()
    places = list[tuple[int, int]]()
    for unit in _UNIT.finditer(text):
        word = unit["word"]
        if word:
            signs += word
            places += [(place, place + 1) for place in range(unit.start(), unit.end())]
            continue
        sign = _written_otherwise(unit)
        is_letter_or_digit = sign.isascii() and sign.isalnum()
        if is_letter_or_digit and len(sign) == 1:
            signs.append(sign)
            places.append(unit.span())
    return "".join(signs).lower(), places


def _written_otherwise(unit: re.Match[str]) -> str:
    """The sign that a percent code, an escape or an entity stands for; empty for a mark."""
    if unit["percent"]:
        return unquote(unit["percent"], errors="ignore")
    if unit["escape"]:
        return chr(int(unit["escape"], 16))
    if unit["entity"]:
        return html.unescape(unit["entity"])
    return ""


@functools.lru_cache(maxsize=64)
def _runs(secrets: tuple[str, ...]) -> Mapping[int, frozenset[str]]:
    """What gives a secret away, by length."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    for form in {form for secret in secrets for form in _forms(secret)}:
        bare, _ = _bare(form)
        if len(bare) >= SHORTEST:
            length = min(len(bare), LONGEST_RUN)
            found[length].update(bare[start : start + length] for start in range(len(bare) - length + 1))
    return {length: frozenset(pieces) for length, pieces in found.items()}


def _forms(secret: str) -> set[str]:
    """A secret, its words, what it encodes as HTTP's basic authentication does, and how each may be written."""
    plain = {secret, *secret.split()}
    for word in secret.split():
        try:
            decoded = base64.b64decode(word, validate=True).decode("ascii")
        except ValueError:
            continue
        plain |= {decoded, *decoded.split(":")}
    forms = set[str]()
    for part in plain:
        if len(part) < SHORTEST or not part.isprintable():
            continue
        content = part.encode()
        forms |= {part, quote(part, safe=""), content.hex()}
        # within a longer text, base64 has three forms, which differ by what stands before
        for before in range(3):
            encoded = base64.b64encode(bytes(before) + content).decode()
            forms.add(encoded[-(-before * 8 // 6) : (before + len(content)) * 8 // 6])
    return forms
