"""Reading a label out of a written reply, for engines that cannot score labels."""

from __future__ import annotations

import re
from collections.abc import Sequence

READER_VERSION = 2
"""Raised whenever a reply may be read otherwise; part of the identity of episodes with written replies."""

_MARKS = " \t\r\n\"'`*_~.,;:!?()[]{}<>$\\"
_IS = r"answer(?:\s+(?:is|would\s+be)\b\s*:?|[ *_]*[:=]|[ *_]*(?=\n))"
"""What introduces an answer: "answer is", "Answer:", or "Answer" on a line of its own."""
_OPEN, _CLOSE = r"[ \t\"'`*_(\[{$]*", r"(?=[\"`*_.,:;)\]}$]|\s*$|\s+(?:because|since|as)\b)"


def read_answer(text: str, labels: Sequence[str], options: Sequence[str]) -> tuple[int | None, str]:
    """Index of the option that a reply names, and the rule by which it was read.

    The rules: ``label`` (nothing but the label), ``option`` (nothing but an option's words), ``boxed``, ``answer`` (``...
    answer is B``, the last one), ``label and option`` (a letter, then its option's words, or a reply of one line without
    other letters so marked); or, unread, ``no answer`` and ``two answers``. A label within prose is never taken for an answer,
    nor is a number at the head of a line, which may count steps.
    """
    lines = (" ".join(line.split()) for line in text.rpartition("</think>")[2].splitlines())
    text = "\n".join(line for line in lines if line)
    numbered = all(label.isdecimal() for label in labels)
    by_label = {label: index for index, label in enumerate(labels)}
    either = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
    noun = r"(?:(?:panel|number)\s+)?" if numbered else ""
    bare = re.fullmatch(rf"{noun}(\w+)", text.strip(_MARKS), re.IGNORECASE)
    if bare and bare[1].upper() in by_label:
        return by_label[bare[1].upper()], "label"
    by_option = {_bare(option): index for index, option in enumerate(options)}
    if _bare(text) in by_option:
        return by_option[_bare(text)], "option"
    called = rf"{_OPEN}(?:(?:the )?(?:option|choice{'|panel|number' if numbered else ''}) {_OPEN})?((?-i:{either}))"
    alone = r"(?=[\"`*_.)\]}$]*\s*$)" if numbered else _CLOSE  # "the answer is:\n1. Look" counts steps
    for rule, pattern in (
        ("boxed", rf"\\boxed\{{\s*(?:\\text\{{)?{noun}((?-i:{either}))\}}"),
        ("answer", rf"\b{_IS}(?:{called}{_CLOSE}|[ *_]*\n{called}{alone})"),
    ):
        found = [*re.finditer(pattern, text, re.IGNORECASE | re.MULTILINE)]
        if found:
            return by_label[found[-1][found[-1].lastindex or 0]], rule
    return (None, "no answer") if numbered else _label_and_option(text, either, by_label, options)


def _label_and_option(
    text: str, either: str, by_label: dict[str, int], options: Sequence[str]
) -> tuple[int | None, str]:
    marked = rf"[*(\[]*({either})[*)\]]*\s*[:.)]"
    head, *rest = text.splitlines() or [""]
    first = re.match(marked, head)
    if not first:
        return None, "no answer"
    index = by_label[first[1]]
    words = _bare(head[first.end() :]) == _bare(options[index])
    others = [line for line in rest if (other := re.match(marked, line.strip())) and other[1] != first[1]]
    if others or (not words and set(re.findall(rf"(?<!\w){marked}", head)) != {first[1]}):
        return None, "two answers"
    return (index, "label and option") if words or not rest else (None, "no answer")


def _bare(text: str) -> str:
    """Words without what surrounds them."""
    return text.strip(_MARKS).casefold()
