"""Reading the chosen name out of a reply: as a person would (``lenient``), or as the published parser does (``strict``).

The lenient decoder reads what is marked as the answer, a reply that is nothing but a name, a last line that decides in so many
words, and else what the reply concludes with (``evals.replies.conclusion``). It forgives how a name is written, and
reads part of a name where no other name on offer has that part.
"""

from __future__ import annotations

import difflib
import html
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from envs.kumo.names import words
from evals.replies.answer_tags import closed, json_answers, own_turn
from evals.replies.conclusion import concluded
from evals.suites.kumo.name_matching import bare, decides, is_label, read

DECODER_VERSION: Final = 7
"""Part of every episode's fingerprint; raise it when a reply may be read otherwise than before."""


@dataclass(frozen=True)
class Decoded:
    """What a reply chose and by which rule it was read; the rule of an unread reply says why."""

    name: str | None
    kind: Literal["test", "predict"] | None
    rule: str
    """Where the name stood and how it was written, such as ``tag, exact``; ``decode`` lists them."""


def decode(
    text: str,
    actions: Sequence[str],
    truths: Sequence[str],
    strict: bool = False,
    cut: bool = False,
    nouns: Sequence[str] = (),
) -> Decoded:
    """Read one reply, its reasoning already taken off.

    Strict, the rules are ``published`` or ``parse error``. Lenient, a rule is *where, how*:

    - where: ``tag``; ``loose tag`` (other case, brackets, spaces or letters); ``open tag`` (never closed); ``closing tag``
      (never opened); ``no tag`` (the reply is nothing but the name); ``last line`` (``<name>``, ``Answer: name``, ``I choose
      name.``, or JSON with an answer)
    - how: ``exact``; ``marks`` (case, accents, quotes, backticks, emphasis, list marks, punctuation around it);
      ``placeholder`` (``${name}``); ``label`` (``Action: name``); ``spelling`` (other punctuation, spaces or underscores, or
      British spelling); ``abbreviation`` (in brackets behind the name); ``phrase`` (only filler words around); ``line`` (a
      line of its own before a remark that names and doubts nothing, in a tag only)

    and an unread reply has the rule ``no answer``, ``empty tag``, ``unknown name``, ``two names`` or ``cut off``.
    The last tag that holds anything wins. A name that is an action and a truth is a prediction, as published.

    Args:
        text: the reply.
        actions: the tests on offer.
        truths: the truths in question.
        strict: read it as the published parser does.
        cut: the reply ended at its limit of tokens. The published code never reads such a reply; lenient, it is read if
            its last tag had been closed by then.
        nouns: what the domain calls its truths and tests, which may stand beside a name.
    """
    names = (*truths, *actions)
    if strict:
        answer = published(text)
        name, rule = (answer, "published") if answer in names and not cut else (None, "parse error")
    else:
        text = unicodedata.normalize("NFC", html.unescape(text))
        name, rule = _lenient(closed(text) if cut else text, names, nouns, cut)
    if name is None:
        return Decoded(None, None, rule)
    return Decoded(name, "predict" if name in truths else "test", rule)


def published(text: str) -> str:
    """The published parser, step by step (the repository's agents; the first tag case-sensitive, the last one wins)."""
    answer = text.split("<ANSWER>")[-1].split("</ANSWER>")[0].strip()
    return answer.split("${")[-1].split("}")[0] if "${" in answer else answer


def _lenient(text: str, names: tuple[str, ...], nouns: Sequence[str], cut: bool) -> tuple[str | None, str]:
    own = own_turn(text)
    if own is None:
        return None, "two names"
    text = own
    tags = [tag for tag in _tags(text) if not _NEARLY.search(text, max(0, tag.start - 40), tag.start)]
    if cut and [tag.closes for tag in tags][-2:] != [False, True]:
        return None, "cut off"
    segments = [part for part in _segments(text, tags) if part[1].strip(_BLANK) not in ("", "name")]
    if segments:
        where, content = segments[-1]
        name, how = _read_tagged(content, names, nouns)
        if where == "closing tag" and len(segments) > 1:  # <ANSWER> X </ANSWER> Y </ANSWER>
            where, content = segments[-2]
            before, how_before = _read_tagged(content, names, nouns)
            if name and before and name != before:
                return None, "two names"
            name, how = before, how_before
        elif where == "tag" and len(segments) > 1 and _side_by_side(text, tags):
            before, _ = _read_tagged(segments[-2][1], names, nouns)
            if name and before and name != before:
                return None, "two names"
        return name, f"{where}, {how}" if name else how
    if tags:
        text = text[tags[-1].end :]
        if not re.search(r"\w", text):
            return None, "empty tag"
    name, how = read(text, names, nouns) if len(text) <= _LONGEST_BARE_REPLY else (None, "")
    if name and how != "phrase":
        return name, f"no tag, {how}"
    name, how = _last_line(text, names, nouns)
    if name is None and (only := _by_words(text, names)) is not None:
        return names[only], "last line, words"
    return name, how


_NEARLY = re.compile(r"\b(?:nearly|almost|was about to|would have) \w+\s*\Z", re.IGNORECASE)
"""Before a tag that was not meant."""


_SIGNS = re.compile(r"^\W*!\s*\w|[♭♯±\u0334-\u0338]|[{}]")
_SIGNED_NAME = re.compile(r"(?<!\w)[+\-−]\d|[+−-]$|[#♭♯]")


def _by_words(text: str, names: tuple[str, ...], tagged: bool = False) -> int | None:
    """The only name that a text means by part of its words; none where signs may change what it means."""
    if _SIGNS.search(text) or any(_SIGNED_NAME.search(name) for name in names):
        return None
    return concluded(text, names, stated="anything" if tagged else "names").option


def _side_by_side(text: str, tags: Sequence[_Tag]) -> bool:
    """Whether nothing parts the last two pairs of tags, or only *or*."""
    openings = [number for number, tag in enumerate(tags) if not tag.closes]
    if len(openings) < 2 or openings[-1] == 0:
        return False
    between = text[tags[openings[-1] - 1].end : tags[openings[-1]].start]
    return words(between) in ((), ("or",))


# --- in a tag --------------------------------------------------------------------------------------------------------

_TAG = re.compile(
    r"\\?[<\[＜]+[ \t]*(?P<close>[/\\]?)[ \t]*(?P<word>an\w{2,6})(?P<end>[ \t]*\\?[>\]＞]+|[ \t]*:|(?=[ \t]))"
    r"|(?<![<\[＜\w/\\])(?P<late>[/\\]?)ANSWER[>＞]",
    re.IGNORECASE,
)
_ALIKE = 0.72
"""How like the right word (difflib's ratio) a misspelled tag must be: ``ANSWR`` and ``ANWSER`` are, ``ANALYSIS`` is not."""
_LONGEST_BARE_REPLY = 300
_BLANK = " \t\r\n*_`"


@dataclass(frozen=True)
class _Tag:
    start: int
    end: int
    closes: bool
    exact: bool


def _tags(text: str) -> Iterator[_Tag]:
    """The answer tags of a text; a misspelled one counts if it closes."""
    for match in _TAG.finditer(text):
        word = (match["word"] or "answer").casefold()
        closes = bool(match["close"] or match["late"])
        closed_alike = closes or re.search(rf"<\s*/\s*{word}\s*>", text[match.end() :], re.IGNORECASE)
        if word != "answer" and not (closed_alike and difflib.SequenceMatcher(None, word, "answer").ratio() >= _ALIKE):
            continue
        if not closes and match["word"] and not match["end"] and "\n" in text[match.end() :].split("/")[0]:
            continue  # a bracket and a word, but no tag
        yield _Tag(match.start(), match.end(), closes, match.group() == "<ANSWER>")


def _segments(text: str, tags: Sequence[_Tag]) -> Iterator[tuple[str, str]]:
    """What stands in tags, in reading order, each with where it stands."""
    ends = [tag.start for tag in tags[1:]] + [len(text)] * bool(tags)
    opened = False
    for number, (tag, end) in enumerate(zip(tags, ends, strict=True)):
        if tag.closes:
            if not opened:
                lines = text[tags[number - 1].end if number else 0 : tag.start].split("\n")
                yield "closing tag", next((line for line in reversed(lines) if line.strip()), "")
            opened = False
        else:
            opened = True
            closed = number + 1 < len(tags)
            yield ("open tag" if not closed else "tag" if tag.exact else "loose tag"), text[tag.end : end]


_DOUBT_WORDS = """
    no not t never cannot but instead rather however wait unlikely impossible ruled excluded out if unless maybe perhaps or
"""
_DOUBTS = frozenset(_DOUBT_WORDS.split())
"""Words of a remark after which the name before it need not be what is meant; t is the end of isn't."""


def _read_tagged(content: str, names: tuple[str, ...], nouns: Sequence[str]) -> tuple[str | None, str]:
    """Read the content of a tag: a name, perhaps among filler words, or a name before a remark that doubts nothing.

    The remark stands on the lines below, or in brackets.
    """
    name, how = read(content, names, nouns)
    if name or how == "two names":
        return name, how
    first, _, remark = content.strip().partition("\n")
    bracket = re.fullmatch(r"(.+)\s\(([^()]+)\)\W*", content.strip())
    if bracket and not bracket[2].isupper():  # an abbreviation is no remark
        first, remark = bracket[1], f"({bracket[2]})"
    name, how = read(first, names, nouns)
    goes_on = remark.strip()[:1].islower()
    if name and how != "phrase" and not goes_on and _DOUBTS.isdisjoint(words(bare(remark))):
        return name, "remark" if remark.startswith("(") else "line"
    only = _by_words(content, names, tagged=True) if "\n" not in content.strip() else None
    return (names[only], "words") if only is not None else (None, "unknown name")


# --- in the last line ------------------------------------------------------------------------------------------------

_MOST_TIMES = 2
"""How often a reply may say its last sentence; one that goes round in circles says it more often."""
_ANNOUNCED = re.compile(
    r"\b(?:answer|choice|conclusion|prediction)\b(?:\s+for this round)?[*_`]*\s*"
    r"(?:is|must be|has to be|would be|[:=-])?\s*"
)
_UNSURE_WORDS = "no not never cannot t if unless whether doubt might may could maybe perhaps would or either neither"
_UNSURE = frozenset(_UNSURE_WORDS.split())
"""Words before an announced answer with which it is none."""


def _last_line(text: str, names: tuple[str, ...], nouns: Sequence[str]) -> tuple[str | None, str]:
    """An answer without a tag: the last line is ``<name>`` or decides in so many words."""
    lines = [line for line in text.split("\n") if line.strip(" \t\r`-")]
    last = lines[-1].strip() if lines else ""
    name = None
    if re.fullmatch(r"\W*<[^<>]+>\W*", last):
        name = read(last, names, nouns)[0]
    elif re.fullmatch(r"(\{[^{}]*)?\}`*", last):
        name = _in_json(text, names, nouns)
    else:
        sentences = re.split(r"(?<=[.!?。])\s+(?=\S)", last)
        sentence = sentences[-1]
        if sentences.count(sentence) > _MOST_TIMES and len(set(sentences)) > 1:
            return None, "two names"
        name = decides(last, names, nouns) or decides(sentence, names, nouns) or _announced(sentence, names, nouns)
    if name is None and len(lines) > 1 and is_label(lines[-2]):
        name = read(last, names, nouns)[0]
    return (name, "last line, phrase") if name else (None, "no answer")


def _announced(sentence: str, names: tuple[str, ...], nouns: Sequence[str]) -> str | None:
    """The name after ``my answer is`` and its like, whatever stands before without doubting it."""
    matches = list(_ANNOUNCED.finditer(sentence.casefold())) if len(sentence.casefold()) == len(sentence) else []
    if not matches or sentence.endswith("?") or not _UNSURE.isdisjoint(words(sentence[: matches[-1].start()])):
        return None
    return read(sentence[matches[-1].end() :], names, nouns)[0]


def _in_json(text: str, names: tuple[str, ...], nouns: Sequence[str]) -> str | None:
    """The answer in a flat JSON object that ends the reply."""
    answers = json_answers(text)
    return read(answers[0], names, nouns)[0] if len(answers) == 1 else None
