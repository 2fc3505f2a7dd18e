"""Reading the chosen action out of a reply, after the paper's Algorithm 2, without its pitfalls.

What counts as the answer is what stands between answer tags (the last pair that holds anything), or else the whole reply;
reasoning between think tags does not count. There, an action is named by its letter or by its text. The forms are tried
from the plainest to the loosest, and the first form that names any action decides: one action is the answer, two different
ones are none. A letter is never read out of a word, out of the pronoun *I*, the article *A*, or the names of backpack slots
and positions, and a letter beyond the list is no answer.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

DECODER_VERSION: Final = 1
"""Raised whenever a reply would be read otherwise; part of every episode's identity."""

LONGEST_BARE_REPLY: Final = 300
"""Characters of a reply without tags in which a mere mention counts as its answer."""


_LONGEST_FRAME: Final = 60
"""Characters around a letter or an action's text in a reply that is nothing but these."""


@dataclass(frozen=True)
class Decoded:
    """Which action a reply chose and by which rule; the rule of an unread reply says why."""

    index: int | None
    rule: str
    """Where the answer stood and how it was given, such as ``tag, letter``; ``decode`` lists them."""


def decode(text: str, actions: Sequence[str]) -> Decoded:
    """Read one reply.

    A rule is *where, how*:

    - where: ``tag``; ``open tag`` (never closed); ``closing tag`` (never opened); ``thought`` (a tag at the very end, within
      reasoning that was not followed by anything); ``no tag``
    - how: ``letter``; ``text`` (the action's text); ``letter and text``; ``declared`` (*I choose B*, *the answer is B*);
      ``line`` (a line that is nothing but the answer); ``mention`` (*option B*, *(B)*, or the action's text within
      others); ``alone`` (a capital letter by itself)

    and an unread reply has the rule ``no answer``, ``two answers`` or ``beyond the list``.
    """
    text = unicodedata.normalize("NFKC", html.unescape(text)).translate(_MARKS)
    text = re.sub(r" ?\n\s*", "\n", re.sub(rf"(?:[^\S\n]|{_TEXT})+", " ", text))
    where, content = _answer(_without_thoughts(text))
    found = _read(content, tuple(actions), bare=where == "no tag")
    if found.index is None and found.rule == "no answer" and (last := _LAST_TAG.search(text)):
        where, found = "thought", _read(last["content"], tuple(actions), bare=False)
    return Decoded(found.index, found.rule if found.index is None else f"{where}, {found.rule}")


# --- where the answer stands -----------------------------------------------------------------------------------------

_MARKS = str.maketrans(
    {"‘": "'", "’": "'", "´": "'", "“": '"', "”": '"', "–": "-", "—": "-", "‑": "-", "`": "'", "*": None, "_": " "}
)
_TAG = re.compile(r"\\?[<\[]\s*(?P<close>[/\\]?)\s*answer\s*\\?[>\]]", re.IGNORECASE)
_LAST_TAG = re.compile(
    r"<\s*answer\s*>(?P<content>[^<>]*)<\s*/\s*answer\s*>\s*(?:<\s*/\s*think\w*\s*>\s*)?$", re.IGNORECASE
)
_THOUGHT = re.compile(r"<\s*(think\w*)\s*>.*?(?:<\s*/\s*\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_THOUGHT_END = re.compile(r"<\s*/\s*think\w*\s*>", re.IGNORECASE)


def _without_thoughts(text: str) -> str:
    """What is said outside think tags; a closing tag without an opening one ends a thought that began with the reply."""
    return _THOUGHT_END.split(_THOUGHT.sub("\n", text))[-1]


def _answer(text: str) -> tuple[str, str]:
    """What counts as the answer, and where it stood."""
    segments = [(where, content) for where, content in _segments(text) if re.search(r"\w", content)]
    if segments:
        return segments[-1]
    return ("tag", "") if _TAG.search(text) else ("no tag", text)


def _segments(text: str) -> Iterator[tuple[str, str]]:
    """What stands in tags, in reading order."""
    tags = list(_TAG.finditer(text))
    opened = False
    for number, tag in enumerate(tags):
        last = number + 1 == len(tags)
        if not tag["close"]:
            yield ("open tag" if last else "tag"), text[tag.end() : len(text) if last else tags[number + 1].start()]
        elif not opened:
            lines = text[tags[number - 1].end() if number else 0 : tag.start()].splitlines()
            yield "closing tag", next((line for line in reversed(lines) if line.strip()), "")
        opened = not tag["close"]


# --- how the action is named -----------------------------------------------------------------------------------------

_NOUN = r"(?:option|action|choice|letter|answer)"
_CONNECTIVES = "because|since|as|and|or|for|which|so|to|with|that|here|now|then|given|due"
_TEXT = "[\ue000-\ue0ff]"
"""Stands for an action's text in a masked reply (``_mask``)."""
# A capital letter by itself; "A" and "I" before another word are article and pronoun.
_CAPITAL = (
    rf"(?P<letter>[B-HJ-Z]|A(?!'|\s+(?!(?:{_CONNECTIVES})\b)[a-z])|I(?!'|\s+(?!(?:{_CONNECTIVES})\b)(?:[a-z]|{_TEXT})))"
    r"(?![\w']|-\w)"
)
_OPEN = r"""["'(\[{\s]*"""
_FORM = re.compile(
    rf"\W*(?:(?:(?:the|my|final|correct|best|right|next)\s+)*{_NOUN}(?:\s+is)?\s*[:=]?\s*)?\W*(?P<letter>[a-z])\W*",
    re.IGNORECASE,
)
_LETTER_THEN_TEXT = re.compile(
    rf"\W*(?:{_NOUN}\s*[:=]?\s*)?\W*(?P<letter>[a-z])(?P<mark>\W+)(?P<rest>\w.*)", re.IGNORECASE | re.DOTALL
)
_DECLARED = re.compile(
    rf"""(?:
        \b(?:{_NOUN}|decision|move|step|pick|selection)['")\]]*
            (?:\s+(?:here|now|i|we|would|should|must|will|for|at|this|the|next|correct|best|current|to|take|of|step)\b)*
            \s*(?:\bis|\bbe|[:=→]|->)\s*
      | \b(?:choose|chose|choosing|select|selecting|pick|picking|take|taking|opt\s+for|go\s+with|going\s+with)\s+
      | \\boxed\s*\{{(?:\\text\s*\{{)?
    )
    (?:(?:the|to|be|therefore|thus|clearly|obviously|definitely|simply)\s+)*
    (?:{_NOUN}\s*[:\#]?\s*)? {_OPEN}
    (?:(?-i:{_CAPITAL})(?:\W{{0,4}}(?P<text>{_TEXT}))? | (?P<only>{_TEXT}))
    (?P<more>(?:\s*(?:,|/|\bor\b|\band\b))+\s*(?:{_NOUN}\s+)?["'(]*(?-i:[A-Z](?![\w'])))?""",
    re.IGNORECASE | re.VERBOSE,
)
_NOT = re.compile(r"(?:\bnot|n't|\bnever|\bcannot|\bof|\bthan|\bavoid|\bwithout)\s+(?:to\s+)?$", re.IGNORECASE)
_MENTION = re.compile(
    rf"(?:\b(?i:{_NOUN})\s*[:#]?\s*{_OPEN}|\()(?:{_CAPITAL}|(?P<small>[a-z])(?=\s*(?:[.,;:!)'\"]|$)))"
)
_ALONE = re.compile(rf"(?<![\w'.-]){_CAPITAL}")
_AFTER_PLACE = re.compile(
    r"\b(?:backpack|bag|slot|position|grid|label|marker|cell|place|spot|item|key|door|basket|plan|part|picture)s?\W{1,2}"
    r"(?:[A-Z]\s*(?:,|and|or|to)\s*)*$",
    re.IGNORECASE,
)


def _read(content: str, actions: tuple[str, ...], bare: bool) -> Decoded:
    """Read what counts as the answer; ``bare`` if no tag says that it is one."""
    if found := _read_plain(content, actions):
        return found
    masked, named = _mask(content, actions)
    declared = [match for match in _DECLARED.finditer(masked) if not _NOT.search(_before(masked, match))]
    by_line = [read for line in content.splitlines() if line.strip() and (read := _read_plain(line, actions))]
    attempts: list[tuple[str, set[int]]] = [
        ("declared", {place for match in declared for place in _declared(match, len(actions))}),
        ("line", {len(actions) if read.index is None else read.index for read in by_line}),
    ]
    if not bare or len(content) <= LONGEST_BARE_REPLY:
        mentions = {_position(match["letter"] or match["small"]) for match in _MENTION.finditer(masked)}
        alone = [match for match in _ALONE.finditer(masked) if not _AFTER_PLACE.search(_before(masked, match))]
        attempts += [("mention", mentions | named), ("alone", {_position(match["letter"]) for match in alone})]
    for how, positions in attempts:
        if positions:
            return _decided(positions, how, actions)
    return Decoded(None, "no answer")


def _before(text: str, match: re.Match[str]) -> str:
    """The few words before a match."""
    return text[max(0, match.start() - 40) : match.start()]


def _declared(match: re.Match[str], beyond: int) -> Iterator[int]:
    """The actions that a declaration names; *A or B* names more than one."""
    if match["letter"]:
        yield _position(match["letter"])
    if text := match["text"] or match["only"]:
        yield ord(text) - ord("\ue000")
    if match["more"]:
        yield beyond


def _read_plain(text: str, actions: tuple[str, ...]) -> Decoded | None:
    """Read a text that is nothing but a letter, an action's text, or both; None if it is something else."""
    text = text.strip()
    if len(text) > _LONGEST_FRAME + max(map(len, actions)):
        return None
    if form := _FORM.fullmatch(text):
        return _decided({_position(form["letter"])}, "letter", actions)
    folded = [_fold(action) for action in actions]
    if _fold(text) in folded:
        return Decoded(folded.index(_fold(text)), "text")
    both = _LETTER_THEN_TEXT.fullmatch(text)
    if not both or _fold(both["rest"]) not in folded:
        return None
    position = folded.index(_fold(both["rest"]))
    if both["letter"] in "Ii" and both["mark"].isspace():
        return Decoded(position, "text")
    return _decided({_position(both["letter"]), position}, "letter and text", actions)


def _decided(positions: set[int], how: str, actions: tuple[str, ...]) -> Decoded:
    if len(positions) > 1:
        return Decoded(None, "two answers")
    (position,) = positions
    return Decoded(position, how) if position < len(actions) else Decoded(None, "beyond the list")


def _position(letter: str) -> int:
    return ord(letter.upper()) - ord("A")


def _fold(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" \t\"'.,;:!()[]{}<>-")


def _mask(text: str, actions: tuple[str, ...]) -> tuple[str, set[int]]:
    """The text with actions' texts taken out, so that their letters mean nothing, and which actions these were."""
    named: set[int] = set()
    for position, action in sorted(enumerate(actions), key=lambda entry: -len(entry[1])):
        pattern = r"(?<!\w)" + r"\s+".join(map(re.escape, action.split())) + r"(?!\w)"
        text, count = re.subn(pattern, chr(ord("\ue000") + position), text, flags=re.IGNORECASE)
        if count:
            named.add(position)
    return text, named
