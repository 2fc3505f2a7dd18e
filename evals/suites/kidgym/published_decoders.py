"""How the paper and its published code read a reply, to hold beside our own reading (``suite.decoder``)."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

from evals.replies.reader import Reading


def decode_as_paper(text: str, actions: Sequence[str]) -> Reading:
    """Algorithm 2 (appendix B.8): an action's text within the answer tags, or the first capital letter there.

    Tags are matched in either case (the paper's prompt shows upper-case tags, its algorithm lower-case ones).
    """
    tag = re.search(r"<answer>(.*?)</answer>", text, re.IGNORECASE)
    answer, where = (tag[1], "tag") if tag else (text, "no tag")
    for index, action in enumerate(actions):
        if action in answer:
            return Reading(index, f"{where}, text")
    if capital := re.search("[A-Z]", answer):
        index = string.ascii_uppercase.index(capital[0])
        return Reading(index, f"{where}, letter") if index < len(actions) else Reading(None, "beyond the list")
    return Reading(None, "no answer")


def decode_as_published(text: str, actions: Sequence[str]) -> Reading:
    """The published code: lower-case tags on one line, quoted texts, then the first offered letter, even within a word."""
    answer, where = text, "no tag"
    tag = re.search(r"<answer>(.*?)</answer>", text)
    if tag:
        answer, where = tag[1], "tag"
    for index, action in enumerate(actions):
        if f"'{action}'" in answer:
            return Reading(index, f"{where}, text")
    offered = string.ascii_uppercase[: len(actions)]
    patterns = {"letter": rf"\b[{offered}]\b", "letter in a word": f"[{offered}]"}
    for how, pattern in patterns.items():
        letter = re.search(pattern, answer)
        if letter:
            return Reading(offered.index(letter[0]), f"{where}, {how}")
    return Reading(None, "no answer")
