"""Thinking that stands before an answer, separated from it once for all suites."""

from __future__ import annotations

import dataclasses
import re

from evals.types import Reply

_OPEN, _CLOSE = re.compile(r"\s*<(think|thinking|reasoning)>"), re.compile(r"</(?:think|thinking|reasoning)>")


def separate_reasoning(reply: Reply) -> Reply:
    """The reply with its thinking moved from ``text`` to ``reasoning``.

    Thinking is what stands before the last closing tag, with or without an opening one (chat templates may have written
    that), and all of a reply that opens a thought and never closes it: such a reply has not answered yet.
    Reasoning that an engine returned apart is kept in front.
    """
    text = reply.text
    thought = ""
    if closing := list(_CLOSE.finditer(text)):
        thought, text = text[: closing[-1].start()], text[closing[-1].end() :].lstrip()
    elif _OPEN.match(text):
        thought, text = text, ""
    if not thought:
        return reply
    thought = _OPEN.sub("", thought, count=1).strip()
    return dataclasses.replace(
        reply, text=text, reasoning="\n".join(part for part in (reply.reasoning, thought) if part)
    )
