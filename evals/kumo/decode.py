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
from typing import Final, Literal

DECODER_VERSION: Final = 3
"""Part of every episode's identity; raise it when a reply may be read otherwise than before."""


@dataclass(frozen=True)
class Decoded:
    """What a reply chose and by which rule it was read; the rule of an unread reply says why."""

    name: str | None
    kind: Literal["test", "predict"] | None
    rule: str
    """Where the name stood and how it was written, such as ``tag, exact``; ``decode`` lists them."""


def decode(
    text: str, actions: Sequence[str], truths: Sequence[str], strict: bool = False, cut: bool = False
) -> Decoded:
    """Read one reply.

    Strict, the rules are ``published`` or ``parse error``. Lenient, a rule is *where, how*:

    - where: ``tag``; ``loose tag`` (other case, brackets or spaces); ``open tag`` (never closed); ``closing tag`` (never
      opened); ``no tag`` (the reply is nothing but the name)
    - how: ``exact``; ``marks`` (case, quotes, backticks, emphasis, list marks, punctuation around it); ``placeholder``
      (``${name}``); ``label`` (``Action: name``); ``spelling`` (the same words, other punctuation or underscores);
      ``phrase`` (only filler words around, in a tag only); ``line`` (a line of its own before a remark that names and
      doubts nothing, in a tag only)

    and an unread reply has the rule ``no answer``, ``empty tag``, ``unknown name``, ``two names`` or ``cut off``.
    The last tag that holds anything wins. A name that is an action and a truth is a prediction, as published.

    Args:
        text: the reply.
        actions: the tests on offer.
        truths: the truths in question.
        strict: read it as the published parser does.
        cut: the reply ended at its limit of tokens. The published code never reads such a reply; lenient, it is read if
            its last tag had been closed by then.
    """
    names = (*truths, *actions)
    if strict:
        answer = _published(text)
        name, rule = (answer, "published") if answer in names and not cut else (None, "parse error")
    else:
        name, rule = _lenient(text, names, cut)
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


def _lenient(text: str, names: tuple[str, ...], cut: bool) -> tuple[str | None, str]:
    text = unicodedata.normalize("NFC", html.unescape(text))
    thought, _, said = text.rpartition("</think>")
    if cut and not _has_answered(said):
        return None, "cut off"
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
    return (name, f"no tag, {how}") if name and how != "phrase" else (None, "no answer")


def _has_answered(said: str) -> bool:
    """Whether the last tag of a text was opened and closed, and not in a thought that goes on."""
    ends = [bool(tag["close"]) for tag in _TAG.finditer(said)][-2:]
    return ends == [False, True] and "<think>" not in said


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
    a an the i we you it is s ll will would want should like to let us me my our your this next now so then with go
    going do run perform take use choose choosing select selecting pick picking try order request conduct make test
    tests testing action actions truth truths name prediction predict predicted predicting answer final choice option
    step result conclusion guess therefore boxed text textbf mathbf b i strong em code type value →
"""
_FILLER = frozenset(_FILLER_WORDS.split())
"""Words that may stand around a name in a tag without changing what is meant; no negation, no conjunction."""

_DOUBT_WORDS = "no not t never cannot but instead rather however wait unlikely impossible ruled excluded"
_DOUBTS = frozenset(_DOUBT_WORDS.split())
"""Words of a remark after which the line before it need not be what is meant; t is the end of isn't."""

_ALIKE = str.maketrans(
    {"‘": "'", "’": "'", "´": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-", "‑": "-", "‐": "-"}
)
_LIST_MARK = re.compile(r"^(?:[-*+•·>#]+\s+|\(?\d{1,2}[.)]\s+)+")
_EDGE = " \t\r\n\"'`*_.,;:?«»()[]{}<>•·\\"
_LAYERS = 8
"""Marks around marks that are taken off; people write three."""

_WORD = re.compile(
    r"[^\W_]+|[#+]+"
    r"|(?<=\w)-(?!\w)|(?<!\w)-(?=\d)"  # as in A- and -1; other hyphens part words
    r"""|[^\w\s\-"'`*.,;:?()\[\]{}<>/\\|$&=•·«»…]"""
)


def _fold(text: str) -> str:
    """The text without case, extra space, list marks and the marks around it."""
    text = " ".join(unicodedata.normalize("NFKC", text).translate(_ALIKE).casefold().split())
    text = text.replace("<s>", "~")  # struck out is not chosen
    for _ in range(_LAYERS):
        shorter = _LIST_MARK.sub("", text).strip(_EDGE).rstrip("!")
        if shorter == text:
            break
        text = shorter
    return text


def _words(folded: str) -> tuple[str, ...]:
    """The words of a text, and the signs that may change what it means (C#, A-, !name); other punctuation parts words."""
    return tuple(_WORD.findall(folded))


@functools.lru_cache(maxsize=256)
def _forms(names: tuple[str, ...]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Each name folded, and its words."""
    return {name: (_fold(name), _words(_fold(name))) for name in names}


def _read_tagged(content: str, names: tuple[str, ...]) -> tuple[str | None, str]:
    """Read the content of a tag: a name, perhaps among filler words, or a first line that is a name before a remark."""
    name, how = _read(content, names)
    if name or how == "two names":
        return name, how
    line, _, remark = content.strip().partition("\n")
    name, how = _read(line, names)
    goes_on = remark.strip()[:1].islower()
    if name and how != "phrase" and not goes_on and _DOUBTS.isdisjoint(_words(_fold(remark))):
        return name, "line"
    return None, "unknown name"


def _read(text: str, names: tuple[str, ...]) -> tuple[str | None, str]:
    """Read a text that holds one name, however written, and besides at most filler words."""
    if text.strip() in names:
        return text.strip(), "exact"
    folded = _fold(text)
    words = _words(folded)
    mentioned, rest = _mentions(words, names)
    if len(mentioned) != 1 or not _FILLER.issuperset(rest):
        return None, "two names" if len(mentioned) > 1 else "unknown name"
    name = mentioned[0]
    form = _forms(names)[name][0]
    if folded == form:
        return name, "marks"
    if "${" in folded and _fold(folded.rpartition("${")[2].partition("}")[0]) == form:
        return name, "placeholder"
    label = folded[: -len(form)].rstrip(_EDGE.replace(":", "")) if folded.endswith(form) else ""
    if label.endswith((":", "=")):
        return name, "label"
    return name, "phrase" if rest else "spelling"


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
