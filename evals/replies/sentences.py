"""How a reply is taken apart: into sentences, and these into clauses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from evals.replies.options import Options
from evals.replies.words import ARTICLES, cues, fillers, plain_words

_TURNS: Final = cues("turns")
_BREAKS: Final = cues("begins a clause")
_NOT: Final = cues("negates")
_DECIDES: Final = cues("decides") | cues("urges") | cues("commends")
_INTRODUCES: Final = _BREAKS | _TURNS | {"maybe", ","}
_SENTENCE_ENDS: Final = frozenset(".!?;\n")
_JOINS: Final = frozenset({"and", "or"})
_NUMBERED = re.compile(r"^\W*\d{1,2}[.)]\s+(?=\S)", re.MULTILINE)
_LETTERED = re.compile(r"^\W*[A-Z][.)]\s+(?=[A-Z][a-z])", re.MULTILINE)
"""A number before a line, and a letter before one of several lines of prose."""
_BRACKETS = re.compile(r"[(（]([^()（）]*)[)）]")
_LONGEST_CLAUSE: Final = 30
_SHORT_ASIDE: Final = 3
"""Words in brackets up to which they belong to what stands before them."""


def _without_brackets(aside: re.Match[str]) -> str:
    """What stands in brackets: nothing if it abbreviates what stands before, a clause of its own if it is long."""
    before = re.findall(r"\w+", aside.string[max(0, aside.start() - 200) : aside.start()])
    initials = "".join(word[0] for word in before[-len(aside[1]) :])
    if len(initials) > 1 and initials.casefold() == aside[1].casefold():
        return " "
    if len(aside[1].split()) > _SHORT_ASIDE:
        return f" , {aside[1]} , "
    return f" ({aside[1]} "


def sentences_of(text: str) -> Iterator[tuple[list[str], bool]]:
    """The sentences in the words of ``evals.replies.words``, each with whether it is a question."""
    text = _NUMBERED.sub("", text)
    if "\n" in text.strip():
        text = _LETTERED.sub("", text)
    tokens = plain_words(_BRACKETS.sub(_without_brackets, text))
    sentence: list[str] = []
    for token in (*tokens, "\n"):
        if token not in _SENTENCE_ENDS:
            sentence.append(token)
        elif sentence:
            yield sentence, token == "?"
            sentence = []


def clauses_of(sentence: Sequence[str], options: Options) -> Iterator[list[str]]:
    """The clauses: parted by words that begin one, and by commas and colons that part more than members of a list."""
    clause: list[str] = []
    previous: list[str] = []
    negates = _NOT - options.known
    for place, token in enumerate(sentence):
        # "Not A, not B, C": where each has its own "not", what has none is not negated.
        one_by_one = token == "," and not negates.isdisjoint(clause[:1]) and not negates.isdisjoint(previous[:1])
        corrects = token == "but" and _denies_a_label(clause or previous, options)
        if clause and (one_by_one or _ends_before(clause, token, sentence[place + 1 :], options)):
            yield clause
            previous, clause = clause, []
        if clause or not (corrects or token in (",", ":")):
            clause.append(token)
    if clause:
        yield clause


def _ends_before(clause: Sequence[str], token: str, rest: Sequence[str], options: Options) -> bool:
    """Whether a clause ends where a token follows it, and after that the rest of the sentence."""
    if token == ":":
        # "B? No: C", "I choose B: it fits", or "neither A nor B: C".
        objects = clause == ["no"]
        ends = _DECIDES | (_NOT - options.known)
        return objects or (_names_one(clause, options) and not ends.isdisjoint(clause))
    if _is_introduction(clause):
        return False
    if token == ",":
        return not _is_list(clause, rest, options)
    return token in _BREAKS and token not in options.known


def _denies_a_label(clause: Sequence[str], options: Options) -> bool:
    """Whether a clause says no more than that a label is not the answer: *not 5*, but not *there are not 5*."""
    *before, last = clause or [""]
    denied = [token for token in before if token in _NOT]
    others = [token for token in before if token not in denied]
    says_no_more = fillers().issuperset(others) and {"there", "has", "have"}.isdisjoint(others)
    return last in options.labels and len(denied) == 1 and says_no_more


def _names_one(clause: Sequence[str], options: Options) -> bool:
    return bool(options.mentions(clause[-_LONGEST_CLAUSE:]))


def _is_introduction(clause: Sequence[str]) -> bool:
    """Whether a clause is but a word like *so* or *actually*, which belongs to the next."""
    return 0 < len(clause) < 3 and all(token in _INTRODUCES for token in clause)


def _is_list(clause: Sequence[str], rest: Sequence[str], options: Options) -> bool:
    """Whether a comma stands in a list of options: *Malaria, Influenza and Pneumonia*."""
    item = _next_item(rest)
    if not clause or not item:
        return False
    # What stands on both sides of the comma must name options.
    names_on_both_sides = _tells_apart(clause[-1], options) and _tells_apart(item[0], options)
    if not names_on_both_sides:
        return False
    # Without "and", a list goes on with names and fillers only; a verb begins another clause.
    is_joined = not _JOINS.isdisjoint(item)
    return is_joined or all(_may_stand_in_list(token, options) for token in item)


def _may_stand_in_list(token: str, options: Options) -> bool:
    fills = options.is_filler(token) and token not in ("is", "it's")
    return fills or _tells_apart(token, options)


def _next_item(rest: Sequence[str]) -> list[str]:
    """What stands before the next comma, without *and*, *or* and articles at its beginning."""
    end = rest.index(",") if "," in rest else len(rest)
    item = list(rest[:end])
    while item and item[0] in (*_JOINS, *ARTICLES):
        item.pop(0)
    return item


def _tells_apart(token: str, options: Options) -> bool:
    """Whether a token is a label, or a word that not all options have."""
    if token in options.labels:
        return True
    word = options.word(token)
    return word is not None and word not in options.shared
