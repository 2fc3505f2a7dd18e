"""Reading a label out of a written reply, for engines that cannot score labels."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MARKS = " \t\r\n\"'`*_~.,;:!?()[]{}<>$\\"
_ANSWER = r"(?:answer|choice|option)(?:\s+(?:is|would\s+be))?\s*[:=]?\s*"


def read_answer(text: str, labels: Sequence[str], options: Sequence[str]) -> tuple[int | None, str]:
    """Index of the option that a reply names, and the rule by which it was read.

    The rules: ``label`` (nothing but the label), ``label and option`` (the label, then anything but another label alone),
    ``option`` (nothing but an option's words), ``answer`` (``... answer is B``, the last one), ``boxed``; or, unread,
    ``no answer`` and ``two answers``. A label within prose is never taken for an answer.
    """
    text = text.rpartition("</think>")[2].strip()
    by_label = {label.casefold(): index for index, label in enumerate(labels)}
    bare = text.strip(_MARKS).casefold()
    if bare in by_label:
        return by_label[bare], "label"
    by_option = {option.strip(_MARKS).casefold(): index for index, option in enumerate(options)}
    if bare in by_option:
        return by_option[bare], "option"
    either = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
    marked = rf"[\s\"'`*_(\[{{$]*((?-i:{either}))(?=[\"`*_.,:;)\]}}$]|\s*$|\s+(?:because|since|as)\b)"
    for rule, pattern in (("boxed", r"\\boxed\{\s*(?:\\text\{)?(" + either + r")\}"), ("answer", _ANSWER + marked)):
        found = {by_label[label.casefold()] for label in re.findall(pattern, text, re.IGNORECASE | re.MULTILINE)[-1:]}
        if found:
            return found.pop(), rule
    first = re.match(rf"[*(\[]*({either})[*)\]]*\s*[:.)\-]", text)
    if first:
        lines = [re.match(rf"[*(\[]*({either})[*)\]]*\s*[:.)\-]", line.strip()) for line in text.splitlines()]
        if len({line[1] for line in lines if line}) > 1:
            return None, "two answers"
        return by_label[first[1].casefold()], "label and option"
    return None, "no answer"
