"""From a player's reply to the chosen action, by one of three rules (``suite.decoder``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, get_args

from evals.replies.reader import Reading
from evals.suites.kidgym.decode import decode
from evals.suites.kidgym.published_decoders import decode_as_paper, decode_as_published
from evals.types import Reply

Decoder = Literal["lenient", "paper", "published"]
DECODERS: Final[tuple[Decoder, ...]] = get_args(Decoder)
"""``lenient`` reads as a careful person would, ``paper`` by the paper's Algorithm 2, ``published`` as its code does."""

_CLOSED_AT_THE_END = re.compile(r"<\s*answer\s*>[^<>]*<\s*/\s*answer\s*>\s*\Z", re.IGNORECASE)
_ANSWERED = re.compile(r"<answer>.*?</answer>", re.IGNORECASE | re.DOTALL)


def read_reply(reply: Reply, actions: Sequence[str], decoder: Decoder = "lenient") -> Reading:
    """Read a reply whose reasoning is kept apart already.

    A reply that was cut off is read, by any rule, only where it had answered by then: between a pair of answer tags.
    One that never ended its reasoning, but closed it with an answer between tags, has answered.
    """
    text = _answer_in(reply)
    if decoder == "lenient":
        return decode(text, actions, reply.cut_off)
    if reply.cut_off and not _ANSWERED.search(text):
        return Reading(None, "cut off")
    if decoder == "paper":
        return decode_as_paper(text, actions)
    return decode_as_published(text, actions)


def _answer_in(reply: Reply) -> str:
    """The text of a reply, or what closes its reasoning where there is nothing else."""
    if reply.cut_off or reply.text.strip():
        return reply.text
    closing = _CLOSED_AT_THE_END.search(reply.reasoning)
    return closing[0] if closing else reply.text
