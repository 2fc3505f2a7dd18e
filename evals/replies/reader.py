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
from evals.replies.words import content, folded, plain_words

READER_VERSION: Final = 13
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
    if reading.option is None:
        return reading
    return Reading(reading.option, f"no tag, {reading.rule}")


_TAKES_BACK: Final = frozenset({"correction", "wait", "hmm"})
_SENTENCE = re.compile(r"(?<=[.!?。！।\n])")


def _read_last(text: str, found: Sequence[Place], choices: Choices) -> Reading:
    """The answer in the last place that is marked for it, if what stands beside and behind it does not contradict."""
    last = found[-1]
    second = _second_thoughts(text[last.end :], choices)
    if second is not None:
        return second
    # The marks say that it is an answer, so it may be stated in more ways.
    stated = choices.stated
    if stated == "only it":
        stated = "names"
    reading = _read_content(last.content, choices, stated)
    if len(found) > 1:
        before = found[-2]
        other = _read_content(before.content, choices, stated)
        # A closing tag too many: <answer>B</answer> as I said </answer>
        closed_twice = last.form == "closing tag" and before.form == "tag"
        if closed_twice and reading.option is None:
            last, reading = before, other
        beside = last.form in ("field", "closing tag") or side_by_side(text, before, last)
        if beside and _contradict(reading, other):
            return Reading(None, TWO_ANSWERS)
    if reading.option is None:
        return reading
    return Reading(reading.option, f"{last.form}, {reading.rule}")


def _second_thoughts(behind: str, choices: Choices) -> Reading | None:
    """What a reply comes to that takes its marked answer back; None where nothing behind that answer does."""
    sentences = _SENTENCE.split(behind)
    turns = [place for place, sentence in enumerate(sentences) if not _TAKES_BACK.isdisjoint(plain_words(sentence))]
    if not turns:
        return None
    conclusion = _concluded("".join(sentences[turns[0] :]), choices, choices.stated)
    if conclusion.rule in ("decides", "bare"):
        return Reading(conclusion.option, "corrected")
    if has_tags(behind):  # an empty tag after second thoughts
        return Reading(None, NO_ANSWER)
    return None


def _contradict(one: Reading, other: Reading) -> bool:
    """Whether both readings have an option, and not the same."""
    if one.option is None or other.option is None:
        return False
    return one.option != other.option


# --- one part of a reply ---------------------------------------------------------------------------------------------

_EDGE: Final = " \t\r\n\"'`*_.,;:()[]{}<>$\\"
_CALLED: Final = r"(?:the|my|final|correct|best|right|next)"
_NUMBERED: Final = r"(?:panel|candidate|picture|image|solution)(?=[\s:=#]*\d)"
_NAMED_LABEL: Final = (
    rf"(?:(?:{_CALLED}\s+)*(?:option|action|choice|letter|answer|ans|{_NUMBERED})(?:\s+is)?\s*[:=]?\s*){{0,3}}"
)
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
        return _read_question(text.rstrip("? "), choices, marked)
    reading = _read_name(text, choices)
    if reading is None:
        reading = _read_list(text, choices, marked)
    if reading is None:
        reading = _read_ticks(text, choices, stated)
    if reading is not None:
        return reading
    conclusion = _concluded(text, choices, stated)
    return Reading(conclusion.option, conclusion.rule)


def _read_question(text: str, choices: Choices, marked: bool) -> Reading:
    """Between the marks of an answer a name is one, however unsure; no other question is."""
    named = None
    if marked:
        named = _read_name(text, choices)
    if named is None or named.option is None:
        return Reading(None, NO_ANSWER)
    return named


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
        if ticks.rest:
            return None
        return Reading(min(ticks.options), "ticked")
    decision = _concluded(ticks.rest, choices, stated)
    if decision.rule != "decides":
        return Reading(None, TWO_ANSWERS)
    return Reading(decision.option, decision.rule)


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
        return _read_label(label["label"].casefold(), labels)
    both = _LABEL_AND_TEXT.fullmatch(text)
    if both:
        return _read_label_and_text(both, labels, texts)
    return None


def _read_label(name: str, labels: Sequence[str]) -> Reading | None:
    if name in labels:
        return Reading(labels.index(name), "label")
    # A letter among letters is a label that no option has.
    if name.isalpha() and labels[0].isalpha():
        return Reading(None, BEYOND)
    return None


def _read_label_and_text(both: re.Match[str], labels: Sequence[str], texts: Sequence[str]) -> Reading | None:
    """The option whose text stands behind its own label; behind the label of another one it is two answers."""
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
    if not choices.first_of_list:
        return None
    if len(text) > _LONGEST_LIST:
        return None
    named = _options_of(_members(text), choices)
    if named is None:
        return None
    # One option alone is no list.
    if len(named) < 2:
        return None
    # Outside of tags, labels with their texts are no plan but the options repeated.
    rules = [rule for _, rule in named]
    if "label and name" in rules and not marked:
        return None
    # All options in their order are the question's; two of them may be a plan.
    chosen = [option for option, _ in named]
    repeats_question = chosen == list(range(len(choices.texts)))
    if repeats_question and len(chosen) > 2:
        return Reading(None, NO_ANSWER)
    # A plan may repeat one action, or take several one after the other, each once.
    different = len(set(chosen))
    if different not in (1, len(chosen)):
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


_DIGIT = re.compile(r"(?![0-9])\d")
_LATIN: Final = str.maketrans("АВСЕНІЈКМОРТХΑΒΕΗΙΚΜΝΟΡΤΧΖ", "ABCEHIJKMOPTXABEHIKMNOPTXZ")
"""Capital letters of Cyrillic and Greek that look like Latin ones."""
_LOOK_ALIKE = re.compile(r"(?<![\w'-])[АВСЕНІЈКМОРТХΑΒΕΗΙΚΜΝΟΡΤΧΖ](?![\w'-])(?!\s+\w)")
"""Such a letter by itself, with no word behind it: there it would be *in*, *and* or *the*."""
_OWN_LETTERS = re.compile(r"(?<!\w)[БГДЖЗГΓΔΘ](?!\w)")
"""Letters by which a reply shows that it counts in its own alphabet: А, Б, В."""

_SPECIAL_TOKEN = re.compile(r"<\|[^<>|]{1,40}\|>|</?(?:b|i|p|br|em|strong|div|span)\s*/?>")
_FORMATTED = re.compile(r"\\(?:text|textbf|textit|mathbf|mathrm|mathit|bf|bm)\s*\{([^{}]*)\}")


def _plain_text(text: str) -> str:
    """The text with one form of quotes and signs, without formats and invisible characters."""
    text = unicodedata.normalize("NFKC", html.unescape(text)).replace("’", "'")
    text = _DIGIT.sub(lambda digit: str(unicodedata.digit(digit[0])), text)
    if not _OWN_LETTERS.search(text):
        text = _LOOK_ALIKE.sub(lambda letter: letter[0].translate(_LATIN), text)
    text = re.sub(r"[\u0334-\u0338]", "~", text)  # struck out
    invisible = [ord(sign) for sign in set(text) if unicodedata.category(sign) == "Cf"]
    text = text.translate(dict.fromkeys(invisible))
    return _FORMATTED.sub(r"\1", _SPECIAL_TOKEN.sub(" ", text))
