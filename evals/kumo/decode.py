"""Reading the chosen name out of a reply: as a person would (``lenient``), or as the published parser does (``strict``).

The lenient decoder reads only what is marked as the answer, or a reply that is nothing but a name. It forgives how a name
is written, never which name is meant: what could mean two names is read as none, and prose without a tag is not searched.
"""

from __future__ import annotations

import functools
import html
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Decoded:
    """What a reply chose and by which rule it was read; the rule of an unread reply says why."""

    name: str | None
    kind: Literal["test", "predict"] | None
    rule: str
    """Where the name stood and how it was written, such as ``tag, exact``; ``decode`` lists them."""


def decode(text: str, actions: Sequence[str], truths: Sequence[str], strict: bool = False) -> Decoded:
    """Read one reply.

    Strict, the rules are ``published`` or ``parse error``. Lenient, a rule is *where, how*:

    - where: ``tag``; ``loose tag`` (other case, brackets or spaces); ``open tag`` (never closed); ``closing tag`` (never
      opened); ``no tag`` (the reply is nothing but the name)
    - how: ``exact``; ``marks`` (case, quotes, backticks, emphasis, list marks, punctuation around it); ``placeholder``
      (``${name}``); ``label`` (``Action: name``); ``spelling`` (the same words, other punctuation or underscores);
      ``phrase`` (only filler words around, in a tag only); ``line`` (a line of its own before others, in a tag only)

    and an unread reply has the rule ``no answer``, ``empty tag``, ``unknown name`` or ``two names``.
    The last tag that holds anything wins. A name that is an action and a truth is a prediction, as published.
    """
    names = (*truths, *actions)
    if strict:
        answer = _published(text)
        name, rule = (answer, "published") if answer in names else (None, "parse error")
    else:
        name, rule = _lenient(text, names)
    if name is None:
        return Decoded(None, None, rule)
    return Decoded(name, "predict" if name in truths else "test", rule)


def _published(text: str) -> str:
    """The published parser, step by step (the repository's agents; the first tag case-sensitive, the last one wins)."""
    answer = text.split("<ANSWER>")[-1].split("</ANSWER>")[0].strip()
    return answer.split("${")[-1].split("}")[0] if "${" in answer else answer


# --- where the answer stands -----------------------------------------------------------------------------------------

_TAG = re.compile(r"\\?[<\[]\s*(?P<close>[/\\]?)\s*answer\s*\\?[>\]]", re.IGNORECASE)
_LONGEST_BARE_REPLY = 300


def _lenient(text: str, names: tuple[str, ...]) -> tuple[str | None, str]:
    text = unicodedata.normalize("NFC", html.unescape(text))
    thought, _, said = text.rpartition("</think>")
    text = said if said.strip() else thought or text
    segments = [(where, content) for where, content in _segments(text) if _fold(content)]
    if segments:
        where, content = segments[-1]
        name, how = _read_tagged(content, names)
        return name, f"{where}, {how}" if name else how
    if _TAG.search(text):
        return None, "empty tag"
    if len(text) > _LONGEST_BARE_REPLY:
        return None, "no answer"
    name, how = _read(text, names)
    return (name, f"no tag, {how}") if name else (None, "no answer" if how == "unknown name" else how)


def _segments(text: str) -> Iterator[tuple[str, str]]:
    """What stands in tags, in reading order, each with where it stands."""
    tags = list(_TAG.finditer(text))
    ends = [tag.start() for tag in tags[1:]] + [len(text)] * bool(tags)
    opened = False
    for number, (tag, end) in enumerate(zip(tags, ends, strict=True)):
        if tag["close"]:
            if not opened:
                lines = text[tags[number - 1].end() if number else 0 : tag.start()].split("\n")
                yield "closing tag", next((line for line in reversed(lines) if line.strip()), "")
            opened = False
        else:
            opened = True
            exact = tag.group() == "<ANSWER>"
            closed = number + 1 < len(tags)
            yield ("open tag" if not closed else "tag" if exact else "loose tag"), text[tag.end() : end]


# --- how the name is written -----------------------------------------------------------------------------------------

_FILLER_WORDS = """
    a an the i we you it is s ll will would should want like to let us me my our your this next now so then with go
    going do run perform take use choose choosing select selecting pick picking try order request conduct make test
    tests testing action actions truth truths name prediction predict predicted predicting answer final choice option
    step result conclusion guess therefore boxed text textbf mathbf b i strong em code type value
"""
_FILLER = frozenset(_FILLER_WORDS.split())
"""Words that may stand around a name in a tag without changing what is meant; no negation, no conjunction."""

_QUOTES = str.maketrans({"‘": "'", "’": "'", "´": "'", "“": '"', "”": '"', "–": "-", "—": "-", "‑": "-", "‐": "-"})
_LIST_MARK = re.compile(r"^(?:[-*+•·>#]+\s+|\(?\d{1,2}[.)]\s+)+")
_EDGE = " \t\r\n\"'`*_~.,;:!?«»()[]{}<>-•·\\"


def _fold(text: str) -> str:
    """The text without case, extra space, list marks and the marks around it."""
    text = " ".join(unicodedata.normalize("NFKC", text).translate(_QUOTES).casefold().split())
    while True:
        shorter = _LIST_MARK.sub("", text).strip(_EDGE)
        if shorter == text:
            return text
        text = shorter


def _words(text: str) -> tuple[str, ...]:
    """The words of a text; sharps and pluses count, other punctuation and underscores part words."""
    return tuple(re.findall(r"[^\W_]+|[#+]+", unicodedata.normalize("NFKC", text).casefold()))


@functools.lru_cache(maxsize=256)
def _forms(names: tuple[str, ...]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Each name folded, and its words."""
    return {name: (_fold(name), _words(name)) for name in names}


def _read_tagged(content: str, names: tuple[str, ...]) -> tuple[str | None, str]:
    """Read the content of a tag: a name, a name among filler words, or a first line that is a name."""
    name, how = _read(content, names)
    if name or how == "two names":
        return name, how
    by_line = [_read(line, names)[0] for line in content.split("\n") if line.strip()]
    alone = {found for found in by_line if found}
    if len(alone) > 1:
        return None, "two names"
    if alone and by_line[0]:
        return by_line[0], "line"
    mentioned, rest = _mentions(_words(content), names)
    if len(mentioned) > 1:
        return None, "two names"
    if mentioned and _FILLER.issuperset(rest):
        return mentioned[0], "phrase"
    return None, "unknown name"


def _read(text: str, names: tuple[str, ...]) -> tuple[str | None, str]:
    """Read a text that is nothing but a name, however written."""
    if text.strip() in names:
        return text.strip(), "exact"
    folded = _fold(text)
    attempts = [("marks", folded)]
    if "${" in text:
        attempts.append(("placeholder", _fold(text.rpartition("${")[2].partition("}")[0])))
    label, colon, rest = folded.partition(":") if ":" in folded else folded.partition("=")
    while colon and _FILLER.issuperset(_words(label)):
        attempts.append(("label", _fold(rest)))
        label, colon, rest = rest.partition(":")
    for how, attempt in attempts:
        found = [name for name, (form, _) in _forms(names).items() if form == attempt]
        if found:
            return (found[0], how) if len(found) == 1 else (None, "two names")
    words = _words(text)
    spelled = [name for name, (_, form) in _forms(names).items() if form and form == words]
    if spelled:
        return (spelled[0], "spelling") if len(spelled) == 1 else (None, "two names")
    return None, "unknown name"


def _mentions(words: tuple[str, ...], names: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The names that occur in ``words``, longest first where they overlap, and the words that belong to none."""
    free = [True] * len(words)
    found: list[str] = []
    spans: dict[tuple[int, int], str] = {}
    for name, (_, wanted) in sorted(_forms(names).items(), key=lambda item: (-len(item[1][1]), item[0])):
        for start in range(len(words) - len(wanted) + 1) if wanted else ():
            span = (start, start + len(wanted))
            if words[slice(*span)] != wanted or not (all(free[slice(*span)]) or span in spans):
                continue
            spans[span] = name
            free[slice(*span)] = [False] * len(wanted)
            if name not in found:
                found.append(name)
    return found, [word for word, is_free in zip(words, free, strict=True) if is_free]
