"""Reading the chosen action out of a reply, as a careful person would.

What counts as the answer is what stands between answer tags (the last pair that holds anything), or else the whole reply.
There, an action is named by its letter, by its text, or by other words that fit one action only. As published, a list
of letters (*B, then C*) is read as its first. These are departures from the paper's Algorithm 2:

- A letter is never read out of a word, out of the pronoun *I*, the article *A*, or the names of backpack slots and positions;
  nor is one that is rejected (*not A*, *B is wrong*) or left open (*A or B*, *whether B is right*, *B?*).
- Of several choices in one reply the last one counts: *I choose B. Wait, C is better.*
- Lower-case letters, texts in any case and without quotes, and replies in other languages are read.
- A letter beyond the list is no answer; the published code goes on to look for another letter.
- A reply that was cut off is read only where it had answered by then: between a pair of tags.
"""

from __future__ import annotations

import html
import re
import string
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from evals.replies.answer_tags import closed, own_turn
from evals.replies.conclusion import concluded
from evals.suites.kidgym.choices import left_over, read_prose
from evals.suites.kidgym.paraphrase import masked, read_paraphrase, unmasked
from evals.suites.kidgym.vocabulary import ALTERNATIVE_BEHIND, UNDECIDED

DECODER_VERSION: Final = 6
"""Raised whenever a reply would be read otherwise; part of every episode's fingerprint."""

LETTERS: Final = string.ascii_uppercase
_LONGEST_FRAME: Final = 60
"""Characters around a letter or an action's text in a reply that is nothing but these."""


@dataclass(frozen=True)
class Decoded:
    """Which action a reply chose and by which rule; the rule of an unread reply says why."""

    index: int | None
    rule: str
    """Where the answer stood and how it was given, such as ``tag, letter``; ``decode`` lists them."""


def decode(text: str, actions: Sequence[str], cut_off: bool = False) -> Decoded:
    """Read one reply (without the reasoning that stood before it).

    A rule is *where, how*:

    - where: ``tag``; ``open tag`` (never closed); ``closing tag`` (never opened); ``field`` (of JSON); ``no tag``
    - how: ``letter``; ``text`` (the action's text); ``letter and text``; ``list`` (several of these, of which the first
      counts; without tags, letters only); ``declared`` (*I choose B*, *so: B*, *C is correct*; the last one counts);
      ``mention`` (*option B*, or the action's text within others); ``alone`` (a capital letter by itself);
      ``other words`` (a description that fits one action only); ``left over`` (all others are
      rejected); ``corrected`` (behind the tag); ``words, ...`` (by a rule of ``evals.replies.conclusion``)

    and an unread reply has the rule ``no answer``, ``two answers``, ``beyond the list`` or ``cut_off``.

    Args:
        text: The reply.
        actions: The offered actions' texts, in the order of their letters.
        cut_off: Whether the reply ended at the token limit.
    """
    own = own_turn(_normalized(text))
    if own is None:
        return Decoded(None, "two answers")
    text = own
    if not _TAG.search(text) and len(fields := _FIELD.findall(text)) == 1:
        where, content = "field", fields[0]
        found = _read(content, tuple(actions), bare=False)
    elif cut_off:
        pairs = [pair["content"] for pair in _PAIR.finditer(closed(text)) if re.search(r"\w", pair["content"])]
        found = _read(pairs[-1], tuple(actions), bare=False) if pairs else Decoded(None, "cut_off")
        where = "tag"
    else:
        where, content = _answer(text)
        found = _read(content, tuple(actions), bare=where == "no tag")
        if where == "tag":
            found = _doubted(text, found, tuple(actions))
    return Decoded(found.index, found.rule if found.index is None else f"{where}, {found.rule}")


# --- one way of writing ----------------------------------------------------------------------------------------------

_MARKS = str.maketrans(
    {
        **dict.fromkeys("‘’´`", "'"),
        **dict.fromkeys("“”«»「」『』【】〖〗", '"'),
        **dict.fromkeys("–—‑", "-"),
        **dict.fromkeys("*~", None),
        **{"_": " ", "。": ". ", "、": ", ", "…": "..."},
        **dict.fromkeys("✓✔✅☑", " right "),
        **dict.fromkeys("✗✘❌✖", " wrong "),
    }
)
_ASIAN = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
_SEAM = re.compile(rf"(?<=[A-Za-z\d])(?={_ASIAN})|(?<={_ASIAN})(?=[A-Za-z\d])")
_SPECIAL_TOKEN = re.compile(r"<\|[^<>|]{1,40}\|>|</?(?:b|i|p|br|em|strong|div|span|s)\s*/?>")


def _normalized(text: str) -> str:
    """The text with one form of quotes, dashes, spaces and signs; Latin letters apart from Asian ones."""
    text = unicodedata.normalize("NFKC", html.unescape(text)).translate(_MARKS)
    text = "".join(sign for sign in text if sign == "\n" or unicodedata.category(sign) not in ("Cf", "Mn", "Co", "So"))
    text = _SEAM.sub(" ", _SPECIAL_TOKEN.sub(" ", text))
    return re.sub(r" ?\n\s*", "\n", re.sub(r"[^\S\n]+", " ", text)).strip()


# --- where the answer stands -----------------------------------------------------------------------------------------

_NAME = r"(?:answer|anwser|anser|anwer|awnser|ans|final[ _]?answer|final)"
_TAG = re.compile(rf"\\?[<\[(]\s*(?P<close>[/\\]?)\s*{_NAME}\s*\\?[>\])]", re.IGNORECASE)
_PAIR = re.compile(rf"<\s*{_NAME}\s*>(?P<content>[^<>]*)<\s*/\s*{_NAME}\s*>", re.IGNORECASE)


_FIELD = re.compile(r"""["'](?:final_)?(?:answer|action|choice)["']\s*:\s*["']([^"']*)["']""", re.IGNORECASE)
_EXAMPLE = re.compile(r"\b(?:for example|e\.g\.|for instance|such as|you would write)[^\n.]{0,30}$", re.IGNORECASE)
_TAKES_BACK = re.compile(r"\b(?:correction|wait|hmm|actually|sorry|oops)\b", re.IGNORECASE)


def _doubted(text: str, found: Decoded, actions: tuple[str, ...]) -> Decoded:
    """The reading of the last pair of tags, unless it is an example, one of several, or is corrected behind it."""
    pairs = [pair for pair in _PAIR.finditer(text) if re.search(r"\w", pair["content"])]
    if not pairs:
        return found
    if len(pairs) == 1 and _EXAMPLE.search(text[: pairs[0].start()]):
        return Decoded(None, "no answer")
    behind = text[pairs[-1].end() :]
    if correction := _TAKES_BACK.search(behind):
        corrected = read_prose(masked(behind[correction.end() :], actions), bare=True)
        if corrected is not None and corrected.how == "declared":
            return _decided(corrected.positions, "corrected", actions)
    adjacent = len(pairs) > 1 and not re.search(r"\w", text[pairs[-2].end() : pairs[-1].start()])
    if adjacent and _read(pairs[-2]["content"], actions, bare=False).index != found.index:
        return Decoded(None, "two answers")
    return found


def _answer(text: str) -> tuple[str, str]:
    """What counts as the answer, and where it stood."""
    segments = [(where, content) for where, content in _segments(text) if re.search(r"\w", content)]
    if segments:
        return segments[-1]
    return "no tag", text[tags[-1].end() :] if (tags := list(_TAG.finditer(text))) else text


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

_NOUN = r"(?:option|action|choice|letter|answer|ans)"
_FORM = re.compile(
    rf"\W*(?:(?:(?:the|my|final|correct|best|right|next)\s+)*{_NOUN}(?:\s+is)?\s*[:=]?\s*)?\W*(?P<letter>[a-z])\W*",
    re.IGNORECASE,
)
_LETTER_THEN_TEXT = re.compile(
    rf"\W*(?:{_NOUN}\s*[:=]?\s*)?\W*(?P<letter>[a-z])(?P<mark>\W+)(?P<rest>\w.*)", re.IGNORECASE | re.DOTALL
)
_BETWEEN = re.compile(r"(?:[\s,;&>→-]|\d[.)]|\b(?:then|and|next|finally|followed by|first)\b)+", re.IGNORECASE)
"""What may stand between the members of a list."""


def _read(content: str, actions: tuple[str, ...], bare: bool) -> Decoded:
    """Read what counts as the answer; ``bare`` if no tag says that it is one."""
    if re.search(r"\?\W*$", content) and len(content) < 6:
        return Decoded(None, "no answer")
    if found := _read_plain(content, actions) or _read_list(content, actions, bare):
        return found
    hidden = masked(content, actions)
    if UNDECIDED.search(hidden):
        return Decoded(None, "no answer")
    if (prose := read_prose(hidden, bare)) is not None:
        found = _decided(prose.positions, prose.how, actions)
        return found if found.rule != "two answers" else _by_words(content, actions, "two answers")
    if positions := read_paraphrase(unmasked(hidden), actions, bare):
        return _decided(positions, "other words", actions)
    if (rest := left_over(hidden, len(actions))) is not None:
        return Decoded(rest, "left over")
    return _by_words(content, actions, "two answers" if ALTERNATIVE_BEHIND.search(hidden[-500:]) else "no answer")


def _by_words(content: str, actions: tuple[str, ...], otherwise: str) -> Decoded:
    """The action with which a text concludes, whatever names it; none for the reason given otherwise."""
    found = concluded(content, actions, LETTERS[: len(actions)])
    return Decoded(found.option, otherwise if found.option is None else f"words, {found.rule}")


def _read_list(content: str, actions: tuple[str, ...], bare: bool) -> Decoded | None:
    """Read a list of letters or, within tags, of lines that are letters or actions' texts: its first member counts.

    A list of all letters in their order is the question's, and no answer.
    """
    members = [part for part in _BETWEEN.split(content) if part]
    if not all(re.fullmatch(r"""["'(\[]*[A-Z]["')\].:]*""", member) for member in members):
        members = [line for line in content.splitlines() if line.strip()]
    read = [_read_plain(member, actions) for member in members]
    if bare and any(member and member.rule == "letter and text" for member in read):
        return None
    if len(read) < 2 or any(member is None or member.index is None for member in read):
        return None
    chosen = [member.index for member in read if member is not None]
    if len(chosen) > 2 and chosen == list(range(len(actions))):
        return Decoded(None, "no answer")
    return Decoded(chosen[0], "list")


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
