"""Reading a label out of a written reply, for engines that cannot score labels (``evals.replies``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from evals.replies.reader import NO_ANSWER, Choices, Reading, read

_NOUNS: Final = ("panel", "candidate", "object", "matrix", "pattern")
"""Words that tell no answers apart."""


def read_answer(text: str, labels: Sequence[str], options: Sequence[str], *, cut_off: bool = False) -> Reading:
    """The option that a reply takes, and the rule by which it was read.

    Any sentence that states an option is an answer: *the left one has fewer objects*.

    Args:
        text: The reply, its reasoning set apart.
        labels: What the options are called.
        options: What they say.
        cut_off: Whether the token limit or a content filter ended the reply; then only completed forms count.
    """
    return read(text, Choices(tuple(options), tuple(labels), _NOUNS, stated="anything"), cut_off)


def first_label(text: str, labels: Sequence[str], options: Sequence[str], *, cut_off: bool = False) -> Reading:
    """The simplest rule there is: the first label that stands alone. No rule of reading was published with MultiStAR."""
    either = "|".join(map(re.escape, labels))
    found = re.search(rf"(?<!\w)({either})(?!\w)", text)
    return Reading(list(labels).index(found[1]), "first label") if found else Reading(None, NO_ANSWER)


READERS: Final = {"ours": read_answer, "first label in the text": first_label}
"""Rules of reading to be compared on held replies."""
