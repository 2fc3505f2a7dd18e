"""Reading a label out of a written reply, for engines that cannot score labels.

A reply is read where it says which choice it takes, and not where it only talks about choices. First come forms that are
made for answers: a tag, a box, a JSON field. Else the reply is taken apart into clauses. A clause *claims* a choice if it names
exactly one and is otherwise made of the few words in which answers are given (``words_of_answers.txt``); it *rejects* one if it
negates it, and *doubts* if it weighs several or asks. The last claim counts, unless what follows takes it back.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evals.replies.answer_tags import closed
from evals.replies.conclusion import concluded
from evals.replies.reply_words import cues

READER_VERSION = 6
"""Raised whenever a reply may be read otherwise; part of the fingerprint of episodes with written replies."""

Reading = tuple[int | None, str]
"""Index of an option, or None, and the name of the rule that found it, or of why there is none."""

NO_ANSWER, TWO_ANSWERS, CUT_OFF = "no answer", "two answers", "cut off"

_TAG = re.compile(r"<answer>(.*?)(?:</answer>|<answer>|\Z)", re.IGNORECASE | re.DOTALL)
_CLOSED_TAG = re.compile(r"<answer>(.*?)</answer>", re.IGNORECASE | re.DOTALL)
_BOX = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_FIELD = re.compile(r"[\"']?\b(?:final_)?answer[\"']?\s*:\s*[\"']([^\"']*)[\"']", re.IGNORECASE)
_NAMED = re.compile(r"[\"'](?:label|option|choice|text)[\"']\s*:\s*[\"']([^\"']*)[\"']", re.IGNORECASE)
_TAKES_BACK = re.compile(r"\b(?:correction|wait|hmm|actually|sorry|oops)\b", re.IGNORECASE)
_UNDECIDED = re.compile(
    r"\b(?:can't|cannot|can not|don't want to|unable to) (?:decide|choose|tell|guess)\W{0,9}$", re.IGNORECASE
)
_YES_NO_YES = re.compile(r"(?:\byes\b\W{1,3}\bno\b\W{1,3}){2}|(?:\bno\b\W{1,3}\byes\b\W{1,3}){2}", re.IGNORECASE)
_RUN = re.compile(r"(?<!\w)([A-Z]), (?=[A-Z](?:,| and| or)\s)")
"""Labels in a row are one clause."""
_ANSWER_LINE = re.compile(
    r"^\W*(?:the )?(?:final |correct )?(?:answer|ans|option|choice)(?: is)?\W*:([^\n]*?)(?:\n|\.\s)(?=.*\S)",
    re.I | re.M | re.S,
)
_ALTERNATIVE = re.compile(r"\s*(?:,|or|and|/|\?)?\s*(?:<answer>)?", re.IGNORECASE)
_LIST_MARK = re.compile(r"^\s*(?:[-*•>]+\s+|\d+[.)]\s+(?=[^\W\d_]{2}))")
_ORDINAL = re.compile(r"\W*(?:option|choice)\s+⟦\d+⟧\W*", re.IGNORECASE)
_LETTER_MARK = re.compile(r"^\W*[A-Z][.)]\s+(?=[A-Z][a-z])")
"""A letter that numbers a line of prose, among several lines."""
_AS_WELL = re.compile(r"\s*\S+\s+(?:as well|too)\W*")
"""A clause that says of another choice what the one before says of its own."""
_AFTER_A = (
    "is",
    "it",
    "fits",
    "seems",
    "matches",
    "was",
    "would",
    "should",
    "must",
    "best",
    "not",
    "isn't",
    "or",
    "and",
    "as",
    "than",
)
"""Words before which A is a label; before others it is an article."""
_CLAUSE_END = re.compile(
    r"[.!。！;；]+(?=\s|$|\")|(?<=\?)\s|,\s|，|、|\s[-–—]+\s"
    r"|[,;](?=所以|因此|于是|故|那么|应|選|选|答案|正确)"
    r"|\b(?:but|however|because|since|although|though|while|whereas|so that|so)\b",
    re.IGNORECASE,
)
_EAST = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_EASTERN_ORDINAL = re.compile(r"第\s*(\d)\s*[个個号項项]")
_TOKEN = re.compile(rf"⟦\d+⟧|[{_EAST}]+|[^\W\d_{_EAST}]+(?:'[a-z]+)?|\d+|[?#]")
_EASTERN_ANSWER = re.compile(
    r"(?:我|的|最终|最終|正确|正確|答案|是|为|為|应该|选择|选|選|因此|所以|故|正解|答え|は|です|정답|은|는|입니다|이다)+"
)
_EASTERN_NEGATION = re.compile(r"[不非没錯错]|ない|아니")


@dataclass(frozen=True)
class _Clause:
    kind: Literal["claim", "bare", "reject", "doubt"]
    """``bare`` names a choice and says nothing else."""
    options: frozenset[int]
    rule: str = ""


def read_answer(text: str, labels: Sequence[str], options: Sequence[str], *, cut_off: bool = False) -> Reading:
    """Index of the option that a reply takes, and the rule by which it was read.

    Args:
        text: The reply, without reasoning that was set apart.
        labels: What the options are called.
        options: What they say.
        cut_off: Whether the reply ended at the token limit; then only an answer in a form that was completed counts.
    """
    text = unicodedata.normalize("NFKC", text).replace("’", "'").rpartition("</think>")[2]
    text = re.sub(r"<\|[^<>|]{1,40}\|>", " ", closed(text) if cut_off else text)
    text = _EASTERN_ORDINAL.sub(r"\1 ", text)
    reader = _Reader(tuple(labels), tuple(options))
    formal = _formal(text, reader, cut_off)
    if formal or cut_off:
        return formal or (None, CUT_OFF)
    return reader.read(text)


def _formal(text: str, reader: _Reader, cut_off: bool) -> Reading | None:
    """The last answer in a form that is made for answers; None if there is no such form."""
    for rule, form in (("tag", _CLOSED_TAG if cut_off else _TAG), ("boxed", _BOX), ("field", _FIELD)):
        found = [*form.finditer(text)]
        if not found:
            continue
        readings = [reader.read(match[1]) for match in found]
        for one, other in itertools.pairwise(found):
            if one[1].strip() != other[1].strip() and _ALTERNATIVE.fullmatch(text, one.end(), other.start()):
                return None, TWO_ANSWERS
        option, why = readings[-1]
        behind = text[found[-1].end() :]
        if rule == "tag" and (correction := _TAKES_BACK.search(behind)):
            corrected, _ = reader.read(behind[correction.end() :])
            option = option if corrected is None else corrected
        if rule == "field":
            named = {reader.read(value)[0] for value in _NAMED.findall(text)} - {None}
            if named - {option}:
                return None, TWO_ANSWERS
        return (option, rule) if option is not None else (None, why)
    if cut_off and (lines := _ANSWER_LINE.findall(text)):
        option, why = reader.read(lines[-1].strip())
        return (option, "answer line") if option is not None else (None, why)
    return None


@functools.cache
def _words(kind: str) -> frozenset[str]:
    """Words of one section of the list: ``answers``, ``statements``, ``negations`` or ``doubts``."""
    text = Path(__file__).with_name("words_of_answers.txt").read_text(encoding="utf-8")
    sections = dict(part.split("\n", 1) for part in text.split("# ")[1:])
    return frozenset(sections[kind].split())


class _Reader:
    """Reads replies to one question."""

    def __init__(self, labels: tuple[str, ...], options: tuple[str, ...]) -> None:
        self.labels = {label: index for index, label in enumerate(labels)}
        self.numbered = all(label.isdecimal() for label in labels)
        self.options = options
        said = sorted(((_bare(option), index) for index, option in enumerate(options)), key=lambda item: -len(item[0]))
        self.said = {} if options == labels else dict(said)
        self.yes_no = set(self.said) == {"yes", "no"}

    def read(self, text: str) -> Reading:
        """The reading of a text without formal answers."""
        option, why = self._claimed(text)
        if option is None and self.said:
            found = concluded(text, self.options, tuple(self.labels), stated="anything")
            return (found.option, f"words, {found.rule}") if found.option is not None else (None, why)
        return option, why

    def _claimed(self, text: str) -> Reading:
        """The reading by the clauses that claim a choice in the words in which answers are given."""
        if _UNDECIDED.search(text) or (self.yes_no and _YES_NO_YES.search(text)):
            return None, TWO_ANSWERS
        clauses = list(self._clauses(text))
        if len({clause.options for clause in clauses if clause.rule == "true"}) > 1:
            return None, TWO_ANSWERS
        taken_back: set[int] = set()
        bare: set[int] = set()
        rule = ""
        for clause in reversed(clauses):
            if clause.kind == "doubt" and not bare:
                return None, TWO_ANSWERS
            if clause.kind == "reject":
                taken_back |= clause.options
            elif clause.kind == "bare":
                bare |= clause.options
                rule = rule or clause.rule
            elif clause.kind == "claim":
                (option,) = clause.options
                if option in taken_back or bare - {option}:
                    return None, TWO_ANSWERS
                return option, clause.rule
        if len(bare) == 1 and not bare & taken_back:
            return next(iter(bare)), rule
        if bare:
            return None, TWO_ANSWERS
        if len(taken_back) == len(self.labels) - 1 > 1 and not any(
            word in _words("doubts") for word in text.casefold().split()
        ):
            (left,) = set(self.labels.values()) - taken_back
            return left, "left over"
        return None, NO_ANSWER

    def _clauses(self, text: str) -> Iterator[_Clause]:
        lines = [line for line in text.splitlines() if line.strip()]
        for line in lines:
            spaced = re.sub(rf"(?<=[{_EAST}])(?=[^\W{_EAST}])|(?<=[^\W{_EAST}])(?=[{_EAST}])", " ", line)
            marked = self._marked(_LIST_MARK.sub("", spaced.replace("\\text", " ").replace("_", " ")))
            if len(lines) > 1:
                marked = _LETTER_MARK.sub("", marked)
            before: _Clause | None = None
            for clause in _CLAUSE_END.split(_RUN.sub(r"\1 and ", marked)):
                if judged := self._judged(clause):
                    if before and before.kind == "reject" and _AS_WELL.fullmatch(clause):
                        judged = _Clause("reject", judged.options)
                    yield judged
                before = judged

    def _marked(self, line: str) -> str:
        """The line with options in words replaced by marks, longest first; yes and no only where a statement begins."""
        if not self.said:
            return line
        either = "|".join(re.escape(words) for words in self.said)
        if self.yes_no:
            return re.sub(
                rf"^(\W*(?:(?:[a-z]+ )*answer(?: is)?\W+|[A-Z]\W+)?)({either})(?!\w)",
                self._mark,
                line,
                flags=re.IGNORECASE,
            )
        return re.sub(rf"()(?<![\w-])({either})(?![\w-])\.?", self._mark, line, flags=re.IGNORECASE)

    def _mark(self, found: re.Match[str]) -> str:
        return f"{found[1]}⟦{self.said[found[2].casefold()]}⟧"

    def _judged(self, clause: str) -> _Clause | None:
        tokens = _TOKEN.findall(re.sub(r"(.) is better than \S+", r"\1 is better", clause))
        named: list[int] = []
        said: list[int] = []
        others: list[str] = []
        for place, token in enumerate(tokens):
            label = self._label(token, tokens, place)
            if token.startswith("⟦"):
                said.append(int(token[1:-1]))
            elif label is not None:
                named.append(label)
            elif token != "#":
                others.append(token.casefold())
        options = frozenset(named or said)
        if not options:
            return None
        if _ORDINAL.fullmatch(clause) and not named and self._place_and_value_differ(said[0]):
            return _Clause("doubt", options)
        if re.search(r"\bno ⟦", clause) or (named and tokens[-1] == "no"):
            return _Clause("reject", options)
        if any(map(_EASTERN_NEGATION.search, others)) and len(options) > 1:  # which of them it negates is not known
            return None
        if any(word in _words("negations") or _EASTERN_NEGATION.search(word) for word in others):
            return _Clause("reject", options)
        if any(word in _words("doubts") for word in others) or len(options) > 1:
            known = _words("doubts") | _words("answers")
            return _Clause("doubt", options) if all(word in known for word in others) else None
        if others[-2:] != ["it", "is"] and others[-1:] == [tokens[-1].casefold()] and others[-1] in cues("open"):
            return None  # broken off
        known = _words("answers") if named else _words("answers") | _words("statements")
        if not all(word in known or _EASTERN_ANSWER.fullmatch(word) for word in others):
            return None
        if named and said and set(named) != set(said):
            return _Clause("doubt", frozenset({*named, *said}))
        rule = "label and option" if named and said else "label" if named else "option"
        rule = "true" if named and others == ["is", "true"] else "statement" if others else rule
        return _Clause("claim" if others else "bare", options, rule)

    def _place_and_value_differ(self, said: int) -> bool:
        """Whether *option 4* may mean the fourth option or the one that says 4."""
        value = self.options[said].strip()
        return value.isdecimal() and int(value) != said + 1

    def _label(self, token: str, tokens: Sequence[str], place: int) -> int | None:
        if self.numbered or token.isupper():
            following = tokens[place + 1] if place + 1 < len(tokens) else ""
            article = token == "A" and following.islower() and following not in _AFTER_A
            return None if article else self.labels.get(token)
        alone = place == len(tokens) - 1 and (
            place == 0 or tokens[place - 1].casefold() in ("answer", "option", "choice")
        )
        return self.labels.get(token.upper()) if alone else None


def _bare(text: str) -> str:
    return text.strip(" .").casefold()


def first_label(text: str, labels: Sequence[str], options: Sequence[str], *, cut_off: bool = False) -> Reading:
    """The simplest rule there is: the first label that stands alone. No rule of reading was published with MultiStAR."""
    either = "|".join(map(re.escape, labels))
    found = re.search(rf"(?<!\w)({either})(?!\w)", text)
    return (list(labels).index(found[1]), "first label") if found else (None, NO_ANSWER)


READERS = {"ours": read_answer, "first label in the text": first_label}
"""Rules of reading to be compared on held replies."""
