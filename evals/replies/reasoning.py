"""Thinking that stands before an answer, separated from it by marks: once for all suites and engines."""

from __future__ import annotations

import dataclasses
import re
from typing import Final

from evals.types import Reply

Marks = tuple[str, str]
"""What opens a thought, and what closes it."""

THINKING_MARKS: Final[tuple[Marks, ...]] = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),  # Mistral
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),  # MiniMax
    ("◁think▷", "◁/think▷"),  # Kimi
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Cohere
    ("<|channel>thought", "<channel|>"),  # Gemma 4
    ("<unused94>thought", "<unused95>"),  # MedGemma
    ("<|begin_of_thought|>", "<|end_of_thought|>"),  # Sky-T1, OpenThinker
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),  # gpt-oss
    ("analysis", "assistantfinal"),  # gpt-oss, its special tokens left out
)
"""The marks of thinking models."""

ANSWER_MARKS: Final[tuple[str, ...]] = (
    *("<|begin_of_box|>", "<|end_of_box|>"),  # GLM
    *("<|START_RESPONSE|>", "<|END_RESPONSE|>"),  # Cohere
    *("<|begin_of_solution|>", "<|end_of_solution|>"),  # Sky-T1, OpenThinker
    *("<|start|>assistant", "<|return|>", "<|end|>"),  # gpt-oss
)
"""Marks of models that are no part of an answer."""

_WRITTEN = re.compile(
    r"\s*<(?P<bar>\|?)(?P<name>think|thinking|thought|antthinking|scratchpad|analysis|reflection)(?P=bar)>(?P<thought>.*?)"
    r"<(?:/(?P=bar)|(?P=bar)/)(?P=name)(?P=bar)>\s*(?=\W*\w)",
    re.IGNORECASE | re.DOTALL,
)
"""A thought between tags at the beginning of a reply that goes on behind it.

Any model may write such tags, elsewhere around what is no thought.
"""


def _patterns(opening: str, closing: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What finds a mark that opens a thought at the beginning of a reply, and what finds one that closes it."""
    closes = re.compile(re.escape(closing), re.IGNORECASE)
    if opening.isalpha():
        # "analysisThe rows ...": without its special tokens a word of gpt-oss and the next run together.
        return re.compile(rf"\s*{re.escape(opening)}(?=[A-Z])"), closes
    return re.compile(rf"\s*{re.escape(opening)}", re.IGNORECASE), closes


_PATTERNS: Final = tuple(_patterns(*marks) for marks in THINKING_MARKS)
"""Of each pair of marks, made once: every reply is searched for all of them."""


def separate_reasoning(reply: Reply) -> Reply:
    """The reply with its thinking moved from ``text`` to ``reasoning``, and without marks around its answer.

    Thinking is what stands before the last mark that closes a thought, with or without one that opens it (chat templates
    may have written that), and all of a reply that opens a thought and never closes it: such a reply has not answered
    yet. Marks that are plain words (``analysis``) count only where the reply begins with the first of them; tags that any
    model may write, such as ``<scratchpad>``, only there and where something stands behind them. Reasoning that an
    engine returned apart is kept in front.
    """
    text = reply.text
    thought = ""
    for (opening, _), (opens, closes) in zip(THINKING_MARKS, _PATTERNS, strict=True):
        parted = _parted(text, opening, opens, closes)
        if parted is None:
            continue
        more, text = parted
        thought = _lines(thought, opens.sub("", more, count=1).strip())
    while written := _WRITTEN.match(text):
        thought = _lines(thought, written["thought"].strip())
        text = text[written.end() :]
    for mark in ANSWER_MARKS:
        text, thought = text.replace(mark, ""), thought.replace(mark, "")
    if text == reply.text:
        return reply
    return dataclasses.replace(reply, text=text, reasoning=_lines(reply.reasoning, thought))


def _parted(text: str, opening: str, opens: re.Pattern[str], closes: re.Pattern[str]) -> tuple[str, str] | None:
    """The thought of a reply, and what stands behind it; None where these marks hold none."""
    begins = opens.match(text)
    # A mark that is a plain word may stand in any text.
    if opening.isalpha() and not begins:
        return None
    closings = list(closes.finditer(text))
    if closings:
        last = closings[-1]
        return text[: last.start()], text[last.end() :].lstrip()
    # The thought was never closed.
    if begins:
        return text, ""
    return None


def _lines(*parts: str) -> str:
    return "\n".join(part for part in parts if part)
