"""Reads which option a reply takes, by one list of rules for all suites (``evals.replies.rules``)."""

from __future__ import annotations

import functools
import html
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from evals.replies.conclusion import Conclusion, Stated, concluded
from evals.replies.forms import Place, has_tags, own_turn, places, side_by_side, without_tags
from evals.replies.ticks import ticked
from evals.replies.words import content, folded

READER_VERSION: Final = 10
"""Raised whenever a reply may be read otherwise; part of the fingerprint of every episode whose replies are read."""

NO_ANSWER, TWO_ANSWERS, BEYOND, CUT_OFF = "no answer", "two answers", "beyond the list", "cut off"


@dataclass(frozen=True)
class Choices:
    """What a reply may choose from, as plain data.

    Attributes:
        texts: What the options say.
        labels: What they are called by, if they are: letters or numbers.
        nouns: Words of the suite that tell no options apart, such as *diagnostic test*.
        told: A regular expression for how the suite's next message begins.
        first_of_list: Whether the first of several options in a row is the answer, as for a plan of actions.
        stated: Which sentences are answers though they decide nothing.
    """

    texts: tuple[str, ...]
    labels: tuple[str, ...] = ()
    nouns: tuple[str, ...] = ()
    told: str = ""
    first_of_list: bool = False
    stated: Stated = "only it"


@dataclass(frozen=True)
class Reading:
    """The option that a reply takes, and the name of the rule that read it, or of why none could."""

    option: int | None
    rule: str


def read(reply: str, choices: Choices, cut_off: bool = False) -> Reading:
    """Read one reply, its reasoning set apart.

    Args:
        reply: Its text.
        choices: What was on offer.
        cut_off: Whether the token limit or a content filter ended it; then only an answer is read that was completed.
    """
    text = own_turn(_plain_text(reply), choices.told)
    if text is None:
        return Reading(None, TWO_ANSWERS)
    found = places(text, cut_off)
    if found:
        return _read_last(text, found, choices)
    if cut_off:
        return Reading(None, CUT_OFF)
    reading = _read_content(without_tags(text), choices, choices.stated, marked=False)
    return reading if reading.option is None else Reading(reading.option, f"no tag, {reading.rule}")


_TAKES_BACK = re.compile(r"\b(?:correction|wait|hmm|actually|sorry|oops|scratch that)\b", re.IGNORECASE)


def _read_last(text: str, found: Sequence[Place], choices: Choices) -> Reading:
    """The answer in the last place that is marked for it, if what stands beside and behind it does not contradict."""
    last = found[-1]
    stated: Stated = "names" if choices.stated == "only it" else choices.stated
    behind = text[last.end :]
    turn = _TAKES_BACK.search(behind)
    if turn:
        conclusion = _concluded(behind[turn.end() :], choices, choices.stated)
        if conclusion.rule == "decides":
            return Reading(conclusion.option, "corrected")
        if has_tags(behind):  # an empty tag after second thoughts
            return Reading(None, NO_ANSWER)
    reading = _read_content(last.content, choices, stated)
    if len(found) > 1:
        before = found[-2]
        other = _read_content(before.content, choices, stated)
        # A closing tag too many: <answer>B</answer> as I said </answer>
        closed_twice = last.form == "closing tag" and before.form == "tag"
        if closed_twice and reading.option is None:
            last, reading = before, other
        beside = last.form in ("field", "closing tag") or side_by_side(text, before, last)
        both_name_one = None not in (reading.option, other.option)
        if beside and both_name_one and other.option != reading.option:
            return Reading(None, TWO_ANSWERS)
    if reading.option is None:
        return reading
    return Reading(reading.option, f"{last.form}, {reading.rule}")


# --- one part of a reply ---------------------------------------------------------------------------------------------

_EDGE: Final = " \t\r\n\"'`*_.,;:()[]{}<>$\\"
_CALLED: Final = r"(?:the|my|final|correct|best|right|next)"
_NAMED_LABEL: Final = rf"(?:(?:{_CALLED}\s+)*(?:option|action|choice|letter|answer|ans)(?:\s+is)?\s*[:=]?\s*)?"
_LONGEST_FRAME: Final = 60
"""Characters around a label or text in a reply that is nothing but these."""
_LONGEST_LIST: Final = 2000
_FRAME: Final = r"[#\s\"'`*.,;:!()\[\]{}<>$\\-]*"
_LABEL = re.compile(rf"{_FRAME}{_NAMED_LABEL}{_FRAME}(?P<label>[a-z]|\d{{1,2}}){_FRAME}", re.IGNORECASE)
_LABEL_AND_TEXT = re.compile(
    rf"\W*{_NAMED_LABEL}\W*(?P<label>[a-z]|\d{{1,2}})(?P<mark>\W+)(?P<text>\w.*)", re.IGNORECASE | re.DOTALL
)
_BETWEEN = re.compile(r"(?:[\s,;&>→-]|\d[.)]|\b(?:then|and|next|finally|followed by|first)\b)+", re.IGNORECASE)


def _read_content(text: str, choices: Choices, stated: Stated, marked: bool = True) -> Reading:
    text = text.strip()
    if text.endswith("?"):
        # between the marks of an answer a name is one, however unsure
        named = _read_name(text.rstrip("? "), choices) if marked else None
        if named is None or named.option is None:
            return Reading(None, NO_ANSWER)
        return named
    reading = _read_name(text, choices)
    if reading is None:
        reading = _read_list(text, choices, marked)
    if reading is None:
        reading = _read_ticks(text, choices, stated)
    if reading is not None:
        return reading
    conclusion = _concluded(text, choices, stated)
    return Reading(conclusion.option, conclusion.rule)


def _read_ticks(text: str, choices: Choices, stated: Stated) -> Reading | None:
    """The option that a list ticks; of several, the one that is chosen behind it."""

    def named(part: str) -> int | None:
        reading = _read_name(part, choices)
        return None if reading is None else reading.option

    ticks = ticked(text, named)
    if ticks is None:
        return None
    if len(ticks.options) == 1:
        # what is said behind it may take it back
        return None if ticks.rest else Reading(min(ticks.options), "ticked")
    decision = _concluded(ticks.rest, choices, stated)
    return Reading(decision.option, decision.rule) if decision.rule == "decides" else Reading(None, TWO_ANSWERS)


_SIGNS = re.compile(r"^\W*!\s*\w|[♭♯±\u0334-\u0338]")
_SIGNED_NAME = re.compile(r"(?<!\w)[+\-−]\d|\w[+−-]$|[#♭♯]")


def _concluded(text: str, choices: Choices, stated: Stated) -> Conclusion:
    """What a text concludes with; nothing where a sign may change which name is meant: C or C#."""
    found = concluded(text, choices.texts, choices.labels, stated, choices.nouns)
    if found.option is None:
        return found
    alike = [name for name in choices.texts if content(name) == content(choices.texts[found.option])]
    if _SIGNS.search(text) or any(_SIGNED_NAME.search(name) for name in alike):
        return Conclusion(None, NO_ANSWER)
    return found


def _read_name(text: str, choices: Choices) -> Reading | None:
    """The option of a text that is nothing but its label, its text, or both."""
    if len(text) > _LONGEST_FRAME + max(map(len, choices.texts)):
        return None
    labels = [label.casefold() for label in choices.labels]
    if text in choices.texts:
        return Reading(choices.texts.index(text), "name")
    texts = [_folded(option) for option in choices.texts]
    said = _folded(text)
    if texts.count(said) == 1:
        return Reading(texts.index(said), "name")
    if not labels:
        return None
    label = _LABEL.fullmatch(text)
    if label:
        name = label["label"].casefold()
        if name in labels:
            return Reading(labels.index(name), "label")
        # A letter among letters is a label that no option has.
        if name.isalpha() and labels[0].isalpha():
            return Reading(None, BEYOND)
        return None
    both = _LABEL_AND_TEXT.fullmatch(text)
    if both is None:
        return None
    said = _folded(both["text"])
    if texts.count(said) != 1:
        return None
    option = texts.index(said)
    if both["label"] in "Ii" and both["mark"].isspace():  # the pronoun: I pick up the item
        return Reading(option, "name")
    name = both["label"].casefold()
    if name in labels and labels.index(name) == option:
        return Reading(option, "label and name")
    return Reading(None, TWO_ANSWERS)


_LISTED_LETTER = re.compile(r"""["'(\[]*[A-Z]["')\].:]*""")


def _read_list(text: str, choices: Choices, marked: bool) -> Reading | None:
    """The first of several options in a row; all of them in their order are the question's."""
    if not choices.first_of_list or len(text) > _LONGEST_LIST:
        return None
    named = _options_of(_members(text), choices)
    if named is None or len(named) < 2:
        return None
    # Outside of tags, labels with their texts are no plan but the options repeated.
    if not marked and any(rule == "label and name" for _, rule in named):
        return None
    chosen = [option for option, _ in named]
    if len(chosen) > 2 and chosen == list(range(len(choices.texts))):
        return Reading(None, NO_ANSWER)
    # A plan may repeat one action, or take several one after the other, each once.
    if len(set(chosen)) not in (1, len(chosen)):
        return Reading(None, TWO_ANSWERS)
    return Reading(chosen[0], "list")


def _options_of(members: Sequence[str], choices: Choices) -> list[tuple[int, str]] | None:
    """The options that members of a list name, each with the rule that read it; None where one names no option."""
    named: list[tuple[int, str]] = []
    for member in members:
        reading = _read_name(member, choices)
        if reading is None or reading.option is None:
            return None
        named.append((reading.option, reading.rule))
    return named


def _members(text: str) -> list[str]:
    """The letters of a text that holds nothing else; the lines of any other."""
    parts = [part for part in _BETWEEN.split(text) if part]
    if all(map(_LISTED_LETTER.fullmatch, parts)):
        return parts
    return [line for line in text.splitlines() if line.strip()]


@functools.lru_cache(maxsize=4096)
def _folded(text: str) -> str:
    """The text without case, accents, spaces and punctuation, but with signs that change a name: C#, A-, -1."""
    text = re.sub(r"(?<=\w)[-−](?!\w)|(?<!\w)[-−](?=\d)", "¬", folded(_plain_text(text)).strip(_EDGE)).rstrip("!")
    return re.sub(r"[^\w+#¬±♯♭\u0334-\u0338~✗✘❌✖≠!]|_", "", text)


_SPECIAL_TOKEN = re.compile(r"<\|[^<>|]{1,40}\|>|</?(?:b|i|p|br|em|strong|div|span)\s*/?>")
_FORMATTED = re.compile(r"\\(?:text|textbf|textit|mathbf|mathrm|mathit|bf|bm)\s*\{([^{}]*)\}")


def _plain_text(text: str) -> str:
    """The text with one form of quotes and signs, without formats and invisible characters."""
    text = unicodedata.normalize("NFKC", html.unescape(text)).replace("’", "'")
    text = re.sub(r"[\u0334-\u0338]", "~", text)  # struck out
    invisible = [ord(sign) for sign in set(text) if unicodedata.category(sign) == "Cf"]
    text = text.translate(dict.fromkeys(invisible))
    return _FORMATTED.sub(r"\1", _SPECIAL_TOKEN.sub(" ", text))
