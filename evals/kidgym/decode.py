"""Reading the chosen action out of a reply, after the paper's Algorithm 2, without its pitfalls.

What counts as the answer is what stands between answer tags (the last pair that holds anything), or else the whole reply;
reasoning between think tags does not count. There, an action is named by its letter or by its text. The forms are tried
from the plainest to the loosest, and the first form that names any action decides.

As published, a list of letters (*B, then C*) is read as its first. These are departures from the paper:

- A letter is never read out of a word, out of the pronoun *I*, the article *A*, or the names of backpack slots and positions;
  nor is one that is rejected (*not A*, *B is wrong*) or left open (*whether B is right*, *B?*).
- A reply that chooses different actions in the same form (*A or B*, *the answer is A; no, the answer is B*) chooses none,
  where the paper takes the first.
- A lower-case letter counts where a letter alone is expected (*b*, *option b*), and so does an action's text in any case and
  without quotes.
- A letter beyond the list is no answer; the published code goes on to look for another letter.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

DECODER_VERSION: Final = 2
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

    - where: ``tag``; ``open tag`` (never closed); ``closing tag`` (never opened); ``thought`` (the last pair of tags within
      reasoning that never ended, or that ended with them); ``no tag``
    - how: ``letter``; ``text`` (the action's text); ``letter and text``; ``list`` (several of these, of which the first
      counts; without tags, letters only); ``declared`` (*I choose B*, *the answer is B*);
      ``line`` (a line that is nothing but the answer); ``mention`` (*option B*, *(B)*, or the action's text within
      others); ``alone`` (a capital letter by itself)

    and an unread reply has the rule ``no answer``, ``two answers`` or ``beyond the list``.
    """
    text = unicodedata.normalize("NFKC", html.unescape(text)).translate(_MARKS)
    text = re.sub(r" ?\n\s*", "\n", re.sub(rf"(?:[^\S\n]|{_TEXT})+", " ", text))
    where, content = _answer(_without_thoughts(text))
    found = _read(content, tuple(actions), bare=where == "no tag")
    if found.index is None and found.rule == "no answer" and (last := _answer_in_thought(text)):
        where, found = "thought", _read(last, tuple(actions), bare=False)
    return Decoded(found.index, found.rule if found.index is None else f"{where}, {found.rule}")


# --- where the answer stands -----------------------------------------------------------------------------------------

_MARKS = str.maketrans(
    {"‘": "'", "’": "'", "´": "'", "“": '"', "”": '"', "–": "-", "—": "-", "‑": "-", "`": "'", "*": None, "_": " "}
)
_TAG = re.compile(r"\\?[<\[]\s*(?P<close>[/\\]?)\s*answer\s*\\?[>\]]", re.IGNORECASE)
_PAIR = re.compile(r"<\s*answer\s*>(?P<content>[^<>]*)<\s*/\s*answer\s*>", re.IGNORECASE)
_THOUGHT = re.compile(r"<\s*(think\w*)\s*>.*?(?:<\s*/\s*\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_THOUGHT_END = re.compile(r"<\s*/\s*think\w*\s*>", re.IGNORECASE)


def _without_thoughts(text: str) -> str:
    """What is said outside think tags; a closing tag without an opening one ends a thought that began with the reply."""
    return _THOUGHT_END.split(_THOUGHT.sub("\n", text))[-1]


def _answer_in_thought(text: str) -> str:
    """What the last pair of tags holds within reasoning that nothing closes, or that closes right behind it."""
    *closed, inside = _THOUGHT_END.split(text)
    ends = bool(closed) and not inside.strip()
    inside = closed[-1] if ends else inside
    pairs = list(_PAIR.finditer(inside))
    if not pairs or (ends and inside[pairs[-1].end() :].strip()):
        return ""
    return pairs[-1]["content"]


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
_TEXT = "[\ue000-\ue0ff]"
"""Stands for an action's text in a masked reply (``_mask``)."""
_CAPITAL = r"(?P<letter>[A-Z])(?!'?\w|-\w)"
"""A capital letter by itself; whether it is a word is told by ``_is_word``."""
_OPEN = r"""["'(\[{\s]*"""
_FORM = re.compile(
    rf"\W*(?:(?:(?:the|my|final|correct|best|right|next)\s+)*{_NOUN}(?:\s+is)?\s*[:=]?\s*)?\W*(?P<letter>[a-z])\W*",
    re.IGNORECASE,
)
_LETTER_THEN_TEXT = re.compile(
    rf"\W*(?:{_NOUN}\s*[:=]?\s*)?\W*(?P<letter>[a-z])(?P<mark>\W+)(?P<rest>\w.*)", re.IGNORECASE | re.DOTALL
)
_BETWEEN = re.compile(r"(?:[\s,;&>→-]|\d[.)]|\b(?:then|and|next|finally|followed by|first)\b)+", re.IGNORECASE)
"""What may stand between the members of a list."""
_DECLARED = re.compile(
    rf"""(?:
        \b(?:{_NOUN}|decision|move|step|pick|selection)['")\]]*
            (?:\s+(?:here|now|i|we|would|should|must|will|for|at|this|the|next|correct|best|current|to|take|of|step)\b)*
            \s*(?:(?P<sure>\bis|\bbe)|[:=→]|->)\s*
      | (?P<verb>\b(?:choose|chose|choosing|select|selecting|pick|picking|take|taking|opt\s+for|go\s+with|going\s+with))\s+
      | \\boxed\s*\{{(?:\\text\s*\{{)?
    )
    (?:(?:the|to|be|therefore|thus|clearly|obviously|definitely|simply)\s+)*
    (?:{_NOUN}\s*[:\#]?\s*)? {_OPEN}
    (?:(?-i:{_CAPITAL})(?:\W{{0,4}}(?P<text>{_TEXT}))? | (?P<only>{_TEXT}))
    (?P<more>(?:\s*,\s*["'(]*(?-i:[A-Z](?![\w']))["')]*)*\s*,?\s*(?:/|\bor\b)\s*(?:{_NOUN}\s+)?["'(]*(?-i:[A-Z](?![\w'])))?""",
    re.IGNORECASE | re.VERBOSE,
)
_MENTION = re.compile(
    rf"(?:\b(?i:{_NOUN})\s*[:#]?\s*{_OPEN}|\()(?:{_CAPITAL}|(?P<small>[a-z])(?=\s*(?:[.,;:!)'\"]|$)))|(?P<text>{_TEXT})"
)
_ALONE = re.compile(rf"(?<![\w'.-]){_CAPITAL}")
_AFTER_PLACE = re.compile(
    r"\b(?:backpack|bag|slot|position|grid|label|marker|cell|place|spot|item|key|door|basket|plan|part|picture|step)s?\W{1,2}"
    r"(?:[A-Z]\s*(?:,|and|or|to)\s*)*$",
    re.IGNORECASE,
)
# What leads to a letter by itself in a reply without tags, and what commends it.
_LEADS = re.compile(
    r"(?:^|[.,;:!?\n>=-]|\b(?:so|hence|thus|therefore|then|but|think|say|guess|believe|is|be|it's|use|try|do|prefer|want))"
    r"""[\s"'(\[]*$""",
    re.IGNORECASE,
)
_COMMENDED = re.compile(
    r"\W{0,2}\s+(?:is|seems|looks|would\s+be)\s+(?:\w+\s+){0,2}?"
    r"(?:best|right|correct|answer|one|option|choice|action|good|better|nearest|next|needed)\b",
    re.IGNORECASE,
)
# What takes a choice back, before it and behind it.
_NOT = re.compile(
    r"(?:\b(?:not|never|cannot|of|than|avoid|without|neither|nor|over|exclude|reject|whether)|n't)\s+"
    rf"""(?:(?:to|be|that|think|believe|say|choose|pick|select|take|the|{_NOUN})\s+)*["'(]*(?:[A-Z]["')]*\s*(?:,|or|nor)\s*["'(]*)*$"""
    r"|\b(?:if|whether|unless)\s+(?:\w+\s+){0,3}$",
    re.IGNORECASE,
)
_WRONG = re.compile(
    r"(?:\s*(?:,|and|or)\s*[A-Z])*\W{0,2}\s*(?:"
    r"\s(?:is|are|was|were|seems|looks|would\s+be|will\s+be|must\s+be)\s+(?:\w+ly\s+|also\s+)?"
    r"(?:not|never|no|wrong|incorrect|impossible|useless|bad|worse|invalid|false|out)\b"
    r"|\s(?:(?:is|are|was|does|would|could|should|ca|wo)n't|(?:does|would|will|can|could|should)\s+not|cannot|fails)\b"
    r"|\?)",
    re.IGNORECASE,
)
# Words that come after a letter, and so tell it from the article and the pronoun; and words that come after the pronoun.
_AFTER_LETTER = re.compile(
    r"because|since|as|and|or|for|which|so|to|with|that|here|now|then|given|due|is|seems|looks|gets|moves|takes|picks|puts|opens|"
    r"leads|brings|has|makes|goes|fits|gives|unlocks|places|works|matches|helps|wins|comes"
)
_AFTER_A = re.compile(r"was|would|should|pick|put|obtain|choose")
_AFTER_PRONOUN = re.compile(
    r"think|believe|guess|would|will|can|could|should|must|am|have|had|do|need|see|choose|chose|want|take|pick|know|suppose|"
    rf"say|cannot|go|select|prefer|was|might|may|did|{_TEXT}"
)


def _read(content: str, actions: tuple[str, ...], bare: bool) -> Decoded:
    """Read what counts as the answer; ``bare`` if no tag says that it is one."""
    if found := _read_plain(content, actions) or _read_list(content, actions, bare):
        return found
    masked = _mask(content, actions)
    declared = [
        match
        for match in _DECLARED.finditer(masked)
        if not _is_rejected(masked, match)
        and not _is_word(masked, match, after_choice=bool(match["sure"] or match["verb"]))
    ]
    by_line = [read for line in content.splitlines() if line.strip() and (read := _read_plain(line, actions))]
    attempts: list[tuple[str, set[int]]] = [
        ("declared", {place for match in declared for place in _declared(match, len(actions))}),
        ("line", {len(actions) if read.index is None else read.index for read in by_line}),
    ]
    if not bare or len(content) <= LONGEST_BARE_REPLY:
        mentions, alone = (
            [match for match in form.finditer(masked) if not (_is_word(masked, match) or _is_rejected(masked, match))]
            for form in (_MENTION, _ALONE)
        )
        alone = [match for match in alone if not _AFTER_PLACE.search(_before(masked, match))]
        if bare:
            alone = [match for match in alone if _LEADS.search(_before(masked, match)) or _commended(masked, match)]
        attempts += [
            ("mention", {_mentioned(match) for match in mentions}),
            ("alone", {_position(match["letter"]) for match in alone}),
        ]
    for how, positions in attempts:
        if positions:
            return _decided(positions, how, actions)
    return Decoded(None, "no answer")


def _before(text: str, match: re.Match[str]) -> str:
    """The few words before a match."""
    return text[max(0, match.start() - 40) : match.start()]


def _is_word(text: str, match: re.Match[str], after_choice: bool = False) -> bool:
    """Whether the letter of a match is the article *A* or the pronoun *I*.

    A capital *A* is an article only where a sentence begins. After *choose* or *is*, an *I* is a letter unless a verb follows.
    """
    letter = match["letter"]
    if letter not in ("A", "I"):
        return False
    start, end = match.span("letter")
    following = re.match(rf"\s+(?P<word>[a-z]+|{_TEXT})(?P<be>\s+be\b)?", text[end : end + 40])
    if not following or _AFTER_LETTER.fullmatch(following["word"]):
        return False
    if letter == "A":
        inside = re.search(r"[a-z\d,] $", text[max(0, start - 2) : start])
        return not (inside or re.match(_TEXT, following["word"]) or _AFTER_A.fullmatch(following["word"]))
    return not following["be"] and (not after_choice or bool(_AFTER_PRONOUN.fullmatch(following["word"])))


def _is_rejected(text: str, match: re.Match[str]) -> bool:
    """Whether what stands around a match says that it is not, or perhaps not, the choice."""
    return bool(_NOT.search(_before(text, match)) or _WRONG.match(text[match.end() : match.end() + 40]))


def _commended(text: str, match: re.Match[str]) -> bool:
    return bool(_COMMENDED.match(text[match.end() : match.end() + 60]))


def _declared(match: re.Match[str], beyond: int) -> Iterator[int]:
    """The actions that a declaration names; *A or B* names more than one."""
    if match["letter"]:
        yield _position(match["letter"])
    if text := match["text"] or match["only"]:
        yield ord(text) - ord("\ue000")
    if match["more"]:
        yield beyond


def _mentioned(match: re.Match[str]) -> int:
    """The action that a mention names."""
    return ord(match["text"]) - ord("\ue000") if match["text"] else _position(match["letter"] or match["small"])


def _read_list(content: str, actions: tuple[str, ...], bare: bool) -> Decoded | None:
    """Read a list of letters or, within tags, of lines that are letters or actions' texts: its first member counts."""
    members = [part for part in _BETWEEN.split(content) if part]
    if not all(re.fullmatch(r"""["'(\[]*[A-Z]["')\].:]*""", member) for member in members):
        members = [] if bare else [line for line in content.splitlines() if line.strip()]
    read = [_read_plain(member, actions) for member in members]
    if len(read) < 2 or any(member is None or member.index is None for member in read):
        return None
    return read[0] and Decoded(read[0].index, "list")


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


def _mask(text: str, actions: tuple[str, ...]) -> str:
    """The text with a sign of its own in place of each action's text, so that their letters mean nothing."""
    for position, action in sorted(enumerate(actions), key=lambda entry: -len(entry[1])):
        pattern = r"(?<!\w)" + r"\s+".join(map(re.escape, action.split())) + r"(?!\w)"
        text = re.sub(pattern, chr(ord("\ue000") + position), text, flags=re.IGNORECASE)
    return text
