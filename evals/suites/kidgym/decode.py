"""From a reply to the chosen action, as a careful person reads it (``evals.replies``).

These are departures from the paper's Algorithm 2, which takes an action's text or the first capital letter between the
answer tags: a letter is never read out of a word or the name of a backpack slot, nor is one that is rejected or left
open; of several choices the last one counts; a letter beyond the list is no answer; a reply that was cut off is read only
where it had answered by then. As published, a list of letters (*B, then C*) is read as its first.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Final

from evals.replies.reader import Choices, Reading, read

LETTERS: Final = string.ascii_uppercase
NOUNS: Final = (
    *("backpack", "bag", "slot", "item", "key", "piece", "animal", "tile", "toy", "label", "position", "grid"),
    *("player", "person", "agent"),
)
"""Words that tell no actions apart; a letter behind one of them is that of a slot."""


def decode(text: str, actions: Sequence[str], cut_off: bool = False) -> Reading:
    """Read one reply, its reasoning set apart.

    Args:
        text: The reply.
        actions: The offered actions' texts, in the order of their letters.
        cut_off: Whether the token limit or a content filter ended the reply.
    """
    labels = tuple(LETTERS[: len(actions)])
    return read(text, Choices(tuple(actions), labels, NOUNS, first_of_list=True), cut_off)
